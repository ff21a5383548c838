"""The ladder of `metier why`: each question that decides whether a skill is used, its answer and what to do."""

from __future__ import annotations

from collections.abc import Sequence

from ..catalog.formats import compact_path
from ..host.paths import exists
from ..library.library import Library
from ..light_typing import NamedTuple
from ..types.errors import UnknownSkill, Unloadable
from ..types.problem import Problem, problem_from
from ..types.skill import BrokenSkill, Skill
from ..types.text import one_line
from ..types.verdict import WITHHELD, Verdict


class WhyStep(NamedTuple):
    question: str
    answer: str
    """`yes`, `no` or `-`."""
    because: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        """Whether the answer lets the skill be used: `shadowed` is the one question with a good no."""
        return (self.answer == "yes") != (self.question == "shadowed")


def why_steps(library: Library, name: str) -> list[WhyStep]:
    """Every step for a skill, by its name or folder; one that no skill has is an error."""
    broken = [item for item in library.broken if name in (item.id, item.name)]
    try:
        verdict = library.find(name)
    except Unloadable:
        return _broken_steps(broken[0])
    except UnknownSkill:
        steps = _twin_steps(library, name) or _instruction_steps(library, name)
        if not steps:
            raise
        return steps
    return _skill_steps(library, verdict)


def _broken_steps(item: BrokenSkill) -> list[WhyStep]:
    last = item.problems[-1]
    return [
        _make_step("found", True, f"{item.path} ({item.origin.root})"),
        _make_step("parsed", False, f"line {last.line}: {last.message}" if last.line else last.message, last.hint),
    ]


def _twin_steps(library: Library, folder: str) -> list[WhyStep]:
    """The steps for a folder whose skill is byte for byte the same as another, which is the one in the library."""
    skill = next((candidate for candidate in library.skills if candidate.id == folder), None)
    if skill is None:
        return []
    twin = library.find(skill.name).skill
    return [
        _make_step("found", True, f"{skill.path} ({skill.origin.root})"),
        _make_step("parsed", True, f"name `{skill.name}`"),
        _make_step("shadowed", True, f"identical to {twin.path}", "change its `name`, or remove one of them"),
    ]


def _instruction_steps(library: Library, name: str) -> list[WhyStep]:
    """The steps for a file of the project's instructions, `AGENTS.md` for example."""
    if not name.endswith(".md"):
        return []
    from ..library.settings import is_project_trusted
    from ..sources.project_instructions import instruction_names, read_instructions

    place, names = library.place, instruction_names(library.settings)
    file_name = name.rpartition("/")[2]
    files = [file for file in read_instructions(place, (file_name,)) if name in (file.path, file_name)]
    if not files:
        return []
    chosen, trusted = file_name in names, is_project_trusted(place)
    listed = ", ".join(f'"{listed_name}"' for listed_name in (*names, file_name))
    steps = [
        _make_step("found", True, ", ".join(file.path for file in files)),
        _make_step("chosen", True)
        if chosen
        else _make_step("chosen", False, "not among `instructions`", f"set `instructions = [{listed}]` in config.toml"),
        _make_step("trusted", True)
        if trusted
        else _make_step("trusted", False, "the project is not trusted", f"run `metier trust {place.project}`"),
    ]
    notes = [f"{file.path}: {len(file.text):,} characters" + (", cut" if file.cut else "") for file in files]
    notes += [f"imports {path}" for file in files for path in file.imports]
    notes += [f"left as it stands: {reason}" for file in files for reason in file.refused]
    in_use = chosen and trusted
    return [*steps, WhyStep("sent", "yes" if in_use else "no", tuple(notes) if in_use else ("for the reasons above",))]


def _make_step(question: str, answer: bool, because: str = "", hint: str = "") -> WhyStep:
    return WhyStep(question, "yes" if answer else "no", (because,) if because else (), (hint,) if hint else ())


