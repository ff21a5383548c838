"""Fetching a file over https: bounded in size and time, to addresses that were looked at before they were called."""

from __future__ import annotations

import contextlib
import http.client
import io
import os
import socket
import ssl
from base64 import b64encode
from collections.abc import Iterator, Mapping
from functools import partial
from hashlib import sha256
from ipaddress import ip_address
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urljoin, urlsplit

from ..types.errors import HostError, Refused
from .archive import Progress
from .clock import monotonic
from .proxy import Proxy, proxy_for

if TYPE_CHECKING:
    from typing_extensions import Buffer

_HOPS = 5
_PAUSE = 20.0
"""The longest silence of a server, in seconds."""
_CHUNK = 65_536


class Reach(NamedTuple):
    """Where a download may go, and how much of it there may be."""

    insecure: bool = False
    """http will do."""
    private: bool = False
    """Addresses of this machine and its networks will do: a person named them."""
    most: int = 268_435_456
    seconds: float = 300.0
    secret: str = ""
    """`user:password` for the first host, and for no other."""
    env: Mapping[str, str] = MappingProxyType({})
    """Where proxies are named."""


class Got(NamedTuple):
    url: str
    """Where it was in the end."""
    kind: str
    digest: str
    size: int


def download(url: str, path: str, reach: Reach, progress: Progress | None = None) -> Got:
    """Fetch a file to a new path; nothing stays there when it does not come whole."""
    whole = False
    try:
        with open(path, "xb") as file:
            found, size = sha256(), 0
            until = monotonic() + reach.seconds
            with _answer(url, reach, until) as (where, response):
                total = _length(response, reach.most)
                for piece in _pieces(response, until):
                    size += len(piece)
                    if size > reach.most:
                        raise Refused(f"{url} has more than {reach.most} bytes", "nothing was placed")
                    found.update(piece)
                    file.write(piece)
                    if progress is not None:
                        progress("downloading", size, total)
                kind = response.headers.get_content_type()
        if total and size < total:
            raise HostError(f"{url} broke off after {size} of {total} bytes", "try again")
        whole = True
        return Got(where, kind, "sha256:" + found.hexdigest(), size)
    finally:
        if not whole:
            with contextlib.suppress(OSError):
                os.unlink(path)


def read(url: str, reach: Reach) -> tuple[str, bytes]:
    """A small document, and where it was in the end."""
    until = monotonic() + reach.seconds
    with _answer(url, reach, until) as (where, response):
        data = b""
        for piece in _pieces(response, until):
            data += piece
            if len(data) > reach.most:
                raise Refused(f"{url} has more than {reach.most} bytes", "nothing was placed")
        return where, data


class _Timely(http.client.HTTPResponse):
    """An answer that is whole in time, its head too: a server that says a little at a time gains nothing by it."""

    def __init__(self, until: float, sock: socket.socket, debuglevel: int = 0, method: str | None = None) -> None:
        super().__init__(sock, debuglevel, method)
        self.fp.close()
        self.fp = io.BufferedReader(_Clocked(sock, until))


class _Clocked(io.RawIOBase):
    def __init__(self, sock: socket.socket, until: float) -> None:
        self.sock, self.until = sock, until
        self.raw = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int | None:
        left = self.until - monotonic()
        if left <= 0:
            raise TimeoutError("it took too long")
        self.sock.settimeout(min(left, _PAUSE))
        try:
            return self.raw.readinto(buffer)
        except TimeoutError as error:
            raise TimeoutError("it took too long" if left < _PAUSE else "the server fell silent") from error

    def close(self) -> None:
        self.raw.close()
        super().close()


def _pieces(response: http.client.HTTPResponse, until: float) -> Iterator[bytes]:
    while True:
        try:
            piece = response.read1(_CHUNK)
        except (OSError, http.client.HTTPException) as error:
            raise HostError(f"the download broke off: {error}", "try again") from error
        if not piece:
            return
        if monotonic() > until:
            raise HostError("the download took too long", "try again when the network is quicker")
        yield piece


def _length(response: http.client.HTTPResponse, most: int) -> int:
    said = response.headers.get("Content-Length", "")
    if said.isdigit() and int(said) > most:
        raise Refused(f"it has {said} bytes; at most {most} are fetched", "nothing was placed")
    return int(said) if said.isdigit() else 0


