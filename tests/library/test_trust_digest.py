"""What trust vouches for: everything in a skill that could run, and nothing that was not seen."""

from pathlib import Path

import pytest
from tests.home import World, write_skill


@pytest.fixture
def theirs(world: World) -> Path:
    folder = world.project / ".agents/skills/deploy"
    write_skill(folder, body="Run `scripts/run.py`.\n")
    (folder / "scripts").mkdir()
    (folder / "scripts/run.py").write_text("import helper\n")
    (folder / "references").mkdir()
    (folder / "references/notes.md").write_text("Notes.\n")
    return folder


def standing(world: World) -> list[str]:
    [verdict] = [one for one in world.open().verdicts if one.skill.id == "deploy"]
    return [mark.code for mark in verdict.findings]


def put(folder: Path, path: str, text: str = "x") -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(text)


@pytest.mark.parametrize(
    "path",
    [
        "scripts/__pycache__/helper.cpython-311.pyc",
        ".git/hooks/post-checkout",
        "Makefile",
        "package.json",
        "lib/run",
        "run.SH",
        "tool.jar",
        "~run.sh",
    ],
)
def test_any_file_that_could_run_asks_again(world: World, theirs: Path, path: str):
    world.trust()
    assert standing(world) == []
    put(theirs, path)
    assert standing(world) == ["changed-since-trust"]


@pytest.mark.parametrize("path", ["references/notes.md", "README.md", "picture.png", "data.csv"])
def test_what_nothing_runs_may_change(world: World, path: str):
    theirs = world.project / ".agents/skills/deploy"
    write_skill(theirs, body="Prose.\n")
    put(theirs, path, "before")
    world.trust()
    put(theirs, path, "after")
    assert standing(world) == []


@pytest.mark.parametrize("path", ["references/notes.md", "setup.txt", "picture.png"])
@pytest.mark.parametrize("runs", ["command", "script"])
def test_where_anything_runs_every_file_counts_for_it_may_be_what_is_run(world: World, path: str, runs: str):
    theirs = world.project / ".agents/skills/deploy"
    write_skill(theirs, body="!`sh ${CLAUDE_SKILL_DIR}/" + path + "`\n" if runs == "command" else "Prose.\n")
    if runs == "script":
        put(theirs, "scripts/go.sh", f"sh ../{path}\n")
    put(theirs, path, "echo before")
    world.trust()
    assert standing(world) == []
    put(theirs, path, "echo after")
    assert standing(world) == ["changed-since-trust"]


def test_a_body_that_runs_itself_counts_whole(world: World):
    theirs = world.project / ".agents/skills/deploy"
    write_skill(theirs, body="!`sh ${CLAUDE_SKILL_DIR}/SKILL.md`\n")
    world.trust()
    assert standing(world) == []
    write_skill(theirs, body="!`sh ${CLAUDE_SKILL_DIR}/SKILL.md`\ntouch evil\n")
    assert standing(world) == ["changed-since-trust"]


def test_a_large_script_is_seen_to_its_end(world: World, theirs: Path):
    put(theirs, "scripts/big.sh", "echo good\n" + "#" * 17_000_000)
    world.trust()
    assert standing(world) == []
    put(theirs, "scripts/big.sh", "echo evil\n" + "#" * 17_000_000)
    assert standing(world) == ["changed-since-trust"]


def test_more_than_can_be_read_is_never_vouched_for(world: World, theirs: Path):
    for number in range(5):
        with open(theirs / f"scripts/{number}.bin", "wb") as file:
            file.truncate(16_000_000)
    world.trust()
    assert standing(world) == ["changed-since-trust"]


def test_a_link_that_leads_out_is_never_vouched_for(world: World, theirs: Path):
    (theirs / "scripts/out").symlink_to("/bin/sh")
    world.trust()
    assert standing(world) == ["changed-since-trust"]


@pytest.mark.parametrize(
    "more",
    [
        "allowed-tools: Bash, Write\nhooks: run-anything\ntags: [-a]\n",
        "tools: Bash\n",
        "permissions: all\n",
        "mcpServers: x\n",
        "metadata:\n  openclaw:\n    primaryEnv: SECRET\n",
        "metadata:\n  metier:\n    skillKey: other\n",
    ],
)
def test_frontmatter_that_grants_anything_asks_again(world: World, theirs: Path, more: str):
    world.trust()
    write_skill(theirs, body="Run `scripts/run.py`.\n", more=more)
    assert standing(world) == ["changed-since-trust"]


@pytest.mark.parametrize(
    "before", ["disallowed-tools: Bash\n", "disable-model-invocation: true\n", "user-invocable: false\n"]
)
def test_dropping_a_restriction_asks_again(world: World, theirs: Path, before: str):
    write_skill(theirs, body="Run `scripts/run.py`.\n", more=before)
    world.trust()
    assert standing(world) == []
    write_skill(theirs, body="Run `scripts/run.py`.\n")
    assert standing(world) == ["changed-since-trust"]


def test_a_new_name_asks_again_so_that_nothing_is_shadowed_unseen(world: World, theirs: Path):
    world.trust()
    text = (theirs / "SKILL.md").read_text()
    (theirs / "SKILL.md").write_text(text.replace("name: deploy", "name: commit"))
    assert standing(world) == ["changed-since-trust"]


@pytest.mark.parametrize(
    "body",
    ["!`\nthen !`echo {}`\n", "~~~!\n{}\n~~~\n", "```!bash\n{}\n```\n", "!``{}``\n", "```!\n{}"],
)
def test_every_marker_that_might_be_a_command_counts(world: World, theirs: Path, body: str):
    write_skill(theirs, body=body.format("good"))
    world.trust()
    assert standing(world) == []
    write_skill(theirs, body=body.format("evil"))
    assert standing(world) == ["changed-since-trust"]


def test_roots_and_plugins_of_a_projects_configuration_are_the_projects_own(world: World, theirs: Path):
    (world.project / ".metier").mkdir()
    (world.project / ".metier/config.toml").write_text('[[roots]]\npath = "extra"\n')
    write_skill(world.project / "extra/known")
    world.trust()
    world.trust()
    write_skill(world.project / "extra/later", body="!`curl evil`\n")
    library = world.open()

    assert {v.skill.id: v.usable for v in library.verdicts} == {"deploy": True, "known": True, "later": False}


def test_an_identical_file_with_other_scripts_is_shadowed_and_said(world: World, theirs: Path):
    write_skill(world.home / ".agents/skills/deploy", body="Run `scripts/run.py`.\n")
    put(world.home / ".agents/skills/deploy", "scripts/run.py", "print('mine')\n")
    world.trust()

    assert [mark.code for v in world.open().verdicts for mark in v.findings] == ["shadowed"]
