"""How a server on standard input ends."""

import json
import os
import signal
import subprocess

import pytest
from tests.served.raw import METIER, Raw


def test_the_server_ends_when_the_client_hangs_up_even_while_a_script_runs(shop, tmp_path):
    (shop.skills / "greet" / "scripts" / "slow.sh").write_text("sleep 25\n")
    raw = Raw(shop, tmp_path / "errors")
    raw.greet()
    asked = {"skill_name": "greet", "script_name": "slow.sh"}
    raw.say(id=1, method="tools/call", params={"name": "skill_run_script", "arguments": asked})
    assert raw.lives()
    assert raw.close() == 0


def test_what_was_asked_before_the_client_said_no_more_is_answered(shop):
    usual = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": usual},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    said = subprocess.run(
        [*METIER, "--root", str(shop.skills), "mcp"],
        input="".join(json.dumps(line) + "\n" for line in lines).encode(),
        capture_output=True,
        cwd=shop.world.project,
        env={**shop.world.variables, "PATH": os.environ["PATH"]},
        timeout=120,
    )
    answers = {one["id"]: one for one in map(json.loads, said.stdout.splitlines()) if "id" in one}

    tool = answers[2]["result"]["tools"][0]
    assert tool["name"] == "skill_use"
    assert not tool["annotations"]["readOnlyHint"]  # the commands of a body run


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it(shop, tmp_path, number):
    raw = Raw(shop, tmp_path / "errors")
    raw.greet()
    raw.process.send_signal(number)
    assert raw.process.wait(60) != 0
    raw.close()
    assert "Traceback" not in (tmp_path / "errors").read_text()


def test_a_server_without_skills_says_so_where_clients_keep_their_logs(shop, tmp_path):
    for name in ("greet", "launch", "quiet"):
        shop.remove(name)
    raw = Raw(shop, tmp_path / "errors")
    raw.greet()
    raw.close()
    assert "no skills yet" in (tmp_path / "errors").read_text()
