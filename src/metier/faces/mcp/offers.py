"""What an MCP client sees of a library: tools, prompts, resources, in plain values without the protocol."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from ...library.library import Library
from ...library.live import LiveLibrary
from ...library.skill_tools import tools_of
from ...types.catalog import SlashCommand
from ...types.errors import BadRequest
from ...types.model import Answer, Tool
from ...types.text import clean_line
from .resources import ServedFile, SkillEntryBuilder, list_folder, list_skill_files, read_resource, roots_of

PAGE_SIZE = 50
"""Skills on a page of a listing."""
MOST_NAMES = 500
"""Up to so many skills are enumerated in a tool's schema; beyond that, a wrong name is answered with a list."""
# It is part of a tool's description, which clients send with every request.
_LONGEST_CATALOG = 24_000
_NAME_KEYS = ("skill_name", "skill")
_ACTIVE_SKILL_TOOLS = ("skill_read_file", "skill_run_script")

T = TypeVar("T")


class ListedTool(NamedTuple):
    """A tool with the description and schema that clients are shown."""

    tool: Tool
    description: str
    schema: dict[str, Any]


class SkillPrompt(NamedTuple):
    """A skill as an MCP prompt."""

    name: str
    description: str
    arguments: tuple[tuple[str, str], ...]
    """Names and descriptions; none is required, as a skill itself says what it does without arguments."""


class ResultPage(NamedTuple, Generic[T]):
    items: list[T]
    next: str | None
    """The cursor of the next page; None on the last."""


@dataclass
class LibrarySurface:
    """A library as one MCP client sees it."""

    live: LiveLibrary
    entry_builder: SkillEntryBuilder = field(default_factory=SkillEntryBuilder)
    activated: set[str] = field(default_factory=set)
    """Skills that the user called: from then on the model may read their files and run their scripts."""

    def tools(self, library: Library | None = None) -> list[ListedTool]:
        """The tools with the names of the skills in their schemas; none where there is no skill."""
        now = library or self.live.now()
        access = now.skill_access(cwd=self.live.cwd, write=self.live.write)
        names = [skill.name for skill in access.offered()]
        if not names:
            return []
        catalog = now.catalog(max_chars=_LONGEST_CATALOG, policy="stable").text
        listed_tools = []
        # The catalog goes into the first tool's description: not every client shows a model the server's instructions.
        for at, tool in enumerate(tools_of(access, now.dialect.serving.tools)):
            description = f"{tool.description}\n\n{catalog}" if not at else tool.description
            listed_tools.append(ListedTool(tool, description, _with_name_enum(tool.schema, names)))
        return listed_tools

    def call(self, name: str, arguments: Mapping[str, object]) -> Answer | None:
        """Call a tool; None for one that is not there."""
        library = self.live.now()
        if name not in library.dialect.serving.tools:
            return None
        skill_name = next((arguments[key] for key in _NAME_KEYS if key in arguments), None)
        # A skill that only the user may call opens to the model once the user has called it, and not before.
        by_person = name in _ACTIVE_SKILL_TOOLS and skill_name in self.activated
        access = library.skill_access(cwd=self.live.cwd, write=self.live.write, by="user" if by_person else "model")
        [tool] = tools_of(access, [tool_name for tool_name in library.dialect.serving.tools if tool_name == name])
        return tool.call(arguments)

    def prompts(self, library: Library | None = None) -> list[SkillPrompt]:
        """A prompt for every skill that a person may call."""
        return [
            _prompt_of_command(command)
            for command in (library or self.live.now()).commands()
            if command.skill is not None
        ]

    def prompt(self, name: str, arguments: Mapping[str, str]) -> tuple[str, str]:
        """What a prompt is for, and the skill's instructions as a person's call gives them."""
        library = self.live.now()
        command = next(
            (candidate for candidate in library.commands() if candidate.name == name and candidate.skill is not None),
            None,
        )
        if command is None or command.skill is None:
            names = [candidate.name for candidate in library.commands() if candidate.skill is not None]
            # Cut to length: the name is the client's, and the answer repeats it.
            raise BadRequest(f"Unknown prompt '{name[:100]}'", f"Available: {', '.join(names[:50]) or 'none'}")
        skill = command.skill
        access = library.skill_access(cwd=self.live.cwd, write=self.live.write, by="user")
        _, messages = access.activate(skill, _prompt_arguments(_prompt_of_command(command), arguments))
        self.activated.add(skill.name)
        return command.description, "\n\n".join(message.text for message in messages)

    def resources(self, cursor: str | None) -> ResultPage[tuple[ServedFile, str]]:
        """Every file, the skills one page after the other: pairs of a file and its skill."""
        library = self.live.now()
        page = _page_after(sorted(roots_of(library).items()), cursor)
        pairs: list[tuple[ServedFile, str]] = []
        for root, skill in page.items:
            description = clean_line(skill.description)
            pairs += [
                (file, description if not at else "") for at, file in enumerate(list_skill_files(library, root, skill))
            ]
        return ResultPage(pairs, page.next)

    def read(self, uri: str) -> tuple[bytes, str]:
        return read_resource(self.live.now(), uri)

    def folder(self, uri: str, cursor: str | None) -> ResultPage[ServedFile]:
        """The direct children of a folder of a skill."""
        page = _page_after(sorted(list_folder(self.live.now(), uri).items()), cursor)
        return ResultPage([file for _, file in page.items], page.next)

    def complete_argument(self, prompt: str, prefix: str) -> list[str]:
        """The words that a prompt's hint offers for what was typed: `staging` and `live` of `[staging|live]`."""
        hints = [
            command.hint
            for command in self.live.now().commands()
            if command.skill is not None and command.name == prompt
        ]
        return [word for hint in hints for word in _hint_choices(hint) if word.startswith(prefix)]

    def skills(self, cursor: str | None) -> ResultPage[dict[str, object]]:
        """The entries of the Skills extension."""
        library = self.live.now()
        page = _page_after(sorted(roots_of(library).items()), cursor)
        entries = [self.entry_builder.entry(library, root, skill) for root, skill in page.items]
        return ResultPage([entry for entry in entries if entry is not None], page.next)

    def skill(self, uri: str) -> dict[str, object]:
        library = self.live.now()
        root = uri.removesuffix("/SKILL.md")
        skill = roots_of(library).get(root)
        entry = self.entry_builder.entry(library, root, skill) if skill is not None and root != uri else None
        if entry is None:
            raise BadRequest(f"'{uri[:200]}' is not a skill of this server", "list the skills to find one")
        return entry


