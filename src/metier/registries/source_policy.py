"""Which sources may be used: `sources.allow` and `sources.deny` of a configuration, as patterns of plain names.

A source is compared under each name it has: the place it is fetched from, written as `host/path` without scheme, user,
default port or `.git`, and the names it has in a registry.  What is denied under any of its names is refused; where
there is an allow list, one of the names must be on it.  Paths are normalised first: `github.com/acme/../evil` is
`github.com/evil` here, as it is for the server.  A host has one spelling: `ｇithub.com` and `%67ithub.com` lead to
github.com as well, so what is not plain ASCII is refused before it is compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from ..types.errors import Refused
from ..types.installed import Provenance, SourceReference
from ..types.settings import Settings

_DEFAULT_PORTS = {"https": 443, "http": 80, "ssh": 22, "git": 9418}
_plain_host = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?\.?", re.IGNORECASE).fullmatch
_numeric_end = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)\.?", re.IGNORECASE).fullmatch
"""A host that programs take for an IPv4 address, however its parts are written."""
_scp_address = re.compile(r"(?:[^@/\s]+@)?(\[[^\]/\s]*\]|[^:/\s]+):(.+)").fullmatch
"""`git@host:path`."""


class SourceRules(NamedTuple):
    """The rules of one configuration file."""

    allow: tuple[str, ...] | None = None
    """None if every source is allowed; an empty list allows none."""
    deny: tuple[str, ...] = ()


@dataclass(frozen=True)
class SourcePolicy:
    """The rules of the user and of a trusted project: a source must pass both."""

    rules: tuple[SourceRules, ...] = ()

    def fault(self, names: Iterable[str]) -> str:
        """Why a source with these names is not allowed; empty if it is."""
        plain = [name for name in names if name]
        if denied := self.denial(plain):
            return denied
        for rules in self.rules:
            if rules.allow is not None and not any(
                _matches(pattern, name) for pattern in rules.allow for name in plain
            ):
                return "it is not in `sources.allow`"
        return ""

    def denial(self, names: Iterable[str]) -> str:
        """The rule that denies a source with these names; empty if there is none."""
        for pattern in (pattern for rules in self.rules for pattern in rules.deny):
            if any(_matches(pattern, name) for name in names):
                return f"`sources.deny` has `{pattern}`"
        return ""

    def check(self, names: Sequence[str]) -> None:
        """Refuse a source that is not allowed."""
        if fault := self.fault(names):
            raise Refused(
                f"{names[0]} is not an allowed source: {fault}",
                "choose another source, or change `sources` in the configuration",
            )


ANY_SOURCE = SourcePolicy()


def policy_from(settings: Settings) -> SourcePolicy:
    """The policy of a configuration.  A project adds rules to the user's; it lifts none."""
    own = settings.own_tree if settings.project_tree else settings.tree
    rules = [_read_rules(tree.get("sources")) for tree in (own, settings.project_tree)]
    return SourcePolicy(tuple(rule for rule in rules if rule != SourceRules()))


def _read_rules(table: object) -> SourceRules:
    if not isinstance(table, Mapping):
        return SourceRules()
    allow, deny = table.get("allow"), table.get("deny")
    return SourceRules(
        tuple(map(str, allow)) if isinstance(allow, list) else None,
        tuple(map(str, deny)) if isinstance(deny, list) else (),
    )


def _matches(pattern: str, name: str) -> bool:
    """Whether a pattern means a name: the same, above it, or by `*`, which may stand for several segments."""
    wanted = plain_name(pattern) if "://" in pattern else _drop_suffixes(pattern.strip().lower().rstrip("/"))
    wanted = _encode_host(wanted)
    return name == wanted or name.startswith(wanted + "/") or re.fullmatch(translate(wanted), name) is not None


def _encode_host(wanted: str) -> str:
    """A pattern with its host as addresses must have it: a rule for `bücher.example` means `xn--bcher-kva.example`."""
    host, slash, path = wanted.partition("/")
    if host.isascii():
        return wanted
    try:
        return host.encode("idna").decode() + slash + path
    except UnicodeError:
        return wanted


def check_host_spelling(url: str) -> None:
    """Refuse an address whose host can be read as another one than it is compared as."""
    text = url.strip()
    if "://" not in text:
        scp = None if text.startswith(("/", ".", "~")) else _scp_address(text)
        if scp is None:
            return
        host, authority = scp[1].strip("[]"), text.partition(":")[0]
    else:
        parts = urlsplit(text)
        if parts.scheme.lower() == "file":
            return
        host, authority = parts.hostname or "", parts.netloc
    # Programs differ in where a `\\` ends the host, and in what they make of `%`.
    if "\\" in authority or "%" in host or not (_is_address(host) if ":" in host else _plain_host(host)):
        raise Refused(
            f"the host `{host[:100]}` is not written plainly",
            "write it in ASCII, without `%`; a name in another script begins with xn--",
        )
    if _numeric_end(host) and not _is_address(host):
        raise Refused(f"the host `{host[:100]}` is not a plain address", "write it as four numbers: 192.0.2.1")


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def source_names(source: SourceReference | Provenance) -> tuple[str, ...]:
    """The names that a source has, in the form that patterns are written in."""
    if source.kind == "registry":
        registered = source.spec if isinstance(source, SourceReference) else source.source
        names = [registry_name(registered)]
        if isinstance(source, Provenance) and source.origin:
            names.append(source.origin)
        return tuple(names)
    url = source.url if isinstance(source, SourceReference) else source.source
    return (plain_name(url, source.path if source.kind in ("github", "git") else ""),)


def registry_name(text: str) -> str:
    """`clawhub:@Acme/pdf@1.2` as `clawhub:acme/pdf`."""
    prefix, _, body = text.partition(":")
    return f"{prefix}:{body.lstrip('@').partition('@')[0]}".lower()


def plain_name(url: str, path: str = "") -> str:
    """`https://user@GitHub.com:443/acme/skills.git` and `pdf` as `github.com/acme/skills/pdf`."""
    text = url.strip()
    if "://" not in text:
        scp = _scp_address(text)
        if scp is None or text.startswith(("/", ".", "~")):
            return "/".join(filter(None, (_normal_path(text), path))).lower()
        host, inner = _plain_address(scp[1].strip("[]")), scp[2]
    else:
        parts = urlsplit(text)
        host = _plain_address((parts.hostname or "").rstrip("."))
        if parts.port not in (None, _DEFAULT_PORTS.get(parts.scheme.lower())):
            host = f"{host}:{parts.port}"
        inner = parts.path
    inner = _drop_suffixes(_normal_path("/" + unquote(inner).strip("/")))
    return "/".join(filter(None, (host.rstrip("."), inner.strip("/"), path.strip("/")))).lower()


def _plain_address(host: str) -> str:
    """An address in its shortest form, and `::ffff:192.0.2.1` as the address that it leads to; a name as it is."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    return str(address.ipv4_mapped or address if isinstance(address, IPv6Address) else address)


def _drop_suffixes(path: str) -> str:
    """A path without the `.git` that a repository may have or not, wherever it stands."""
    return "/".join(part.removesuffix(".git") or part for part in path.split("/"))


def _normal_path(path: str) -> str:
    """A path without `.` and `..`: servers and file systems resolve them too."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part not in ("", ".", ".."):
            parts.append(part)
    return ("/" if path.startswith("/") else "") + "/".join(parts)
