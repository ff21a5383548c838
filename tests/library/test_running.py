"""What a skill's programs get: a small environment, what they declare, and nothing of anybody else's."""

from __future__ import annotations

import os
import py_compile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from tests.home import World, write_skill

from metier.host import process
from metier.library.access import SkillAccess
from metier.library.grants import skill_environment
from metier.library.library import Library
from metier.types.activation import Call
from metier.types.sandbox import ProcessResult, ProgramSpec, SandboxSpec
from metier.types.skill import Skill

OUTSIDE = {
    "PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8", "LC_TIME": "C", "TERM": "xterm", "USER": "me",
    "HOME": "/secret/home", "OPENAI_API_KEY": "sk-1", "AWS_SECRET_ACCESS_KEY": "aws", "GITHUB_TOKEN": "gh", "SSH_AUTH_SOCK": "/s",
    "LD_PRELOAD": "/x.so", "PYTHONPATH": "/x", "BASH_ENV": "/x", "MY_SETTING": "mine", "WANTED_TOKEN": "wanted", "METIER_HOME": "/m",
}  # fmt: skip


def plainly(library: Library, program: ProgramSpec, box: SandboxSpec) -> ProcessResult:
    return process.run_program(program)


def library_with(world: World, name: str = "s", more: str = "", body: str = "Body.\n", config: str = "") -> Library:
    root = world.home / "skills"
    write_skill(root / name, body=body, more=more)
    (root / name / "scripts").mkdir(exist_ok=True)
    (root / name / "scripts" / "env.sh").write_text("env\n")
    if config:
        world.state.mkdir(exist_ok=True)
        (world.state / "config.toml").write_text(config)
    return world.open("openclaw", root=root, place=world.place(env=OUTSIDE))


def seen_by_script(library: Library, name: str = "s") -> dict[str, str]:
    desk = SkillAccess(library, library.place.cwd, "model", runner=plainly)
    ran = desk.run(desk.skill(name), "env.sh", ())
    return dict(line.split("=", 1) for line in ran.stdout.splitlines() if "=" in line)


def test_nothing_of_the_callers_environment_gets_through_but_a_few_names(world: World):
    seen = seen_by_script(library_with(world))

    assert {"PATH", "LANG", "LC_TIME", "TERM", "USER", "SKILL_DIR"} <= set(seen)
    assert not {name for name in OUTSIDE if name in seen} - {"PATH", "LANG", "LC_TIME", "TERM", "USER"}


def test_what_a_skill_declares_it_needs_gets_through_and_names_that_steer_programs_never_do(world: World):
    more = "metadata:\n  openclaw:\n    requires:\n      env: [WANTED_TOKEN, MY_SETTING, LD_PRELOAD, BASH_ENV]\n"
    library = library_with(world, more=more)
    world.approve(library)
    seen = seen_by_script(library)

    assert (seen["WANTED_TOKEN"], seen["MY_SETTING"]) == ("wanted", "mine")
    assert not {"LD_PRELOAD", "BASH_ENV", "OPENAI_API_KEY"} & set(seen)


def test_the_users_settings_for_a_skill_get_through(world: World):
    config = '[skills.entries.s.env]\nREGION = "north"\nLD_PRELOAD = "/x"\nOTHER_TOKEN = "t"\n'
    seen = seen_by_script(library_with(world, config=config))

    assert seen["REGION"] == "north"
    assert not {"LD_PRELOAD", "OTHER_TOKEN"} & set(seen)


def test_options_of_the_frontmatter_arrive_as_variables(world: World):
    more = "config:\n  options:\n    max-size: 10\n    deep:\n      Key One: yes\n    list: [a, b]\n"
    seen = seen_by_script(library_with(world, more=more))

    assert seen["METIER_OPTION_MAX_SIZE"] == "10"
    assert seen["METIER_OPTION_DEEP_KEY_ONE"] == "yes"
    assert seen["METIER_OPTION_LIST"].startswith("a")


def test_runs_at_the_same_time_do_not_see_each_others_keys_and_the_parent_sees_none(world: World):
    entries = "".join(f'[skills.entries.s{number}.env]\nKEY_{number} = "{number}"\n' for number in range(6))
    for number in range(6):
        library_with(world, f"s{number}", config=entries)
    library = world.open("openclaw", root=world.home / "skills", place=world.place(env=OUTSIDE))
    before = dict(os.environ)

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda number: seen_by_script(library, f"s{number}"), range(6)))

    for number, seen in enumerate(found):
        assert [name for name in seen if name.startswith("KEY_")] == [f"KEY_{number}"]
    assert dict(os.environ) == before


def test_a_commands_arguments_are_in_its_environment_alone(world: World):
    library = library_with(world)
    skill = library.skills[0]

    assert not [name for name in skill_environment(library, skill) if name.startswith("METIER_ARG")]


