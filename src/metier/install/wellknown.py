"""`.well-known/agent-skills`: skills that a web site offers, each checked against the digest in its index."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

from ..host import http
from ..host.inner import inner_path
from ..host.writing import filling, pieces_of
from ..types.errors import BadRequest, HostError, Refused
from ..types.installed import Provenance, Reference
from ..types.problem import Mark
from .names import name_fault
from .outfit import Fetched, Outfit, opened

SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
_INDEX = "/.well-known/agent-skills/index.json"
_OLD_INDEX = "/.well-known/skills/index.json"
_MOST_INDEX = 4_194_304
_MOST_SKILLS = 500


def from_index(wanted: Reference, room: Callable[[], str], outfit: Outfit) -> tuple[Fetched, ...]:
    """Every skill of an index; what it does not describe rightly is left out, and named."""
    reach = http.Reach(outfit.insecure, True, _MOST_INDEX, 60.0, wanted.secret, outfit.env)
    where, tree = _index(wanted.url, reach)
    skills = tree.get("skills")
    if not isinstance(skills, list) or not skills:
        raise BadRequest(f"{where} lists no skills", "check the address")
    if len(skills) > _MOST_SKILLS:
        raise Refused(f"{where} lists more than {_MOST_SKILLS} skills", "nothing was fetched")
    old = "$schema" not in tree
    found: list[Fetched] = []
    odd: list[tuple[str, Mark]] = []
    for one in skills:
        name = one.get("name") if isinstance(one, dict) else None
        kind = "skill-md" if old else one.get("type") if isinstance(one, dict) else None
        if not isinstance(name, str) or name_fault(name) or kind not in ("skill-md", "archive"):
            odd.append(
                (str(name)[:80], Mark("left-out", 0, (str(name)[:80], "not described in a way that metier knows")))
            )
            continue
        found.append((_by_files if old else _by_digest)(name, one, where, room, outfit))
    if not found:
        raise BadRequest(f"{where} lists no skill that metier can take", "ask whoever keeps the site")
    found[0] = found[0]._replace(notes=tuple(odd))
    return tuple(found)


def _index(url: str, reach: http.Reach) -> tuple[str, Mapping[str, Any]]:
    parts = urlsplit(url)
    named = "/.well-known/" in parts.path and parts.path.endswith(".json")
    places = [url] if named else [urljoin(url, _INDEX), urljoin(url, _OLD_INDEX)]
    for number, place in enumerate(places):
        try:
            where, data = http.read(place, reach)
        except HostError:
            if number + 1 < len(places):
                continue
            raise
        try:
            tree = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"{where} is not JSON: {error}", "check the address") from error
        if not isinstance(tree, dict):
            raise BadRequest(f"{where} is not an index of skills", "check the address")
        if tree.get("$schema", SCHEMA) != SCHEMA:
            raise Refused(f"{where} is an index of a kind that metier does not know", "a newer metier may read it")
        return where, tree
    raise BadRequest(f"{url} has no index of skills", "check the address")


def _by_digest(name: str, one: Mapping[str, Any], where: str, room: Callable[[], str], outfit: Outfit) -> Fetched:
    url, digest = urljoin(where, str(one.get("url", ""))), str(one.get("digest", ""))
    file = f"{room()}/fetched"
    same = urlsplit(url).hostname == urlsplit(where).hostname
    reach = http.Reach(outfit.insecure, same, outfit.bounds.archive, env=outfit.env)
    got = http.download(url, file, reach, outfit.progress)
    if got.digest != digest:
        raise Refused(f"`{name}` is not what the index says: {got.digest}, not {digest[:80]}", "nothing was placed")
    target = room()
    if one["type"] == "skill-md":
        with filling(target) as into:
            into.put("SKILL.md", pieces_of(file, got.size), False)
    else:
        target, _ = opened(file, target, name, outfit)
    return Fetched(target, name, Provenance("index", where, name, digest=digest))


def _by_files(name: str, one: Mapping[str, Any], where: str, room: Callable[[], str], outfit: Outfit) -> Fetched:
    """The first form of the index: a list of files, without digests."""
    target = room()
    with filling(target) as into:
        for path in _listed(one):
            url = urljoin(where, f"{name}/{path}")
            file = f"{room()}/fetched"
            reach = http.Reach(outfit.insecure, True, outfit.bounds.one, env=outfit.env)
            got = http.download(url, file, reach, outfit.progress)
            into.put(inner_path(path), pieces_of(file, got.size), False)
    return Fetched(target, name, Provenance("index", where, name))


def _listed(one: Mapping[str, Any]) -> Iterator[str]:
    files = one.get("files")
    if not isinstance(files, list) or len(files) > 1_000 or not all(isinstance(path, str) for path in files):
        raise BadRequest("the index does not say which files a skill has", "ask whoever keeps the site")
    yield from files
