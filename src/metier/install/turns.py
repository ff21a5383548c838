"""Taking turns inside one process: operations of one key run one after another, others side by side."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

Result = TypeVar("Result")


class Keys:
    """What operations are serialised by.  All that is done to one skill has one key."""

    @staticmethod
    def skill(name: str) -> str:
        return f"skill:{name}"

    skill_add = skill_remove = skill_install = skill

    @staticmethod
    def managed() -> str:
        """For what concerns every installed skill."""
        return "skills:managed"

    @staticmethod
    def file(path: str) -> str:
        return f"file:{path}"


@dataclass
class _Line:
    """Who waits for a key, the first first."""

    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)
    busy: bool = False


_lines: dict[tuple[Any, str], _Line] = {}


def _mine() -> Any:
    return asyncio.get_running_loop()


async def serialize(key: str, operation: Callable[[], Awaitable[Result]]) -> Result:
    """Run an operation when all that was asked for before under its key is done, well or badly."""
    loop = _mine()
    line = _lines.setdefault((loop, key), _Line())
    if line.busy:
        turn: asyncio.Future[None] = loop.create_future()
        line.waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn in line.waiting:
                line.waiting.remove(turn)
            elif not turn.cancelled():
                _next(loop, key, line)  # it was our turn already
            raise
    line.busy = True
    try:
        return await operation()
    finally:
        _next(loop, key, line)


def _next(loop: Any, key: str, line: _Line) -> None:
    while line.waiting:
        turn = line.waiting.popleft()
        if not turn.done():
            turn.set_result(None)
            return
    line.busy = False
    _lines.pop((loop, key), None)


def is_processing(key: str) -> bool:
    """Whether an operation of that key runs now."""
    return (_mine(), key) in _lines


def queue_length(key: str) -> int:
    """How many wait; the one that runs does not count."""
    line = _lines.get((_mine(), key))
    return len(line.waiting) if line is not None else 0


def active_keys() -> tuple[str, ...]:
    """Every key with an operation that runs or waits."""
    loop = _mine()
    return tuple(key for owner, key in _lines if owner is loop)


async def wait_for_key(key: str) -> None:
    """Until all that was asked for under a key so far is done."""
    if is_processing(key):
        await serialize(key, _nothing)


async def wait_for_all() -> None:
    """Until all that was asked for so far is done."""
    await asyncio.gather(*(wait_for_key(key) for key in active_keys()))


async def _nothing() -> None:
    return None
