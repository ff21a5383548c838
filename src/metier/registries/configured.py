"""The registries of a configuration: which there are, what their prefixes mean, and what is wrong with an unknown one.

`registries` lists names of known ones and tables of one's own; without it the known ones are used, and `[]` is none.
A kind is also a prefix with the address in the source: `tap:acme/skills#pdf`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from ..types.errors import BadRequest
from ..types.settings import Setting, Settings
from .clawhub import ClawHubRegistry
from .listings import FolderRegistry, SiteRegistry, TapRegistry
from .marketplace import MarketplaceRegistry
from .protocol import Registry, RegistryAccess, RegistryAddress
from .skills_sh import SkillsShRegistry

KNOWN_REGISTRIES = (
    RegistryAddress("clawhub", "clawhub", "https://clawhub.ai"),
    RegistryAddress("skills.sh", "skills.sh", "https://skills.sh"),
)
_KINDS: Mapping[str, type[Registry]] = {
    "clawhub": ClawHubRegistry,
    "skills.sh": SkillsShRegistry,
    "marketplace": MarketplaceRegistry,
    "tap": TapRegistry,
    "folder": FolderRegistry,
    "site": SiteRegistry,
}
_ADDRESSED_KINDS = ("marketplace", "tap", "folder", "site")
"""Kinds without an address of their own: a source may bring one, before a `#`."""


class RegistrySet:
    """The registries that may be asked, in order."""

    def __init__(self, addresses: Iterable[RegistryAddress], access: RegistryAccess) -> None:
        self.addresses = {at.name: at for at in addresses}
        self.access = access

    @classmethod
    def from_settings(cls, settings: Settings, access: RegistryAccess) -> RegistrySet:
        return cls(configured_addresses(settings.own("registries")), access)

    @property
    def names(self) -> list[str]:
        """The prefixes that a source may have."""
        # `[]` switches all off: then a source may not bring its own either.
        return [*self.addresses, *(kind for kind in _ADDRESSED_KINDS if kind not in self.addresses and self.addresses)]

    def open(self, name: str) -> Registry:
        """The registry of that name."""
        if name not in self.addresses:
            raise unknown_registry(name, list(self.addresses))
        return make_registry(self.addresses[name], self.access)

    def find(self, prefix: str, body: str) -> tuple[Registry, str, str]:
        """The registry for a prefix, and the name and version that the rest of the source means."""
        name, version = _split_version(body)
        if prefix in self.addresses:
            return self.open(prefix), name, version
        if prefix not in self.names:
            raise unknown_registry(prefix, self.names)
        address, hash_sign, inner = body.rpartition("#")
        if not hash_sign or not address:
            raise BadRequest(
                f"`{prefix}:{body}` names no skill", f"write {prefix}:ADDRESS#NAME, or configure a registry"
            )
        name, version = _split_version(inner)
        at = RegistryAddress(f"{prefix}:{address}#", prefix, address, named=True)
        return make_registry(at, self.access), name, version


def _split_version(body: str) -> tuple[str, str]:
    """`owner/slug@1.2` as its two halves; an `@` before the owner is no version."""
    name, at, version = body[1:].rpartition("@") if body else ("", "", "")
    return (body[0] + name, version) if at else (body, "")


def make_registry(at: RegistryAddress, access: RegistryAccess) -> Registry:
    registry: Registry = _KINDS[at.kind](at, access)  # type: ignore[call-arg]
    return registry


def unknown_registry(name: str, known: Sequence[str]) -> BadRequest:
    """An error that lists the registries there are."""
    near = get_close_matches(name, known, 1, 0.6)
    listed = f"known: {', '.join(known)}" if known else "`registries` is empty in the configuration"
    hint = f"did you mean `{near[0]}`? {listed}" if near else listed
    return BadRequest(f"no registry named `{name[:80]}`", hint)


def configured_addresses(value: Setting) -> list[RegistryAddress]:
    """The registries that a configuration lists; the known ones if it says nothing."""
    if not isinstance(value, list):
        return list(KNOWN_REGISTRIES)
    known = {at.name: at for at in KNOWN_REGISTRIES}
    found = []
    for entry in value:
        if isinstance(entry, str) and entry in known:
            found.append(known[entry])
        elif isinstance(entry, Mapping):
            found.append(_read_address(entry, known))
        else:
            raise BadRequest(
                f"`registries` has `{str(entry)[:80]}`, which metier does not know",
                f"use {', '.join(known)}, or a table with `name`, `kind` and `url`",
            )
    return found


def _read_address(table: Mapping[str, Setting], known: Mapping[str, RegistryAddress]) -> RegistryAddress:
    texts = {key: value for key, value in table.items() if isinstance(value, str)}
    name = texts.get("name", "")
    default = known.get(name)
    kind = texts.get("kind", default.kind if default else "")
    if not name or kind not in _KINDS:
        raise BadRequest(
            f"the registry `{name or '?'}` has no known kind", f"set `kind` to one of: {', '.join(_KINDS)}"
        )
    known_url = next((at.url for at in known.values() if at.kind == kind), "")
    url = texts.get("url", "") or known_url
    if not url:
        raise BadRequest(f"the registry `{name}` has no address", "set its `url`")
    return RegistryAddress(name, kind, url, "url" in texts, texts.get("path", ""), texts.get("git", "").rstrip("/"))
