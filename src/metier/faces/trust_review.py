"""What a person sees before trusting a project, and the trust itself, bound to exactly that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from json import dumps
from typing import NamedTuple, TypeAlias

from ..host import paths
from ..library.library import Library
from ..library.open import OpenRequest, open_at
from ..library.trust import (
    CONFIG_FILE,
    RunnableItem,
    agent_paths,
    make_trust_record,
    project_record,
    runnable_items,
    settings_digest,
    write_trust_record,
)
from ..parse.agent import parse_agent_file
from ..parse.config import USER_ONLY_KEYS
from ..sources.project_instructions import instruction_names, read_instructions
from ..types.errors import Changed
from ..types.skill import Skill

_SHOWN_LINES, _SHOWN_WIDTH = 5, 120
"""Of each file of instructions."""
_SHOWN_DIGITS = 32
"""Of a digest: nobody finds another text with the same half of it."""
TrustReport: TypeAlias = list[tuple[str, tuple[RunnableItem, ...]]]


def build_report(
    library: Library, before: Mapping[str, object] | None, skills: Sequence[Skill] | None = None
) -> TrustReport:
    """What each skill can run, compared with what was trusted before."""
    recorded = before.get("skills") if before else None
    known_digests = recorded if isinstance(recorded, dict) else {}
    report: TrustReport = []
    for skill in project_skills(library) if skills is None else skills:
        digests = known_digests.get(skill.directory.removeprefix(library.place.project + "/"))
        known = digests if isinstance(digests, list) else ()
        runs = (*runnable_items(skill, library.limits.file_bytes, known), *_lent_items(library, skill, known))
        report.append((skill.name, runs if before else tuple(item._replace(new=False) for item in runs)))
    return report


def _lent_items(library: Library, skill: Skill, known: Sequence[str]) -> Iterator[RunnableItem]:
    """The user's own settings that the skill would be lent, because it has the name that they are kept under."""
    key = skill.settings_key
    entry = library.settings.user_entry(key)
    parts = [*(["your API key"] if entry.api_key else []), *sorted(entry.env), *sorted(entry.permissions)]
    if parts:
        yield RunnableItem(f"your settings for {key}: {', '.join(parts)}", settings_digest(key) not in known)


def config_lines(project: str) -> Iterator[str]:
    """What the project's configuration says, a value to a line; it counts from then on."""
    text = paths.read_text_file(f"{project}/{CONFIG_FILE}")
    if text is None:
        return
    from ..parse.config import parse_settings

    tree = {key: value for key, value in parse_settings(text, []).tree.items() if key not in USER_ONLY_KEYS}
    yield from (f"{CONFIG_FILE}: {line}" for line in _leaf_lines(tree))


def _leaf_lines(tree: Mapping[str, object], before: str = "") -> Iterator[str]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _leaf_lines(value, f"{before}{key}.")
        else:
            yield f"{before}{key} = {dumps(value, ensure_ascii=False, default=str)}"


def agent_lines(project: str) -> Iterator[str]:
    """The agents that its files describe, and what they may call."""
    for path in agent_paths(project):
        agent = parse_agent_file(paths.read_text_file(f"{project}/{path}") or "", path)
        if agent is not None:
            tools = "every tool" if agent.tools is None else ", ".join(agent.tools) or "no tool"
            yield f"{path}: the agent {agent.name} may call {tools}"


def _instruction_lines(library: Library) -> Iterator[str]:
    """The files that every model which works here is told to follow."""
    for found in read_instructions(library.place, instruction_names(library.settings)):
        imports = f", with {', '.join(found.imports)}" if found.imports else ""
        # The digest is of all that is said, imports included: other words of the same length are another text.
        digest = sha256(found.text.encode("utf-8", "surrogatepass")).hexdigest()
        yield (
            f"{found.path}: a model that works here is told to follow its {len(found.text):,} characters{imports} "
            f"(sha256 {digest[:_SHOWN_DIGITS]})"
        )
        said = [line for line in found.text.splitlines() if line.strip()]
        yield from (f"{found.path}| {line[:_SHOWN_WIDTH]}" for line in said[:_SHOWN_LINES])
        if len(said) > _SHOWN_LINES:
            yield f"{found.path}| … {len(said) - _SHOWN_LINES} more lines"


def counting_lines(library: Library) -> Iterator[str]:
    """What counts in a trusted project besides its skills: its configuration, its agents and its instructions."""
    project = library.place.project
    yield from config_lines(project)
    yield from agent_lines(project)
    yield from _instruction_lines(library)


def project_skills(library: Library) -> list[Skill]:
    return [skill for skill in library.skills if skill.origin.source == "project"]


def _trust_record(library: Library, project: str) -> dict[str, object]:
    skills, limit = project_skills(library), library.limits.file_bytes
    return make_trust_record(project, skills, limit, whole=True, settings=library.settings)


def trust_project(library: Library) -> Library:
    """The library with its project trusted as it is, roots that its configuration adds included."""
    place = library.place
    # Twice: the first record makes the configuration count, the second covers the skills of roots that it adds.
    write_trust_record(place.state, place.project, _trust_record(library, place.project))
    library = open_at(place, OpenRequest())
    write_trust_record(place.state, place.project, _trust_record(library, place.project))
    return library


class TrustReview(NamedTuple):
    """What a person is shown: what each skill can run, what else counts from then on, and a digest of all of it."""

    project: str
    report: TrustReport
    lines: tuple[str, ...]
    digest: str
    added: str = ""
    """The digest of skills that only the project's configuration brings; they are shown in a second step."""


def review_trust(library: Library, added: Sequence[Skill] = ()) -> TrustReview:
    """What trusting the project of a library means; `added` are the skills of roots that its configuration adds."""
    project = library.place.project
    before = project_record(library.place.state, project)
    own = [skill for skill in project_skills(library) if skill not in added]
    lines = tuple(counting_lines(library))
    return TrustReview(
        project,
        [*build_report(library, before, own), *build_report(library, before, added)],
        lines,
        _record_digest(_skills_record(library, own), lines),
        _record_digest(_skills_record(library, added)) if added else "",
    )


def trust_reviewed(library: Library, seen: tuple[str, str]) -> TrustReview | None:
    """Trust a project exactly as it was shown; the digests in `seen` are those of that review.

    None where that is done.  Another review where the configuration, which counts once it is trusted, brought skills
    that were not shown: nothing is trusted then.
    """
    place = library.place
    if review_trust(library).digest != seen[0]:
        raise changed_since_shown(place.project)
    before = project_record(place.state, place.project)
    reopened = trust_project(library)
    known = {skill.path for skill in library.skills}
    added = [skill for skill in project_skills(reopened) if skill.path not in known]
    review = review_trust(reopened, added)
    # Both again: a file may have changed between the look and the record, and what is trusted must be what was seen.
    if review.digest != seen[0] or review.added != seen[1]:
        write_trust_record(place.state, place.project, before)
        return review
    return None


def changed_since_shown(project: str) -> Changed:
    return Changed("the project changed since it was shown", "read it again, then decide", project)


def _skills_record(library: Library, skills: Sequence[Skill]) -> dict[str, object]:
    limit = library.limits.file_bytes
    return make_trust_record(library.place.project, skills, limit, whole=True, settings=library.settings)


def _record_digest(record: Mapping[str, object], lines: Sequence[str] = ()) -> str:
    return sha256(dumps([record, list(lines)], sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()
