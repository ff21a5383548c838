"""Events as JSON: one object each, its `event` says which; what is as usual is left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from json import dumps
from typing import Any, get_args

from ..types.activation import Message, ToolCall
from ..types.event import Ended, Event, Nested
from ..types.usage import Usage

KINDS: dict[str, type[Any]] = {kind.__name__.lower(): kind for kind in get_args(Event)}
_EVENTS = frozenset(KINDS.values())
_INNER: dict[str, type[Any]] = {"messages": Message, "calls": ToolCall, "call": ToolCall, "usage": Usage}


def encode(event: Event) -> dict[str, object]:
    """An event as plain values: `event` is always its kind, and what happened in a delegated run is `inner`."""
    found = plain(event)
    if isinstance(event, Nested):
        found["inner"] = found.pop("event")
    if isinstance(event, Ended):
        found.setdefault("code", 0)  # a program should not have to know what is usual
    return {"event": type(event).__name__.lower(), **found}


def line_of(event: Event, at: float = 0.0) -> str:
    """An event as one line of JSON; halves of characters, which no file can hold, are spelled out."""
    stamped = {"at": round(at, 3), **encode(event)} if at else encode(event)
    text = dumps(stamped, ensure_ascii=False, separators=(",", ":"))
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def plain(value: Any) -> dict[str, object]:
    """A dataclass as plain values; what is as usual is left out."""
    found: dict[str, object] = {}
    for one in fields(value):
        held = getattr(value, one.name)
        if held != _usual(one):
            found[one.name] = _value(held)
    return found


def _usual(one: Field[Any]) -> object:
    return one.default_factory() if one.default_factory is not MISSING else one.default


def _value(held: Any) -> Any:
    if type(held) in _EVENTS:
        return encode(held)
    if is_dataclass(held):
        return plain(held)
    if isinstance(held, tuple | list):
        return [_value(item) for item in held]
    if isinstance(held, Mapping):
        return {str(key): _value(item) for key, item in held.items()}
    return held


def decode(written: Mapping[str, Any]) -> Event | None:
    """The event that was written; None for one of a kind that this version does not know."""
    kind = KINDS.get(str(written.get("event")))
    if kind is Nested:
        written = {**written, "event": written.get("inner")}
    try:
        event: Event | None = read(kind, written) if kind is not None else None
    except (TypeError, ValueError, KeyError):
        return None
    return event


def read(kind: type[Any], written: Mapping[str, Any]) -> Any:
    """What is missing is as usual, and what is not known is passed over: journals outlive versions."""
    known = {one.name for one in fields(kind)}
    return kind(**{name: _field(name, held) for name, held in written.items() if name in known})


def _field(name: str, held: Any) -> Any:
    if name in ("event", "activated") and isinstance(held, Mapping):
        inner = decode(held)
        if inner is None:
            raise ValueError("an event of a kind that is not known")
        return inner
    kind = _INNER.get(name)
    if isinstance(held, list):
        return tuple(read(kind, item) if kind and isinstance(item, Mapping) else item for item in held)
    return read(kind, held) if kind and isinstance(held, Mapping) else held
