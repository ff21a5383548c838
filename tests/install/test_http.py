"""Downloads: https only, to addresses that may be called, bounded in size and time, checked before they are opened."""

import contextlib
import hashlib
import json
import socket
import threading
from pathlib import Path

import pytest
from tests.cli.console import Desk
from tests.install.servers import Repo, files, proxying, serving, skill_text

from metier.host.http import FetchLimits, download_file, fetch_document
from metier.types.errors import BadRequest, HostError, Refused

SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"


@pytest.fixture
def trusting(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    return certificate


def test_http_is_refused_and_so_is_a_redirect_down_to_it(tmp_path: Path, trusting: Path):
    with serving(files({"/x": b"x"})) as plain:
        with pytest.raises(Refused, match="not https"):
            download_file(f"{plain.url}/x", str(tmp_path / "a"), FetchLimits(private=True))
        with (
            serving(files({}, {"/x": f"{plain.url}/x"}), trusting) as secure,
            pytest.raises(Refused, match="not https"),
        ):
            download_file(f"{secure.url}/x", str(tmp_path / "a"), FetchLimits(private=True))
        assert plain.seen == []
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "10.0.0.1", "169.254.169.254", "192.168.1.1", "[::1]", "0.0.0.0", "[::ffff:127.0.0.1]", "100.64.0.1"])  # fmt: skip
def test_addresses_of_private_networks_are_refused_before_they_are_called(tmp_path: Path, host: str):
    with pytest.raises((Refused, HostError), match=r"private address|can't be resolved"):
        download_file(f"https://{host}:9/x", str(tmp_path / "a"), FetchLimits())


def test_a_redirect_to_another_private_host_is_refused_even_if_the_first_was_named(tmp_path: Path, trusting: Path):
    with (
        serving(files({}, {"/x": "https://169.254.169.254/latest"}), trusting) as server,
        pytest.raises(Refused, match="private address"),
    ):
        download_file(f"{server.url}/x", str(tmp_path / "a"), FetchLimits(private=True))


def test_a_head_that_comes_a_little_at_a_time_has_no_more_time_than_the_rest(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        gone = threading.Event()

        def drip() -> None:
            caller, _ = server.accept()
            with caller, contextlib.suppress(OSError):
                caller.recv(1000)
                caller.sendall(b"HTTP/1.1 200 OK\r\n")
                for number in range(60):
                    caller.sendall(b"X-%d: a\r\n" % number)
                    if gone.wait(0.1):
                        return
                caller.sendall(b"Content-Length: 1\r\n\r\nx")

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.getsockname()[1]}/x"
            with pytest.raises(HostError, match="took too long"):
                download_file(url, str(tmp_path / "a"), FetchLimits(insecure=True, private=True, seconds=1.0))
        finally:
            gone.set()
            thread.join()


def test_redirects_end_somewhere(tmp_path: Path, trusting: Path):
    with serving(files({"/end": b"yes"}, {"/x": "/y", "/y": "/end", "/round": "/round"}), trusting) as server:
        assert download_file(f"{server.url}/x", str(tmp_path / "a"), FetchLimits(private=True)).url.endswith("/end")
        assert (tmp_path / "a").read_bytes() == b"yes"
        with pytest.raises(Refused, match="too many redirects"):
            download_file(f"{server.url}/round", str(tmp_path / "b"), FetchLimits(private=True))


def test_a_password_goes_to_the_first_host_alone(tmp_path: Path, trusting: Path):
    with serving(files({"/x": b"1"}), trusting) as server:
        download_file(f"{server.url}/x", str(tmp_path / "a"), FetchLimits(private=True, secret="me:pw"))
        assert server.seen[0][1]["Authorization"] == "Basic bWU6cHc="


def test_too_much_and_too_slow_are_ended_and_leave_nothing(tmp_path: Path, trusting: Path):
    with serving(files({"/x": b"x" * 5_000_000}), trusting) as server, pytest.raises(Refused):
        download_file(f"{server.url}/x", str(tmp_path / "a"), FetchLimits(private=True, most=1_000_000))
    with serving(files({"/x": b"x" * 3_000}, pause=0.002), trusting) as server:
        with pytest.raises(Refused):
            download_file(f"{server.url}/x", str(tmp_path / "a"), FetchLimits(private=True, most=100))
        with pytest.raises(HostError, match="too long"):
            download_file(f"{server.url}/x", str(tmp_path / "a"), FetchLimits(private=True, seconds=0.2))
    assert not (tmp_path / "a").exists()


