"""The summary a person sees before approving an installation, and the question itself."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from ...install.add import InstallTarget
from ...types.errors import Refused
from ...types.installed import InspectedSkill, Provenance, SkillPowers
from ...types.problem import Problem
from ...types.text import escaped_line
from ..skill_review import POWER_LABELS
from .output import clean_path, count_of, hint_line, paint, printable, problem_dict, problem_lines, say, warn

# More would scroll the skill, and the question about it, off the screen.
_MAX_FINDINGS = 40


def can_ask() -> bool:
    # Both ends: the summary must be on the screen of the person who answers.
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def ask_confirmation(question: str, expected: str = "") -> bool:
    """Whether the person confirms: with `y`, or by typing the expected word."""
    sys.stdout.write(f"{question} {f'Type {expected} to continue: ' if expected else '[y/N] '}")
    sys.stdout.flush()
    answer = sys.stdin.readline().strip()
    return answer == expected if expected else answer.lower() in ("y", "yes")


def describe_provenance(source: Provenance) -> str:
    commit = f" at {source.commit[:12]}" if source.commit else ""
    ref = f" ({source.ref})" if source.ref and source.ref != source.commit else ""
    path = f", {source.path}" if source.path and source.kind != "index" else ""
    return f"{source.source}{path}{ref}{commit}"


def show_target(target: InstallTarget, root: str) -> None:
    """The approval summary of one folder."""
    say(f"{paint(printable(target.folder), 'bold')}  from {clean_path(describe_provenance(target.provenance))}")
    say(f"  installs to {clean_path(f'{root}/{target.folder}')}, {count_of(len(target.files), 'file')}")
    for skill in target.skills:
        _show_skill(skill)
    show_findings([*target.notes, *(finding for skill in target.skills for finding in skill.findings)])


def _show_skill(skill: InspectedSkill) -> None:
    valid = "valid" if not skill.faults else count_of(len(skill.faults), "validation error")
    state = paint(valid, "green" if not skill.faults else "yellow")
    loads = "" if skill.loads else ", does not load"
    say(f"  {paint(printable(skill.name), 'cyan')} ({state}{loads}): {printable(skill.description)}")
    # Enough to judge it by; `metier validate` lists all.
    for fault in skill.faults[:5]:
        for line in problem_lines(fault, hint=False):
            say(f"    {line}")
    for line in power_lines(skill.powers):
        say(f"    {line}")


def power_lines(powers: SkillPowers, sign: str = "") -> Iterable[str]:
    """What a skill can do, one kind to a line."""
    for key, values in powers.named().items():
        if values:
            # Commands get a line each and are never cut: what is not shown would be approved unseen.
            if key == "commands":
                yield f"{sign}{POWER_LABELS[key]}:"
                yield from (f"{sign}  {escaped_line(value)}" for value in values)
            else:
                yield f"{sign}{POWER_LABELS[key]}: {', '.join(map(escaped_line, values))}"
    if powers.nothing and not sign:
        yield "nothing in it runs"


def show_findings(findings: Sequence[Problem]) -> None:
    for finding in findings[:_MAX_FINDINGS]:
        for line in problem_lines(finding, hint=False):
            say(f"  {line}")
    if len(findings) > _MAX_FINDINGS:
        say(f"  … and {len(findings) - _MAX_FINDINGS} more findings (--json lists all)")


def target_dict(target: InstallTarget, root: str) -> dict[str, object]:
    source = target.provenance
    return {
        "folder": target.folder,
        "path": f"{root}/{target.folder}",
        "source": source.source,
        "kind": source.kind,
        "ref": source.ref,
        "commit": source.commit,
        "files": len(target.files),
        "notes": [problem_dict(note) for note in target.notes],
        "skills": [skill_dict(skill) for skill in target.skills],
    }


def skill_dict(skill: InspectedSkill) -> dict[str, object]:
    return {
        "name": skill.name,
        "place": skill.place,
        "description": skill.description,
        "loads": skill.loads,
        "valid": not skill.faults,
        "faults": [problem_dict(fault) for fault in skill.faults],
        "findings": [problem_dict(finding) for finding in skill.findings],
        "capabilities": {key: list(values) for key, values in skill.powers.named().items()},
    }


def refuse_dangers(dangers: Sequence[Problem], subject: str) -> None:
    """Refuse serious findings; `--yes` does not override this."""
    if dangers:
        codes = ", ".join(dict.fromkeys(danger.code for danger in dangers))
        raise Refused(
            f"{subject} is refused: {count_of(len(dangers), 'serious finding')} ({codes});"
            f" the first is in {dangers[0].place}: {dangers[0].message}",
            "to install it without enabling it, run `metier add --unapproved`; `metier approve` then asks again",
        )


def confirm_taken_names(taken: Sequence[tuple[str, str]]) -> None:
    """Ask about each skill that would no longer be used; `--yes` does not answer this."""
    for name, path in taken:
        text = f"`{printable(name)}` would be used in place of {clean_path(path)}"
        if not can_ask():
            raise Refused(text, "run this in a terminal and type the skill's name to confirm, or remove the other one")
        if not ask_confirmation(f"{text}.", name):
            raise Refused(f"not approved: the answer was not `{name}`", "nothing was changed")


def require_approval(question: str, yes: bool, quiet: bool) -> None:
    """Get an approval, or raise. Without a terminal, only `--yes` is one."""
    if yes:
        return
    # `quiet` is --json: a program that reads the output can't answer a question in it.
    if quiet or not can_ask():
        raise Refused("this needs approval, but the session is not interactive", "review the summary, then pass --yes")
    if not ask_confirmation(question):
        raise Refused("not approved; nothing was installed")


def warn_waiting() -> None:
    warn(hint_line("waiting for another metier process that is changing the same skill …"))
