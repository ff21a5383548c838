"""Commands get what the active skills are granted and what the person allowed this time, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest
from tests.agent.talking import call, spoken
from tests.home import World, write_skill

from metier import sandbox
from metier.agent.agent import Agent
from metier.agent.permissions import Permission, parse_rule
from metier.testing.models import ScriptedModel
from metier.types.event import Asked, Used

ALL = Permission(otherwise="allow")
NEEDS = 'metadata: {"openclaw": {"primaryEnv": "NOTES_API_KEY", "requires": {"env": ["NOTES_URL"]}}}\n'
SETTINGS = '[skills.entries.notes]\napiKey = "sesame-opens"\n[skills.entries.notes.env]\nNOTES_MODE = "fast"\n'
SHOW = 'echo "url=$NOTES_URL mode=$NOTES_MODE key=${#NOTES_API_KEY} other=$OTHER_TOKEN"'


def configure(world: World, toml: str) -> None:
    (world.home / ".metier").mkdir(exist_ok=True)
    (world.home / ".metier/config.toml").write_text(toml)


def notes(world: World, dialect: str = "openclaw") -> str:
    folder = world.home / (".openclaw/skills" if dialect == "openclaw" else ".metier/skills") / "notes"
    write_skill(folder, "Keeps notes.", "Call the program `notes`.\n", NEEDS)
    return str(folder)


def talk(
    world: World, lines: Sequence[Any], dialect: str = "openclaw", answer: str | None = None, rules: Any = ALL
) -> list[Any]:
    env = {
        "HOME": str(world.home),
        "PATH": "/usr/bin:/bin",
        "NOTES_URL": "https://notes.example",
        "OTHER_TOKEN": "not-for-you-at-all",
    }
    library = world.open(dialect, place=world.place(env=env))
    world.approve(library)
    agent = Agent(library, ScriptedModel([*lines, "Done."]), rules=rules)
    return spoken(agent.start(), "go", answer)


def command_of(events: list[Any]) -> Used:
    return [event for event in events if isinstance(event, Used) and event.call.name == "run_command"][-1]


@pytest.fixture
def sandboxed() -> None:
    if not sandbox.probe_sandbox().protects:
        pytest.skip("no tier here keeps things inside a folder that may be written")


def test_a_command_gets_the_variables_of_the_active_skill_and_no_others(world):
    folder = notes(world)
    configure(world, SETTINGS)
    ran = command_of(talk(world, [call("read", path=f"{folder}/SKILL.md"), call("run_command", command=SHOW)]))

    assert ran.text == "url=https://notes.example mode=fast key=12 other="


def test_without_its_skill_a_command_gets_none_of_them(world):
    notes(world)
    configure(world, SETTINGS)
    ran = command_of(talk(world, [call("run_command", command=SHOW)]))

    assert ran.text == "url= mode= key=0 other="


def test_the_approval_names_what_a_command_gets_and_always_holds_for_no_more(world):
    folder = notes(world)
    configure(world, SETTINGS)
    run = call("run_command", command=SHOW)
    plain = talk(world, [run], answer="always", rules=Permission())
    assert [event.text for event in plain if isinstance(event, Asked)] == [f"run_command: {SHOW}"]

    read = call("read", path=f"{folder}/SKILL.md")
    events = talk(world, [read, run], answer="once", rules=Permission())
    [asked] = [event for event in events if isinstance(event, Asked)]

    assert asked.text.splitlines()[-1] == "  for skill notes: NOTES_URL, NOTES_MODE, NOTES_API_KEY"
    assert "sesame" not in asked.text


def test_a_skill_that_was_taken_away_meanwhile_gives_nothing(world):
    folder = notes(world)
    configure(world, SETTINGS)
    library = world.open("openclaw")
    lines: list[Any] = [call("read", path=f"{folder}/SKILL.md"), call("run_command", command=SHOW), "Done."]
    session = Agent(library, ScriptedModel(lines), rules=ALL).start()
    events = []
    for event in session.say("go"):
        events.append(event)
        if isinstance(event, Used) and event.call.name == "read":
            (world.home / ".openclaw/skills/notes/SKILL.md").unlink()
            session.stale = True
    assert "mode= key=0" in command_of(events).text


def test_a_command_reaches_the_folder_of_its_skill_and_not_that_of_another(world, sandboxed):
    folder = notes(world, "standard")
    scripts = world.home / ".metier/skills/notes/scripts"
    scripts.mkdir()
    (scripts / "x.py").write_text("import sys\nprint('ran', *sys.argv[1:])\n")
    write_skill(world.home / ".metier/skills/other", "Another.", "Body.\n")
    use = call("skill_use", skill_name="notes")
    ran = command_of(talk(world, [use, call("run_command", command=f"python3 {folder}/scripts/x.py 1")], "standard"))
    assert ran.text == "ran 1"
    ran = command_of(talk(world, [use, call("run_command", command="python3 $SKILL_DIR/scripts/x.py 2")], "standard"))
    assert ran.text == "ran 2"
    ran = command_of(talk(world, [use, call("run_command", command=f"touch {folder}/scripts/y.py")], "standard"))
    assert ran.status
    other = call("run_command", command=f"cat {world.home}/.metier/skills/other/SKILL.md")
    assert command_of(talk(world, [use, other], "standard")).status
    assert command_of(talk(world, [call("run_command", command=f"ls {folder}")], "standard")).status


def test_the_users_own_list_of_variables_reaches_commands(world):
    configure(world, '[agent]\nenv = ["OTHER_TOKEN", "LD_PRELOAD"]\n')
    events = talk(
        world, [call("run_command", command="echo ${#OTHER_TOKEN}")], "standard", answer="once", rules=Permission()
    )
    [asked] = [event for event in events if isinstance(event, Asked)]

    assert command_of(events).text == "18"
    assert asked.text.splitlines()[-1] == "  with OTHER_TOKEN"


@pytest.fixture
def repository(world, sandboxed):
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=world.project, check=True)
    (world.home / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
    (world.project / "a.txt").write_text("a")
    return world.project


def test_a_line_of_more_than_git_says_why_it_could_not_commit_and_how_to_allow_it(world, repository):
    line = call("run_command", command="true && git add -A && git commit -q -m x")
    ran = command_of(talk(world, [line], "standard", answer="once", rules=Permission()))

    assert ran.status
    for told in (ran.text, ran.note):
        assert "`.git` is writable only for plain git commands" in told
        assert "may write .git" in told
        assert "`git = true` under [agent]" in told


def test_a_person_may_let_one_line_write_the_repository(world, repository):
    line = "true && git add -A && git commit -q -m x && (echo '#!/bin/sh' > .git/hooks/pre-push; true)"
    events = talk(world, [call("run_command", command=line)], "standard", answer="git", rules=Permission())
    [asked] = [event for event in events if isinstance(event, Asked)]

    assert asked.choices == ("once", "always", "network", "git", "network+git", "no")
    assert command_of(events).status == 0
    log = subprocess.run(["git", "log", "--format=%an %s"], cwd=repository, capture_output=True, text=True, check=True)
    assert log.stdout == "Ada x\n"
    assert not (repository / ".git/hooks/pre-push").exists(), "nothing that runs later, outside"


def test_what_was_allowed_once_is_not_allowed_the_next_time(world, repository):
    line = call("run_command", command="true && git add -A && git commit -q --allow-empty -m x")
    events = talk(world, [line, line], "standard", answer="git", rules=Permission())
    assert [event.status for event in events if isinstance(event, Used)] == [0, 0]
    ran = command_of(talk(world, [line], "standard"))
    assert ran.status


def test_a_setting_lets_every_allowed_line_write_the_repository(world, repository):
    configure(world, "[agent]\ngit = true\n")
    ran = command_of(talk(world, [call("run_command", command="true && git add -A && git commit -q -m x")], "standard"))
    assert ran.status == 0


def test_a_command_without_network_is_told_so_and_how_to_get_it(world, sandboxed):
    look = "python3 -c \"import socket; socket.getaddrinfo('example.org', 80)\""
    ran = command_of(talk(world, [call("run_command", command=look)], "standard"))

    assert "this command has no network: choose `with network` when asked" in ran.text
    assert "`network = true` under [agent]" in ran.note


def test_an_answer_that_was_not_offered_opens_nothing(world):
    events = talk(
        world, [call("write_file", path="a.txt", content="x")], "standard", answer="network", rules=Permission()
    )
    assert next(event for event in events if isinstance(event, Used)).error
    assert not (world.project / "a.txt").exists()


# --- Rules about files hold for commands too ---


def ruled(*denied: str) -> Permission:
    rules = [parse_rule(text) for text in denied]
    return Permission(deny=tuple(rule for rule in rules if rule is not None), otherwise="allow")


def run_line(world: World, line: str, *denied: str) -> str:
    return command_of(talk(world, [call("run_command", command=line)], rules=ruled(*denied))).text


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize("rule", ["read_file(.env)", "Read(./.env)", "Read(*.env)", "read_file(.e?v)"])
def test_a_file_that_may_not_be_read_is_hidden_from_commands(world, rule):
    (world.project / ".env").write_text("TOKEN=violet-harbour\n")
    (world.project / "plain.txt").write_text("plain as day\n")

    answer = run_line(world, "cat .env; cat plain.txt; cp .env copy; cat copy", rule)

    assert "violet-harbour" not in answer
    assert "plain as day" in answer


@pytest.mark.usefixtures("sandboxed")
def test_a_folder_that_may_not_be_read_is_hidden_from_commands(world):
    (world.project / "secrets").mkdir()
    (world.project / "secrets/key").write_text("violet-harbour\n")
    for rule in ("Read(secrets)", "Read(secrets/*)"):
        assert "violet-harbour" not in run_line(world, "cat secrets/key", rule)


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize("rule", ["write_file(notes.md)", "Edit(notes.*)", "write_file(*.md)"])
def test_a_file_that_may_not_be_written_stays_as_it_is(world, rule):
    (world.project / "notes.md").write_text("as it was\n")

    run_line(world, "echo more >> notes.md; rm -f notes.md; mv notes.md other; echo x > fine.txt", rule)

    assert (world.project / "notes.md").read_text() == "as it was\n"
    assert (world.project / "fine.txt").read_text() == "x\n"


@pytest.mark.usefixtures("sandboxed")
def test_without_such_rules_commands_read_what_is_in_the_project(world):
    (world.project / ".env").write_text("TOKEN=violet-harbour\n")
    assert "violet-harbour" in run_line(world, "cat .env", "read_file(other)")


# --- What was refused is explained ---


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize(
    "line",
    [
        "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 9))'",
        "python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 9), 2)'",
    ],
)
def test_a_socket_that_was_refused_is_explained(world, line):
    assert "has no network" in run_line(world, line)


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize("line", ["echo 'export A=2' >> .envrc", "rm .envrc", "mv .envrc b"])
def test_a_protected_file_that_is_there_is_explained(world, line):
    (world.project / ".envrc").write_text("export A=1\n")
    answer = run_line(world, line)
    assert "may not change `.envrc`" in answer
    assert "write_file" in answer
    assert (world.project / ".envrc").read_text() == "export A=1\n"


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("Read(**/.env)", "cat .env"),
        ("Read(*/.env)", "cat .env"),
        ("Read(*.pem)", "cat __pycache__/c.pem"),
        ("Read(*.pem)", "cat .hidden/c.pem"),
        ("Read(secrets/*)", "cat secrets/k.txt"),
        ("Read(secrets/*)", "cat store/k.txt"),
        ("Read(linked)", "cat linked"),
    ],
)
def test_a_rule_closes_to_commands_what_it_closes_to_tools(world, rule, line):
    secret = "violet-harbour\n"
    for name in (".env", "__pycache__/c.pem", ".hidden/c.pem", "store/k.txt", "plain"):
        (world.project / name).parent.mkdir(exist_ok=True)
        (world.project / name).write_text(secret)
    (world.project / "secrets").symlink_to("store")
    (world.project / "linked").symlink_to("plain")

    assert "violet-harbour" not in run_line(world, line, rule)


@pytest.mark.usefixtures("sandboxed")
def test_a_plain_rule_holds_in_the_folder_that_one_works_in(world):
    (world.project / ".git").mkdir(exist_ok=True)
    inner = world.project / "sub"
    inner.mkdir()
    (inner / ".env").write_text("violet-harbour\n")
    library = world.open(place=world.place(cwd=str(inner)))
    agent = Agent(library, ScriptedModel([call("run_command", command="cat .env"), "Done."]), rules=ruled("Read(.env)"))

    assert "violet-harbour" not in command_of(spoken(agent.start(), "go", None)).text


@pytest.mark.usefixtures("sandboxed")
def test_too_many_files_to_close_end_the_command_and_not_the_rule(world, monkeypatch):
    monkeypatch.setattr("metier.agent.tools.commands._MOST_CLOSED", 3)
    for number in range(6):
        (world.project / f"{number}.pem").write_text("violet-harbour\n")

    ran = command_of(talk(world, [call("run_command", command="cat 1.pem")], rules=ruled("Read(*.pem)")))

    assert ran.error
    assert "violet-harbour" not in ran.text
    assert "too many" in ran.text


@pytest.mark.usefixtures("sandboxed")
def test_a_planted_bytecode_file_is_not_run_in_place_of_the_script(world):
    folder = world.home / ".metier/skills/helper"
    write_skill(folder, "Helps.", "Run it.\n")
    (folder / "scripts").mkdir()
    (folder / "scripts/part.py").write_text("print('as approved')\n")
    (folder / "scripts/run.py").write_text("import part\n")
    evil = world.project.parent / "evil.py"
    evil.write_text("print('planted')\n")
    python = shutil.which("python3", path="/usr/bin:/bin")
    if python is None:
        pytest.skip("commands find no python3 here")
    plant = (
        "import importlib.util, py_compile, sys; py_compile.compile(sys.argv[1],"
        " importlib.util.cache_from_source(sys.argv[2]),"
        " invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)"
    )
    env = {"PATH": "/usr/bin:/bin"}
    subprocess.run([python, "-I", "-c", plant, str(evil), str(folder / "scripts/part.py")], check=True, env=env)
    assert list((folder / "scripts/__pycache__").iterdir())
    lines = [
        call("skill_use", skill_name="helper"),
        call("run_command", command=f"{python} $SKILL_DIR/scripts/run.py"),
    ]

    text = command_of(talk(world, lines, dialect="standard")).text

    assert "as approved" in text
    assert "planted" not in text
