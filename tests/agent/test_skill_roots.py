"""An agent works beside the skills that steer it, and changes none of them: not by a command, not by a file tool."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tests.agent.talking import call, spoken
from tests.home import World, write_skill

from metier import sandbox
from metier.agent.agent import Agent
from metier.agent.agent_files import parse_rules
from metier.agent.permissions import Permission
from metier.library.open import OpenRequest, open_at
from metier.testing.models import ScriptedModel
from metier.types.event import Activated, Asked, Used
from metier.types.place import Place

ROOTS = ("named", "itself", "configured", "plugin", "path", "missing", "project", "named-beside")
EVIL = "mkdir -p {root}/evil; printf -- '---\\nname: evil\\ndescription: e.\\n---\\nx\\n' > {root}/evil/SKILL.md"


@pytest.fixture(params=["bubblewrap", "landlock"])
def tier(request: pytest.FixtureRequest) -> str:
    machine = sandbox.read_machine_options({"METIER_SANDBOX": request.param})
    if not sandbox.probe_sandbox(machine).protects:
        pytest.skip(f"there is no {request.param} here")
    return str(request.param)


def configure(world: World, text: str) -> None:
    world.state.mkdir(exist_ok=True)
    (world.state / "config.toml").write_text(text)


def place_with(world: World, how: str, tier: str) -> tuple[Place, OpenRequest, Path]:
    """A root of each kind inside the folder that the agent works in, with a skill of the user's in it."""
    root = world.project if how == "itself" else world.project / "library/mine"
    env = {"METIER_SANDBOX": tier, "PATH": os.environ["PATH"]}
    named = None
    if how in ("named", "itself"):
        named = str(root)
    elif how == "named-beside":  # the library is opened without it, and the next one will not be
        named = str(write_skill(world.home / "other/x").parent.parent)
        configure(world, f'roots = ["{root}"]\n')
    elif how == "configured":
        configure(world, f'roots = ["{root}"]\n')
    elif how == "plugin":
        configure(world, f'plugins = ["{root}"]\n')
    elif how in ("path", "missing"):
        env["METIER_PATH"] = str(root)
    else:
        root = world.project / "skills"
    if how != "missing":
        write_skill(root / "own", body="Do it.\n")
        (root / "own/scripts").mkdir()
        (root / "own/scripts/go.sh").write_text("echo mine\n")
        Path(f"{root}-lock.json").write_text('{"lockVersion": 1, "skills": {}, "folders": {}}\n')
    return world.place(env=env), OpenRequest(root=named, use_index=False), root


def after(world: World, setting: tuple[Place, OpenRequest, Path], *calls, allow=("run_command", "write_file")):
    place, request, _ = setting
    rules = Permission(parse_rules(allow))
    agent = Agent(open_at(place, request), ScriptedModel([*calls, "Done."]), rules=rules, keep=False)
    return spoken(agent.start(), "go")


def tree(root: Path) -> dict[str, str]:
    return {
        str(path): path.read_text() for path in sorted(root.rglob("*")) if path.is_file() and ".git" not in path.parts
    }


@pytest.mark.parametrize("how", ROOTS)
def test_a_command_makes_and_changes_no_skill_in_any_root(world: World, tier: str, how: str):
    setting = place_with(world, how, tier)
    root = setting[2]
    before = tree(world.project)
    tries = [
        EVIL.format(root=root),
        f"echo evil >> {root}/own/SKILL.md",
        f"echo evil > {root}/own/scripts/go.sh",
        f"mv {root}/own {root}/other",
        f"mv {root} {root}-2; cp -r {root}-2 {root}; " + EVIL.format(root=root),
        f"mv {root.parent} {root.parent}-2; cp -r {root.parent}-2 {root.parent}; " + EVIL.format(root=root),
        f"echo '{{}}' > {root}-lock.json; rm {root}-lock.json",
    ]
    events = after(world, setting, *(call("run_command", id=str(at), command=line) for at, line in enumerate(tries)))

    assert len([one for one in events if isinstance(one, Used)]) == len(tries), events[-1]
    now = tree(world.project)
    assert {path: now.get(path) for path in before} == before
    assert not [path for path in now if path.endswith("evil/SKILL.md") and path.startswith(f"{root}/")]


@pytest.mark.parametrize("how", [how for how in ROOTS if how != "itself"])
def test_beside_the_skills_a_command_works_as_ever(world: World, tier: str, how: str):
    setting = place_with(world, how, tier)
    after(world, setting, call("run_command", command="mkdir -p out && echo fine > out/a.txt && mv out out2"))

    assert (world.project / "out2/a.txt").read_text() == "fine\n"


def test_a_folder_that_is_all_skills_can_be_read_and_the_answer_says_why_it_can_not_be_written(world: World, tier: str):
    setting = place_with(world, "itself", tier)
    [used] = [
        one
        for one in after(world, setting, call("run_command", command="cat own/scripts/go.sh; echo x > a.txt"))
        if isinstance(one, Used)
    ]

    assert "echo mine" in used.text
    assert f"{world.project} is read-only: skills are loaded from it" in used.note
    assert not (world.project / "a.txt").exists()