def test_what_says_that_it_is_too_large_is_not_begun(tmp_path: Path, trusting: Path):
    with (
        serving(files({"/x": b"x" * 1_000}), trusting) as server,
        pytest.raises(Refused, match="has 1000 bytes, more than"),
    ):
        download_file(f"{server.url}/x", str(tmp_path / "a"), FetchLimits(private=True, most=100))
    assert not (tmp_path / "a").exists()


def test_a_download_that_breaks_off_is_no_download(tmp_path: Path):
    listening = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        one, _ = listening.accept()
        with one:
            one.recv(1000)
            one.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nonly this")

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        with pytest.raises(HostError):
            download_file(
                f"http://127.0.0.1:{listening.getsockname()[1]}/x", str(tmp_path / "a"), FetchLimits(True, True)
            )
    finally:
        thread.join()
        listening.close()
    assert not (tmp_path / "a").exists()


def test_a_server_that_can_not_prove_who_it_is_is_not_listened_to(tmp_path: Path, certificate: Path):
    with serving(files({"/x": b"x"}), certificate) as server:
        with pytest.raises(HostError, match="certificate"):
            fetch_document(f"{server.url}/x", FetchLimits(private=True))
        assert server.seen == []


def through(proxy: str, **more: str) -> FetchLimits:
    return FetchLimits(private=True, env={"HTTPS_PROXY": f"http://me:p%40ss@{proxy}", **more})


def test_a_proxy_is_asked_for_a_tunnel_and_the_host_proves_who_it_is(tmp_path: Path, trusting: Path):
    with serving(files({"/x": b"x"}), trusting) as server, proxying() as (proxy, seen):
        download_file(f"{server.url}/x", str(tmp_path / "a"), through(proxy))
        assert [line for line, _ in seen] == [f"CONNECT {server.url.removeprefix('https://')}"]
        assert seen[0][1]["Proxy-Authorization"] == "Basic bWU6cEBzcw=="
        assert "Proxy-Authorization" not in server.seen[0][1]
        with pytest.raises(HostError, match="certificate"):
            fetch_document(server.url.replace("127.0.0.1", "unproven.invalid") + "/x", through(proxy))


def test_plain_http_is_asked_of_the_proxy_itself(tmp_path: Path):
    with proxying() as (proxy, seen):
        where, data = fetch_document("http://far.invalid/x?y=1", FetchLimits(insecure=True, env={"http_proxy": proxy}))
    assert (where, data) == ("http://far.invalid/x?y=1", b"by proxy")
    assert (seen[0][0], seen[0][1]["Host"]) == ("GET http://far.invalid/x?y=1", "far.invalid")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "169.254.169.254"])
def test_a_proxy_opens_no_private_network(host: str):
    with proxying() as (proxy, seen):
        with pytest.raises(Refused, match="private address"):
            fetch_document(f"https://{host}/x", FetchLimits(env={"https_proxy": proxy}))
        assert seen == []


@pytest.mark.parametrize(
    ("said", "excepted"),
    [("", False), ("*", True), ("127.0.0.1", True), ("other,127.0.0.1:{port}", True), ("127.0.0.1:1", False), (".0.0.1", True), ("0.0.1.example.com", False)],
)  # fmt: skip
def test_hosts_that_need_no_proxy_are_asked_themselves(tmp_path: Path, trusting: Path, said: str, excepted: bool):
    with serving(files({"/x": b"x"}), trusting) as server, proxying() as (proxy, seen):
        said = said.format(port=server.url.rpartition(":")[2])
        download_file(f"{server.url}/x", str(tmp_path / "a"), through(proxy, NO_PROXY=said))
        assert bool(seen) is not excepted


@pytest.mark.parametrize("proxy", ["socks5://me:secret@127.0.0.1:1", "http://", "http://me:secret@h:x"])
def test_a_proxy_that_can_not_be_used_is_said_without_its_password(proxy: str):
    with pytest.raises(BadRequest, match="proxy for https") as told:
        fetch_document("https://example.invalid/x", FetchLimits(env={"HTTPS_PROXY": proxy}))
    assert "secret" not in told.value.message