def _skill_steps(library: Library, verdict: Verdict) -> list[WhyStep]:
    skill = verdict.skill
    problems: dict[str, Problem] = {problem.code: problem for problem in verdict.problems}
    missing = [problem for problem in verdict.problems if problem.code in verdict.diagnostics]
    shadow = problems.get("shadowed")
    command = next((candidate.name for candidate in library.commands() if candidate.skill is skill), None)
    return [
        _make_step("found", True, f"{skill.path} ({skill.origin.root}, rank {skill.origin.rank})"),
        _parsed_step(library, verdict),
        _gate_step("trusted", problems, WITHHELD),
        _gate_step("allowed", problems, ("not-allowed",)),
        WhyStep("eligible", "no" if missing else "yes", _problem_messages(missing), _problem_hints(missing)),
        _make_step("shadowed", True, shadow.message, shadow.hint) if shadow else _make_step("shadowed", False),
        _listed_step(library, verdict),
        _make_step("command", bool(command), f"/{command}" if command else _no_command(verdict)),
    ]


def _problem_messages(problems: Sequence[Problem]) -> tuple[str, ...]:
    return tuple(f"line {problem.line}: {problem.message}" if problem.line else problem.message for problem in problems)


def _problem_hints(problems: Sequence[Problem]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(problem.hint for problem in problems if problem.severity != "info" and problem.hint))


def _parsed_step(library: Library, verdict: Verdict) -> WhyStep:
    skill, problems = verdict.skill, verdict.skill.problems
    if _has_companion(skill) and not any(
        root.origin.path == skill.origin.path and root.companions for root in library.roots
    ):
        from ..sources.companion_files import companion_findings

        problems += tuple(problem_from(finding, skill.path) for finding in companion_findings(skill.directory, False))
    return WhyStep("parsed", "yes", _problem_messages(problems), _problem_hints(problems))


def _has_companion(skill: Skill) -> bool:
    return exists(f"{skill.directory}/agents/openai.yaml")


def _gate_step(question: str, problems: dict[str, Problem], codes: tuple[str, ...]) -> WhyStep:
    for code in codes:
        if code in problems:
            return _make_step(question, False, problems[code].message, problems[code].hint)
    return _make_step(question, True)


def _listed_step(library: Library, verdict: Verdict) -> WhyStep:
    if not verdict.usable:
        return _make_step("listed", False, "for the reasons above")
    catalog = library.catalog()
    for number, entry in enumerate(catalog.entries, 1):
        if entry.skill is verdict.skill:
            place = f"entry {number} of {len(catalog.entries)} in the {library.dialect.name} catalog"
            return _make_step("listed", True, place)
    path = verdict.skill.path
    for omitted in catalog.left_out:
        # A listing writes locations as they are, cleaned, or with `~` for the home.
        if omitted.location in (path, one_line(path), one_line(compact_path(path, library.place.home))):
            reason = _cut_reason(omitted.reason, library)
            if omitted.reason == "hidden-from-model" and _has_companion(verdict.skill):
                reason = "`policy.allow_implicit_invocation` in agents/openai.yaml hides it from the model"
            return _make_step("listed", False, reason, _limit_hint(omitted.reason))
    return _make_step("listed", False, "hidden from the model")


def _cut_reason(reason: str, library: Library) -> str:
    limits = library.limits
    return {
        "hidden-from-model": "`disable-model-invocation` or `user-invocable` hides it from the model",
        "limit-listed": f"cut by the limit of {limits.listed} skills in the catalog",
        "limit-characters": f"cut by the limit of {limits.characters} characters for the catalog",
        "merged": "merged with another of the same name and description",
    }[reason]


def _limit_hint(reason: str) -> str:
    limit = {"limit-listed": "limits.listed", "limit-characters": "limits.characters"}.get(reason)
    if not limit:
        return ""
    return f"raise `{limit}` in the configuration, pin it with `catalog.pinned`, or remove skills you do not use"


def _no_command(verdict: Verdict) -> str:
    return "`user-invocable: false`" if verdict.usable else "for the reasons above"
