"""Take secrets out of text before it is shown, sent or kept.

A secret is known by its value, not by who prints it: whatever was lent to a skill is hidden as it is, and in the forms
that programs print without meaning to hide anything: base64 in all three alignments, hexadecimal, URL-encoded, quoted
for JSON or HTML, and reversed.  Tokens whose shape gives them away are hidden too, although nobody lent them.

Text is searched in views of it: as it stands, with URL escapes decoded, and without the white space that `base64` and
`xxd` break lines with.  Looking for a value in a view is `str.find`, so the work grows with the text and never faster.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from html import escape
from json import dumps
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote

HIDDEN = "[hidden]"
_T = TypeVar("_T")

# --- What is a secret ---

_SHORTEST = 6
"""Shorter values occur in ordinary text: hiding `1` or `prod` would garble everything and protect nothing."""
_is_secret_word = re.compile(
    r".*(?:KEY|TOKEN|SECRET|PASS|PASSWORD|PASSWD|PWD|PASSPHRASE|CREDENTIAL)S?"
    r"|PATS?|CREDS?|AUTH|BEARER|COOKIES?|DSN|WEBHOOK|SALT|OTP|JWT|SIGNATURE|PRIVATE"
).fullmatch
_words = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+").findall
_is_common = re.compile(
    r"defaults?|disabled?|enabled?|hidden|example|changeme|passwords?|username|localhost|production|development"
    r"|staging|testing|sandbox|preview|release|stable|latest|nightly|unknown|warnings?|verbose|utf-8|public|private"
).fullmatch
_is_ordinary = re.compile(
    r"[\d.,:_+-]{1,8}"  # a port, a date, a version
    r"|(?:[a-z]{2,3}(?:_[A-Z]{2})?|C|POSIX)(?:\.[A-Za-z0-9-]{1,12})?(?:@\w{1,12})?"  # a locale
    r"|(?:Africa|America|Antarctica|Asia|Atlantic|Australia|Europe|Indian|Pacific|Etc)/[\w/+-]{1,40}"  # a time zone
    r"|https?://[\w.-]{1,255}(?::\d{1,5})?/?"  # where a service is, and nothing that opens it
).fullmatch
_userinfo = re.compile(r"://([^\s/@:?#]{0,256}):([^\s/]{1,1024})@").finditer
_is_placeholder = re.compile(r"[$<{\[]|[*x.…]+\Z|%[a-z]\Z", re.IGNORECASE).match
"""What stands for a password in documentation."""


def is_secret_name(name: str) -> bool:
    """Whether a variable's name says that its value is a secret: one of its words does, wherever it stands."""
    return any(_is_secret_word(word.upper()) for word in _words(name))


def is_ordinary_value(value: str) -> bool:
    """Whether a value says too little to be a secret, and stands in too much ordinary text to be hidden."""
    text = value.strip()
    return len(text) < _SHORTEST or bool(_is_common(text.lower()) or _is_ordinary(text)) or text in HIDDEN


def url_secrets(value: str) -> Iterator[str]:
    """The passwords of the URLs in a value, as they stand there and as the server gets them."""
    for match in _userinfo(value) if "://" in value else ():
        yield from dict.fromkeys((match[2], unquote(match[2])))


# --- Forms and views ---

_SQUEEZED = re.compile(r"\s+|\\[nrt]")
"""What `base64` and formatters put between pieces: line ends and blanks, also as JSON writes them."""
_UNSEPARATED = re.compile(r"\\x|0[xX]|[\s:,;-]+")
"""What stands between the digits of a hex dump."""
_PERCENT = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_Unit = tuple[str, int]
"""A character of a view, and how many characters of the text it stands for."""


class _View(NamedTuple):
    """The text in another spelling: what a pattern matches is replaced by its units."""

    pattern: re.Pattern[str]
    units: Callable[[str], list[_Unit]] | None = None
    """None where what matches is left out."""

    def of(self, text: str) -> str:
        if self.units is None:
            return self.pattern.sub("", text)
        units = self.units
        return self.pattern.sub(lambda match: "".join(unit for unit, _ in units(match[0])), text)

    def places(self, text: str) -> list[tuple[int, int]]:
        """Where each character of the view stands in the text."""
        places: list[tuple[int, int]] = []
        last = 0
        for match in self.pattern.finditer(text):
            places += [(at, at + 1) for at in range(last, match.start())]
            at = match.start()
            for _, size in self.units(match[0]) if self.units else ():
                places.append((at, at + size))
                at += size
            last = match.end()
        return [*places, *((at, at + 1) for at in range(last, len(text)))]


