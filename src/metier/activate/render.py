"""Renders a body: arguments and variables are filled in, commands are run and replaced by their output.

The author's text is split once, into text, placeholders and commands, before any value is known; the parts are then
written out in order.  What was filled in is never read again, so neither an argument nor the output of a command can
bring a placeholder or a command of its own.  Arguments reach commands through the environment (see `shell.rewrite`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from ..parse.markers import find_markers
from ..types.activation import Activation, Call, Substitution, SubstitutionKind
from ..types.dialect import AuthoringRules, ShellRules
from ..types.errors import SkillError
from ..types.sandbox import ProcessResult
from ..types.skill import Skill
from ..types.text import code_points_of, neutralize_frames, split_hidden_orders, visible_text
from .shell.hazards import check_hazards, program_names
from .shell.places import relative_scripts
from .shell.rewrite import read_command
from .shell.words import CommandAtom, ParsedCommand, PlaceholderValue, SimpleCommand, UnreadableCommand
from .template import (
    AllArguments,
    ArgumentSlice,
    EscapedPlaceholder,
    NamedArgument,
    Piece,
    Placeholder,
    PlaceholderForms,
    PositionalArgument,
    PreparedValues,
    RootedPath,
    TemplateValues,
    VariablePlaceholder,
    has_value,
    placeholder_value,
    prepare_values,
    slice_words,
    split_pieces,
    split_text,
)


class BodyCommand(NamedTuple):
    """A command in a body, with its placeholders."""

    source: str
    """The whole marker, as written in the body."""
    text: str
    pieces: tuple[Piece, ...]


BodyPart: TypeAlias = Piece | BodyCommand

CommandRunner: TypeAlias = Callable[[str, dict[str, str], ShellRules, float], ProcessResult]
"""Runs a script, with an environment for its arguments, for at most so many seconds."""

CommandsOff: TypeAlias = Literal["", "untrusted", "off", "preview"]
_OFF_NOTES = {
    "untrusted": "[command not run: this skill is not trusted]",
    "off": "[command not run: commands in skills are switched off]",
}
_safe_path = re.compile(r"[A-Za-z0-9_./@%+:,-]+")
"""A path that a shell reads the same in any quotes, and in none."""
MAX_VALUE_BYTES = 100_000
"""Bytes of an argument that may reach a command; Linux allows 131,072 for one variable."""


class CommandFailed(SkillError):
    """A command in a body failed, in a dialect where that ends the activation."""


@dataclass(frozen=True)
class RenderOptions:
    """How a body is rendered."""

    run: CommandRunner | None = None
    """None if commands are never run."""
    off: CommandsOff = ""
    variables: dict[str, str] = field(default_factory=dict)
    folders: frozenset[str] = frozenset()
    """The folders in the skill's folder."""
    has: Callable[[str], bool] = lambda path: False
    """Whether the skill's folder has a file of that path."""
    clock: Callable[[], float] = lambda: 0.0
    """Seconds since any time: all commands of a body share a budget of twice what one may take."""


def render(skill: Skill, body: str, call: Call, options: RenderOptions) -> Activation:
    """The body with its arguments, variables and commands replaced."""
    authoring = skill.origin.dialect.authoring
    rooted = tuple(name for name in authoring.rooted if name in options.folders)
    body_parts = split_body(
        body, PlaceholderForms(authoring.arguments, skill.arguments, authoring.variables, rooted), authoring.shell
    )
    values = TemplateValues(call.arguments, skill.arguments, options.variables, skill.directory)
    filled = prepare_values(values, authoring.arguments)
    writer = _BodyWriter(skill, call, options, filled)
    # Hidden characters are never ASCII.
    plain = body.isascii()
    for part in body_parts:
        if isinstance(part, str):
            (writer.write if plain else writer.keep)(part)
        elif isinstance(part, BodyCommand):
            writer.insert("command", part.source, *writer.command(part))
        else:
            writer.insert(_KINDS.get(type(part), "argument"), part.source, writer.value(part))
    writer.append_unused(body_parts, authoring)
    # Over the whole: a tag may be in two halves, one of the author's and one that an argument brought.
    text = neutralize_frames("".join(writer.out))
    return Activation(skill, call, text, tuple(writer.inserts))


