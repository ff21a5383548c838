"""Translates a body to another dialect: placeholders are rewritten, and losses reported.

The body is split by the old dialect's rules and written by the new one's.  Text that was plain must stay plain, so it
is split by the new rules too, and what would now be a placeholder is escaped.  Nothing is dropped: what has no
equivalent stays as written and is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..parse.markers import find_markers
from ..types.dialect import ArgumentRules, AuthoringRules
from .template import (
    AllArguments,
    ArgumentSlice,
    EscapedPlaceholder,
    NamedArgument,
    Piece,
    Placeholder,
    PlaceholderForms,
    PositionalArgument,
    RootedPath,
    VariablePlaceholder,
    split_pieces,
    split_text,
)

_FOLDERS = ("SKILL_DIR", "CLAUDE_SKILL_DIR")


class TranslatedBody(NamedTuple):
    """A body, and what was lost in it."""

    text: str
    losses: tuple[str, ...]
    """Sentences on what the new dialect lacks or does differently."""


def translate_body(body: str, names: Sequence[str], old: AuthoringRules, new: AuthoringRules) -> TranslatedBody:
    """Write a body for another dialect; what has no equivalent stays as written and is reported."""
    losses: dict[str, None] = {}
    new_forms = PlaceholderForms(new.arguments, tuple(names), new.variables, new.rooted)
    parts = _split_source(body, PlaceholderForms(old.arguments, tuple(names), old.variables, old.rooted), old)
    written = []
    for at, piece in enumerate(parts):
        if isinstance(piece, str | EscapedPlaceholder):
            plain = piece if isinstance(piece, str) else piece.source.removeprefix("\\")
            written.append(_literal_text(plain, new_forms, losses))
            continue
        following = parts[at + 1] if at + 1 < len(parts) else ""
        after = following if isinstance(following, str) else following.source
        if isinstance(piece, VariablePlaceholder) and piece.name in _FOLDERS and not set(_FOLDERS) & set(new.variables):
            # Without a variable for the skill's folder, paths are relative to it.
            written.append("." if not after.startswith("/") else "")
            if after.startswith("/") and isinstance(following, str):
                parts[at + 1] = following[1:]
            continue
        written.append(_translate_placeholder(piece, after[:1], new, losses))
    _note_command_losses(body, old, new, losses)
    return TranslatedBody("".join(written), tuple(losses))


def _split_source(body: str, forms: PlaceholderForms, old: AuthoringRules) -> list[Piece]:
    """The pieces of a body, split as rendering does: a command has other placeholders than the text around it."""
    parts: list[Piece] = []
    last = 0
    for marker in find_markers(body, old.shell) if old.shell is not None else ():
        parts += split_text(body[last : marker.start], forms)
        parts += split_pieces(body[marker.start : marker.end], forms)
        last = marker.end
    return [*parts, *split_text(body[last:], forms)]


def _literal_text(text: str, forms: PlaceholderForms, losses: dict[str, None]) -> str:
    """Plain text that must not become a placeholder."""
    escape = forms.arguments is not None and forms.arguments.escape
    written = []
    for piece in split_pieces(text, forms):
        if isinstance(piece, str | RootedPath | EscapedPlaceholder):
            written.append(piece if isinstance(piece, str) else piece.source)
        elif escape and not isinstance(piece, VariablePlaceholder):
            written.append("\\" + piece.source)
        else:
            losses[f"`{piece.source}` was plain text and is a placeholder there"] = None
            written.append(piece.source)
    return "".join(written)


def _translate_placeholder(piece: Placeholder, after: str, new: AuthoringRules, losses: dict[str, None]) -> str:
    """A placeholder in the new dialect, or as written if it has none; `after` is the character after it."""
    arguments = new.arguments
    replacement = None
    match piece:
        case RootedPath(_, source):
            return source
        case VariablePlaceholder(name, source):
            if name in new.variables:
                return source
            if name in _FOLDERS:
                replacement = f"${{{next(folder_name for folder_name in _FOLDERS if folder_name in new.variables)}}}"
        case AllArguments():
            replacement = "$ARGUMENTS" if arguments else None
        case PositionalArgument(at, _) | NamedArgument(at, _):
            named = isinstance(piece, NamedArgument) and arguments is not None and arguments.named
            replacement = piece.source if named else _translate_position(at, after, arguments)
        case ArgumentSlice(start, length, source):
            if arguments is not None and arguments.slices:
                replacement = source
            elif arguments is not None and not start and length is None:
                replacement = "$ARGUMENTS"
    if replacement is None:
        losses[f"`{piece.source}` has no equivalent there and stays as written"] = None
        return piece.source
    return replacement


def _translate_position(at: int, after: str, arguments: ArgumentRules | None) -> str | None:
    if arguments is None or at < 0:
        return None
    number = at + arguments.first
    # A digit right after `$1` would become part of the number; and where `$1` must stand alone, it may not here.
    joined = (
        arguments.alone
        or after.isdigit()
        or (arguments.single_digit and (number > 9 or after.isalnum() or after == "_"))
    )
    if joined or arguments.alone:
        return f"$ARGUMENTS[{at}]" if arguments.bracketed else None
    return f"${number}"


def _note_command_losses(body: str, old: AuthoringRules, new: AuthoringRules, losses: dict[str, None]) -> None:
    markers = list(find_markers(body, old.shell)) if old.shell is not None else []
    if not markers or old.shell is None:
        return
    if new.shell is None:
        losses["commands in the body are not run there; the model sees them as text"] = None
        return
    if any(marker.block for marker in markers) and not new.shell.fenced:
        losses["command blocks are not run there; the model sees them as text"] = None
    if old.shell.cwd != new.shell.cwd:
        where = "the skill's folder" if new.shell.cwd == "skill" else "the agent's working folder"
        losses[f"commands run in {where} there"] = None
    if old.shell.on_failure != new.shell.on_failure:
        losses["a failing command is reported differently there"] = None
