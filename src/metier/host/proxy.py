"""Which proxy a request goes through, as `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` say."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from ..types.errors import BadRequest


class Proxy(NamedTuple):
    host: str
    port: int
    secret: str = ""
    """`user:password` for the proxy itself."""

    @property
    def headers(self) -> dict[str, str]:
        return {"Proxy-Authorization": "Basic " + b64encode(self.secret.encode()).decode()} if self.secret else {}


def proxy_for(scheme: str, host: str, port: int, env: Mapping[str, str]) -> Proxy | None:
    """The proxy to ask; None where the host is asked itself."""
    said = _said(f"{scheme}_proxy", env) or _said("all_proxy", env)
    if not said or _is_excepted(host, port, _said("no_proxy", env)):
        return None
    try:
        parts = urlsplit(said if "://" in said else f"http://{said}")
        name, number = parts.hostname, parts.port or 80
    except ValueError:
        name = None
    if not name or parts.scheme != "http":  # its address is not shown: there may be a password in it
        raise BadRequest(f"the proxy for {scheme} can't be used", "set it to http://host:port, or unset it")
    user = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    return Proxy(name, number, user if parts.username else "")


def _said(name: str, env: Mapping[str, str]) -> str:
    """Written small or large; small counts first."""
    return (env.get(name) or env.get(name.upper()) or "").strip()


def _is_excepted(host: str, port: int, said: str) -> bool:
    """`NO_PROXY`: names with all beneath them, each perhaps with a port; `*` for every host."""
    host = host.lower().strip("[]").rstrip(".")
    for one in said.lower().split(","):
        name, colon, number = one.strip().rpartition(":") if one.count(":") == 1 else (one.strip(), "", "")
        if colon and number != str(port):
            continue
        name = name.strip("[]").lstrip("*").lstrip(".")
        if one.strip() == "*" or (name and (host == name or host.endswith(f".{name}"))):
            return True
    return False