@lru_cache(maxsize=64)
def split_body(body: str, forms: PlaceholderForms, shell: ShellRules | None) -> tuple[BodyPart, ...]:
    """Split the author's text; the same body is often rendered again."""
    body_parts: list[BodyPart] = []
    last = 0
    for marker in find_markers(body, shell) if shell is not None else ():
        body_parts.extend(split_text(body[last : marker.start], forms))
        body_parts.append(
            BodyCommand(body[marker.start : marker.end], marker.command.strip(), split_pieces(marker.command, forms))
        )
        last = marker.end
    body_parts.extend(split_text(body[last:] if last else body, forms))
    return tuple(body_parts)


_KINDS: dict[type, SubstitutionKind] = {
    VariablePlaceholder: "variable",
    RootedPath: "path",
    EscapedPlaceholder: "escape",
}


class _BodyWriter:
    """The text so far, and the substitutions in it."""

    def __init__(self, skill: Skill, call: Call, options: RenderOptions, filled: PreparedValues) -> None:
        self.skill, self.call, self.options, self.filled = skill, call, options, filled
        self.out: list[str] = []
        self.inserts: list[Substitution] = []
        self.values: dict[Placeholder, str] = {}
        self.length = 0
        self.started_at = options.clock()

    def write(self, text: str) -> None:
        self.out.append(text)
        self.length += len(text)

    def keep(self, text: str) -> None:
        """Write the author's text, without characters that a person can't see but a model reads."""
        for stays, goes in split_hidden_orders(text):
            self.write(stays)
            if goes:
                self.inserts.append(
                    Substitution("removed", goes, "", self.length, f"hidden characters {code_points_of(goes)}")
                )

    def value(self, part: Placeholder) -> str:
        """The value of a placeholder; most are used more than once."""
        cached = self.values.get(part)
        if cached is None:
            cached = self.values[part] = placeholder_value(part, self.filled)
        return cached

    def insert(self, kind: SubstitutionKind, source: str, value: str, note: str = "") -> None:
        self.inserts.append(Substitution(kind, source, value, self.length, note))
        self.write(value)

    def append_unused(self, body_parts: tuple[BodyPart, ...], authoring: AuthoringRules) -> None:
        """Append arguments that the body has no placeholder for, if the dialect does so."""
        typed = self.call.typed
        if not authoring.unused or not typed:
            return
        if authoring.unused_when != "always" and any(
            _takes_arguments(part, authoring.unused_when) for part in body_parts
        ):
            return
        self.insert("appended", "", f"\n\n{authoring.unused}{typed}" if self.length else f"{authoring.unused}{typed}")

    def command(self, command: BodyCommand) -> tuple[str, str]:
        """The text in place of a command, and a note if it is not its output."""
        shell = self.skill.origin.dialect.authoring.shell
        assert shell is not None
        off = self.options.off or ("off" if self.options.run is None else "")
        if off or self.options.run is None:
            return (_OFF_NOTES[off], off) if off in _OFF_NOTES else (f"[the output of: {command.text}]", "")
        seconds_left = 2 * shell.seconds - (self.options.clock() - self.started_at)
        if seconds_left <= 0:
            return self.failed(command, shell, "the time for all commands of this skill is used up")
        try:
            parsed = _parse_command(_command_atoms(command, self.filled))
            _check_values(parsed.env)
            check_hazards(parsed, self.call.by == "user")
            self.check_scripts(parsed, shell)
        except UnreadableCommand as reason:
            return self.failed(command, shell, f"not run: {reason}")
        result = self.options.run(parsed.source, parsed.env, shell, min(shell.seconds, seconds_left))
        return self.ended(command, shell, result, parsed)

    def check_scripts(self, parsed: ParsedCommand, shell: ShellRules) -> None:
        """Refuse a relative path to a script of the skill: in the project, another file may have that name."""
        # There the relative path is the skill's own.
        if shell.cwd == "skill" or self.call.cwd == self.skill.directory:
            return
        for path in relative_scripts(parsed):
            if self.options.has(path):
                raise UnreadableCommand(
                    f"`{path}` would be a file of the project; write `${{SKILL_DIR}}/{path}` for the skill's own"
                )

    def ended(
        self, command: BodyCommand, shell: ShellRules, result: ProcessResult, parsed: ParsedCommand
    ) -> tuple[str, str]:
        output, stderr = visible_text(result.stdout), visible_text(result.stderr).strip()
        if result.timed_out:
            if shell.on_failure == "stderr":
                return f"[command timed out: {command.text}]", "timed out"
            return self.failed(command, shell, f"timed out: {command.text}")
        if result.status is None:
            return self.failed(command, shell, result.note or "it could not be started")
        if result.status == 0 or (result.status == 1 and _is_quiet_answer(parsed.commands, shell.quiet)):
            return output.rstrip() if shell.output != "both" else output.strip(), result.note
        if shell.on_failure == "stderr":
            return output.strip() + (f"\n[stderr: {stderr}]" if stderr else ""), f"exit {result.status}"
        why = stderr or (output.strip() if shell.output == "merged" else "")
        ending = f"exit {result.status}" if result.status > 0 else f"ended by signal {-result.status}"
        return self.failed(command, shell, f"{ending}: {command.text}" + (f"\n{why}" if why else ""))

    def failed(self, command: BodyCommand, shell: ShellRules, why: str) -> tuple[str, str]:
        """An error in the dialect's form."""
        if shell.on_failure == "abort":
            raise CommandFailed(
                f"a command of the skill `{self.skill.name}` failed: {why}",
                f"fix the command `{command.text}` in its SKILL.md",
                self.skill.path,
            )
        label = "command" if shell.on_failure == "stderr" else "shell"
        return f"[{label} error: {why}]", why


