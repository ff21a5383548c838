"""Who is let in, what is refused, and that hostile text stays text."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from tests.home import World, write_skill
from tests.served.raw import METIER
from tests.web.visit import Visit, make_shop, served

from metier.faces.loopback import ListenAddress
from metier.faces.web import access_keys, page_guard
from metier.faces.web.access_keys import AccessKeys, keys_folder, mint_token
from metier.faces.web.prose import render_prose
from metier.faces.web.web_app import ACTIONS


@pytest.fixture(scope="module")
def visit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visit]:
    with served(make_shop(tmp_path_factory.mktemp("web"))) as entered:
        yield entered


# --- Who asks ---


def test_a_request_for_another_host_is_refused(visit: Visit):
    """DNS rebinding: a name of the attacker's that leads to this machine."""
    for host in ("evil.example", f"evil.example:{visit.port}", "127.0.0.1", "localhost:1", ""):
        assert visit.ask("/", Host=host).status in (400, 421), host
    assert visit.ask("/", Host=visit.host).status == 200


def test_the_page_has_a_name_of_its_own_that_no_other_local_server_shares(visit: Visit, tmp_path: Path):
    """Cookies don't know ports: one for 127.0.0.1 would go to every server on this machine."""
    assert re.fullmatch(r"[0-9a-f]{16}\.localhost", visit.keys.host_name)
    assert AccessKeys(str(tmp_path)).host_name != visit.keys.host_name
    for name in ("127.0.0.1", "localhost", f"{'0' * 16}.localhost", f"x.{visit.keys.host_name}", "[::1]"):
        assert visit.ask("/", Host=f"{name}:{visit.port}").status == 421, name
        assert visit.ask("/enter", Host=f"{name}:{visit.port}").status == 421, name
        assert visit.ask("/", Origin=f"http://{name}:{visit.port}").status == 403, name


def test_the_port_of_the_scheme_may_be_left_out():
    assert ListenAddress("127.0.0.1", 80, own_name="a.localhost").hosts(80) == {"a.localhost", "a.localhost:80"}
    assert ListenAddress("127.0.0.1", 81, own_name="a.localhost").hosts(81) == {"a.localhost:81"}


def test_a_request_from_another_origin_is_refused(visit: Visit):
    for origin in ("http://evil.example", f"http://127.0.0.1:{visit.port + 1}", "null", "https://evil.example:1"):
        assert visit.ask("/", Origin=origin).status == 403, origin


def test_a_request_from_another_site_is_refused_although_it_names_no_origin(visit: Visit):
    for site in ("cross-site", "same-site"):
        assert visit.ask("/", Sec_Fetch_Site=site).status == 403, site


def test_nothing_is_shown_without_the_cookie(visit: Visit):
    for cookie in ("", f"metier-web-{visit.port}=guess", "metier-web-1=x", "=", ";;"):
        answer = visit.ask("/skills", Cookie=cookie)
        assert answer.status == 403
        assert "report" not in answer.text


def test_a_cookie_of_an_earlier_server_says_what_to_do(visit: Visit):
    answer = visit.ask("/", Cookie=f"metier-web-{visit.port}={'a' * 43}")

    assert answer.status == 403
    assert "earlier metier web" in answer.text
    assert "metier web</code>" in answer.text


def test_a_token_works_once(visit: Visit):
    token = mint_token(str(visit.world.state))
    first = visit.ask(f"/enter?token={token}", Cookie="", Sec_Fetch_Site="none")
    second = visit.ask(f"/enter?token={token}", Cookie="", Sec_Fetch_Site="none")

    assert first.status == 200
    assert second.status == 403
    assert "Set-Cookie" not in second.headers


def test_the_cookie_is_for_this_browser_and_this_page_alone(visit: Visit):
    token = mint_token(str(visit.world.state))
    cookie = visit.ask(f"/enter?token={token}", Cookie="", Sec_Fetch_Site="none").headers["Set-Cookie"].lower()

    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert str(visit.port) in cookie
    assert "domain" not in cookie  # of this host alone, not of names beneath it


