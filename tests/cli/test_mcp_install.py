"""`metier mcp install`: the change is shown, then written, and taken out again to the letter."""

import json
import os
import stat
import tomllib

import pytest

ZED = '// Mine\n{\n  "theme": "One Dark", // dark\n}\n'
CODEX = 'model = "gpt"\n\n[mcp_servers.other]\ncommand = "x"\n'
USER = {
    "claude-code": (".claude.json", "mcpServers"),
    "claude-desktop": (".config/Claude/claude_desktop_config.json", "mcpServers"),
    "cursor": (".cursor/mcp.json", "mcpServers"),
    "gemini": (".gemini/settings.json", "mcpServers"),
    "vscode": (".config/Code/User/mcp.json", "servers"),
    "windsurf": (".codeium/windsurf/mcp_config.json", "mcpServers"),
    "zed": (".config/zed/settings.json", "context_servers"),
}


@pytest.mark.parametrize("client", USER)
def test_a_client_gets_an_entry_that_starts_this_server(desk, client):
    desk.program("metier")
    file, key = USER[client]
    said = desk.say("mcp", "install", client, "--yes")

    assert said.code == 0, said.err
    entry = json.loads((desk.home / file).read_text())[key]["metier"]
    assert (entry["command"], entry["args"]) == (f"{desk.bin}/metier", ["mcp"])
    assert stat.S_IMODE((desk.home / file).stat().st_mode) == 0o600


def test_what_would_change_is_shown_and_nothing_is_written_unasked(desk):
    file = desk.home / ".config" / "zed" / "settings.json"
    file.parent.mkdir(parents=True)
    file.write_text(ZED)
    said = desk.say("mcp", "install", "zed")

    assert said.code == 4
    assert '+  "context_servers": {' in said.out
    assert "pass --yes" in said.err
    assert file.read_text() == ZED


def test_comments_and_permissions_stay_and_removing_gives_the_old_file_back(desk):
    file = desk.home / ".config" / "zed" / "settings.json"
    file.parent.mkdir(parents=True)
    file.write_text(ZED.replace("}", '  "context_servers": { "other": {} }\n}'))
    file.chmod(0o640)
    before = file.read_text()
    desk.say("mcp", "install", "zed", "--yes")
    assert "// dark" in file.read_text()
    assert '"metier"' in file.read_text()
    desk.say("mcp", "install", "zed", "--remove", "--yes")

    assert file.read_text() == before
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_a_file_that_others_share_holds_no_path_of_this_machine(desk):
    desk.program("metier")
    desk.say("mcp", "install", "zed", "--scope", "project", "--yes")

    assert '"command": "metier"' in (desk.project / ".zed/settings.json").read_text()


def test_a_no_leaves_everything_as_it_is(desk):
    said = desk.answering("mcp", "install", "gemini", answer="n\n")

    assert said.code == 4
    assert "nothing was written" in said.out
    assert not (desk.home / ".gemini/settings.json").exists()


def test_a_port_that_is_none_is_said_to_be_none(desk):
    said = desk.say("mcp", "--http", "--port", "99999")

    assert said.code == 2
    assert "99999" in said.err


def test_codex_gets_a_table_and_loses_it_again(desk):
    file = desk.home / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_text(CODEX)
    desk.say("mcp", "install", "codex", "--yes")
    first = tomllib.loads(file.read_text())
    desk.say("mcp", "install", "codex", "--yes")
    second = tomllib.loads(file.read_text())
    desk.say("mcp", "install", "codex", "--remove", "--yes")

    assert first["mcp_servers"]["metier"]["args"][-1] == "mcp"
    assert first == second
    assert tomllib.loads(file.read_text()) == tomllib.loads(CODEX)


def test_a_projects_configuration_is_everybodys_and_keeps_the_options_given(desk):
    said = desk.say(
        "--dialect", "claude", "--root", "skills", "mcp", "install", "claude-code", "--scope", "project", "--yes"
    )
    file = desk.project / ".mcp.json"

    assert said.code == 0, said.err
    entry = json.loads(file.read_text())["mcpServers"]["metier"]
    assert entry["type"] == "stdio"
    assert entry["args"][-5:] == ["--root", f"{desk.project}/skills", "--dialect", "claude", "mcp"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


def test_a_link_to_the_file_stays_a_link(desk):
    real = desk.home / "dotfiles.json"
    real.write_text("{}")
    (desk.home / ".cursor").mkdir()
    os.symlink(real, desk.home / ".cursor" / "mcp.json")
    desk.say("mcp", "install", "cursor", "--yes")

    assert (desk.home / ".cursor" / "mcp.json").is_symlink()
    assert "metier" in real.read_text()


def test_twice_is_once(desk):
    desk.say("mcp", "install", "cursor", "--yes")
    assert "nothing to change" in desk.say("mcp", "install", "cursor", "--yes").out
    desk.say("mcp", "install", "cursor", "--remove", "--yes")
    assert "nothing to change" in desk.say("mcp", "install", "cursor", "--remove", "--yes").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["cursr"], "did you mean `cursor`?"),
        (["emacs"], "one of: claude-code"),
        (["windsurf", "--scope", "project"], "omit --scope"),
        (["cursor", "--name", "a b"], "use letters, digits"),
    ],
)
def test_what_makes_no_sense_is_said(desk, words, said):
    answer = desk.say("mcp", "install", *words)
    assert answer.code == 2
    assert said in answer.err


def test_a_file_that_can_not_be_read_stays_as_it_is(desk):
    (desk.home / ".cursor").mkdir()
    file = desk.home / ".cursor" / "mcp.json"
    file.write_text('{\n  "mcpServers": [\n')
    said = desk.say("mcp", "install", "cursor", "--yes")

    assert said.code == 2
    assert "mcp.json, line 3" in said.err
    assert file.read_text() == '{\n  "mcpServers": [\n'


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--host", "0.0.0.0"], "pass --allow-host"), (["--token-file", "short"], "does not contain a valid token")],
)
def test_a_server_over_http_that_would_be_unsafe_does_not_start(desk, words, said):
    (desk.project / "short").write_text("abc\n")
    answer = desk.say("mcp", "--http", *words)
    assert answer.code == 2
    assert said in answer.err
