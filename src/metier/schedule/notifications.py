"""Tell somebody what happens when nobody looks: who is told what, and how each service wants it.

A notice says what happened and where to look.  It has no answer of a run: those go to a sink.  Its id is the same each
time it is sent, so that a service that got it twice can tell.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from fnmatch import fnmatchcase
from hashlib import sha256
from json import dumps
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args
from urllib.parse import quote, unquote, urlsplit

from ..host.facts import now_ns
from ..host.notices import MailServer, NoticeRequest, send_mail, send_request, show_on_desktop
from ..types.errors import BadRequest, MetierError
from ..types.settings import Settings
from ..types.text import clean_line, shorten_text

if TYPE_CHECKING:
    from ..library.library import Library

Severity: TypeAlias = Literal["info", "attention", "failure"]
"""A run finished; somebody has to decide something; something failed."""
_SEVERITIES: tuple[Severity, ...] = get_args(Severity)
_KINDS = ("webhook", "ntfy", "slack", "discord", "matrix", "smtp", "desktop")


@dataclass(frozen=True)
class Notice:
    """What somebody is told."""

    id: str
    severity: Severity
    title: str
    text: str = ""
    schedule: str = ""
    run: str = ""


@dataclass(frozen=True)
class NoticeTarget:
    """Who is told: a `[notify.NAME]` table of the user's configuration."""

    name: str
    kind: str
    address: str
    level: Severity = "attention"
    """The least that is told."""
    schedules: tuple[str, ...] = ()
    """Patterns of the schedules it is told about; all if there are none."""
    secret: str = ""
    """The variable with the key, token or password."""
    user: str = ""
    sender: str = ""
    recipient: str = ""
    local: bool = False

    def wants(self, notice: Notice) -> bool:
        named = not self.schedules or any(fnmatchcase(notice.schedule, pattern) for pattern in self.schedules)
        return named and _SEVERITIES.index(notice.severity) >= _SEVERITIES.index(self.level)


def notice_targets(settings: Settings) -> list[NoticeTarget]:
    """The targets that are configured; one that is wrong is an error, because silence would look like good news."""
    tables = settings.own("notify")
    return [_target_of(name, table) for name, table in tables.items()] if isinstance(tables, Mapping) else []


def _target_of(name: str, table: object) -> NoticeTarget:
    table = table if isinstance(table, Mapping) else {}
    kind, _, address = str(table.get("to", "")).partition(":")
    level = table.get("level", "attention")
    if kind not in _KINDS or (kind != "desktop" and not address):
        raise BadRequest(f"`notify.{name}.to` names no way to notify", f"begin it with one of: {', '.join(_KINDS)}")
    if level not in _SEVERITIES:
        raise BadRequest(f"`notify.{name}.level` is not a level", f"one of: {', '.join(_SEVERITIES)}")
    secret = str(table.get("secret", ""))
    if kind in ("webhook", "matrix") and not secret:
        raise BadRequest(f"`notify.{name}` has no secret", 'name the variable that holds it: `secret = "NAME"`')
    schedules = table.get("schedules")
    patterns = tuple(map(str, schedules)) if isinstance(schedules, list) else ()
    texts = {key: str(table.get(key, "")) for key in ("user", "sender", "recipient")}
    if kind == "smtp" and not (texts["sender"] and texts["recipient"]):
        raise BadRequest(f"`notify.{name}` has no sender or no recipient", "set both")
    return NoticeTarget(name, kind, address, level, patterns, secret, **texts, local=table.get("local") is True)


def send_notice(target: NoticeTarget, notice: Notice, env: Mapping[str, str], hide: Callable[[str], str]) -> str:
    """Send a notice; why it could not be sent, or nothing.  Neither has the address, which may be a secret."""
    hidden = Notice(
        notice.id,
        notice.severity,
        shorten_text(clean_line(hide(notice.title)), 120),
        shorten_text(hide(notice.text), 500),
        notice.schedule,
        notice.run,
    )
    try:
        _send(target, hidden, env)
    except MetierError as error:
        return hide(f"{target.name} was not notified: {error.message}; {error.hint}")
    return ""