def test_a_link_from_elsewhere_may_only_lead_to_the_entrance(visit: Visit):
    token = mint_token(str(visit.world.state))
    entered = visit.ask(f"/enter?token={token}", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate", Cookie="")
    assert entered.status == 200
    assert visit.ask("/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate").status == 403


def test_a_token_is_kept_as_a_digest_in_a_private_file_and_ages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    state = str(tmp_path / "state")
    token = mint_token(state)
    [file] = Path(keys_folder(state)).iterdir()
    assert token not in file.name + file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    monkeypatch.setattr(access_keys, "TOKEN_SECONDS", -1.0)
    assert AccessKeys(state).redeem(token) is None


def test_wrong_tokens_keep_nobody_out_who_has_a_right_one(tmp_path: Path):
    with served(make_shop(tmp_path), entered=False) as visit:
        for number in range(page_guard._MOST_REQUESTS + 20):
            assert visit.ask(f"/enter?token=guess-{number}", Sec_Fetch_Site="none").status == 403

        assert visit.enter().status == 200
        assert visit.ask("/skills").status == 200


# --- Forms ---


@pytest.mark.parametrize("path", sorted(ACTIONS))
def test_an_action_needs_the_token_of_a_form(visit: Visit, path: str):
    for token in ("", "0" * 64, visit.keys.form_token("another cookie")):
        answer = visit.send(path, form_token=token)
        assert answer.status == 403, path
        assert "not one of this page" in answer.text


@pytest.mark.parametrize("path", sorted(ACTIONS))
def test_an_action_is_no_link(visit: Visit, path: str):
    assert visit.ask(path).status in (404, 405)


def test_a_form_without_an_origin_is_refused(visit: Visit):
    body = urlencode({"form_token": visit.form_token()}).encode()
    assert visit.ask("/trust", "POST", body, Origin="").status == 403


def test_only_forms_are_read(visit: Visit):
    for kind in ("application/json", "text/plain", "multipart/form-data; boundary=x", ""):
        assert visit.ask("/trust", "POST", b"{}", Content_Type=kind).status == 415


@pytest.mark.parametrize("path", sorted(ACTIONS))
def test_a_page_that_is_read_only_refuses_every_action(tmp_path: Path, path: str):
    with served(make_shop(tmp_path), read_only=True) as looking:
        answer = looking.send(path)
        assert answer.status == 403
        assert "read-only" in answer.text


def test_a_page_that_is_read_only_has_no_forms_that_send(tmp_path: Path):
    with served(make_shop(tmp_path), read_only=True) as looking:
        for path in ("/", "/skills", "/approvals", "/schedules", "/chat", "/get", "/proposals"):
            assert 'method="post"' not in looking.ask(path).text, path


# --- Sizes and rates ---


def test_a_form_that_is_too_large_is_not_read(visit: Visit):
    body = urlencode({"form_token": visit.form_token(), "text": "x" * page_guard.LARGEST_FORM}).encode()
    assert visit.ask("/chat/say", "POST", body).status == 413


def test_a_form_with_too_many_fields_is_not_read(visit: Visit):
    body = "&".join(f"a{number}=1" for number in range(500)).encode()
    assert visit.ask("/chat/say", "POST", body).status == 413


def test_an_address_that_is_too_long_is_refused(visit: Visit):
    assert visit.ask("/skills?q=" + "x" * 20_000).status == 414


def test_too_many_requests_have_to_wait(tmp_path: Path):
    with served(make_shop(tmp_path)) as visit:
        statuses = [visit.ask("/static/style.css").status for _ in range(page_guard._MOST_REQUESTS + 20)]

    assert statuses[0] == 200
    assert statuses[-1] == 429


def test_only_so_many_live_pages_are_open(visit: Visit, monkeypatch: pytest.MonkeyPatch):
    from metier.faces.web.screens import run_pages

    monkeypatch.setattr(run_pages._limit, "open", run_pages._MOST_STREAMS)
    assert visit.see("/chat/stream", run="x").status == 404
    assert run_pages.stream_response(None).status_code == 503  # type: ignore[arg-type]


# --- Headers ---


@pytest.mark.parametrize("path", ["/", "/nothing", "/static/style.css", "/static/page.js", "/enter"])
def test_every_answer_says_that_nothing_else_may_run_in_it(visit: Visit, path: str):
    headers = visit.ask(path).headers

    assert headers["Content-Security-Policy"].startswith("default-src 'self';")
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "same-origin"


def test_a_refusal_has_these_headers_too(visit: Visit):
    assert "Content-Security-Policy" in visit.ask("/", Host="evil.example:1").headers


def test_no_page_has_anything_inline(visit: Visit):
    for path in ("/", "/skills", "/skill?name=report", "/approvals", "/schedules", "/chat", "/budget", "/get"):
        text = visit.ask(path).text
        assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=|style=\"|javascript:", text), path
        assert not re.search(r"(?:src|href)=\"(?:https?:)?//", text), path


