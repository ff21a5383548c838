"""What a client of this server sees of a library: tools, prompts, pages of resources.  No protocol here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from ...act.tools import tools_of
from ...runtime.library import Library
from ...runtime.live import Live
from ...types.catalog import Command
from ...types.errors import BadRequest
from ...types.text import flat
from ...types.tool import Answer, Tool
from .shelf import File, Shelf, files_by, folder, read, roots_of

PAGE = 50
"""Skills on a page of a listing."""
MOST_NAMES = 500
"""With more skills than that a name is plain text, and a wrong one is answered with the names there are."""
_LONGEST_CATALOG = 24_000
_NAMED = ("skill_name", "skill")
_OF_ACTIVE = ("skill_read_file", "skill_run_script")

T = TypeVar("T")


class Offer(NamedTuple):
    """A tool as it is listed."""

    tool: Tool
    description: str
    schema: dict[str, Any]


class Prompt(NamedTuple):
    name: str
    description: str
    arguments: tuple[tuple[str, str], ...]
    """Names and what they are for; none is required, a skill says itself what it does without."""


class Paged(NamedTuple):
    items: list[Any]
    next: str | None


@dataclass
class Surface:
    live: Live
    shelf: Shelf = field(default_factory=Shelf)
    activated: set[str] = field(default_factory=set)
    """Skills that the person called: the model may read their files and run their scripts from then on."""

    def tools(self, library: Library | None = None) -> list[Offer]:
        """The tools with the names of the skills in their schemas; none where there is no skill."""
        now = library or self.live.now()
        desk = now.desk(cwd=self.live.cwd, write=self.live.write)
        names = [skill.name for skill in desk.offered()]
        if not names:
            return []
        catalog = now.catalog(max_chars=_LONGEST_CATALOG).text
        offers = []
        for at, tool in enumerate(tools_of(desk, now.dialect.serving.tools)):
            description = f"{tool.description}\n\n{catalog}" if not at else tool.description
            offers.append(Offer(tool, description, _with_names(tool.schema, names)))
        return offers

    def call(self, name: str, arguments: Mapping[str, object]) -> Answer | None:
        """Call a tool; None for one that is not there."""
        library = self.live.now()
        if name not in library.dialect.serving.tools:
            return None
        asked = next((arguments[key] for key in _NAMED if key in arguments), None)
        by_person = name in _OF_ACTIVE and asked in self.activated
        desk = library.desk(cwd=self.live.cwd, write=self.live.write, by="user" if by_person else "model")
        [tool] = tools_of(desk, [one for one in library.dialect.serving.tools if one == name])
        return tool.call(arguments)

    def prompts(self, library: Library | None = None) -> list[Prompt]:
        """A prompt for every skill that a person may call."""
        return [_prompt(command) for command in (library or self.live.now()).commands() if command.skill is not None]

    def prompt(self, name: str, given: Mapping[str, str]) -> tuple[str, str]:
        """What a prompt is for, and the skill's instructions as a person's call gives them."""
        library = self.live.now()
        command = next((one for one in library.commands() if one.name == name and one.skill is not None), None)
        if command is None or command.skill is None:
            names = [one.name for one in library.commands() if one.skill is not None]
            raise BadRequest(f"No prompt is called '{name[:100]}'", f"Available: {', '.join(names[:50]) or 'none'}")
        skill = command.skill
        desk = library.desk(cwd=self.live.cwd, write=self.live.write, by="user")
        _, messages = desk.activate(skill, _arguments(_prompt(command), given))
        self.activated.add(skill.name)
        return command.description, "\n\n".join(message.text for message in messages)

    def resources(self, cursor: str | None) -> Paged:
        """Every file, the skills one page after the other: pairs of a file and its skill."""
        library = self.live.now()
        page = _page(sorted(roots_of(library).items()), cursor)
        found: list[tuple[File, str]] = []
        for root, skill in page.items:
            said = flat(skill.description)
            found += [(file, said if not at else "") for at, file in enumerate(files_by(library, root, skill))]
        return Paged(found, page.next)

    def read(self, uri: str) -> tuple[bytes, str]:
        return read(self.live.now(), uri)

    def folder(self, uri: str, cursor: str | None) -> Paged:
        """What lies directly in a folder of a skill."""
        page = _page(sorted(folder(self.live.now(), uri).items()), cursor)
        return Paged([file for _, file in page.items], page.next)

    def completed(self, prompt: str, begun: str) -> list[str]:
        """The words that a prompt's hint offers for what was typed: `staging` and `live` of `[staging|live]`."""
        hints = [one.hint for one in self.live.now().commands() if one.skill is not None and one.name == prompt]
        return [word for hint in hints for word in _choices(hint) if word.startswith(begun)]

    def skills(self, cursor: str | None) -> Paged:
        """The entries of the Skills extension."""
        library = self.live.now()
        page = _page(sorted(roots_of(library).items()), cursor)
        entries = [self.shelf.entry(library, root, skill) for root, skill in page.items]
        return Paged([entry for entry in entries if entry is not None], page.next)

    def skill(self, uri: str) -> dict[str, Any]:
        library = self.live.now()
        root = uri.removesuffix("/SKILL.md")
        skill = roots_of(library).get(root)
        entry = self.shelf.entry(library, root, skill) if skill is not None and root != uri else None
        if entry is None:
            raise BadRequest(f"'{uri[:200]}' is no skill of this server", "list the skills to see what there is")
        return entry


def _with_names(schema: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    if len(names) > MOST_NAMES:
        return schema
    known = schema["properties"]
    properties = {key: {**known[key], "enum": list(names)} if key in _NAMED else known[key] for key in known}
    return {**schema, "properties": properties}


def _prompt(command: Command) -> Prompt:
    names = command.skill.arguments if command.skill is not None else ()
    declared = tuple((name, f"{name} of: {command.hint}" if command.hint else "") for name in map(flat, names) if name)
    return Prompt(command.name, command.description, declared or (("arguments", command.hint),))


def _choices(hint: str) -> list[str]:
    """The words of the first group that offers a choice."""
    for group in re.findall(r"[\[<({]([^\[\]<>(){}]*\|[^\[\]<>(){}]*)[\])>}]", hint) or [hint]:
        words = [word.strip() for word in group.split("|")]
        if len(words) > 1:
            return [word for word in words if word and not word.startswith("-")]
    return []


def _arguments(prompt: Prompt, given: Mapping[str, str]) -> str | tuple[str, ...]:
    """Declared arguments as ready words, up to the last that was given; anything else as one line."""
    names = [name for name, _ in prompt.arguments]
    unknown = [name for name in given if name not in names]
    if unknown:
        raise BadRequest(f"'{unknown[0][:100]}' is no argument of '{prompt.name}'", f"It takes: {', '.join(names)}")
    if names == ["arguments"]:
        return given.get("arguments", "")
    last = max((at for at, name in enumerate(names) if given.get(name)), default=-1)
    return tuple(given.get(name, "") for name in names[: last + 1])


def _page(items: Sequence[tuple[str, T]], cursor: str | None) -> Paged:
    """The items behind the one that the cursor names: a list that changes in between loses and repeats nothing."""
    left = [item for item in items if cursor is None or item[0] > cursor]
    return Paged(left[:PAGE], left[PAGE - 1][0] if len(left) > PAGE else None)