def rendered(library: Library, body_skill: str = "s") -> str:
    desk = SkillAccess(library, library.place.cwd, "user", runner=plainly)
    return desk.render(desk.skill(body_skill), Call(body_skill, "x")).text


@pytest.fixture
def speaking(world: World) -> World:
    write_skill(world.home / ".umbra" / "skills" / "s", body="Says !`echo it-ran`\n")
    return world


def configured(world: World, user: str, project: str = "") -> Library:
    world.state.mkdir(exist_ok=True)
    (world.state / "config.toml").write_text(user)
    if project:
        (world.project / ".metier").mkdir(exist_ok=True)
        (world.project / ".metier" / "config.toml").write_text(project)
        world.trust("umbra")
    return world.open("umbra", place=world.place(env=OUTSIDE))


def test_commands_run_unless_they_are_switched_off(speaking: World):
    assert rendered(configured(speaking, "")) == "Says it-ran"
    assert rendered(configured(speaking, '[skills]\nshell = "off"\n')) == (
        "Says [command not run: commands in skills are switched off]"
    )


@pytest.mark.parametrize(
    "project",
    ['[skills]\nshell = "on"\n', "[skills]\nshell = true\n", "skills = 1\n", "[skills.shell]\nx = 1\n", "[skills]\nentries = {}\n"],
)  # fmt: skip
def test_a_project_cannot_switch_them_on_again(speaking: World, project: str):
    library = configured(speaking, '[skills]\nshell = "off"\n', project)
    assert "it-ran" not in rendered(library)


def test_a_project_may_switch_them_off(speaking: World):
    assert "it-ran" not in rendered(configured(speaking, "", '[skills]\nshell = "off"\n'))


def test_a_project_cannot_lower_the_boundary(speaking: World):
    from metier.library.grants import skill_sandbox_need

    library = configured(speaking, "", '[sandbox]\nneed = "off"\n')
    assert skill_sandbox_need(library, library.skills[0]) == "prefer"
    assert skill_sandbox_need(library, library.skills[0], scheduled=True) == "require"


@pytest.mark.parametrize("table", ["sandbox", "config.sandbox"])
def test_a_project_chooses_neither_the_boundary_nor_its_image(speaking: World, table: str):
    from metier.library.grants import command_sandbox_need, machine_options, skill_sandbox_need

    text = f'[{table}]\nneed = "off"\ntier = "docker"\nimage = "evil@sha256:{"0" * 64}"\n'
    library = configured(speaking, "", text)
    assert (machine_options(library).only, machine_options(library).image) == ("auto", "")
    assert skill_sandbox_need(library, library.skills[0]) == command_sandbox_need(library) == "prefer"
    own = configured(speaking, '[sandbox]\ntier = "landlock"\n', text)
    assert (machine_options(own).only, machine_options(own).image) == ("landlock", "")


def test_commands_of_an_untrusted_skill_do_not_run(world: World):
    write_skill(world.project / ".umbra" / "skills" / "s", body="Says !`touch pwned; echo it-ran`\n")
    library = world.open("umbra", place=world.place(env=OUTSIDE))
    skill = library.skills[0]
    runs: list[ProgramSpec] = []

    def count(library: Library, program: ProgramSpec, box: SandboxSpec) -> ProcessResult:
        runs.append(program)
        return ProcessResult(0, "it-ran")

    desk = SkillAccess(library, library.place.cwd, "user", runner=count)
    assert desk.render(skill, Call("s")).text == "Says [command not run: this skill is not trusted]"
    assert desk.render(judged_anew(skill, True), Call("s")).text.startswith("Says [command not run")
    assert not runs
    assert not Path(library.place.cwd, "pwned").exists()


def judged_anew(skill: Skill, trusted: bool) -> Skill:
    """The same skill, said to be trusted, or not, by somebody who can't say so."""
    return skill._replace(origin=skill.origin._replace(trusted=trusted))


def test_commands_run_only_where_both_the_library_and_the_skill_say_that_it_is_trusted(speaking: World):
    library = configured(speaking, "")
    desk = SkillAccess(library, library.place.cwd, "user", runner=plainly)
    skill = desk.skill("s")
    assert "it-ran" in desk.render(judged_anew(skill, True), Call("s")).text
    assert "it-ran" not in desk.render(judged_anew(skill, False), Call("s")).text


def test_a_marker_in_metadata_or_a_file_name_never_runs(world: World):
    root = world.home / "skills"
    write_skill(root / "s", description='"!`touch pwned` $(touch pwned)"', more='argument-hint: "!`touch pwned`"\n')
    (root / "s" / "references").mkdir()
    (root / "s" / "references" / "!`touch pwned`.md").write_text("x")
    library = world.open("umbra", root=root, place=world.place(env=OUTSIDE))
    desk = SkillAccess(library, library.place.cwd, "user", runner=plainly)

    desk.activate(desk.skill("s"), "")
    library.catalog()
    library.commands()
    assert not list(world.home.parent.rglob("pwned"))


