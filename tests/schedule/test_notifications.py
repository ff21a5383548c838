"""Whoever should know is told, once, by servers of ours; and nothing secret is told."""

from __future__ import annotations

import hmac
import json
import socketserver
import threading
import time
from collections.abc import Iterator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.cli.console import Desk
from tests.schedule.house import House, now

from metier.record.redaction import Redactor
from metier.schedule import store
from metier.schedule.notifications import Notice, NoticeTarget, notice_targets, send_notice
from metier.types.errors import BadRequest
from metier.types.settings import Settings

KEY = "correct-horse-battery-staple"
ENV = {"HOOK_KEY": KEY, "PATH": "/usr/bin:/bin"}
FAILED = Notice("nightly@1", "failure", "nightly failed", f"the key {KEY} was refused", "nightly", "run-1")


class Server:
    def __init__(self) -> None:
        self.got: list[tuple[str, str, dict[str, str], bytes]] = []
        self.answers: list[int] = []
        outer = self

        class Receiver(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.got.append((self.command, self.path, dict(self.headers), body))
                code = outer.answers.pop(0) if outer.answers else 200
                self.send_response(code)
                if code == 302:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_PUT(self) -> None:
                self.do_POST()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "desk")


def send(target: NoticeTarget, notice: Notice = FAILED) -> str:
    return send_notice(target, notice, ENV, Redactor([KEY]))


def hook(server: Server, **more: Any) -> NoticeTarget:
    return NoticeTarget("ops", "webhook", f"{server.url}/hook", secret="HOOK_KEY", **({"local": True} | more))


def test_a_webhook_is_signed_over_its_time_and_body(server: Server):
    assert send(hook(server)) == ""
    [(method, path, headers, body)] = server.got
    signed = hmac.new(KEY.encode(), headers["Metier-Timestamp"].encode() + b"." + body, sha256).hexdigest()

    assert (method, path) == ("POST", "/hook")
    assert headers["Metier-Signature"] == f"sha256={signed}"
    assert headers["Metier-Delivery"] == "nightly@1"
    assert abs(int(headers["Metier-Timestamp"]) - time.time()) < 60
    assert json.loads(body)["severity"] == "failure"


def test_nothing_secret_is_told(server: Server):
    send(hook(server))
    assert KEY.encode() not in server.got[0][3]
    assert b"[hidden]" in server.got[0][3]


def test_a_server_that_is_not_well_is_tried_again_with_the_same_id(server: Server):
    server.answers = [503, 429]
    assert send(hook(server)) == ""
    assert [headers["Metier-Delivery"] for _, _, headers, _ in server.got] == ["nightly@1"] * 3


def test_what_a_server_refuses_is_not_sent_again_and_no_redirect_is_followed(server: Server):
    for code in (403, 302):
        server.got.clear()
        server.answers = [code]
        assert f"ops was not notified: the server answered {code}" in send(hook(server))
        assert len(server.got) == 1


def test_a_private_address_and_plain_http_need_the_users_word(server: Server):
    assert "the address is not https" in send(hook(server, local=False))
    https = NoticeTarget("ops", "webhook", server.url.replace("http", "https"), secret="HOOK_KEY")
    assert "resolves to the private address" in send(https)
    mail = NoticeTarget("ops", "smtp", "127.0.0.1:25", sender="a@b.c", recipient="d@e.f")
    assert "resolves to the private address" in send(mail)
    assert server.got == []


def test_a_failure_names_neither_the_address_nor_the_key():
    gone = NoticeTarget("ops", "slack", "http://127.0.0.1:9/services/very-secret-path", local=True)
    assert "ops was not notified" in send(gone)
    assert "very-secret-path" not in send(gone)
    assert "`NOWHERE`, which notify.ops names, is not set" in send(NoticeTarget("ops", "slack", "$NOWHERE"))


def test_each_service_gets_the_form_it_wants(server: Server):
    notice = Notice("n@1", "failure", "nightly failed", "<!channel> & @everyone", "nightly")
    for kind in ("ntfy", "slack", "discord"):
        assert send(NoticeTarget("ops", kind, f"{server.url}/{kind}", local=True), notice) == ""
    room = f"{server.url}/!room:example.org"
    assert send(NoticeTarget("ops", "matrix", room, secret="HOOK_KEY", local=True), notice) == ""
    ntfy, slack, discord, matrix = server.got

    assert (ntfy[2]["Title"], ntfy[2]["Priority"], ntfy[3]) == ("nightly failed", "5", b"<!channel> & @everyone")
    assert json.loads(slack[3])["text"] == "nightly failed\n&lt;!channel&gt; &amp; @everyone"
    assert json.loads(discord[3])["allowed_mentions"] == {"parse": []}
    assert matrix[:2] == ("PUT", "/_matrix/client/v3/rooms/%21room%3Aexample.org/send/m.room.message/n%401")
    assert matrix[2]["Authorization"] == f"Bearer {KEY}"


