"""The Skills extension: what a host that speaks it is given, and that it is true."""

import base64
from hashlib import sha256
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import Request, RequestParams
from pydantic import BaseModel, ConfigDict
from tests.home import write_skill
from tests.served_files import Shop

from metier.faces.mcp.serve import server_for

EXTENSION = "io.modelcontextprotocol/skills"


class Params(RequestParams):
    model_config = ConfigDict(extra="allow")


class Anything(BaseModel):
    model_config = ConfigDict(extra="allow")


def talk(shop: Shop, *requests: tuple[str, dict[str, Any]]) -> list[Any]:
    """What each request of the extension gives, or the error's code."""

    async def main() -> list[Any]:
        found: list[Any] = []
        async with Client(server_for(shop.open())) as client:
            assert EXTENSION in (client.server_capabilities.extensions or {})
            for method, params in requests:
                asked: Request[Any, Any] = Request(method=method, params=Params(**params))
                try:
                    found.append((await client.session.send_request(asked, Anything)).model_dump())
                except MCPError as error:
                    found.append(error.error.code)
        return found

    return anyio.run(main)


def read(shop: Shop, uri: str) -> bytes:
    async def main() -> Any:
        async with Client(server_for(shop.open())) as client:
            return (await client.read_resource(uri)).contents[0]

    contents = anyio.run(main)
    return contents.text.encode() if hasattr(contents, "text") else base64.b64decode(contents.blob)


def test_an_entry_has_the_frontmatter_and_every_file_with_its_digest(shop):
    more = "license: MIT\nmetadata:\n  version: 1.10\n  tags: [a, 'yes']\n  on: true\n  nothing:\n"
    write_skill(shop.skills / "greet", "Greets people.", "Hello.\n", more)
    (shop.skills / "greet" / "face.png").write_bytes(b"\x89PNG\0")
    [result] = talk(shop, ("skills/list", {}))

    assert (result["resultType"], result["cacheScope"]) == ("complete", "private")
    assert result["ttlMs"] >= 0
    entry = result["skills"][0]
    assert entry["uri"] == "skill://greet/SKILL.md"
    assert entry["frontmatter"] == {
        "name": "greet",
        "description": "Greets people.",
        "license": "MIT",
        "metadata": {"version": 1.1, "tags": ["a", "yes"], "on": True, "nothing": None},
    }
    assert [one["uri"].removeprefix("skill://greet/") for one in entry["resources"]] == [
        "SKILL.md",
        "face.png",
        "reference.md",
        "scripts/hello.sh",
    ]
    for one in entry["resources"]:
        data = read(shop, one["uri"])
        assert (one["digest"], one["size"]) == (f"sha256:{sha256(data).hexdigest()}", len(data))


def test_one_skill_is_given_by_its_uri_and_nothing_else_is(shop):
    uris = ["skill://greet/SKILL.md", "skill://greet", "skill://greet/reference.md", "skill://nobody/SKILL.md", "x"]
    listing, found, *refused = talk(shop, ("skills/list", {}), *(("skills/get", {"uri": uri}) for uri in uris))

    assert found["skill"] == listing["skills"][0]
    assert found["resultType"] == "complete"
    assert refused == [-32602] * 4


def test_a_folder_lists_its_direct_children(shop):
    (shop.skills / "greet" / "scripts" / "more").mkdir()
    (shop.skills / "greet" / "scripts" / "more" / "a b.sh").write_text("echo\n")
    folders = ["skill://greet", "skill://greet/scripts", "skill://greet/scripts/more"]
    found = talk(shop, *(("resources/directory/read", {"uri": uri}) for uri in folders))
    listed = [{one["uri"]: one.get("mimeType") for one in result["resources"]} for result in found]

    assert listed == [
        {
            "skill://greet/SKILL.md": "text/markdown",
            "skill://greet/reference.md": "text/markdown",
            "skill://greet/scripts": "inode/directory",
        },
        {"skill://greet/scripts/hello.sh": "application/x-sh", "skill://greet/scripts/more": "inode/directory"},
        {"skill://greet/scripts/more/a%20b.sh": "application/x-sh"},
    ]


@pytest.mark.parametrize(
    "uri",
    ["skill://greet/SKILL.md", "skill://greet/", "skill://greet/..", "skill://gre", "skill://", "file:///etc", ""],
)
def test_what_is_no_folder_is_not_listed(shop, uri):
    assert talk(shop, ("resources/directory/read", {"uri": uri})) == [-32602]


def test_a_change_is_seen_in_the_next_entry(shop):
    def digest() -> str:
        [found] = talk(shop, ("skills/get", {"uri": "skill://greet/SKILL.md"}))
        said: str = found["skill"]["resources"][1]["digest"]
        return said

    before = digest()
    (shop.skills / "greet" / "reference.md").write_text("Good evening is another.\n")
    assert digest() != before


def names(shop: Shop) -> list[str]:
    [result] = talk(shop, ("skills/list", {}))
    return [entry["frontmatter"]["name"] for entry in result["skills"]]


def test_a_skill_beyond_the_limits_is_no_entry(shop):
    for number in range(512):
        (shop.skills / "quiet" / f"{number}.txt").touch()
    big = shop.skills / "launch" / "big.bin"
    with big.open("wb") as file:
        file.truncate(16_777_216)

    assert names(shop) == ["greet"]


@pytest.mark.parametrize("frontmatter", ["description: Use when: x", "description: &a x", "description: ''\nx: y"])
def test_a_skill_whose_frontmatter_hosts_could_not_compare_is_no_entry(shop, frontmatter):
    (shop.skills / "quiet" / "SKILL.md").write_text(f"---\nname: quiet\n{frontmatter}\n---\nBody.\n")

    assert names(shop) == ["greet", "launch"]


def test_private_files_and_links_that_lead_outside_are_no_part_of_a_skill(shop):
    (shop.skills / "greet" / ".env").write_text("SECRET=1\n")
    (shop.skills / "greet" / "out").symlink_to("/etc/passwd")
    [found] = talk(shop, ("skills/get", {"uri": "skill://greet/SKILL.md"}))

    assert len(found["skill"]["resources"]) == 3


def test_pages_hold_whole_entries(shop):
    for number in range(60):
        write_skill(shop.skills / f"many-{number:02}")
    [first] = talk(shop, ("skills/list", {}))
    [second] = talk(shop, ("skills/list", {"cursor": first["nextCursor"]}))

    assert (len(first["skills"]), len(second["skills"])) == (50, 13)
    assert "nextCursor" not in second