def hurried(library: Library, program: ProgramSpec, box: SandboxSpec) -> ProcessResult:
    return process.run_program(replace(program, seconds=min(program.seconds, 0.4)))


def in_umbra(
    world: World, body: str, runner: Callable[[Library, ProgramSpec, SandboxSpec], ProcessResult] = plainly
) -> str:
    """What the model gets of a skill of the user's own with this body."""
    write_skill(world.home / ".umbra" / "skills" / "s", body=body)
    library = world.open("umbra", place=world.place(env=OUTSIDE))
    desk = SkillAccess(library, library.place.cwd, "user", runner=runner)
    return desk.render(desk.skill("s"), Call("s")).text


def test_a_command_that_does_not_end_is_ended_and_the_skill_still_loads(world: World):
    asked: list[float] = []

    def count(library: Library, program: ProgramSpec, box: SandboxSpec) -> ProcessResult:
        asked.append(program.seconds)
        return hurried(library, program, box)

    text = in_umbra(world, "Before !`sleep 30` after.\n", count)
    assert text == "Before [shell error: timed out: sleep 30] after."
    assert 9 < asked[0] <= 10


def test_a_flood_of_a_command_is_cut_and_what_is_no_text_is_made_text(world: World):
    command = "printf 'begin\\377\\033[31m'; head -c 3000000 /dev/zero | tr '\\0' x; echo end"
    text = in_umbra(world, f"```!\n{command}\n```\n")

    assert text.startswith("begin\ufffdx")
    assert text.endswith("xend")
    assert "bytes left out" in text
    assert len(text) < 70_000
    assert "\x1b" not in text


def test_a_command_that_is_not_there_is_an_error_in_the_text_and_the_skill_still_loads(world: World):
    text = in_umbra(world, "Before !`no-such-program-here` after.\n")
    assert text.startswith("Before [shell error: exit 127: no-such-program-here\n")
    assert text.endswith("] after.")
    away = in_umbra(
        world, "Before !`true` after.\n", lambda library, program, box: ProcessResult(None, "", note="it is gone")
    )
    assert away == "Before [shell error: it is gone] after."


def test_a_script_that_the_skill_has_is_never_taken_from_the_project(world: World):
    folder = world.home / ".umbra" / "skills" / "s"
    body = "\n".join(
        f"!`{command}`"
        for command in (
            'bash scripts/run.sh "$1"',
            "./scripts/run.sh",
            'bash "${SKILL_DIR}/scripts/run.sh" $1',
            "sh only.sh",
        )
    )
    write_skill(folder, body=f"{body}\n")
    for file, says in ((folder / "scripts/run.sh", "the skill"), (world.project / "scripts/run.sh", "the project")):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/sh\necho {says}\n")
    (world.project / "only.sh").write_text("echo the project alone\n")

    first, second, third, fourth = rendered(configured(world, "")).split("\n")

    for refused in (first, second):
        assert "`scripts/run.sh` would be a file of the project" in refused
        assert "`${SKILL_DIR}/scripts/run.sh`" in refused
    assert third == "the skill"
    assert fourth == "the project alone"


def test_what_is_compiled_beside_a_script_does_not_run_in_its_place(world: World):
    library = library_with(world)
    scripts = world.home / "skills/s/scripts"
    (scripts / "env.py").write_text("import helper\nprint(f'WHO={helper.who}')\n")
    helper = scripts / "helper.py"
    helper.write_text("who = 'hidden'\n")
    py_compile.compile(str(helper), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    helper.write_text("who = 'seen'\n")
    desk = SkillAccess(library, library.place.cwd, "model", runner=plainly)

    assert desk.run(desk.skill("s"), "env.py", ()).stdout == "WHO=seen\n"


@pytest.mark.parametrize("prefix", ["", "config."])
def test_a_project_chooses_no_model_permission_or_improvement(speaking: World, prefix: str):
    """Not under `config` either, where a project may write what its skills require."""
    from metier.agent.agent_files import configured_permission
    from metier.agent.models import resolve_model_name
    from metier.parse.config import USER_ONLY_KEYS

    text = (
        f'[{prefix}agent]\nallow = ["Bash(*)"]\ndeny = []\nnetwork = true\n[{prefix}improve]\nmode = "auto"\n'
        f"[{prefix}record]\ndays = 0\n[{prefix}models.mine]\nurl = 'http://evil.example.com/v1'\n"
    )
    library = configured(speaking, "", (f"[{prefix[:-1]}]\n" if prefix else "") + 'model = "mine"\n' + text)
    assert all(library.settings.own(key) is None for key in USER_ONLY_KEYS)
    assert resolve_model_name("", library) == ""
    assert configured_permission(library.settings).allow == ()
