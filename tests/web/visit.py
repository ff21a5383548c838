"""A page that is really served, and what a browser without a screen sees of it."""

from __future__ import annotations

import asyncio
import html
import http.client
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from tests.home import World, make_world, write_skill

from metier.agent.agent import Agent
from metier.faces.loopback import AnnouncingServer, local_config
from metier.faces.web.access_keys import AccessKeys, mint_token
from metier.faces.web.conversations import ConversationHub, LiveConversation
from metier.faces.web.web_app import guarded_app
from metier.faces.web.web_site import SiteOptions, WebSite
from metier.testing.models import ScriptedModel


@dataclass
class Answer:
    status: int
    text: str
    headers: http.client.HTTPMessage

    @property
    def goes_to(self) -> str:
        return str(self.headers.get("Location", ""))

    def field(self, name: str, after: str = "") -> str:
        """The value of a hidden field, the first after a piece of the page."""
        part = self.text[self.text.index(after) :] if after else self.text
        found = re.search(rf'name="{name}" value="([^"]*)"', part)
        assert found, f"no field {name}"
        return html.unescape(found[1])


@dataclass
class Visit:
    """A browser that was let in."""

    port: int
    world: World
    site: WebSite
    keys: AccessKeys
    cookie: str = ""

    @property
    def host(self) -> str:
        return f"{self.keys.host_name}:{self.port}"

    @property
    def home(self) -> str:
        return f"http://{self.host}"

    def ask(self, path: str, method: str = "GET", body: bytes = b"", **headers: str) -> Answer:
        """A request like a browser's, but for what is given; an empty header is left out."""
        usual = {"Host": self.host, "Sec-Fetch-Site": "same-origin", "Cookie": self.cookie}
        if method == "POST":
            usual |= {"Origin": self.home, "Content-Type": "application/x-www-form-urlencoded"}
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.putrequest(method, path, skip_host=True)
            for name, value in {**usual, "Content-Length": str(len(body)), **given}.items():
                if value:
                    connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            return Answer(answer.status, answer.read().decode(), answer.headers)
        finally:
            connection.close()

    def see(self, path: str, **query: str) -> Answer:
        return self.ask(f"{path}?{urlencode(query)}" if query else path)

    def send(self, path: str, **fields: str) -> Answer:
        """A form of the page, with its token unless another is given."""
        values = {"form_token": self.form_token(), **fields}
        return self.ask(path, "POST", urlencode(values).encode())

    def conversation(self, run: str) -> LiveConversation:
        assert self.site.hub is not None
        live = self.site.hub.find(run)
        assert live is not None
        return live

    def form_token(self) -> str:
        return self.keys.form_token(self.cookie.partition("=")[2])

    def enter(self) -> Answer:
        """Exchange a token for a cookie, as opening the printed address does."""
        answer = self.ask(f"/enter?token={mint_token(str(self.world.state))}", Cookie="", Sec_Fetch_Site="none")
        if answer.status == 200:
            self.cookie = str(answer.headers["Set-Cookie"]).partition(";")[0]
        return answer


def make_shop(folder: Path) -> World:
    """A home with skills of its own, and a project whose skills nobody trusts yet."""
    world = make_world(folder)
    write_skill(world.home / ".metier/skills/report", "Writes reports of numbers.", "Write a report of $0.\n")
    write_skill(world.project / ".metier/skills/deploy", "Deploys the site.", "First look: !`git status`\n")
    write_skill(
        world.home / ".metier/skills/weather",
        "Tells the weather.",
        "Ask.\n",
        "metadata:\n  metier:\n    requires:\n      bins: [no-such-program]\n",
    )
    (world.home / ".metier/skills/torn").mkdir()
    (world.home / ".metier/skills/torn/SKILL.md").write_text("---\nname: [\n---\n")
    return world


@contextmanager
def served(
    world: World, read_only: bool = False, agent: Callable[[], Agent] | None = None, entered: bool = True
) -> Iterator[Visit]:
    """The page of a world on a free port, in this process."""
    place = world.place()._replace(env={"PATH": "/usr/bin:/bin"})
    site = WebSite(SiteOptions(use_index=False, read_only=read_only), place)
    site.hub = ConversationHub(agent or (lambda: Agent(site.library(), ScriptedModel(lambda request: "Hello."))))
    keys = AccessKeys(str(world.state))
    app = guarded_app(site, keys, 0)
    ready, ports = threading.Event(), list[int]()

    def told(port: int) -> None:
        ports.append(port)
        ready.set()

    server = AnnouncingServer(local_config(app, app.address), told)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    assert ready.wait(30)
    visit = Visit(ports[0], world, site, keys)
    if entered:
        visit.enter()
    try:
        yield visit
    finally:
        server.should_exit = True
        site.hub.close()
        thread.join(20)