@contextlib.contextmanager
def _answer(url: str, reach: Reach, until: float) -> Iterator[tuple[str, http.client.HTTPResponse]]:
    """The first answer that is no redirect.  Each hop is judged like the first, and may not go down to http."""
    first = urlsplit(url).hostname
    for hop in range(_HOPS + 1):
        parts = urlsplit(url)
        if parts.scheme != "https" and not (parts.scheme == "http" and reach.insecure):
            raise Refused(f"{url} is not https", "nothing was fetched; ask for an https address")
        private = reach.private and (hop == 0 or parts.hostname == first)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        proxy = proxy_for(parts.scheme, host, port, reach.env)
        if proxy is None:
            connection = _connected(parts.scheme, host, port, private)
        else:
            connection = _through(proxy, parts.scheme, host, port, private)
        try:
            headers = {"User-Agent": "metier", "Accept": "*/*", "Accept-Encoding": "identity"}
            if reach.secret and parts.hostname == first:
                headers["Authorization"] = "Basic " + b64encode(reach.secret.encode()).decode()
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            if proxy is not None and parts.scheme == "http":
                target, headers = f"http://{parts.netloc.rpartition('@')[2]}{target}", headers | proxy.headers
            try:
                connection.response_class = partial(_Timely, until)  # type: ignore[assignment]  # it is called, no more
                connection.request("GET", target, headers=headers)
                response = connection.getresponse()
            except (OSError, http.client.HTTPException) as error:
                raise HostError(f"{url} does not answer: {error}", "check the address and the network") from error
            if response.status in (301, 302, 303, 307, 308) and response.headers.get("Location"):
                url = urljoin(url, response.headers["Location"])
                continue
            if response.status != 200:
                raise HostError(f"{url} answers {response.status} {response.reason}", "check the address")
            yield url, response
            return
        finally:
            connection.close()
    raise Refused(f"{url} leads on and on", "nothing was fetched")


def _connected(scheme: str, host: str, port: int, private: bool) -> http.client.HTTPConnection:
    """A connection to an address of the host that may be called; the address can't change in between."""
    addresses = _addresses(host, port)
    _judge(host, addresses, private)
    try:
        opened = socket.create_connection((addresses[0], port), _PAUSE)
    except OSError as error:
        raise HostError(f"{host} can't be reached: {error}", "check the network") from error
    connection = http.client.HTTPConnection(host, port, timeout=_PAUSE)
    try:
        secure = ssl.create_default_context().wrap_socket(opened, server_hostname=host) if scheme == "https" else opened
    except OSError as error:
        opened.close()
        raise HostError(f"{host} can't prove who it is: {error}", "nothing was fetched") from error
    connection.sock = secure
    return connection


def _through(proxy: Proxy, scheme: str, host: str, port: int, private: bool) -> http.client.HTTPConnection:
    """A connection through a proxy, which looks the host up itself; what is known of it here is judged all the same."""
    with contextlib.suppress(HostError):  # a host that only the proxy can find
        _judge(host, _addresses(host, port), private)
    if scheme == "http":
        return http.client.HTTPConnection(proxy.host, proxy.port, timeout=_PAUSE)
    proven = ssl.create_default_context()
    connection = http.client.HTTPSConnection(proxy.host, proxy.port, timeout=_PAUSE, context=proven)
    connection.set_tunnel(host, port, proxy.headers)
    try:
        connection.connect()
    except ssl.SSLError as error:
        connection.close()
        raise HostError(f"{host} can't prove who it is: {error}", "nothing was fetched") from error
    except OSError as error:
        connection.close()
        way = f"{proxy.host}:{proxy.port}"
        raise HostError(f"{host} can't be reached through {way}: {error}", "check the proxy") from error
    return connection


def _addresses(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise HostError(f"{host} can't be found: {error}", "check the address and the network") from error
    return [str(one[4][0]) for one in found]


def _judge(host: str, addresses: list[str], private: bool) -> None:
    for address in addresses:
        plain = ip_address(address.partition("%")[0])
        inner = getattr(plain, "ipv4_mapped", None) or plain
        if not private and not inner.is_global:
            raise Refused(f"{host} is at {address}, inside a private network", "nothing was fetched")
