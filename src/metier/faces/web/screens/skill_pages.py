"""Skills: all of them with their state, cost and use; and one, with why it is used or not and what is known of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from ....activate.deliver import deliver
from ....catalog.formats import get_layout, make_entries
from ....host import paths
from ....install import managed
from ....library.library import Library
from ....record import history as record_history
from ....types.activation import Activation, Call
from ....types.errors import MetierError, Unloadable
from ....types.skill import Skill
from ....types.text import estimate_tokens
from ....types.verdict import UNAPPROVED, UNTRUSTED, Verdict, state_of
from ...skill_review import POWER_LABELS, review_folder
from ...why_ladder import why_steps
from ..drawing import draw_sparkline
from ..skill_usage import SkillUse, newest_runs, skill_uses
from ..web_site import WebSite, page_number

PAGE = 50
_UNUSED = SkillUse()


class SkillRow(NamedTuple):
    """One line of the table."""

    name: str
    description: str
    state: str
    usable: bool
    root: str
    dialect: str
    resident: int
    """Tokens in every conversation."""
    use: SkillUse
    picture: object


def skills(site: WebSite, request: Request) -> Response:
    library = site.library()
    query = request.query_params.get("q", "").strip()[:400]
    wanted = request.query_params.get("state", "")
    found = _matching(library, query)
    states = sorted({state_of(verdict) for verdict in library.verdicts})
    chosen = [verdict for verdict in found if not wanted or state_of(verdict) == wanted]
    broken = [] if query or wanted not in ("", "broken") else list(library.broken)
    page = page_number(request)
    shown = chosen[(page - 1) * PAGE : page * PAGE]
    return site.render(
        request,
        "skills.html",
        current="skills",
        rows=_rows(site, library, shown),
        broken=broken if page == 1 else [],
        states=[*states, *(["broken"] if library.broken else [])],
        wanted=wanted,
        query=query,
        total=len(chosen),
        page=page,
        pages=max(1, -(-len(chosen) // PAGE)),
        line=site.command("search", query) if query else site.command("list"),
    )


def _matching(library: Library, query: str) -> Sequence[Verdict]:
    """The skills for a search, best first: by name, then as the ranker finds them; all without one."""
    if not query:
        return library.in_order()
    by_name = [verdict for verdict in library.verdicts if query.lower() in verdict.skill.name.lower()]
    verdicts = {verdict.skill.path: verdict for verdict in library.verdicts}
    ranked = [verdicts[hit.skill.path] for hit in library.search(query, limit=PAGE, audience="person")]
    return list({verdict.skill.path: verdict for verdict in (*by_name, *ranked)}.values())


def _rows(site: WebSite, library: Library, verdicts: Sequence[Verdict]) -> list[SkillRow]:
    uses = skill_uses(site.state)
    listing = library.dialect.serving.listing
    write = get_layout(listing.format).entry
    rows = []
    for verdict in verdicts:
        skill, use = verdict.skill, uses.get(verdict.skill.name, _UNUSED)
        listed = verdict.usable and skill.model_may_invoke
        entry = write(make_entries([skill], listing, library.place.home)[0]) if listed else ""
        words = f"{use.uses} uses in 12 weeks, {use.good} in runs that ended well"
        rows.append(
            SkillRow(
                skill.name,
                skill.description,
                state_of(verdict),
                verdict.usable,
                skill.origin.root,
                skill.origin.dialect.name,
                estimate_tokens(entry),
                use,
                draw_sparkline(use.weeks, words),
            )
        )
    return rows


# --- One skill ---

_MOST_FILES = 200
_MOST_RUNS = 10


def skill(site: WebSite, request: Request) -> Response:
    name = request.query_params.get("name", "")
    library = site.library()
    steps = why_steps(library, name)
    try:
        verdict = library.find(name)
    except Unloadable as error:
        broken = next(item for item in library.broken if name in (item.id, item.name))
        return site.render(
            request,
            "broken.html",
            current="skills",
            item=broken,
            steps=steps,
            error=error,
            line=site.command("why", name),
        )
    arguments = request.query_params.get("arguments")
    return site.render(
        request,
        "skill.html",
        current="skills",
        verdict=verdict,
        skill=verdict.skill,
        steps=steps,
        state=state_of(verdict),
        fix=_fix(verdict),
        checks=library.checks(verdict.skill),
        installs=_install_lines(site, library, verdict),
        called=_called(library, verdict.skill, arguments) if arguments is not None else None,
        arguments=arguments or "",
        preview_line=site.command("preview", name, *([arguments] if arguments else [])),
        line=site.command("why", name),
        **_about(site, library, verdict.skill),
    )


def _about(site: WebSite, library: Library, skill: Skill) -> dict[str, Any]:
    use = skill_uses(site.state).get(skill.name, SkillUse())
    runs = [run for run in newest_runs(site.state) if skill.name in run.skills][:_MOST_RUNS]
    words = f"{use.uses} uses in 12 weeks, {use.good} in runs that ended well"
    body, fault = "", ""
    try:
        body = library.read(skill).text
    except MetierError as error:
        fault = error.message
    reviewed = review_folder(skill.directory, skill.id, skill.origin.dialect, None)
    powers = {POWER_LABELS[key]: values for key, values in reviewed.inspected.powers.named().items() if values}
    return {
        "body": body,
        "tokens": estimate_tokens(body),
        "fault": fault,
        "files": paths.tree_paths(skill.directory)[:_MOST_FILES],
        "powers": powers,
        "findings": reviewed.inspected.findings,
        "versions": _versions(library, skill),
        "use": use,
        "spark": draw_sparkline(use.weeks, words),
        "runs": runs,
        "has_evals": paths.is_file(f"{skill.directory}/evals/evals.json"),
    }


def _fix(verdict: Verdict) -> str:
    """Where the first thing that keeps a skill from being used can be decided in the page."""
    codes = {finding.code for finding in verdict.findings}
    return "trust" if codes & set(UNTRUSTED) else "approve" if codes & set(UNAPPROVED) else ""


def _install_lines(site: WebSite, library: Library, verdict: Verdict) -> list[str]:
    """The commands that install what the skill lacks, where this machine can."""
    if not {"binary", "any_binary"} & set(verdict.diagnostics) or not verdict.skill.install:
        return []
    from ....install.operations import install_means
    from ....install.recipes import list_options

    offered = list_options(verdict.skill.install, install_means(library, verdict.skill), verdict.skill.settings_key)
    return [
        site.command("install", verdict.skill.name, option.recipe.id) for option in offered if option.plan is not None
    ]


def _versions(library: Library, skill: Skill) -> list[Any]:
    try:
        found = managed.find_managed(library, skill.qualified if "@" in skill.name else skill.name)
        return list(record_history.list_versions(found.repository, found.key, 20))
    except MetierError:
        return []  # a skill that can't be changed has no history


def version(site: WebSite, request: Request) -> Response:
    """One change of a skill, as a diff from it to now; and who wrote each line."""
    name, rev = request.query_params.get("name", ""), request.query_params.get("rev", "")
    found = managed.find_managed(site.library(), name)
    patch = record_history.diff_versions(found.repository, found.key, rev)
    return site.render(
        request,
        "version.html",
        current="skills",
        name=name,
        rev=rev,
        lines=patch.splitlines(),
        blame=record_history.blame_file(found.repository, found.key),
        line=site.command("diff", name, rev[:12]),
        undo=site.command("rollback", name, rev[:12]),
    )


def file(site: WebSite, request: Request) -> Response:
    """A file of a skill as text, as `metier read` prints it."""
    name, path = request.query_params.get("name", ""), request.query_params.get("path", "")
    library = site.library()
    page = library.skill_access(by="user").page(library.find(name).skill, path, 0)
    return site.render(
        request,
        "file.html",
        current="skills",
        name=name,
        path=path,
        text=page.text,
        size=page.size,
        cut=page.next is not None,
        line=site.command("read", name, path),
    )


def _called(library: Library, skill: Skill, arguments: str) -> dict[str, Any]:
    """What a call with these arguments would send; nothing runs."""
    access = library.skill_access(by="user")
    command = next((each.name for each in library.commands() if each.skill == skill), skill.name)
    activation = access.render(skill, Call(command, arguments, "user", access.cwd), preview=True)
    messages = deliver(activation, library.dialect.serving, access.resources(skill), f"/{command}")
    return {
        "pieces": marked_pieces(activation),
        "tokens": estimate_tokens("\n".join(message.text for message in messages)),
        "inserts": activation.inserts,
    }


def marked_pieces(activation: Activation) -> list[tuple[str, str, str]]:
    """The rendered text in pieces: the text, the kind of substitution (none for the author's own), what it replaced."""
    pieces: list[tuple[str, str, str]] = []
    at = 0
    for insert in sorted(activation.inserts, key=lambda each: each.at):
        # What was removed has no place of its own, and overlapping marks would show a text twice.
        if insert.kind == "removed" or insert.at < at:
            continue
        pieces.append((activation.text[at : insert.at], "", ""))
        end = insert.at + len(insert.value)
        pieces.append((activation.text[insert.at : end], insert.kind, insert.source))
        at = end
    return [piece for piece in (*pieces, (activation.text[at:], "", "")) if piece[0]]
