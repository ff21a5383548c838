"""A body, split once into what stays, what is filled in and what is run; then filled, and never read again."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from ..types.activation import Activation, Call, Insert, InsertKind
from ..types.dialect import Authoring, Shell
from ..types.errors import SkillError
from ..types.running import Ran
from ..types.skill import Skill
from ..types.text import at_orders, points_of, seen
from .command import read
from .hazards import check, names_of
from .lexicon import Atom, Read, Simple, Unreadable, Value
from .markers import marked
from .places import scripts_of
from .template import (
    Escaped,
    Filling,
    Forms,
    Given,
    Named,
    Piece,
    Placeholder,
    Rooted,
    Slice,
    Variable,
    Whole,
    Word,
    filling,
    is_there,
    pieces,
    value_of,
    words_at,
)


class Command(NamedTuple):
    """A command of the author's, with its placeholders."""

    source: str
    """All of the marker, as it stands in the body."""
    text: str
    pieces: tuple[Piece, ...]


Part: TypeAlias = Piece | Command

Run: TypeAlias = Callable[[str, dict[str, str], Shell, float], Ran]
"""Runs a script with an environment for its arguments, for at most so many seconds."""

Off: TypeAlias = Literal["", "untrusted", "off", "preview"]
_OFF_NOTES = {
    "untrusted": "[command not run: this skill is not trusted]",
    "off": "[command not run: commands in skills are switched off]",
}
_safe = re.compile(r"[A-Za-z0-9_./@%+:,-]+")
"""A path that says the same to a shell in any quotes, and in none."""
LONGEST_VALUE = 100_000
"""Bytes of an argument that may reach a command; a system passes no more than some of them."""


class CommandFailed(SkillError):
    """A command in a body failed, in a dialect where that ends the activation."""


@dataclass(frozen=True)
class Terms:
    """How a body is rendered here."""

    run: Run | None = None
    """None: nothing in this place runs commands."""
    off: Off = ""
    variables: dict[str, str] = field(default_factory=dict)
    folders: frozenset[str] = frozenset()
    """The folders that the skill's own folder holds."""
    has: Callable[[str], bool] = lambda path: False
    """Whether the skill's own folder has a file of that path."""
    clock: Callable[[], float] = lambda: 0.0
    """Seconds, from anywhere: all commands of a body share a budget of twice what one may take."""


def render(skill: Skill, body: str, call: Call, terms: Terms) -> Activation:
    """What the model will be told: the body with its arguments, variables and commands replaced."""
    authoring = skill.origin.dialect.authoring
    rooted = tuple(name for name in authoring.rooted if name in terms.folders)
    found = parts(body, Forms(authoring.arguments, skill.arguments, authoring.variables, rooted), authoring.shell)
    given = Given(call.arguments, skill.arguments, terms.variables, skill.directory)
    filled = filling(given, authoring.arguments)
    writer = _Writer(skill, call, terms, filled)
    plain = body.isascii()
    for part in found:
        if isinstance(part, str):
            (writer.write if plain else writer.keep)(part)
        elif isinstance(part, Command):
            writer.insert("command", part.source, *writer.command(part))
        else:
            writer.insert(_KINDS.get(type(part), "argument"), part.source, writer.value(part))
    writer.append_unused(found, authoring)
    return Activation(skill, call, "".join(writer.out), tuple(writer.inserts))


@lru_cache(maxsize=64)
def parts(body: str, forms: Forms, shell: Shell | None) -> tuple[Part, ...]:
    """The author's text, split once."""
    found: list[Part] = []
    last = 0
    for one in marked(body, shell) if shell is not None else ():
        found.extend(pieces(body[last : one.start], forms))
        found.append(Command(body[one.start : one.end], one.command.strip(), pieces(one.command, forms)))
        last = one.end
    found.extend(pieces(body[last:] if last else body, forms))
    return tuple(found)


_KINDS: dict[type, InsertKind] = {Variable: "variable", Rooted: "path", Escaped: "escape"}


