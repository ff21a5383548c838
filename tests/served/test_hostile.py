"""A hostile client on standard input: every blow is answered as the protocol says, and the same server lives on."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.host.boxes import alive, soon
from tests.served.raw import Raw
from tests.served_files import make_shop

LOUD = """import os, sys
os.write(1, b'{"jsonrpc": "2.0", "id": 1, "result": "forged"}\\n')
print("loud", file=sys.stderr)
"""


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Raw]:
    folder = tmp_path_factory.mktemp("hostile")
    shop = make_shop(folder)
    (shop.skills / "greet" / "scripts" / "loud.py").write_text(LOUD)
    (shop.skills / "greet" / "scripts" / "slow.sh").write_text("sleep 25\n")
    (shop.skills / "greet" / "scripts" / "slower.sh").write_text("sleep 86399\n")
    client = Raw(shop, Path(folder / "errors"))
    try:
        client.greet()
        yield client
    finally:
        client.close()


@pytest.fixture(autouse=True)
def still_alive(raw: Raw) -> Iterator[None]:
    yield
    assert raw.lives()


def script(name: str) -> dict[str, object]:
    return {"name": "skill_run_script", "arguments": {"skill_name": "greet", "script_name": name}}


def test_a_line_of_a_hundred_megabytes_is_refused_and_kept_nowhere(raw):
    before = raw.peak()
    for _ in range(100):
        raw.stdin.write(b"x" * 1_000_000)
    raw.send(b"")
    answer = raw.hear()

    assert answer["id"] is None
    assert answer["error"]["code"] == -32600
    assert raw.peak() - before < 40_000


@pytest.mark.parametrize("line", [b"{", b"not json", b'{"jsonrpc": "2.0", "id": 1', b"\xff\xfe", b"[" * 100_000])
def test_what_is_not_json_is_a_parse_error(raw, line):
    raw.send(line)
    answer = raw.hear()
    assert (answer["id"], answer["error"]["code"]) == (None, -32700)


@pytest.mark.parametrize(
    ("line", "number"),
    [
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', None),
        (b"[]", None),
        (b"3", None),
        (b'{"id": 7, "method": "ping"}', 7),
        (b'{"jsonrpc": "1.0", "id": 7, "method": "ping"}', 7),
        (b'{"jsonrpc": "2.0", "id": {"a": 1}, "method": "ping"}', None),
        (b'{"jsonrpc": "2.0", "id": 8, "method": 5}', 8),
    ],
)
def test_what_is_no_message_is_an_invalid_request(raw, line, number):
    raw.send(line)
    answer = raw.hear()
    assert (answer["id"], answer["error"]["code"]) == (number, -32600)


def test_empty_lines_and_answers_nobody_asked_for_are_passed_over(raw):
    raw.send(b"")
    raw.send(b"   ")
    raw.say(id=12345, result={})
    raw.say(method="notifications/nobody-knows", params={})


@pytest.mark.parametrize("method", ["skills/delete", "tools/forge", "", "x" * 10_000])
def test_an_unknown_method_is_not_found(raw, method):
    assert raw.ask(20, method)["error"]["code"] == -32601


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {}),
        ("tools/call", {"name": 5}),
        ("tools/call", {"name": "skill_use", "arguments": [1]}),
        ("prompts/get", {"name": "greet", "arguments": {"arguments": {"a": 1}}}),
        ("resources/read", {"uri": 5}),
        ("resources/read", {"uri": "skill://greet/../../../../etc/passwd"}),
        ("skills/get", {}),
        ("skills/get", {"uri": "skill://nobody/SKILL.md"}),
    ],
)
def test_wrong_parameters_are_named_as_such(raw, method, params):
    assert raw.ask(21, method, **params)["error"]["code"] == -32602


@pytest.mark.parametrize("path", ["../launch/SKILL.md", "/etc/passwd", "~/.ssh/id_rsa", "..\\x", "a\0b", ".env"])
def test_a_path_that_leaves_the_skill_is_refused(raw, path):
    asked = {"name": "skill_read_file", "arguments": {"skill_name": "greet", "file_path": path}}
    assert raw.ask(22, "tools/call", **asked)["result"]["isError"]


@pytest.mark.parametrize("name", ["\ud800", "\0", "é" * 100_000, ["greet"], {"a": 1}, None, 1e400, True])
def test_a_name_that_is_none_is_answered(raw, name):
    for tool in ("skill_use", "skill_read_file", "skill_run_script"):
        answer = raw.ask(24, "tools/call", name=tool, arguments={"skill_name": name, "file_path": name})
        assert answer.get("error") or answer["result"]["isError"]
    answer = raw.ask(25, "prompts/get", name="greet", arguments={"arguments": name})
    assert "error" in answer or answer["result"]["messages"]


def test_what_a_script_prints_never_reaches_the_wire(raw):
    answer = raw.ask(23, "tools/call", **script("loud.py"))
    assert json.loads(answer["result"]["content"][0]["text"].split("\n")[0])["result"] == "forged"


def test_an_id_that_is_still_under_way_is_refused(raw):
    raw.say(id=30, method="tools/call", params=script("slow.sh"))
    raw.say(id=30, method="ping")
    assert raw.answer(30)["error"]["message"] == "a request with this id is in flight"
    raw.say(method="notifications/cancelled", params={"requestId": 30})


def test_a_call_that_was_cancelled_holds_nobody_up_and_its_program_ends(raw):
    raw.say(id=31, method="tools/call", params=script("slower.sh"))
    assert soon(lambda: alive("86399"), 60)
    raw.say(method="notifications/cancelled", params={"requestId": 31})
    assert raw.lives()
    assert soon(lambda: not alive("86399"))


def test_a_flood_is_answered_to_the_last_request(raw):
    asked = {"name": "skill_use", "arguments": {"skill_name": "greet"}}
    answers = {}
    for number in range(1_000, 4_000):
        raw.say(id=number, method="tools/call", params=asked)
        if number % 500 == 499:  # a client that never reads would be held up by its own pipe
            for _ in range(500):
                answer = raw.hear()
                answers[answer["id"]] = answer
    assert sorted(answers) == list(range(1_000, 4_000))
    assert all("result" in answer or "at once" in answer["error"]["message"] for answer in answers.values())
