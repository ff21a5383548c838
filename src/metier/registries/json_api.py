"""Ask a registry's web API: one request, one bounded JSON answer, and nothing about the user in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from ..host import http
from ..host.facts import sleep
from ..types.errors import BadRequest, HostError, Refused
from .protocol import RegistryAccess, RegistryAddress

_MAX_ANSWER_BYTES = 4_194_304
_MAX_WAIT = 5
"""Seconds that a server may ask to wait; longer ones are left to the person."""


class NotOffered(BadRequest):
    """The registry does not have it, or no longer."""


def ask_registry(
    at: RegistryAddress, path: str, query: Mapping[str, str], access: RegistryAccess, body: object = None
) -> Mapping[str, Any]:
    """The JSON object that a registry answers with.  A server that asks to wait a moment is asked once more."""
    asked = {key: value for key, value in query.items() if value}
    url = at.url.rstrip("/") + path + (f"?{urlencode(asked)}" if asked else "")
    data = None if body is None else json.dumps(body).encode()
    limits = http.FetchLimits(access.insecure, at.named, _MAX_ANSWER_BYTES, access.seconds, env=access.env)
    try:
        try:
            _, answer = http.fetch_document(url, limits, data)
        except http.BadStatus as refusal:
            if refusal.status != 429 or not 0 < refusal.wait <= _MAX_WAIT:
                raise
            sleep(refusal.wait)
            _, answer = http.fetch_document(url, limits, data)
    except http.BadStatus as error:
        raise _explain_status(at, error) from error
    except HostError as error:
        raise HostError(f"{at.name}: {error.message}", error.hint) from error
    except Refused as error:
        raise Refused(f"{at.name}: {error.message}", error.hint) from error
    try:
        tree = json.loads(answer)
    except (ValueError, RecursionError) as error:
        raise HostError(f"{at.name} did not answer with JSON: {error}", f"check the address {at.url}") from error
    if not isinstance(tree, dict):
        raise HostError(f"{at.name} gave an unknown answer", f"check the address {at.url}")
    return tree


def _explain_status(at: RegistryAddress, error: http.BadStatus) -> HostError | BadRequest | Refused:
    said = f": {error.text.splitlines()[0][:200]}" if error.text and "<" not in error.text else ""
    if error.status in (404, 410):
        return NotOffered(f"{at.name} does not have it{said}", f'run `metier search --registry={at.name} "words"`')
    if error.status == 429:
        wait = f"in {error.wait} seconds" if error.wait else "later"
        return HostError(f"{at.name} asks for fewer requests", f"try again {wait}")
    # Blocked by the registry's own moderation: its word is kept.
    if error.status in (403, 423, 451):
        return Refused(f"{at.name} refuses it{said}", "nothing was placed")
    return HostError(f"{at.name}: {error.message}{said}", error.hint)


def text_at(tree: Mapping[str, Any], *keys: str) -> str:
    """The text at a path of keys; empty if there is none."""
    value: Any = tree
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""


def table_at(tree: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """The object at a path of keys; empty if there is none."""
    value: Any = tree
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def tables_in(tree: Mapping[str, Any], key: str, most: int = 1_000) -> list[Mapping[str, Any]]:
    """The objects of a list."""
    value = tree.get(key)
    return [item for item in value[:most] if isinstance(item, dict)] if isinstance(value, list) else []