class _Writer:
    """What has been written so far, and what it was made of."""

    def __init__(self, skill: Skill, call: Call, terms: Terms, filled: Filling) -> None:
        self.skill, self.call, self.terms, self.filled = skill, call, terms, filled
        self.out: list[str] = []
        self.inserts: list[Insert] = []
        self.values: dict[Placeholder, str] = {}
        self.length = 0
        self.begun = terms.clock()

    def write(self, text: str) -> None:
        self.out.append(text)
        self.length += len(text)

    def keep(self, text: str) -> None:
        """The author's own text, without what nobody can see."""
        for stays, goes in at_orders(text):
            self.write(stays)
            if goes:
                self.inserts.append(Insert("removed", goes, "", self.length, f"hidden characters {points_of(goes)}"))

    def value(self, part: Placeholder) -> str:
        """What a placeholder becomes; most stand in a body more than once."""
        known = self.values.get(part)
        if known is None:
            known = self.values[part] = value_of(part, self.filled)
        return known

    def insert(self, kind: InsertKind, source: str, value: str, note: str = "") -> None:
        self.inserts.append(Insert(kind, source, value, self.length, note))
        self.write(value)

    def append_unused(self, found: tuple[Part, ...], authoring: Authoring) -> None:
        """Arguments that the body has no place for, where the dialect puts them after it."""
        typed = self.call.typed
        if not authoring.unused or not typed:
            return
        if authoring.unused_when != "always" and any(_takes(part, authoring.unused_when) for part in found):
            return
        self.insert("appended", "", f"\n\n{authoring.unused}{typed}" if self.length else f"{authoring.unused}{typed}")

    def command(self, command: Command) -> tuple[str, str]:
        """What stands in a command's place, and a note when it is not its output."""
        shell = self.skill.origin.dialect.authoring.shell
        assert shell is not None
        off = self.terms.off or ("off" if self.terms.run is None else "")
        if off or self.terms.run is None:
            return (_OFF_NOTES[off], off) if off in _OFF_NOTES else (f"[the output of: {command.text}]", "")
        left = 2 * shell.seconds - (self.terms.clock() - self.begun)
        if left <= 0:
            return self.failed(command, shell, "the time for all commands of this skill is used up")
        try:
            found = _read(_atoms(command, self.filled))
            _check_values(found.env)
            check(found, self.call.by == "user")
            self.check_scripts(found, shell)
        except Unreadable as reason:
            return self.failed(command, shell, f"not run: {reason}")
        ran = self.terms.run(found.source, found.env, shell, min(shell.seconds, left))
        return self.ended(command, shell, ran, found)

    def check_scripts(self, found: Read, shell: Shell) -> None:
        """A script that the skill has is not looked for in the project, where another may have its name."""
        if shell.cwd == "skill" or self.call.cwd == self.skill.directory:
            return
        for path in scripts_of(found):
            if self.terms.has(path):
                raise Unreadable(
                    f"`{path}` would be a file of the project; write `${{SKILL_DIR}}/{path}` for the skill's own"
                )

    def ended(self, command: Command, shell: Shell, ran: Ran, found: Read) -> tuple[str, str]:
        output, stderr = seen(ran.stdout), seen(ran.stderr).strip()
        if ran.timed_out:
            if shell.on_failure == "stderr":
                return f"[command timed out: {command.text}]", "timed out"
            return self.failed(command, shell, f"timed out: {command.text}")
        if ran.status is None:
            return self.failed(command, shell, ran.note or "it could not be started")
        if ran.status == 0 or (ran.status == 1 and _answers(found.commands, shell.quiet)):
            return output.rstrip() if shell.output != "both" else output.strip(), ran.note
        if shell.on_failure == "stderr":
            return output.strip() + (f"\n[stderr: {stderr}]" if stderr else ""), f"exit {ran.status}"
        why = stderr or (output.strip() if shell.output == "merged" else "")
        ending = f"exit {ran.status}" if ran.status > 0 else f"ended by signal {-ran.status}"
        return self.failed(command, shell, f"{ending}: {command.text}" + (f"\n{why}" if why else ""))

    def failed(self, command: Command, shell: Shell, why: str) -> tuple[str, str]:
        """The dialect's own form of an error."""
        if shell.on_failure == "abort":
            raise CommandFailed(
                f"a command of the skill `{self.skill.name}` failed: {why}",
                f"mend the command `{command.text}` in its SKILL.md",
                self.skill.path,
            )
        word = "command" if shell.on_failure == "stderr" else "shell"
        return f"[{word} error: {why}]", why


def _takes(part: Part, when: str) -> bool:
    """Whether a part is a place for arguments: for all of them, or for any."""
    if isinstance(part, Command):
        return any(_takes(piece, when) for piece in part.pieces)
    if when == "no-argument":
        return isinstance(part, Whole | Word | Slice | Named)
    return isinstance(part, Whole) or (isinstance(part, Word) and part.source.startswith("$ARGUMENTS"))


def _atoms(command: Command, filled: Filling) -> list[Atom]:
    """A command's characters, with a value wherever there is one to be put; what has none is text."""
    atoms: list[Atom] = []
    for piece in command.pieces:
        if isinstance(piece, str):
            atoms.extend(piece)
            continue
        if isinstance(piece, Escaped) or not is_there(piece, filled):
            atoms.extend(value_of(piece, filled))
            continue
        whole = value_of(piece, filled)
        match piece:
            case Whole():
                atoms.append(Value(whole, filled.words))
            case Slice():
                atoms.append(Value(whole, words_at(piece, filled)))
            case Word() | Named():
                atoms.append(Value(whole, (whole,)))
            case _:
                atoms.extend(whole if _safe.fullmatch(whole) else (Value(whole, (whole,), ours=True),))
    return atoms


def _read(atoms: list[Atom]) -> Read:
    """A command with its values; one that takes none is run as its author wrote it, whatever it is."""
    if any(isinstance(one, Value) for one in atoms):
        return read(atoms)
    source = "".join(one for one in atoms if isinstance(one, str))
    try:
        return read(atoms)._replace(source=source)
    except Unreadable:
        return Read(source, {})


def _check_values(env: dict[str, str]) -> None:
    for value in env.values():
        if "\0" in value:
            raise Unreadable("an argument holds a NUL character")
        if len(value.encode("utf-8", "surrogateescape")) > LONGEST_VALUE:
            raise Unreadable(f"an argument has more than {LONGEST_VALUE:,} bytes")
    if sum(map(len, env.values())) > 10 * LONGEST_VALUE:
        raise Unreadable("the arguments are too long for a command")


def _answers(commands: tuple[Simple, ...], quiet: frozenset[str]) -> bool:
    """Whether exit status 1 is an answer: the last command, or one it hangs on, says no that way."""
    if not quiet or not commands:
        return False
    names = list(names_of(commands))
    place = len(commands) - 1
    while True:
        name = names[place]
        if name and (name[0] in quiet or " ".join(name) in quiet):
            return True
        if not place or not commands[place - 1].joined:
            return False
        place -= 1