def _with_name_enum(schema: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    if len(names) > MOST_NAMES:
        return schema
    declared = schema["properties"]
    properties = {
        key: {**declared[key], "enum": list(names)} if key in _NAME_KEYS else declared[key] for key in declared
    }
    # Names as an enum: a model then hardly ever invents one.
    return {**schema, "properties": properties}


def _prompt_of_command(command: SlashCommand) -> SkillPrompt:
    names = command.skill.arguments if command.skill is not None else ()
    declared = tuple(
        (name, f"{name} of: {command.hint}" if command.hint else "") for name in map(clean_line, names) if name
    )
    return SkillPrompt(command.name, command.description, declared or (("arguments", command.hint),))


def _hint_choices(hint: str) -> list[str]:
    """The words of the first group that offers a choice."""
    for group in re.findall(r"[\[<({]([^\[\]<>(){}]*\|[^\[\]<>(){}]*)[\])>}]", hint) or [hint]:
        words = [word.strip() for word in group.split("|")]
        if len(words) > 1:
            return [word for word in words if word and not word.startswith("-")]
    return []


def _prompt_arguments(prompt: SkillPrompt, values: Mapping[str, str]) -> str | tuple[str, ...]:
    """Declared arguments as ready words, up to the last that was given; anything else as one line."""
    names = [name for name, _ in prompt.arguments]
    unknown = [name for name in values if name not in names]
    if unknown:
        raise BadRequest(
            f"Unknown argument '{unknown[0][:100]}' for prompt '{prompt.name}'", f"Available: {', '.join(names)}"
        )
    if names == ["arguments"]:
        return values.get("arguments", "")
    last = max((at for at, name in enumerate(names) if values.get(name)), default=-1)
    return tuple(values.get(name, "") for name in names[: last + 1])


def _page_after(items: Sequence[tuple[str, T]], cursor: str | None) -> ResultPage[tuple[str, T]]:
    """The page after a cursor, which is a key: with an offset, a list that changes would skip or repeat items."""
    remaining = [item for item in items if cursor is None or item[0] > cursor]
    return ResultPage(remaining[:PAGE_SIZE], remaining[PAGE_SIZE - 1][0] if len(remaining) > PAGE_SIZE else None)
