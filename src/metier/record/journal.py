"""A journal: the events of one run, a line of JSON each, in a file that only its owner can read.

Lines are appended as events happen, so a crash loses at most the last one.  A field with its default value is left out
and an unknown field or kind is skipped: journals are read by older and newer versions than wrote them.  Runs are named
by their start time, so the order of names is the order of runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from json import dumps, loads
from typing import Any, NamedTuple, get_args

from ..host import fs, trees
from ..host.facts import local_stamp, new_name, now_ns
from ..types.activation import Message, ToolCall
from ..types.agent import IMPROVER
from ..types.errors import BadRequest
from ..types.event import Ended, Event, Nested, Started, Usage, Waited, Wrote
from .redaction import hide_strings

# --- Events as JSON ---

EVENT_KINDS: dict[str, type[Any]] = {kind.__name__.lower(): kind for kind in get_args(Event)}
_EVENT_TYPES = frozenset(EVENT_KINDS.values())
_INNER_TYPES: dict[str, type[Any]] = {"messages": Message, "calls": ToolCall, "call": ToolCall, "usage": Usage}


def encode_event(event: Event) -> dict[str, object]:
    """An event as plain values: `event` is its kind, and the event of a delegated run is `inner`."""
    document = encode_dataclass(event)
    if isinstance(event, Nested):
        document["inner"] = document.pop("event")
    if isinstance(event, Ended):
        document.setdefault("code", 0)  # programs read it, and should not have to know the default
    return {"event": type(event).__name__.lower(), **document}


def event_line(event: Event, at: float = 0.0) -> str:
    """An event as one line of JSON; lone surrogates, which UTF-8 can't hold, are escaped."""
    stamped = {"at": round(at, 3), **encode_event(event)} if at else encode_event(event)
    text = dumps(stamped, ensure_ascii=False, separators=(",", ":"))
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def encode_dataclass(value: Any) -> dict[str, object]:
    """A dataclass as plain values; fields with their default value are left out."""
    document: dict[str, object] = {}
    for field in fields(value):
        content = getattr(value, field.name)
        if content != _default_of(field):
            document[field.name] = _encode_value(content)
    return document


def _default_of(field: Field[Any]) -> object:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _encode_value(value: Any) -> Any:
    if type(value) in _EVENT_TYPES:
        return encode_event(value)
    if is_dataclass(value):
        return encode_dataclass(value)
    if isinstance(value, tuple | list):
        return [_encode_value(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _encode_value(item) for key, item in value.items()}
    return value


def decode_event(written: Mapping[str, Any]) -> Event | None:
    """The event of a document; None for a kind that this version does not know."""
    kind = EVENT_KINDS.get(str(written.get("event")))
    if kind is Nested:
        written = {**written, "event": written.get("inner")}
    try:
        event: Event | None = decode_dataclass(kind, written) if kind is not None else None
    except (TypeError, ValueError, KeyError):
        return None
    return event


def decode_dataclass(kind: type[Any], written: Mapping[str, Any]) -> Any:
    """A dataclass from plain values; missing fields get their default, unknown ones are skipped."""
    names = {field.name for field in fields(kind)}
    return kind(**{name: _decode_field(name, value) for name, value in written.items() if name in names})


def _decode_field(name: str, value: Any) -> Any:
    if name in ("event", "activated") and isinstance(value, Mapping):
        inner = decode_event(value)
        if inner is None:
            raise ValueError("unknown kind of event")
        return inner
    kind = _INNER_TYPES.get(name)
    if isinstance(value, list):
        return tuple(decode_dataclass(kind, item) if kind and isinstance(item, Mapping) else item for item in value)
    return decode_dataclass(kind, value) if kind and isinstance(value, Mapping) else value


# --- Files ---

_run_id = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{6}").fullmatch


class RecordedEvent(NamedTuple):
    """An event with its time."""

    at: float
    """In seconds since 1970."""
    event: Event


def new_run_id() -> str:
    """A new name for a run."""
    return new_name()


def runs_folder(state: str) -> str:
    return f"{state}/runs"


@dataclass(frozen=True)
class Journal:
    """The file of one run."""

    path: str
    hide: Callable[[str], str] = str
    """Removes secrets from a text before it is written."""

    def keep(self, event: Event) -> None:
        """Append an event.  Pieces of a reply are not kept: the whole reply follows."""
        if not isinstance(event, Wrote | Waited):
            # Text by text and not as one line: a secret that is written over several lines is found in neither.
            fs.append_line(self.path, event_line(hide_strings(event, self.hide), now_ns() / 1e9))

    def read(self, start: int = 0) -> Iterator[RecordedEvent]:
        """All events, or those of the lines from a position on; a line that a crash cut off is skipped."""
        for line in fs.read_lines(self.path, start):
            try:
                written = loads(line)
            except ValueError:
                continue
            event = decode_event(written) if isinstance(written, dict) else None
            if event is not None:
                at = written.get("at")
                yield RecordedEvent(float(at) if isinstance(at, int | float) else 0.0, event)

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Hold the run: no other process can continue it meanwhile."""
        with fs.claim_file(self.path) as free:
            if not free:
                raise BadRequest("that run is active in another process", "wait for it to end, or start a new run")
            yield


def find_journal(state: str, run: str, hide: Callable[[str], str] = str) -> Journal:
    """The journal of a run, by its name or the start of it; `last` is the last used that a person started."""
    names = run_ids(state)
    if run == "last" and names:
        journals = [Journal(path, hide) for path in journals_by_use(state)]
        return next(filter(_is_person_run, journals), journals[0])
    # A full name wins over longer names that start with it.
    matches = [name for name in names if name.startswith(run)] if run else []
    if run in matches:
        matches = [run]
    if len(matches) != 1:
        problem = f"no run named `{run}`" if not matches else f"{len(matches)} run names start with `{run}`"
        raise BadRequest(problem, "run `metier runs` to list them")
    return Journal(f"{runs_folder(state)}/{matches[0]}.jsonl", hide)


def journals_by_use(state: str) -> list[str]:
    """The files of all runs, the last used first."""
    folder = runs_folder(state)
    files = [f"{folder}/{name}.jsonl" for name in run_ids(state)]
    # A name tells when its run began, the time of the file when it was used; equal times go by name.
    return sorted(files, key=lambda path: (trees.changed_at(path), path), reverse=True)


def _is_person_run(journal: Journal) -> bool:
    """Whether a person started the run, and not another run or the improver."""
    first_event = next((recorded.event for recorded in journal.read()), None)
    return isinstance(first_event, Started) and not first_event.parent and first_event.agent != IMPROVER


def prune_journals(state: str, days: int, most: int) -> None:
    """Remove journals beyond the age and number to keep, except those of active runs; 0 is no limit."""
    names = run_ids(state)
    oldest_kept = local_stamp(now_ns() - days * 86_400_000_000_000) if days else ""
    expired = [name for at, name in enumerate(names) if name < oldest_kept or (most and at < len(names) - most)]
    for name in expired:
        fs.remove_unclaimed(f"{runs_folder(state)}/{name}.jsonl")


def run_ids(state: str) -> list[str]:
    """The names of all runs, oldest first."""
    names = [name.removesuffix(".jsonl") for name in trees.list_names(runs_folder(state)) if name.endswith(".jsonl")]
    return sorted(name for name in names if _run_id(name))