class Mailbox(socketserver.StreamRequestHandler):
    """As much of SMTP as one message needs."""

    mails: list[str] = []  # noqa: RUF012  # one server per test

    def handle(self) -> None:
        self.wfile.write(b"220 here\r\n")
        while line := self.rfile.readline().decode().strip():
            if line.upper() == "DATA":
                self.wfile.write(b"354 go on\r\n")
                lines = []
                while (part := self.rfile.readline().decode().rstrip("\r\n")) != ".":
                    lines.append(part)
                self.mails.append("\n".join(lines))
            self.wfile.write(b"221 bye\r\n" if line.upper() == "QUIT" else b"250 fine\r\n")
            if line.upper() == "QUIT":
                return


def test_mail_goes_to_a_server_of_ones_own():
    Mailbox.mails.clear()
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Mailbox) as post:
        threading.Thread(target=post.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{post.server_address[1]}"
        target = NoticeTarget("me", "smtp", address, sender="metier@b.c", recipient="ada@e.f", local=True)
        assert send(target, Notice("n@1", "failure", "nightly\r\nBcc: x@y.z failed", "see the run", "nightly")) == ""
        post.shutdown()
    [mail] = Mailbox.mails

    assert "To: ada@e.f" in mail
    assert "\nBcc:" not in mail
    assert "see the run" in mail


def test_the_desktop_gets_words_and_never_options(tmp_path: Path):
    program = tmp_path / "notify-send"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/shown\n')
    program.chmod(0o755)
    target = NoticeTarget("me", "desktop", "")
    assert (
        send_notice(target, Notice("n", "info", "--icon=x", "text"), {"PATH": f"{tmp_path}:/usr/bin:/bin"}, str) == ""
    )
    assert (tmp_path / "shown").read_text().splitlines() == ["--app-name=metier", "--", "--icon=x", "text"]


def test_a_target_is_told_of_its_schedules_at_its_level():
    target = NoticeTarget("ops", "desktop", "", "attention", ("night*",))
    assert target.wants(FAILED)
    assert not target.wants(Notice("x", "info", "", schedule="nightly"))
    assert not target.wants(Notice("x", "failure", "", schedule="hourly"))


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"to": "pigeon:x"}, "names no way to notify"),
        ({"to": "webhook:https://x"}, "has no secret"),
        ({"to": "smtp:x"}, "no sender"),
        ({"to": "desktop", "level": "loud"}, "is not a level"),
    ],
)
def test_a_target_that_can_not_work_is_refused(table: dict[str, Any], words: str):
    with pytest.raises(BadRequest, match=words):
        notice_targets(Settings({"notify": {"ops": table}}))


def test_a_test_notice_is_sent_from_the_command_line(desk: Desk, server: Server):
    desk.configure(f'[notify.ops]\nto = "ntfy:{server.url}/x"\nlocal = true\n')
    assert desk.say("schedule", "notify", "are you there?").out == "notified ops\n"
    assert server.got[0][3] == b"are you there?"
    server.answers = [403]
    assert desk.say("schedule", "notify", "--json").code == 1


def test_without_a_target_the_command_says_what_to_add(desk: Desk):
    said = desk.say("schedule", "notify")
    assert said.code == 2
    assert "[notify.NAME]" in said.err


def test_a_project_can_not_choose_who_is_told(desk: Desk):
    folder = desk.project / ".metier"
    folder.mkdir()
    (folder / "config.toml").write_text('[notify.spy]\nto = "ntfy:https://example.org/x"\n')
    desk.say("trust", "--yes")
    assert "nobody is notified" in desk.say("schedule", "notify").err


def test_a_worker_tells_once_of_each_firing_of_a_schedule_and_not_again_when_it_starts_again(
    tmp_path: Path, server: Server
):
    house = House(tmp_path / "house")
    house.state.mkdir(exist_ok=True)
    (house.state / "config.toml").write_text(
        f'[notify.ops]\nto = "ntfy:{server.url}/x"\nlocal = true\nlevel = "info"\nschedules = ["ping"]\n'
    )
    try:
        house.add()
        house.add("other", name="other-12345678")
        worker = house.start(steps=2)
        for id in ("ping", "other"):
            store.trigger_schedule(house.engine, id, now())
        house.until(lambda: house.states() == ["finished", "finished"])
        house.kill(worker)
        again = house.start(steps=2)
        time.sleep(1.5)
        house.kill(again)
    finally:
        house.close()

    assert [headers["Title"] for _, _, headers, _ in server.got] == ["ping finished"]
