"""Many clients at once over HTTP: all are answered soon, and the server grows no larger than it was when warm."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

from tests.home import make_world, write_skill
from tests.served.raw import METIER
from tests.served.test_http import INITIALIZE, Served, message
from tests.served_files import Shop

from metier.host import paths

SOAK = bool(os.environ.get("METIER_SOAK"))
CLIENTS, SECONDS, WARM = (50, 120, 40) if SOAK else (8, 4, 1)
EVERY = 1.0
"""Seconds between two calls of a client: a model thinks in between."""


def calls_of(number: int) -> list[dict[str, object]]:
    name = f"s{number % 10}"
    return [
        message("tools/call", name="skill_use", arguments={"skill_name": name}),
        message("tools/call", name="skill_read_file", arguments={"skill_name": name, "file_path": "more.md"}),
        message("tools/list"),
    ]


def client(served: Served, number: int, until: float, took: list[float], wrong: list[str]) -> None:
    status, text, headers = served.ask(message("initialize", **INITIALIZE))
    session = {"mcp_session_id": headers["mcp-session-id"]}
    served.ask({"jsonrpc": "2.0", "method": "notifications/initialized"}, **session)
    time.sleep(EVERY * number / CLIENTS)
    calls = calls_of(number)
    at = number
    while time.monotonic() < until:
        began = time.monotonic()
        status, text, headers = served.ask(calls[at % len(calls)], **session)
        took.append(time.monotonic() - began)
        if status != 200 or '"isError":true' in text or headers["content-type"] != "application/json":
            wrong.append(f"{status} {text[:200]}")
        at += 1
        time.sleep(max(0.0, EVERY - took[-1]))


def test_many_clients_are_answered_soon_and_the_server_stays_as_large_as_it_was(tmp_path: Path):
    world = make_world(tmp_path)
    for number in range(10):
        folder = write_skill(world.state / "skills" / f"s{number}").parent
        (folder / "more.md").write_text("More.\n" * 50)
    errors = tmp_path / "errors"
    with errors.open("wb") as file:
        server = subprocess.Popen(
            [*METIER, "mcp", "--http", "--port", "0"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=file,
            cwd=world.project,
            env={**world.variables, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
    try:
        until = time.monotonic() + 120
        while not (found := re.search(r"http://127\.0\.0\.1:(\d+)/mcp", errors.read_text())):
            assert server.poll() is None, errors.read_text()
            assert time.monotonic() < until
            time.sleep(0.05)
        token = (world.state / "mcp-token").read_text().strip()
        served = Served(int(found[1]), token, Shop.__new__(Shop), errors)
        took: list[float] = []
        wrong: list[str] = []
        end = time.monotonic() + SECONDS
        clients = [threading.Thread(target=client, args=(served, at, end, took, wrong)) for at in range(CLIENTS)]
        for one in clients:
            one.start()
        time.sleep(WARM)
        first = memory_of(server.pid)
        for one in clients:
            one.join()
        last = memory_of(server.pid)
    finally:
        server.terminate()
        server.wait(60)
    assert wrong == []
    assert len(took) >= CLIENTS
    middle = sorted(took)[len(took) // 2]
    print(json.dumps({"calls": len(took), "p50_ms": round(1_000 * middle), "rss_kb": [first, last]}))
    if SOAK:  # how long an answer takes on a machine that tests share with others says little about the server
        assert middle < 0.05
        assert last <= first * 1.05


def memory_of(process: int) -> int:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    return int(status["VmRSS"].split()[0])


def test_what_is_installed_is_read_again_only_when_something_was_installed(tmp_path: Path, monkeypatch):
    site = tmp_path / "site-packages"
    (site / "one-1.dist-info").mkdir(parents=True)
    (site / "one-1.dist-info/entry_points.txt").write_text("[metier.skills]\none = one.skills\n")
    monkeypatch.setattr(sys, "path", [str(site)])
    os.utime(site, (1_600_000_000, 1_600_000_000))
    assert paths.entry_points("metier.skills") == [("one", "one.skills", str(site))]
    with monkeypatch.context() as without:
        without.setattr(paths, "read_text_file", lambda path: pytest.fail(f"{path} was read again"))
        assert paths.entry_points("metier.skills") == [("one", "one.skills", str(site))]
    (site / "two-1.dist-info").mkdir()
    (site / "two-1.dist-info/entry_points.txt").write_text("[metier.skills]\ntwo = two.skills\n")
    assert [name for name, _, _ in paths.entry_points("metier.skills")] == ["one", "two"]
