"""What a person sees before they say yes, and how they are asked."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from ...install.adding import Target
from ...types.errors import Refused
from ...types.installed import Inspected, Powers, Provenance
from ...types.problem import Problem
from ...types.text import exact
from .printing import arrow, clean, clean_path, counted, paint, problem_dict, problem_lines, say, warn

_WORDS = {
    "commands": "commands in the body",
    "scripts": "can run",
    "network": "network",
    "env": "variables",
    "binaries": "programs",
    "tools": "tools",
    "recipes": "would install",
    "permissions": "asks for",
}
_MOST_FINDINGS = 40


def can_ask() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def ask(question: str, wanted: str = "") -> bool:
    """A yes typed by a person; with a word wanted, that very word."""
    sys.stdout.write(f"{question} {f'Type {wanted} to go on: ' if wanted else '[y/N] '}")
    sys.stdout.flush()
    answer = sys.stdin.readline().strip()
    return answer == wanted if wanted else answer.lower() in ("y", "yes")


def where_from(source: Provenance) -> str:
    commit = f" at {source.commit[:12]}" if source.commit else ""
    ref = f" ({source.ref})" if source.ref and source.ref != source.commit else ""
    path = f", {source.path}" if source.path and source.kind != "index" else ""
    return f"{source.source}{path}{ref}{commit}"


def show_target(target: Target, root: str) -> None:
    """The approval summary of one folder."""
    say(f"{paint(clean(target.folder), 'bold')}  from {clean_path(where_from(target.provenance))}")
    say(f"  goes to {clean_path(f'{root}/{target.folder}')}, {counted(len(target.files), 'file')}")
    for skill in target.skills:
        _show_skill(skill)
    show_findings([*target.notes, *(finding for skill in target.skills for finding in skill.findings)])


def _show_skill(skill: Inspected) -> None:
    valid = "valid" if not skill.faults else counted(len(skill.faults), "fault") + " against the standard"
    state = paint(valid, "green" if not skill.faults else "yellow")
    loads = "" if skill.loads else ", does not load"
    say(f"  {paint(clean(skill.name), 'cyan')} ({state}{loads}): {clean(skill.description)}")
    for fault in skill.faults[:5]:
        for line in problem_lines(fault, hint=False):
            say(f"    {line}")
    for line in power_lines(skill.powers):
        say(f"    {line}")


def power_lines(powers: Powers, sign: str = "") -> Iterable[str]:
    """What a skill can do, one kind to a line."""
    for key, values in powers.named().items():
        if values:
            if key == "commands":  # what runs is said whole, down to the last character
                yield f"{sign}{_WORDS[key]}:"
                yield from (f"{sign}  {exact(value)}" for value in values)
            else:
                yield f"{sign}{_WORDS[key]}: {', '.join(map(exact, values))}"
    if powers.nothing and not sign:
        yield "nothing in it runs"


def show_findings(findings: Sequence[Problem]) -> None:
    for finding in findings[:_MOST_FINDINGS]:
        for line in problem_lines(finding, hint=False):
            say(f"  {line}")
    if len(findings) > _MOST_FINDINGS:
        say(f"  … and {len(findings) - _MOST_FINDINGS} findings more (--json has them all)")


def target_dict(target: Target, root: str) -> dict[str, object]:
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


def skill_dict(skill: Inspected) -> dict[str, object]:
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


def refuse_dangers(dangers: Sequence[Problem], what: str) -> None:
    """Grave findings are refused, and nobody's `--yes` answers them."""
    if dangers:
        codes = ", ".join(dict.fromkeys(danger.code for danger in dangers))
        raise Refused(
            f"{what} is refused: {counted(len(dangers), 'grave finding')} ({codes}), the first in {dangers[0].place}:"
            f" {dangers[0].message}",
            "read them; `metier add --unapproved` places it without using it, and `metier approve` asks you again",
        )


def settle(question: str, yes: bool, quiet: bool) -> None:
    """Have a yes, or stop: without a terminal only `--yes` is one."""
    if yes:
        return
    if quiet or not can_ask():
        raise Refused("nobody has approved this", "read the summary, then say --yes")
    if not ask(question):
        raise Refused("not approved: nothing was placed")


def waiting() -> None:
    warn(arrow("waiting for another metier that works on the same skill …"))