def test_a_link_on_the_way_to_a_root_keeps_programs_from_writing_around_it(world: World, tier: str):
    write_skill(world.home / "elsewhere/own")
    os.symlink(world.home / "elsewhere", world.project / "mine")
    setting = (world.place(env={"METIER_SANDBOX": tier, "PATH": os.environ["PATH"]}), world.project / "mine")
    request = OpenRequest(root=str(setting[1]), use_index=False)
    [used] = [
        one
        for one in after(world, (setting[0], request, setting[1]), call("run_command", command="rm mine; echo ran"))
        if isinstance(one, Used)
    ]

    assert "is a link on the way to skills" in f"{used.text} {used.note}"
    assert (world.project / "mine").is_symlink()


@pytest.mark.parametrize("how", ROOTS)
@pytest.mark.parametrize("tool", ["write_file", "edit_file"])
def test_the_file_tools_write_no_skill_by_a_wide_rule(world: World, how: str, tool: str):
    setting = place_with(world, how, "none")
    root = setting[2]
    before = tree(world.project)
    what = {"content": "x"} if tool == "write_file" else {"old": "Do it.", "new": "Do evil."}
    for path in (f"{root}/own/SKILL.md", f"{root}/evil/SKILL.md", f"{root}-lock.json"):
        events = after(
            world, setting, call(tool, path=path, **what), allow=("write_file", "edit_file", "write_file(*)")
        )

        assert [one.tool for one in events if isinstance(one, Asked)] == [tool]
        assert events[-1].outcome == "refused"
    assert tree(world.project) == before


def test_a_rule_that_names_the_root_is_a_word_about_it(world: World):
    setting = place_with(world, "configured", "none")
    after(
        world,
        setting,
        call("write_file", path="library/mine/own/notes.md", content="x"),
        allow=("write_file(library/mine/*)",),
    )

    assert (setting[2] / "own/notes.md").read_text() == "x"


# --- What appears or changes while the agent works ---


def meanwhile(world: World, change, *calls, answer=None):
    """A conversation in which something else changes the skills after it began."""
    talk = Agent(world.open(), ScriptedModel([*calls, "Done."]), keep=False).start()
    time.sleep(0.02)
    change()
    talk.library = talk.library.reload()
    return [one for one in spoken(talk, "go", answer) if isinstance(one, Used | Activated)]


def skill_with_script(folder: Path, script: str = "echo it-ran\n", more: str = "", body: str = "Do it.\n") -> None:
    write_skill(folder, more=more, body=body)
    (folder / "scripts").mkdir(exist_ok=True)
    (folder / "scripts/go.sh").write_text(script)


RUN = call("skill_run_script", skill_name="own", script_name="go.sh")
CHANGES = {
    "made": lambda folder: skill_with_script(folder),
    "edited": lambda folder: (folder / "scripts/go.sh").write_text("echo it-ran again\n"),
    "added to": lambda folder: (folder / "scripts/more.sh").write_text("echo more\n"),
    "moved in": lambda folder: (folder.parent.parent / "aside/own").rename(folder),
    "moved in around": lambda folder: (folder.parent.parent / "aside").rename(folder.parent / "group"),
}


@pytest.mark.parametrize("how", CHANGES)
def test_what_appears_or_changes_while_an_agent_works_does_not_run(world: World, how: str):
    folder = world.state / "skills/own"
    folder.parent.mkdir(parents=True)
    if how in ("edited", "added to"):
        skill_with_script(folder)
    elif how != "made":
        skill_with_script(world.state / "aside/own")
    [used] = meanwhile(world, lambda: CHANGES[how](folder), RUN)

    assert used.error
    assert "appeared or changed while the agent was at work" in used.text
    assert "metier approve own" in used.text
    assert "it-ran" not in used.text


def test_what_was_there_runs_and_its_prose_may_change_after_that(world: World):
    folder = world.state / "skills/own"
    skill_with_script(folder)
    talk = Agent(world.open(), ScriptedModel([RUN, "Done.", RUN, "Done."]), keep=False).start()
    first = [one for one in spoken(talk, "go") if isinstance(one, Used)]
    time.sleep(0.02)
    write_skill(folder, body="Do it well.\n")
    talk.update(talk.library.reload())
    second = [one for one in spoken(talk, "go") if isinstance(one, Used)]

    assert [one.text for one in (*first, *second)] == ["it-ran", "it-ran"]


def test_a_person_who_approved_it_meanwhile_has_said_yes(world: World):
    folder = world.state / "skills/own"

    def change() -> None:
        skill_with_script(folder)
        world.approve(world.open())

    assert [one.text for one in meanwhile(world, change, RUN)] == ["it-ran"]


def test_a_skill_that_appeared_runs_no_command_and_grants_no_tool(world: World):
    def change() -> None:
        skill_with_script(world.state / "skills/own", more="allowed-tools: write_file\n", body="Says !`echo it-ran`\n")

    lines = [call("skill_use", skill_name="own"), call("write_file", path="a.txt", content="x")]
    events = meanwhile(world, change, *lines, answer="no")

    assert [one.error for one in events if isinstance(one, Used)] == [False, True]
    [text] = [one.text for one in events if isinstance(one, Activated)]
    assert "Says" in text
    assert "Says it-ran" not in text
    assert not (world.project / "a.txt").exists()
