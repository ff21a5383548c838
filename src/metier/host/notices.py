"""Send a short notice: over HTTP, by mail, to the desktop.

The rules for addresses are those of downloads (`host/http.py`): https and public addresses only, unless the user named
a server of their own network; the connection is made to a checked address, and no redirect is followed.
"""

from __future__ import annotations

import http.client
import smtplib
import socket
import ssl
import subprocess
import sys
from collections.abc import Mapping
from email.message import EmailMessage
from typing import NamedTuple
from urllib.parse import urlsplit

from ..types.errors import HostError, Refused
from .facts import sleep, which
from .http import checked_address, connect_checked

_SECONDS = 20.0
_PAUSES = (0.5, 2.0)
"""Seconds before the second and the third attempt."""


class NoticeRequest(NamedTuple):
    """One request; it is sent again as it is, so that the server can tell by its id that it has it already."""

    url: str
    body: bytes
    headers: Mapping[str, str]
    method: str = "POST"
    local: bool = False
    """Whether plain http and private addresses are allowed, because the user said so."""


def send_request(request: NoticeRequest) -> None:
    """Send a request, up to three times while the server is not well; what it refuses is not sent again."""
    for pause in (*_PAUSES, None):
        try:
            status = _send_once(request)
        except HostError:
            if pause is None:
                raise
        else:
            if status < 300:
                return
            if pause is None or (status < 500 and status != 429):
                raise HostError(f"the server answered {status}", "check the address and the secret")
        sleep(pause)


def _send_once(request: NoticeRequest) -> int:
    parts = urlsplit(request.url)
    if parts.scheme != "https" and not (parts.scheme == "http" and request.local):
        raise Refused("the address is not https", "use https, or set `local = true` for a server of your own")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    connection = connect_checked(parts.scheme, parts.hostname or "", port, request.local)
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request(request.method, target, request.body, {"User-Agent": "metier", **request.headers})
        return connection.getresponse().status
    # Not the error itself: some of them quote the address, which may be the secret.
    except (OSError, http.client.HTTPException) as error:
        raise HostError(f"the server does not answer: {type(error).__name__}", "check the network") from error
    finally:
        connection.close()


class MailServer(NamedTuple):
    host: str
    port: int
    user: str = ""
    password: str = ""
    local: bool = False
    """Whether it may be a private address, and one without TLS."""


class _CheckedSmtp(smtplib.SMTP):
    """Connects to an address that was checked, with no second lookup in between; port 465 is TLS from the start."""

    def __init__(self, address: str, server: MailServer) -> None:
        self._address, self._tls = address, server.port == 465
        super().__init__(server.host, server.port, timeout=_SECONDS)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        opened = socket.create_connection((self._address, port), timeout)
        return ssl.create_default_context().wrap_socket(opened, server_hostname=host) if self._tls else opened


def send_mail(server: MailServer, message: EmailMessage) -> None:
    """Send a mail, with TLS unless the server is one of the user's own network."""
    address = checked_address(server.host, server.port, server.local)
    try:
        with _CheckedSmtp(address, server) as client:
            client.ehlo()
            if client.has_extn("starttls"):
                client.starttls(context=ssl.create_default_context())
            elif server.port != 465 and not server.local:
                raise Refused("the mail server offers no TLS", "use port 465 or 587, or set `local = true`")
            if server.user:
                client.login(server.user, server.password)
            client.send_message(message)
    except (OSError, smtplib.SMTPException) as error:
        raise HostError(f"the mail was not accepted: {type(error).__name__}", "check server and user") from error


def show_on_desktop(title: str, text: str, path: str) -> None:
    """Show a notice on the desktop of this machine."""
    if sys.platform == "darwin":
        # The words are arguments of the script and never part of it.
        script = "on run words\ndisplay notification (item 2 of words) with title (item 1 of words)\nend run"
        command = ["/usr/bin/osascript", "-e", script, title, text]
    else:
        program = which("notify-send", path)
        if program is None:
            raise HostError("there is no notify-send here", "install libnotify, or notify another way")
        command = [program, "--app-name=metier", "--", title, text]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        raise HostError(f"the desktop shows nothing: {type(error).__name__}", "is somebody logged in?") from error