def _decoded_units(run: str) -> list[_Unit]:
    decoded = bytes.fromhex(run.replace("%", "")).decode("utf-8", "surrogateescape")
    return [(letter, 3 * len(letter.encode("utf-8", "surrogateescape"))) for letter in decoded]


_decoded = _View(_PERCENT, _decoded_units)
_squeezed = _View(_SQUEEZED)
_unseparated = _View(_UNSEPARATED)


def _plain_forms(value: str) -> Iterator[str]:
    """A value as it is, quoted, and reversed."""
    quoted = (dumps(value)[1:-1], dumps(value, ensure_ascii=False)[1:-1], escape(value), escape(value, quote=False))
    yield from (value, value[::-1], *quoted, value.replace(" ", "+"), value.replace("'", "'\\''"))
    # A key of several lines is printed line by line; its first and last line are the same in every key.
    yield from (line for line in value.splitlines() if len(line) >= 16 and not line.startswith("-----"))


def _base64_forms(value: str) -> Iterator[str]:
    """The part of its base64 that is the same whatever stands before and behind it, for each of the alignments."""
    data = _as_bytes(value)
    for before in range(3):
        first, last = -(-before * 8 // 6), (before + len(data)) * 8 // 6
        form = b64encode(b"\0" * before + data).decode()[first:last]
        yield from dict.fromkeys((form, form.replace("+", "-").replace("/", "_")))


def _hex_forms(value: str) -> Iterator[str]:
    digits = _as_bytes(value).hex()
    yield from (digits, digits.upper())


def _as_bytes(value: str) -> bytes:
    """As a program gets it in its environment; what no environment can hold is replaced."""
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return value.encode("utf-8", "replace")


def _find_all(needle: str, text: str) -> Iterator[tuple[int, int]]:
    at = text.find(needle)
    while at >= 0:
        yield at, at + len(needle)
        at = text.find(needle, at + len(needle))


# --- Shapes ---


class _Shape(NamedTuple):
    hints: tuple[str, ...]
    """One of these is in every token of this shape: looking for them first is quick."""
    search: re.Pattern[str]


# Possessive quantifiers and a boundary in front: no text makes one of these try a place twice.
_SHAPES = tuple(
    _Shape(tuple(hints.split()), re.compile(rf"(?<![A-Za-z0-9]){pattern}"))
    for hints, pattern in (
        ("ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{30,255}+"),
        ("github_pat_", r"github_pat_[A-Za-z0-9_]{22,255}+"),
        ("glpat-", r"glpat-[\w-]{20,255}+"),
        ("sk-", r"sk-(?:(?:ant|proj|svcacct|admin|or)-[\w-]{20,255}+|[A-Za-z0-9]{32,255}+)"),
        ("sk_ rk_", r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,255}+"),
        ("xox", r"xox[abeoprs]-[\w-]{10,255}+"),
        ("xapp-", r"xapp-[\w-]{20,255}+"),
        ("hooks.slack.com/", r"hooks\.slack\.com/(?:services|workflows)/[\w/-]{20,255}+"),
        ("discord", r"discord(?:app)?\.com/api/webhooks/\d{10,30}+/[\w-]{30,255}+"),
        ("AKIA ASIA", r"(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Za-z])"),
        ("AIza", r"AIza[\w-]{35}(?![\w-])"),
        ("ya29.", r"ya29\.[\w-]{20,512}+"),
        ("npm_", r"npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
        ("pypi-AgE", r"pypi-AgE[\w-]{40,1024}+"),
        ("hf_", r"hf_[A-Za-z0-9]{30,100}+"),
        ("SG.", r"SG\.[\w-]{16,64}+\.[\w-]{16,64}+"),
        ("dop_v1_ doo_v1_", r"do[op]_v1_[0-9a-f]{40,128}+"),
        ("AGE-SECRET-KEY-", r"AGE-SECRET-KEY-1[0-9A-Z]{50,70}+"),
        ("eyJ", r"eyJ[\w-]{8,2048}+\.eyJ[\w-]{8,4096}+\.[\w-]{16,1024}+"),
    )
)
_KEY_BEGINS = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")


def _shaped_spans(text: str) -> Iterator[tuple[int, int]]:
    for shape in _SHAPES:
        if any(hint in text for hint in shape.hints):
            yield from (match.span() for match in shape.search.finditer(text))
    for match in _userinfo(text) if "://" in text else ():
        if not _is_common(match[2].lower()) and not _is_placeholder(match[2]):
            yield match.span(2)
    yield from _key_spans(text)


def _key_spans(text: str) -> Iterator[tuple[int, int]]:
    """Private keys between their first and last line; one without an end was cut off, and is hidden to the end."""
    at = 0
    while match := _KEY_BEGINS.search(text, at) if "PRIVATE KEY" in text else None:
        end = text.find("-----END", match.end())
        yield match.end(), end if end >= 0 else len(text)
        if end < 0:
            return
        at = end


# --- Hiding ---


class Redactor:
    """Replaces known secrets, and tokens of known shapes, in a text.  It can learn more values, and forgets none."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: dict[str, None] = {}
        self._forms: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]] = ((), (), ())
        self.learn(values)

    def learn(self, values: Iterable[str]) -> None:
        """Hide these values too, from now on."""
        known = self._values | {value: None for value in values if not is_ordinary_value(value)}
        # White space around a value is not part of what opens anything, and programs strip it.
        known |= {stripped: None for value in known if not is_ordinary_value(stripped := value.strip())}
        if known.keys() == self._values.keys():
            return
        self._values = known
        self._forms = tuple(  # type: ignore[assignment]  # one for each of the three
            tuple(dict.fromkeys(form for value in known for form in forms(value) if len(form) >= _SHORTEST))
            for forms in (_plain_forms, _base64_forms, _hex_forms)
        )

    def __call__(self, text: str) -> str:
        # What stands around a secret may complete another one with the mark that replaced it.
        for _ in range(4):
            spans = sorted(self._spans(text))
            if not spans:
                break
            text = _replace_spans(text, spans)
        return text

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        if len(text) < _SHORTEST:
            return
        yield from _shaped_spans(text)
        if not self._values:
            return
        yield from self._spans_in(text)
        if "%" in text and (decoded := _decoded.of(text)) != text:
            found = list(self._spans_in(decoded))
            places = _decoded.places(text) if found else []
            yield from ((places[start][0], places[end - 1][1]) for start, end in found)

    def _spans_in(self, text: str) -> Iterator[tuple[int, int]]:
        plain, encoded, digits = self._forms
        yield from (span for form in plain if form in text for span in _find_all(form, text))
        for view, forms in ((_squeezed, encoded), (_unseparated, digits)):
            seen = view.of(text)
            found = [span for form in forms if form in seen for span in _find_all(form, seen)]
            places = view.places(text) if found else []
            yield from ((places[start][0], places[end - 1][1]) for start, end in found)


def _replace_spans(text: str, spans: list[tuple[int, int]]) -> str:
    parts: list[str] = []
    last, reached = 0, -1
    for start, end in spans:
        if start > reached:  # touching spans are one secret, or two that stand side by side
            parts += [text[last:start], HIDDEN]
        reached = last = max(reached, end)
    return "".join((*parts, text[last:]))


def hide_strings(value: _T, hide: Callable[[str], str]) -> _T:
    """A value with every text in it hidden: events, calls, trees.  The same object where there was nothing to hide."""
    return _hide_inside(value, hide)  # type: ignore[no-any-return]  # it has the type that went in


def _hide_inside(value: Any, hide: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        hidden = hide(value)
        return hidden if hidden != value else value
    if is_dataclass(value) and not isinstance(value, type):
        before = {field.name: getattr(value, field.name) for field in fields(value)}
        changes = {name: inner for name, old in before.items() if (inner := _hide_inside(old, hide)) is not old}
        return replace(value, **changes) if changes else value
    if isinstance(value, tuple | list):
        items = [_hide_inside(item, hide) for item in value]
        same = all(item is old for item, old in zip(items, value, strict=True))
        return value if same else value._make(items) if hasattr(value, "_make") else type(value)(items)
    if isinstance(value, Mapping):
        pairs = {_hide_inside(key, hide): _hide_inside(item, hide) for key, item in value.items()}
        same = all(key in value and value[key] is item for key, item in pairs.items())
        return value if same and len(pairs) == len(value) else pairs
    return value