def test_a_proxy_that_is_not_there_is_said(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(HostError, match="can't be reached through"):
        fetch_document("https://example.invalid/x", FetchLimits(env={"HTTPS_PROXY": f"127.0.0.1:{port}"}))


def test_archives_are_added_through_the_proxy_of_the_environment(desk: Desk, repo: Repo, certificate: Path):
    from tests.install.test_add import packed

    data = packed(repo)["zip"]
    with serving(files({"/s.zip": data}), certificate) as server, proxying() as (proxy, seen):
        said = desk.say("add", f"{server.url}/s.zip", "--yes", HTTPS_PROXY=f"http://{proxy}", **server.env)
    assert said.code == 0, said.err
    assert seen[0][0].startswith("CONNECT ")


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def test_the_skills_of_a_site_are_installed_from_its_index(desk: Desk, repo: Repo, certificate: Path):
    from tests.install.test_add import packed

    text, archive = skill_text("alone").encode(), packed(repo, "")["tar.gz"]
    index = {
        "$schema": SCHEMA,
        "skills": [
            {"name": "alone", "type": "skill-md", "description": "d", "url": "/files/alone.md", "digest": digest(text)},
            {"name": "pdf", "type": "archive", "description": "d", "url": "pdf.tar.gz", "digest": digest(archive)},
            {"name": "../evil", "type": "skill-md", "url": "/x", "digest": digest(text)},
            {"name": "odd", "type": "hologram", "url": "/x", "digest": digest(text)},
        ],
    }
    contents = {
        "/.well-known/agent-skills/index.json": json.dumps(index).encode(),
        "/files/alone.md": text,
        "/.well-known/agent-skills/pdf.tar.gz": archive,
    }
    with serving(files(contents), certificate) as server:
        said = desk.say("add", server.url, "--yes", **server.env)
        assert said.code == 0, said.err
        assert sorted(path.name for path in desk.skills.iterdir() if path.name != ".metier") == ["alone", "pdf"]
        assert "`odd` is not a valid entry" in said.out
        assert desk.say("verify").code == 0
        one = desk.say(
            "add",
            f"{server.url}/.well-known/agent-skills/index.json",
            "--skill",
            "pdf",
            "--yes",
            "--force",
            **server.env,
        )
        assert one.code == 0, one.err
        current = desk.say("update", "pdf", "--yes", **server.env)
        assert current.out == "pdf is up to date\n"


def test_a_file_that_is_not_what_the_index_says_places_nothing(desk: Desk, certificate: Path):
    index = {"$schema": SCHEMA, "skills": [{"name": "a", "type": "skill-md", "url": "/a", "digest": digest(b"other")}]}
    contents = {"/.well-known/agent-skills/index.json": json.dumps(index).encode(), "/a": skill_text("a").encode()}
    with serving(files(contents), certificate) as server:
        said = desk.say("add", server.url, "--yes", **server.env)
    assert said.code == 4
    assert "digest mismatch for" in said.err
    assert not (desk.skills / "a").exists()


@pytest.mark.parametrize(
    ("index", "code"),
    [
        ({"$schema": "https://elsewhere.example.com/9", "skills": [{}]}, 4),
        ({"$schema": SCHEMA, "skills": []}, 2),
        ([], 2),
        ("no", 2),
    ],
)
def test_an_index_of_another_kind_is_refused(desk: Desk, certificate: Path, index, code):
    data = json.dumps(index).encode()
    with serving(files({"/.well-known/agent-skills/index.json": data}), certificate) as server:
        said = desk.say("add", server.url, "--yes", **server.env)
    assert said.code == code, said
    assert "Traceback" not in said.err


def test_the_first_form_of_the_index_is_read_too(desk: Desk, certificate: Path):
    index = {"skills": [{"name": "old", "description": "d", "files": ["SKILL.md", "references/a.md"]}]}
    contents = {
        "/.well-known/skills/index.json": json.dumps(index).encode(),
        "/.well-known/skills/old/SKILL.md": skill_text("old").encode(),
        "/.well-known/skills/old/references/a.md": b"more",
    }
    with serving(files(contents), certificate) as server:
        said = desk.say("add", server.url, "--yes", **server.env)
    assert said.code == 0, said.err
    assert (desk.skills / "old/references/a.md").read_text() == "more"
