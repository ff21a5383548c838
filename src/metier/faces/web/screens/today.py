"""Today: whether everything runs, what waits for a person, what failed, and what comes next."""

from __future__ import annotations

from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from ....agent.models import resolve_model_name
from ....host import daemon as machine
from ....improve.proposal_store import list_proposals
from ....library.grants import machine_options
from ....library.library import Library
from ....types.errors import MetierError
from ....types.verdict import UNAPPROVED, UNTRUSTED
from ..skill_usage import newest_runs
from ..web_site import WebSite


class HealthLine(NamedTuple):
    """One thing that must work, and what to do if it does not."""

    what: str
    good: bool
    says: str
    command: str = ""


def today(site: WebSite, request: Request) -> Response:
    library = site.library()
    schedules = _coming(site)
    return site.render(
        request,
        "today.html",
        current="today",
        health=_health(site, library, bool(schedules)),
        waiting=_waiting(site, library),
        failures=[run for run in newest_runs(site.state, 200) if not run.good][:6],
        coming=schedules[:8],
        counts={
            "skills": len(library.verdicts),
            "usable": sum(verdict.usable for verdict in library.verdicts),
            "broken": len(library.broken),
        },
    )


def is_daemon_running(site: WebSite) -> bool:
    """Whether something fires schedules: a worker of the database, or the daemon's lock."""
    from ....schedule.worker import lock_path

    if machine.current_holder(lock_path(site.place, "daemon")) is not None:
        return True
    try:
        with site.schedules() as engine:
            from ....schedule.queue import list_workers

            return any(worker.state == "up" for worker in list_workers(engine))
    except MetierError:
        return False


def _health(site: WebSite, library: Library, has_schedules: bool) -> list[HealthLine]:
    from .... import sandbox
    from ....sandbox.advice import suggest_improvement

    running = is_daemon_running(site)
    support = sandbox.probe_sandbox(machine_options(library))
    model = site.options.model or resolve_model_name("", library)
    lines = [
        HealthLine("daemon", True, "running") if running else _no_daemon(site, has_schedules),
        HealthLine("sandbox", support.tier != "none", support.tier, suggest_improvement(support)),
        HealthLine("model", bool(model), model or "none configured", "" if model else site.command("models", "list")),
    ]
    if library.problems:
        lines.append(HealthLine("configuration", False, library.problems[0].message, site.command("doctor")))
    return lines


def _no_daemon(site: WebSite, has_schedules: bool) -> HealthLine:
    # Loud only where it matters: without schedules nothing waits to be fired.
    says = "not running: nobody fires your schedules" if has_schedules else "not running; nothing is scheduled"
    return HealthLine("daemon", not has_schedules, says, site.command("daemon"))


def _waiting(site: WebSite, library: Library) -> list[tuple[str, str, str]]:
    """What waits for a person: how many of what, where to decide it, and a line about it."""
    items: list[tuple[str, str, str]] = []
    asked = len(site.hub.waiting()) if site.hub is not None else 0
    if asked:
        items.append((f"{asked} open question{'s'[: asked > 1]}", "/approvals", "a conversation waits for your answer"))
    untrusted = [verdict for verdict in library.verdicts if _has_code(verdict, UNTRUSTED)]
    if untrusted:
        items.append(
            (
                f"{len(untrusted)} skill{'s'[: len(untrusted) > 1]} of this project",
                "/approvals",
                "not used before you trust it",
            )
        )
    items += [
        (verdict.skill.name, "/approvals", "not used before you approve it")
        for verdict in library.verdicts
        if _has_code(verdict, UNAPPROVED)
    ][:5]
    items += [
        (f"a change to {proposal.skill}", f"/proposal?id={proposal.id}", "; ".join(proposal.what) or proposal.note)
        for proposal in list_proposals(site.state)
        if proposal.standing == "waiting"
    ][:5]
    return items


def _has_code(verdict: Any, codes: tuple[str, ...]) -> bool:
    return any(finding.code in codes for finding in verdict.findings)


def _coming(site: WebSite) -> list[Any]:
    """The next firings, the first of each schedule."""
    from ....schedule.store import all_schedules

    try:
        with site.schedules() as engine:
            entries = [entry for entry in all_schedules(engine) if entry.next is not None and not entry.paused]
    except MetierError:
        return []  # the extra is not installed, or the database is away: its own screen says so
    return sorted(entries, key=lambda entry: entry.next.timestamp() if entry.next else 0.0)
