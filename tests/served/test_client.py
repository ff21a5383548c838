"""An MCP client of the official SDK with a server of ours, in both protocols."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import PromptReference
from tests.home import write_skill
from tests.served_files import Shop

from metier.faces.mcp.serve import server_for, watch_changes

MODES = ["auto", "legacy"]
Act = Callable[[Client], Awaitable[Any]]


def ask(shop: Shop, act: Act, mode: str = "auto") -> Any:
    async def main() -> Any:
        async with Client(server_for(shop.open()), mode=mode) as client:
            try:
                return await act(client)
            except MCPError as error:
                return error

    result = anyio.run(main)
    if isinstance(result, MCPError):
        raise result
    return result


def texts(result: Any) -> str:
    return "\n".join(block.text for block in result.content)


@pytest.mark.parametrize("mode", MODES)
def test_the_tools_are_listed_with_the_names_and_descriptions_of_the_skills(shop, mode):
    tools = ask(shop, lambda client: client.list_tools(), mode).tools

    assert [tool.name for tool in tools] == ["skill_use", "skill_read_file", "skill_run_script"]
    assert all(tool.input_schema["properties"]["skill_name"]["enum"] == ["greet", "quiet"] for tool in tools)
    assert "Greets people." in tools[0].description
    assert "Launches." not in tools[0].description


@pytest.mark.parametrize("mode", MODES)
def test_a_call_activates_a_skill(shop, mode):
    asked = {"skill_name": "greet", "arguments": "Ada"}
    result = ask(shop, lambda client: client.call_tool("skill_use", asked), mode)

    assert not result.is_error
    assert "Say hello to Ada." in texts(result)


def test_a_script_runs_and_what_it_prints_is_the_answer(shop):
    asked = {"skill_name": "greet", "script_name": "hello.sh", "script_args": "Ada"}
    result = ask(shop, lambda client: client.call_tool("skill_run_script", asked))

    assert texts(result) == "hello Ada"
    assert result.meta["metier/status"] == 0


def test_a_refusal_is_an_answer_that_the_model_can_act_on(shop):
    result = ask(shop, lambda client: client.call_tool("skill_use", {"skill_name": "launch"}))

    assert result.is_error
    assert texts(result) == "Skill 'launch' is not enabled for the model. Available: greet, quiet."


def test_a_tool_that_is_not_there_is_an_error_of_the_protocol(shop):
    with pytest.raises(MCPError, match="Unknown tool: rm"):
        ask(shop, lambda client: client.call_tool("rm", {}))


@pytest.mark.parametrize("mode", MODES)
def test_every_skill_for_people_is_a_prompt_with_its_arguments(shop, mode):
    write_skill(shop.skills / "deploy", "Deploys.", "Deploy $service to $where.\n", "arguments: [service, where]\n")
    prompts = ask(shop, lambda client: client.list_prompts(), mode).prompts

    assert {prompt.name: [one.name for one in prompt.arguments] for prompt in prompts} == {
        "deploy": ["service", "where"],
        "greet": ["arguments"],
        "launch": ["arguments"],
    }


@pytest.mark.parametrize("mode", MODES)
def test_a_prompt_is_the_skill_with_its_arguments_filled_in(shop, mode):
    write_skill(shop.skills / "deploy", "Deploys.", "Deploy $service to $where.\n", "arguments: [service, where]\n")
    asked = {"service": "the shop", "where": "staging; rm -rf /"}
    result = ask(shop, lambda client: client.get_prompt("deploy", asked), mode)

    assert result.messages[0].role == "user"
    assert "Deploy the shop to staging; rm -rf /." in result.messages[0].content.text


@pytest.mark.parametrize(("name", "asked"), [("quiet", {}), ("nobody", {}), ("greet", {"where": "x"})])
def test_a_prompt_or_argument_that_is_not_offered_is_refused_in_words(shop, name, asked):
    with pytest.raises(MCPError, match=r"Available: greet, launch|Available: arguments"):
        ask(shop, lambda client: client.get_prompt(name, asked))


def test_what_a_person_called_the_model_may_read_and_run(shop):
    (shop.skills / "launch" / "plan.md").write_text("The plan.\n")
    asked = {"skill_name": "launch", "file_path": "plan.md"}

    async def act(client: Client) -> list[Any]:
        before = await client.call_tool("skill_read_file", asked)
        await client.get_prompt("launch")
        return [before, await client.call_tool("skill_read_file", asked)]

    before, after = ask(shop, act)
    assert before.is_error
    assert texts(after) == "The plan.\n"


@pytest.mark.parametrize("mode", MODES)
def test_files_are_resources(shop, mode):
    (shop.skills / "greet" / "face.png").write_bytes(b"\x89PNG\0")
    (shop.skills / "greet" / ".env").write_text("SECRET=1\n")

    async def act(client: Client) -> Any:
        listed = (await client.list_resources()).resources
        contents = [(await client.read_resource(one.uri)).contents[0] for one in listed]
        return listed, contents, (await client.list_resource_templates()).resource_templates

    listed, contents, templates = ask(shop, act, mode)
    assert [one.uri for one in listed][:4] == [
        "skill://greet/SKILL.md",
        "skill://greet/face.png",
        "skill://greet/reference.md",
        "skill://greet/scripts/hello.sh",
    ]
    assert (listed[0].name, listed[0].description, listed[0].mime_type) == ("greet", "Greets people.", "text/markdown")
    assert contents[0].text.startswith("---\nname: greet\n")
    assert contents[1].blob == "iVBORwA="
    assert templates[0].uri_template == "skill://{name}/{+path}"


@pytest.mark.parametrize(
    "uri",
    [
        "skill://greet/../launch/SKILL.md",
        "skill://greet/%2e%2e/%2e%2e/home",
        "skill://greet//etc/passwd",
        "skill://greet/%2Fetc%2Fpasswd",
        "skill://greet/.env",
        "skill://greet/nothing",
        "skill://greet/scripts",
        "skill://greet",
        "skill://nobody/SKILL.md",
        "skill://greet/a%00b",
        "skill://greet/link",
        "file:///etc/passwd",
        "",
        "skill://" + "a/" * 50_000,
    ],
)
def test_no_uri_leads_anywhere_else(shop, uri):
    (shop.skills / "greet" / ".env").write_text("SECRET=1\n")
    (shop.skills / "greet" / "link").symlink_to("/etc/passwd")
    with pytest.raises(MCPError) as raised:
        ask(shop, lambda client: client.read_resource(uri))
    assert raised.value.error.code == -32602


def test_long_lists_come_in_pages_that_miss_nothing(shop):
    for number in range(120):
        write_skill(shop.skills / f"many-{number:03}")

    async def act(client: Client) -> list[str]:
        found, cursor = [], None
        while True:
            page = await client.list_resources(cursor=cursor)
            found += [one.uri for one in page.resources if one.uri.endswith("/SKILL.md")]
            cursor = page.next_cursor
            if cursor is None:
                return found

    found = ask(shop, act)
    assert len(found) == len(set(found)) == 123


def test_where_there_is_no_skill_there_is_no_tool(shop):
    for name in ("greet", "launch", "quiet"):
        shop.remove(name)
    assert ask(shop, lambda client: client.list_tools()).tools == []


@pytest.mark.parametrize("mode", MODES)
def test_lists_follow_the_disk_and_the_client_is_told(shop, mode):
    heard = []

    async def main() -> list[str]:
        told = anyio.Event()

        async def listen(message: Any) -> None:
            heard.append(type(message).__name__)
            if len(heard) >= 3:
                told.set()

        server = server_for(shop.open())
        async with watch_changes(server), Client(server, mode=mode, message_handler=listen) as client:
            async with anyio.create_task_group() as group:
                if mode == "auto":
                    group.start_soon(subscribed, client, heard, told)
                await anyio.sleep(0.5)
                shop.add("late")
                with anyio.fail_after(120):
                    await told.wait()
                group.cancel_scope.cancel()
            tools = (await client.list_tools()).tools
        names: list[str] = tools[0].input_schema["properties"]["skill_name"]["enum"]
        return names

    assert anyio.run(main) == ["greet", "late", "quiet"]
    assert len(set(heard)) >= 3


async def subscribed(client: Client, heard: list[str], told: anyio.Event) -> None:
    """A client of the newer protocol asks for what it wants to hear."""
    asked = client.listen(tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True)
    async with asked as events:
        async for event in events:
            heard.append(type(event).__name__)
            if len(set(heard)) >= 3:
                told.set()


@pytest.mark.parametrize("mode", MODES)
def test_the_words_of_a_hint_complete_a_prompts_argument(shop, mode):
    write_skill(shop.skills / "deploy", "Deploys.", "To $0.\n", "argument-hint: '[staging|live] [--dry-run]'\n")

    def asked(name: str, begun: str) -> Any:
        ref, argument = PromptReference(type="ref/prompt", name=name), {"name": "arguments", "value": begun}
        return ask(shop, lambda client: client.complete(ref, argument), mode).completion.values

    assert asked("deploy", "") == ["staging", "live"]
    assert asked("deploy", "l") == ["live"]
    assert asked("greet", "") == asked("nobody", "") == []
