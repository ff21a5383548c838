"""A body in another dialect: the same placeholders in its writing, and what it has no writing for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..types.dialect import Arguments, Authoring
from .markers import marked
from .template import Escaped, Forms, Named, Placeholder, Rooted, Slice, Variable, Whole, Word, pieces

_FOLDERS = ("SKILL_DIR", "CLAUDE_SKILL_DIR")


class Translated(NamedTuple):
    text: str
    losses: tuple[str, ...]
    """Sentences: what the other dialect can't say, or says otherwise."""


def translated(body: str, names: Sequence[str], old: Authoring, new: Authoring) -> Translated:
    """A body for readers of another dialect.  What can't be said stays as it was written, and is named."""
    losses: dict[str, None] = {}
    theirs = Forms(new.arguments, tuple(names), new.variables, new.rooted)
    found = list(pieces(body, Forms(old.arguments, tuple(names), old.variables, old.rooted)))
    written = []
    for at, piece in enumerate(found):
        if isinstance(piece, str | Escaped):
            plain = piece if isinstance(piece, str) else piece.source.removeprefix("\\")
            written.append(_literal(plain, theirs, losses))
            continue
        following = found[at + 1] if at + 1 < len(found) else ""
        after = following if isinstance(following, str) else following.source
        if isinstance(piece, Variable) and piece.name in _FOLDERS and not set(_FOLDERS) & set(new.variables):
            # Where the skill's folder has no name, paths are relative to it.
            written.append("." if not after.startswith("/") else "")
            if after.startswith("/") and isinstance(following, str):
                found[at + 1] = following[1:]
            continue
        written.append(_placed(piece, after[:1], new, losses))
    _commands(body, old, new, losses)
    return Translated("".join(written), tuple(losses))


def _literal(text: str, forms: Forms, losses: dict[str, None]) -> str:
    """What was plain text must not become a placeholder."""
    escape = forms.arguments is not None and forms.arguments.escape
    found = []
    for piece in pieces(text, forms):
        if isinstance(piece, str | Rooted | Escaped):
            found.append(piece if isinstance(piece, str) else piece.source)
        elif escape and not isinstance(piece, Variable):
            found.append("\\" + piece.source)
        else:
            losses[f"`{piece.source}` was plain text, and is a placeholder there"] = None
            found.append(piece.source)
    return "".join(found)


def _placed(piece: Placeholder, after: str, new: Authoring, losses: dict[str, None]) -> str:
    """A placeholder in the other dialect's writing, or as it was where there is none; `after` is what follows it."""
    arguments = new.arguments
    said = None
    match piece:
        case Rooted(_, source):
            return source
        case Variable(name, source):
            if name in new.variables:
                return source
            if name in _FOLDERS:
                said = f"${{{next(one for one in _FOLDERS if one in new.variables)}}}"
        case Whole():
            said = "$ARGUMENTS" if arguments else None
        case Word(at, _) | Named(at, _):
            named = isinstance(piece, Named) and arguments is not None and arguments.named
            said = piece.source if named else _word(at, after, arguments)
        case Slice(start, length, source):
            if arguments is not None and arguments.slices:
                said = source
            elif arguments is not None and not start and length is None:
                said = "$ARGUMENTS"
    if said is None:
        losses[f"`{piece.source}` stays as it is written: there is nothing like it there"] = None
        return piece.source
    return said


def _word(at: int, after: str, arguments: Arguments | None) -> str | None:
    if arguments is None or at < 0:
        return None
    number = at + arguments.first
    joined = after.isdigit() or (arguments.single_digit and (number > 9 or after.isalnum() or after == "_"))
    if joined:
        return f"$ARGUMENTS[{at}]" if arguments.bracketed else None
    return f"${number}"


def _commands(body: str, old: Authoring, new: Authoring, losses: dict[str, None]) -> None:
    found = list(marked(body, old.shell)) if old.shell is not None else []
    if not found or old.shell is None:
        return
    if new.shell is None:
        losses["commands in the body are not run there: the model sees them as text"] = None
        return
    if any(one.block for one in found) and not new.shell.fenced:
        losses["blocks of commands are not run there: the model sees them as text"] = None
    if old.shell.cwd != new.shell.cwd:
        where = "the skill's folder" if new.shell.cwd == "skill" else "the agent's working folder"
        losses[f"commands run in {where} there"] = None
    if old.shell.on_failure != new.shell.on_failure:
        losses["a command that fails is reported otherwise there"] = None