def _takes_arguments(part: BodyPart, when: str) -> bool:
    """Whether a part takes arguments: all of them, or any."""
    if isinstance(part, BodyCommand):
        return any(_takes_arguments(piece, when) for piece in part.pieces)
    if when == "no-argument":
        return isinstance(part, AllArguments | PositionalArgument | ArgumentSlice | NamedArgument)
    return isinstance(part, AllArguments) or (
        isinstance(part, PositionalArgument) and part.source.startswith("$ARGUMENTS")
    )


def _command_atoms(command: BodyCommand, filled: PreparedValues) -> list[CommandAtom]:
    """A command's characters and values; a placeholder without a value stays text."""
    atoms: list[CommandAtom] = []
    for piece in command.pieces:
        if isinstance(piece, str):
            atoms.extend(piece)
            continue
        if isinstance(piece, EscapedPlaceholder) or not has_value(piece, filled):
            atoms.extend(placeholder_value(piece, filled))
            continue
        value = placeholder_value(piece, filled)
        match piece:
            case AllArguments():
                atoms.append(PlaceholderValue(value, filled.words))
            case ArgumentSlice():
                atoms.append(PlaceholderValue(value, slice_words(piece, filled)))
            case PositionalArgument() | NamedArgument():
                atoms.append(PlaceholderValue(value, (value,)))
            case _:
                # A path of plain characters reads the same in any quotes, so it is written as source.
                atoms.extend(value if _safe_path.fullmatch(value) else (PlaceholderValue(value, (value,), ours=True),))
    return atoms


def _parse_command(atoms: list[CommandAtom]) -> ParsedCommand:
    """Read a command with its values; one that takes none is run as written, even if it can't be read."""
    if any(isinstance(atom, PlaceholderValue) for atom in atoms):
        return read_command(atoms)
    source = "".join(atom for atom in atoms if isinstance(atom, str))
    try:
        return read_command(atoms)._replace(source=source)
    except UnreadableCommand:
        return ParsedCommand(source, {})


def _check_values(env: dict[str, str]) -> None:
    for value in env.values():
        if "\0" in value:
            raise UnreadableCommand("an argument holds a NUL character")
        if len(value.encode("utf-8", "surrogateescape")) > MAX_VALUE_BYTES:
            raise UnreadableCommand(f"an argument has more than {MAX_VALUE_BYTES:,} bytes")
    if sum(map(len, env.values())) > 10 * MAX_VALUE_BYTES:
        raise UnreadableCommand("the arguments are too long for a command")


def _is_quiet_answer(commands: tuple[SimpleCommand, ...], quiet: frozenset[str]) -> bool:
    """Whether exit status 1 is an answer: the last command, or one joined to it by `&&` or `||`, reports 'no' by it."""
    if not quiet or not commands:
        return False
    # `grep -q x || exit 1` hangs on grep: commands that are joined are looked at from the end.
    names = list(program_names(commands))
    place = len(commands) - 1
    while True:
        name = names[place]
        if name and (name[0] in quiet or " ".join(name) in quiet):
            return True
        if not place or not commands[place - 1].joined:
            return False
        place -= 1
