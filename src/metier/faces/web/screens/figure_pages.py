"""Budget and Evals: what skills cost in every conversation, and what they are worth."""

from __future__ import annotations

from json import loads
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from ....catalog.formats import get_layout
from ....host import paths, trees
from ....types.catalog import CatalogEntry
from ..drawing import BudgetPart, draw_budget, draw_interval, draw_trend
from ..web_site import WebSite, as_mapping

_LEAST, _MOST = 500, 20_000
_MOST_ROWS = 300


def budget(site: WebSite, request: Request) -> Response:
    library = site.library()
    query = request.query_params.get("for", "").strip()[:400]
    typed = request.query_params.get("limit", "")
    limit = int(typed) if typed.isascii() and typed.isdigit() and len(typed) < 8 else None
    listing = library.catalog(max_chars=limit, request=query)
    write = get_layout(library.dialect.serving.listing.format).entry

    def size_of(entry: CatalogEntry) -> int:
        return len(write(entry))

    parts = [BudgetPart(entry.name, size_of(entry), "listed") for entry in listing.entries]
    ranked = [BudgetPart(entry.name, size_of(entry), "ranked") for entry in listing.suggested]
    own = library.limits.characters or library.request.room
    full = limit if limit is not None else own or max(listing.characters, _LEAST)
    hits = library.search(query, limit=15) if query else ()
    words = [
        "catalog",
        *(["--max-chars", str(limit)] if limit is not None else []),
        *(["--for", query] if query else []),
    ]
    return site.render(
        request,
        "budget.html",
        current="budget",
        listing=listing,
        picture=draw_budget([*parts, *ranked], full),
        limit=limit,
        full=full,
        least=_LEAST,
        most=max(_MOST, full),
        query=query,
        hits=hits,
        parts=sorted(parts, key=lambda part: -part.characters)[:_MOST_ROWS],
        left_out=listing.left_out[:_MOST_ROWS],
        left_count=len(listing.left_out),
        line=site.command(*words),
    )


_LARGEST = 16 << 20
_MOST_TRIALS = 20
_LABELS = {"with_skill": "with the skill", "without_skill": "without it", "old_skill": "as it was"}


class TrialArm(NamedTuple):
    """How one side of a trial did."""

    label: str
    mean: float
    low: float
    high: float
    cases: int
    tokens: float
    seconds: float
    picture: object


class SkillTrials(NamedTuple):
    """The trials of a skill, the newest first."""

    skill: str
    at: str
    model: str
    runs: int
    arms: tuple[TrialArm, ...]
    verdict: str
    trend: object
    trials: int


def evals(site: WebSite, request: Request) -> Response:
    library = site.library()
    tried = [trial for name in trees.list_names(f"{site.state}/evals") if (trial := _trials_of(site.state, name))]
    names = {trial.skill for trial in tried}
    untried = [
        verdict.skill.name
        for verdict in library.verdicts
        if verdict.skill.name not in names and paths.is_file(f"{verdict.skill.directory}/evals/evals.json")
    ]
    return site.render(
        request,
        "evals.html",
        current="evals",
        trials=tried,
        untried=[(name, site.command("eval", name, "--with-without")) for name in untried[:50]],
        line=site.command("eval", "NAME", "--with-without"),
    )


def _trials_of(state: str, name: str) -> SkillTrials | None:
    folder = f"{state}/evals/{name}"
    if not paths.is_folder(folder):
        return None
    documents = []
    for trial in reversed(paths.list_names(folder).folders[-_MOST_TRIALS:]):
        try:
            document = loads(paths.read_text_file(f"{folder}/{trial}/benchmark.json", _LARGEST) or "null")
        except ValueError:
            continue  # a trial that was cut off
        if isinstance(document, dict):
            documents.append(document)
    if not documents:
        return None
    newest = documents[0]
    about = as_mapping(newest.get("metadata"))
    shares = [
        _number(as_mapping(as_mapping(each.get("intervals")).get("with_skill")).get("pass_rate")) for each in documents
    ]
    comparison = as_mapping(newest.get("comparison"))
    return SkillTrials(
        str(about.get("skill_name", name)),
        str(about.get("timestamp", "")),
        str(about.get("executor_model", "")),
        int(_number(about.get("runs_per_configuration"))),
        tuple(_arm(newest, arm) for arm in as_mapping(newest.get("intervals"))),
        str(comparison.get("verdict", "")),
        draw_trend(list(reversed(shares)), f"pass rate over {len(shares)} trials") if len(shares) > 1 else "",
        len(documents),
    )


def _arm(document: dict[str, Any], arm: str) -> TrialArm:
    interval = as_mapping(as_mapping(document.get("intervals")).get(arm))
    summary = as_mapping(as_mapping(document.get("run_summary")).get(arm))
    mean, low, high = (min(1.0, max(0.0, _number(interval.get(key)))) for key in ("pass_rate", "low", "high"))
    return TrialArm(
        _LABELS.get(arm, arm),
        mean,
        low,
        high,
        int(_number(interval.get("cases"))),
        _number(as_mapping(summary.get("tokens")).get("mean")),
        _number(as_mapping(summary.get("time_seconds")).get("mean")),
        draw_interval(low, mean, high),
    )


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and value == value and abs(value) < 1e15 else 0.0
