"""What the tools need of a library, and how they read what a model sends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol, cast, get_args

from ...types.activation import Activation, Message
from ...types.errors import BadRequest, HostError, MetierError
from ...types.event import Activated, Reason
from ...types.running import Ran
from ...types.skill import Skill
from ...types.text import flat, inert, shortened
from ...types.tool import Answer


class Page(NamedTuple):
    """Part of a file."""

    text: str
    size: int
    """Bytes in the whole file."""
    next: int | None
    """Where the next part begins; None at the end."""


class Desk(Protocol):
    """The skills that a model may use, and what it may do with them.  Every refusal is a `MetierError`."""

    def offered(self) -> Sequence[Skill]:
        """The skills it may use."""

    def skill(self, name: str) -> Skill:
        """The skill of that name, or a refusal that lists the names there are."""

    def activate(self, skill: Skill, arguments: str | tuple[str, ...]) -> tuple[Activation, tuple[Message, ...]]:
        """A skill's instructions, and the messages that carry them where they are not the tool's own answer."""

    def result(self, activation: Activation) -> str:
        """The instructions as a tool's own answer."""

    def page(self, skill: Skill, path: str, offset: int) -> Page:
        """Part of a file of a skill."""

    def located(self, location: str) -> tuple[Skill, str]:
        """The skill that a location of the catalog lies in, and the path inside its folder."""

    def scripts(self, skill: Skill) -> tuple[str, ...] | None:
        """The paths in its `scripts/` folder; None where it has none."""

    def lies(self, skill: Skill, path: str) -> Literal["", "folder", "elsewhere"]:
        """What a path in its `scripts/` folder leads to that is none of those."""

    def run(self, skill: Skill, script: str, words: tuple[str, ...]) -> Ran:
        """Run a script of a skill."""

    def search(self, query: str, limit: int) -> Sequence[Skill]:
        """The skills that fit a request best."""


Arguments = Mapping[str, object]


def activated(one: Activation) -> Activated:
    """What happens when a tool makes a skill part of the conversation."""
    skill, call = one.skill, one.call
    return Activated(
        skill.name, skill.path, call.by, call.typed, one.digest, one.text, one.tokens, skill.allowed_tools,
        skill.directory,
    )  # fmt: skip


def guarded(call: Callable[[Arguments], Answer]) -> Callable[[Arguments], Answer]:
    """A tool that answers with an error where it would have failed."""

    def answer(arguments: Arguments) -> Answer:
        try:
            return call(arguments)
        except MetierError as error:
            text = error.message if not error.hint else f"{error.message}. {_sentence(error.hint)}"
            return Answer(text, error=True, reason=reason_of(error))
        except (OSError, ValueError) as error:
            return Answer(f"Error: {getattr(error, 'strerror', None) or error}", error=True, reason="machine")

    return answer


def reason_of(error: MetierError) -> Reason:
    """What kind of failure it was."""
    for one in get_args(Reason):
        if one == error.reason:
            return cast("Reason", one)
    return "bad-request" if isinstance(error, BadRequest) else "machine" if isinstance(error, HostError) else "failed"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", "!")) else ".")


def text_of(arguments: Arguments, name: str, default: str | None = None) -> str:
    """One parameter as text; numbers are taken for what they say."""
    value = arguments.get(name, default)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        if value is None:
            raise BadRequest(f"{name} is required", f"pass {name}")
        raise BadRequest(f"{name} must be text", f"pass {name} as a string")
    text = str(value)
    if "\0" in text:
        raise BadRequest(f"{name} holds a NUL character", "leave it out")
    return text


def words_or_text(arguments: Arguments, name: str) -> str | tuple[str, ...]:
    """A parameter that may be left out, as one text, or as ready words where a model sends a list."""
    value = arguments.get(name)
    if isinstance(value, list | tuple):
        return tuple(text_of({name: word}, name) for word in value)
    return text_of(arguments, name, "") if value is not None else ""


def number_of(arguments: Arguments, name: str, default: int) -> int:
    value = arguments.get(name, default)
    if isinstance(value, str) and value.strip().isdigit():
        value = int(value.strip()[:12])
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadRequest(f"{name} must be a whole number from 0 up", f"leave {name} out, or pass a number")
    return value


def listed(skills: Sequence[Skill]) -> str:
    """One line for each skill."""
    lines = []
    for skill in skills:
        name, description = inert(flat(skill.name)), inert(shortened(flat(skill.description), 512))
        lines.append(f"- {name}: {description}" if description else f"- {name}")
    return "\n".join(lines)