def test_no_file_outside_the_folder_is_served(visit: Visit):
    for path in ("/static/../web_site.py", "/static/%2e%2e/web_site.py", "/static/..%2fweb_site.py", "//etc/passwd"):
        assert visit.ask(path).status in (400, 404), path


# --- Hostile text ---

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</textarea><script>alert(1)</script>",
    "<svg onload=alert(1)>",
    "' onmouseover='alert(1)",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_what_an_address_says_is_only_ever_text(visit: Visit, text: str):
    for path, name in (
        ("/skills", "q"),
        ("/skill", "name"),
        ("/budget", "for"),
        ("/schedules", "time"),
        ("/chat", "text"),
    ):
        shown = visit.see(path, **{name: text}).text
        assert text not in shown, path


def test_an_address_can_put_no_words_into_a_page(visit: Visit):
    assert "your account" not in visit.see("/", done="your account was closed").text


def test_skills_can_not_put_markup_into_a_page(tmp_path: Path):
    world = make_shop(tmp_path)
    body = '<script>alert(1)</script>\n\n![x](https://evil.example/p.png)\n\n[go](javascript:alert(1))\n\n<b onclick="x">b</b>\n'
    write_skill(world.state / "skills/evil", '"<script>alert(2)</script>"', body)
    with served(world) as visit:
        for path in ("/skills", "/skill?name=evil", "/budget", "/skill?name=evil&arguments=%3Cscript%3Ealert(3)"):
            text = visit.ask(path).text
            assert "<script>alert" not in text
            assert "<img" not in text
            assert 'href="javascript' not in text
            assert "<b onclick" not in text


def test_text_that_would_reorder_a_line_is_spelled_out(tmp_path: Path):
    world = make_shop(tmp_path)
    write_skill(world.state / "skills/evil", "Reads \u202egnihton\u202c of it.", "See !`echo \u202eevil`\n")
    with served(world) as visit:
        for path in ("/skills", "/skill?name=evil", "/budget"):
            assert "\u202e" not in visit.ask(path).text
        assert "\\u202e" in visit.ask("/skill?name=evil").text


def test_prose_keeps_what_is_harmless():
    shown = render_prose(
        "# Title\n\n**bold** [site](https://example.org)\n\n```sh\nls <a>\n```\n\n| a |\n|---|\n| b |\n"
    )

    assert "<h3>Title</h3>" in shown
    assert "<strong>bold</strong>" in shown
    assert 'href="https://example.org" rel="noreferrer noopener nofollow"' in shown
    assert "ls &lt;a&gt;" in shown
    assert "<table>" in shown


@pytest.mark.parametrize(
    "text",
    ["![" * 95_000, "[" * 190_000, "|" + "a|" * 2_000 + "\n|" + "-|" * 2_000 + "\n" + "|\n" * 5_000],
    ids=["images", "links", "a wide table"],
)
def test_text_that_is_slow_to_render_is_shown_as_it_is_written(text: str):
    began = time.thread_time()
    shown = render_prose(text)

    assert time.thread_time() - began < 1.0
    assert "<table>" not in shown
    # Nothing of it is lost.
    assert shown.count("|") == text.count("|")
    assert shown.count("[") == text.count("[")


def test_a_long_text_is_rendered_at_first_and_says_where_that_ends():
    shown = render_prose("**bold** <b>\n\n" * 4_000)

    assert shown.startswith("<p><strong>bold</strong> &lt;b&gt;</p>")
    assert shown.count("shown as it is written") == 1
    assert shown.endswith("**bold** &lt;b&gt;\n\n</pre>")


