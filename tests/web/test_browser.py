"""The page in a real browser: each screen, narrow and wide, dark and light, with and without JavaScript."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.agent.talking import call
from tests.home import usable, write_skill
from tests.web.furnished import furnish
from tests.web.visit import Visit, served

from metier.agent.agent import Agent
from metier.agent.permissions import Permission
from metier.faces.web.access_keys import mint_token
from metier.host.facts import which
from metier.improve.proposal_store import list_proposals
from metier.testing.models import ScriptedModel, ScriptLine

CHROMIUM = which("chromium", os.environ.get("PATH", "")) or which("chromium-browser", os.environ.get("PATH", ""))
if not CHROMIUM:
    pytest.skip("no chromium on this machine", allow_module_level=True)
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

AXE = gzip.decompress((Path(__file__).parent / "axe.min.js.gz").read_bytes()).decode()
SCREENS = {
    "today": "/",
    "skills": "/skills",
    "skill": "/skill?name=csv-report&arguments=sales.csv",
    "not-used": "/skill?name=deploy",
    "budget": "/budget?limit=700&for=report+of+a+file",
    "chat": "/chat",
    "runs": "/runs",
    "run": "/run?id=last",
    "approvals": "/approvals",
    "proposals": "/proposals",
    "proposal": "/proposal?id=",
    "schedules": "/schedules?time=every+weekday+at+9am&skill=standup",
    "schedule": "/schedule?id=standup",
    "evals": "/evals",
    "get": "/get",
}
SAMPLE = {"skills", "approvals", "proposal", "schedules"}
"""The screens of every run of the tests; all of them are for `make soak`."""


@pytest.fixture(scope="module")
def visit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visit]:
    with served(furnish(tmp_path_factory.mktemp("browser")), agent=None) as entered:
        yield entered


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        # Root has no sandbox of Chromium's; all that is loaded is a page of this process.
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


def address(visit: Visit, screen: str) -> str:
    path = SCREENS[screen]
    if screen == "proposal":
        path += list_proposals(str(visit.world.state))[0].id
    return visit.home + path


@contextmanager
def opened(browser: Any, visit: Visit, width: int = 1280, **options: Any) -> Iterator[Any]:
    """A window that was let in, and that must not say anything went wrong."""
    context = browser.new_context(viewport={"width": width, "height": 900}, **options)
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    # With a listener a dialog stays open, and the test ends at its limit: that there was one is enough to fail.
    page.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
    page.goto(f"{visit.home}/enter?token={mint_token(str(visit.world.state))}")
    page.wait_for_url(f"{visit.home}/")
    try:
        yield page
        assert wrong == []
    finally:
        context.close()


def matrix() -> Iterator[Any]:
    for screen in SCREENS:
        for width in (390, 1280):
            for scheme in ("light", "dark"):
                for script in (True, False):
                    sampled = screen in SAMPLE and script and (width == 390) == (scheme == "dark")
                    marks = () if sampled else (pytest.mark.soak,)
                    name = f"{screen}-{width}-{scheme}{'' if script else '-noscript'}"
                    yield pytest.param(screen, width, scheme, script, id=name, marks=marks)


@pytest.mark.parametrize(("screen", "width", "scheme", "script"), list(matrix()))
def test_a_screen_fits_and_has_no_serious_fault_for_anybody(visit, browser, screen, width, scheme, script, tmp_path):
    with opened(browser, visit, width, color_scheme=scheme, java_script_enabled=script) as page:
        answer = page.goto(address(visit, screen))
        assert answer.status == 200
        # A folder to look at the pictures in; without one they go with the test.
        folder = Path(os.environ.get("METIER_SCREENSHOTS") or tmp_path)
        page.screenshot(path=folder / f"{screen}-{width}-{scheme}{'' if script else '-noscript'}.png", full_page=True)
        if not script:
            return
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # In an isolated world, as an extension: the page itself lets no foreign script in.
        client = page.context.new_cdp_session(page)
        tree = client.send("Page.getFrameTree")
        world = client.send("Page.createIsolatedWorld", {"frameId": tree["frameTree"]["frame"]["id"]})
        here = {"contextId": world["executionContextId"]}
        client.send("Runtime.evaluate", {"expression": AXE, **here})
        run = "axe.run(document, {resultTypes: ['violations']}).then(r => JSON.stringify(r.violations.filter(v =>"
        run += " ['serious', 'critical'].includes(v.impact)).map(v => [v.id, v.nodes.map(n => n.html).slice(0, 3)])))"
        found = client.send("Runtime.evaluate", {"expression": run, "awaitPromise": True, **here})
        assert found["result"]["value"] == "[]"


# --- What somebody new does, with only the page ---


def test_somebody_new_finds_why_a_skill_is_not_used_and_fixes_it(tmp_path, browser):
    with served(furnish(tmp_path)) as visit, opened(browser, visit) as page:
        page.get_by_role("link", name="Skills", exact=True).click()
        page.get_by_role("searchbox", name="Search").fill("deploy")
        page.get_by_role("link", name="deploy", exact=True).click()
        assert page.get_by_role("heading", name="Why it is not used").is_visible()
        page.get_by_role("link", name="Read what it runs, then trust it").click()
        assert "git status" in page.locator("#trust").inner_text()
        page.get_by_role("button", name="Trust it as shown").click()
        assert "Trusted." in page.get_by_role("status").inner_text()
        page.goto(f"{visit.home}/skill?name=deploy")
        assert page.get_by_role("heading", name="Why it is used").is_visible()
        assert "deploy" in usable(visit.world.open())


def test_somebody_new_approves_one_command(tmp_path, browser):
    world = furnish(tmp_path)
    model = ScriptedModel([call("run_command", command="echo hello there"), "It said **hello there**."])
    with (
        served(world, agent=lambda: Agent(world.open(), model, rules=Permission())) as visit,
        opened(browser, visit) as page,
    ):
        page.get_by_role("link", name="Chat", exact=True).click()
        page.get_by_label("Your request").fill("Say hello")
        page.get_by_role("button", name="Send").click()
        page.get_by_role("heading", name="May it do this?").wait_for()
        assert "echo hello there" in page.locator(".ask .exact").first.inner_text()
        page.get_by_role("button", name="This once").click()
        page.get_by_text("It said hello there.").wait_for()
        page.get_by_role("link", name="Approvals", exact=True).click()
        assert "once" in page.get_by_role("region", name="Decisions").last.inner_text()


def test_somebody_new_accepts_a_proposal_after_seeing_its_evidence(tmp_path, browser):
    with served(furnish(tmp_path)) as visit, opened(browser, visit) as page:
        page.get_by_role("link", name="a change to report").click()
        assert "--all-of-it" in page.locator(".evidence").inner_text()
        assert "passed" in page.locator(".gates").inner_text()
        page.get_by_role("link", name="The run in which it failed").click()
        assert "failed" in page.locator("#timeline").inner_text()
        page.go_back()
        page.get_by_role("button", name="Accept it as shown").click()
        assert "Accepted" in page.get_by_role("status").inner_text()
        assert "--everything" in (visit.world.state / "skills/report/SKILL.md").read_text()


def test_somebody_new_schedules_a_skill_for_tomorrow_at_nine(tmp_path, browser):
    with served(furnish(tmp_path)) as visit, opened(browser, visit) as page:
        page.get_by_role("link", name="Schedules", exact=True).click()
        page.get_by_label("Skill", exact=True).fill("invoice")
        page.get_by_label("When", exact=True).press_sequentially("tomorrow at 9am")
        page.locator("#means").get_by_text("09:00").first.wait_for()
        page.get_by_role("button", name="Schedule it").click()
        assert page.get_by_role("heading", name="invoice", exact=True).is_visible()
        assert "09:00" in page.locator("main").inner_text()
        assert "Nobody fires this" in page.get_by_role("alert").inner_text()


# --- The cookie ---


def test_another_server_on_this_machine_gets_no_cookie(visit, browser):
    seen: list[str | None] = []

    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers["Cookie"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Other) as other:
        Thread(target=other.serve_forever, daemon=True).start()
        try:
            with opened(browser, visit) as page:
                assert page.context.cookies()[0]["domain"] == visit.keys.host_name
                for name in ("127.0.0.1", "localhost", "other.localhost"):
                    page.goto(f"http://{name}:{other.server_port}/")
        finally:
            other.shutdown()
    assert set(seen) == {None}


# --- Keys, and text that is not what it seems ---


def test_the_keys_search_and_go(visit, browser):
    with opened(browser, visit) as page:
        page.keyboard.press("g")
        page.keyboard.press("s")
        page.wait_for_url(f"{visit.home}/skills")
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.id") == "q"
        page.keyboard.press("Escape")
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("?")
        assert page.get_by_role("heading", name="Keys").is_visible()


MARKUP: tuple[str, ...] = (
    "<script>{}</script>",
    "<img src=x onerror={}>",
    "<svg onload={}>",
    "<iframe srcdoc='<script>{}</script>'>",
)
MARKUP += (
    '"><script>{}</script>',
    "'><img src=x onerror={}>",
    "</textarea><script>{}</script>",
    "</pre><svg/onload={}>",
)
MARKUP += ("</title><script>{}</script>", "<a href=javascript:{}>x</a>", "[x](javascript:{})", '![x](x" onerror="{})')
MARKUP += (
    "<details open ontoggle={}>",
    "<input autofocus onfocus={}>",
    "<body onload={}>",
    "<math><mi//xlink:href='data:x,{}'>",
)
MARKUP += (
    "`<script>{}</script>`",
    "{{{{ {} }}}}",
    "<style>@import 'javascript:{}';</style>",
    "data: x\\n\\nevent: item\\ndata: {}",
)
DEEDS: tuple[str, ...] = (
    "alert(1)",
    "window.hacked=1",
    "fetch('//evil.example')",
    "document.title='hacked'",
    "top.hacked=1",
)
DEEDS += ("eval('window.hacked=1')", "window.hacked=2", "confirm(1)", "prompt(1)", "location='//evil.example'")
HOSTILE = [markup.format(deed) for markup in MARKUP for deed in DEEDS]


def test_there_are_two_hundred_hostile_strings():
    assert len(set(HOSTILE)) == 200


def hostile_world(folder):
    """Hostile text in every field that a page shows: names of files, descriptions, bodies, requests, replies, output."""
    world = furnish(folder)
    for number, text in enumerate(HOSTILE):
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        file = write_skill(world.state / f"skills/evil-{number}", f'"{quoted}"', f"{text}\n\n# {text}\n\n    {text}\n")
        (file.parent / (text.replace("/", "∕")[:80] + ".md")).write_text(text)
    for part in (HOSTILE[:100], HOSTILE[100:]):
        lines: list[ScriptLine] = [
            call("run_command", command=f"echo {len(part)}", note="\n".join(part)),
            "\n\n".join(part),
        ]
        model = ScriptedModel(lines, part[0])
        with Agent(world.open(), model, rules=Permission(otherwise="allow")).start() as session:
            list(session.say("\n".join(part)))
    return world


def test_no_hostile_string_does_anything(tmp_path, browser):
    world = hostile_world(tmp_path)
    model = ScriptedModel(["\n\n".join(HOSTILE)])
    with served(world, agent=lambda: Agent(world.open(), model)) as visit, opened(browser, visit) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        pages = [f"/skills?page={number}" for number in (1, 2, 3, 4, 5)] + ["/", "/budget", "/runs", "/run?id=last"]
        pages += [f"/skill?name=evil-{number}&arguments=<script>top.hacked=1</script>" for number in range(0, 200, 40)]
        for path in pages:
            page.goto(visit.home + path)
            assert page.evaluate("[typeof window.hacked, document.title.includes('hacked')]") == ["undefined", False]
        page.goto(f"{visit.home}/chat")
        page.get_by_label("Your request").fill(HOSTILE[0])
        page.get_by_role("button", name="Send").click()
        page.locator(".ended").last.wait_for()
        assert page.evaluate("typeof window.hacked") == "undefined"
        assert all(url.startswith((visit.home, "data:")) for url in asked), asked


@pytest.mark.soak
def test_no_hostile_skill_does_anything_on_its_own_page(tmp_path, browser):
    with served(hostile_world(tmp_path)) as visit, opened(browser, visit) as page:
        for number in range(200):
            page.goto(f"{visit.home}/skill?name=evil-{number}")
            assert page.evaluate("typeof window.hacked") == "undefined"