def _send(target: NoticeTarget, notice: Notice, env: Mapping[str, str]) -> None:
    address, secret = target.address, _variable(target.secret, env, target.name)
    if address.startswith("$"):
        address = _variable(address[1:], env, target.name)
    match target.kind:
        case "desktop":
            show_on_desktop(notice.title, notice.text, env.get("PATH", ""))
        case "smtp":
            host, _, port = address.rpartition(":")
            server = (host, int(port)) if host and port.isdigit() else (address, 587)
            send_mail(MailServer(*server, target.user, secret, target.local), _mail(target, notice))
        case _:
            send_request(_request(target, notice, address, secret))


def _variable(name: str, env: Mapping[str, str], target: str) -> str:
    if name and not env.get(name):
        raise BadRequest(f"`{name}`, which notify.{target} names, is not set", "set it for the worker too")
    return env[name] if name else ""


def _request(target: NoticeTarget, notice: Notice, address: str, secret: str) -> NoticeRequest:
    both = f"{notice.title}\n{notice.text}".strip()
    headers = {"Content-Type": "application/json"}
    match target.kind:
        case "webhook":
            body = _document(notice)
            return NoticeRequest(address, body, headers | _signature(notice, body, secret), local=target.local)
        case "ntfy":
            priority = {"info": "2", "attention": "4", "failure": "5"}[notice.severity]
            headers = {"Title": notice.title.encode("ascii", "replace").decode(), "Priority": priority}
            headers |= {"Authorization": f"Bearer {secret}"} if secret else {}
            return NoticeRequest(address, (notice.text or notice.title).encode(), headers, local=target.local)
        case "slack":
            # Otherwise `<!channel>` in an error would call everybody.
            plain = both.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
            return NoticeRequest(address, dumps({"text": plain}).encode(), headers, local=target.local)
        case "discord":
            message: dict[str, object] = {"content": both, "allowed_mentions": {"parse": []}}
            return NoticeRequest(address, dumps(message).encode(), headers, local=target.local)
    # Matrix takes a message with the same transaction once, however often it is sent.
    parts = urlsplit(address)
    room, transaction = quote(unquote(parts.path.strip("/")), safe=""), quote(notice.id, safe="")
    url = f"{parts.scheme}://{parts.netloc}/_matrix/client/v3/rooms/{room}/send/m.room.message/{transaction}"
    body = dumps({"msgtype": "m.notice", "body": both}).encode()
    return NoticeRequest(url, body, headers | {"Authorization": f"Bearer {secret}"}, "PUT", target.local)


def _document(notice: Notice) -> bytes:
    document = {"id": notice.id, "severity": notice.severity, "title": notice.title, "text": notice.text}
    return dumps(document | {"schedule": notice.schedule, "run": notice.run}, ensure_ascii=False).encode()


def _signature(notice: Notice, body: bytes, secret: str) -> dict[str, str]:
    """An id to know a repetition by, and a signature over the time and the body: an old request can't be replayed."""
    at = str(now_ns() // 1_000_000_000)
    signed = hmac.new(secret.encode(), at.encode() + b"." + body, sha256).hexdigest()
    return {"Metier-Delivery": notice.id, "Metier-Timestamp": at, "Metier-Signature": f"sha256={signed}"}


def _mail(target: NoticeTarget, notice: Notice) -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"] = target.sender, target.recipient
    message["Subject"] = f"[metier] {notice.title}"
    message["Message-ID"] = f"<{sha256(notice.id.encode()).hexdigest()[:32]}@metier>"
    message.set_content(notice.text or notice.title)
    return message


def notify_all(library: Library, notice: Notice) -> list[tuple[str, str]]:
    """Tell everybody who wants to know, outside of a durable run: each target, and why it was not told."""
    targets = [target for target in notice_targets(library.settings) if target.wants(notice)]
    return [(target.name, send_notice(target, notice, library.place.env, library.hide)) for target in targets]