def test_a_skill_that_is_slow_to_render_keeps_its_page_waiting_for_no_one(tmp_path: Path):
    world = make_shop(tmp_path)
    write_skill(world.state / "skills/slow", "Is slow.", "![" * 95_000)
    with served(world) as visit:
        began = time.process_time()
        answer = visit.ask("/skill?name=slow")
        spent = time.process_time() - began

    assert answer.status == 200
    assert spent < 2.5


# --- The command ---


def started(world: World, *options: str, folder: Path | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*METIER, "web", "--no-open", *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder or world.project,
        env={**world.variables, "PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1"},
    )


def test_the_command_prints_an_address_and_ends_with_ctrl_c_without_a_trace(tmp_path: Path):
    world = make_shop(tmp_path)
    process = started(world, "--port", "0")
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert re.fullmatch(r"http://[0-9a-f]{16}\.localhost:\d+/enter\?token=\S+", address)
        # A second one leads to the first.
        second = started(world)
        said, _ = second.communicate(timeout=60)
        assert second.returncode == 0
        assert "already running" in said
        port = address.split(":")[2].partition("/")[0]
        assert f"{address.partition(':')[2].partition(':')[0]}:{port}/enter?token=" in said
        # It is not the second one that serves.
        assert "Ctrl-C" not in said
        assert "token=" not in (Path("/proc") / str(process.pid) / "cmdline").read_text()
        time.sleep(0.2)
    finally:
        process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=30)
    assert "Traceback" not in rest
    assert process.returncode in (0, 130)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, str]]:
    """A page that can act, of a project, and its port."""
    world = make_shop(tmp_path_factory.mktemp("running"))
    process = started(world, "--port", "0")
    try:
        assert process.stdout is not None
        yield world, process.stdout.readline().split(":")[2].partition("/")[0]
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (("--read-only",), "another --read-only"),
        (("--port", "1"), "another --port"),
        (("--model", "claude-x"), "another --model"),
        ((), "another folder"),
    ],
    ids=["read-only", "port", "model", "folder"],
)
def test_a_second_one_never_leads_to_a_page_that_is_not_what_was_asked_for(
    running: tuple[World, str], options: tuple[str, ...], names: str
):
    world, port = running
    folder = None if options else world.project.parent
    said, _ = (second := started(world, *options, folder=folder)).communicate(timeout=60)

    assert second.returncode == 4
    assert "token=" not in said
    # What runs, where, and what next.
    assert f"already running for {world.project}, with actions, on port {port}" in said
    assert names in said
    assert "Ctrl-C in its terminal" in said


def test_a_second_one_with_the_same_port_or_any_leads_to_the_first(running: tuple[World, str]):
    world, port = running
    for wanted in (port, "0"):
        said, _ = (second := started(world, "--port", wanted)).communicate(timeout=60)
        assert second.returncode == 0, said
        assert f":{port}/enter?token=" in said


def test_what_an_earlier_page_wrote_is_not_taken_for_the_one_that_runs(running: tuple[World, str]):
    world, _ = running
    file = Path(keys_folder(str(world.state))) / "address"
    before = file.read_text()
    try:
        file.write_text(json.dumps({**json.loads(before), "pid": 1}))
        said, _ = (second := started(world)).communicate(timeout=60)
    finally:
        file.write_text(before)

    assert second.returncode == 4
    assert "token=" not in said


def test_a_port_that_is_in_use_is_named(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = started(make_shop(tmp_path), "--port", str(port))
        said, _ = process.communicate(timeout=60)

    assert process.returncode == 5
    assert f"can't listen on 127.0.0.1:{port}" in said
    assert "--port" in said


def test_without_the_extra_the_command_names_it(tmp_path: Path):
    world = make_shop(tmp_path)
    (tmp_path / "broken/jinja2").mkdir(parents=True)
    (tmp_path / "broken/jinja2/__init__.py").write_text("raise ImportError('no', name='jinja2')\n")
    done = subprocess.run(
        [*METIER, "web", "--no-open"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=world.project,
        env={**world.variables, "PATH": os.environ["PATH"], "PYTHONPATH": f"{tmp_path}/broken:{Path('src').resolve()}"},
    )

    assert done.returncode == 5
    assert "pip install 'metier[web]'" in done.stderr
