"""Where each dialect looks, in which order, and how what is found there is read."""

import os
import pwd
import subprocess
from pathlib import Path

import pytest
from tests.home import World, codes, ids, python, write_skill

from metier.host.facts import find_place
from metier.types.errors import BadRequest

# Of every dialect, in order of precedence: where a skill lies, then its source, its root's label and its dialect.
ROOTS = {
    "standard": [
        ("{project}/.metier/skills", "project", "project", "standard"),
        ("{project}/.agents/skills", "project", "project-agents", "standard"),
        ("{project}/.claude/skills", "project", "project-claude", "claude"),
        ("{project}/.umbra/skills", "project", "project-umbra", "umbra"),
        ("{project}/workspace/agents/skills", "project", "workspace-agentmd", "agentmd"),
        ("{project}/skills", "project", "workspace", "openclaw"),
        ("{project}/extensions/skills", "project", "extensions", "agenvoy"),
        ("{home}/.metier/skills", "user", "user", "standard"),
        ("{home}/.agents/skills", "user", "user-agents", "standard"),
        ("{home}/.claude/skills", "user", "user-claude", "claude"),
        ("{home}/.umbra/skills", "user", "user-umbra", "umbra"),
        ("{home}/.openclaw/skills", "user", "managed-openclaw", "openclaw"),
        ("{home}/.config/agenvoy/skills/.system", "user", "system-agenvoy", "agenvoy"),
        ("{home}/.config/agenvoy/skills", "user", "user-agenvoy", "agenvoy"),
        ("{home}/.super-multica/agent-profiles/me/skills", "user", "profile", "multica"),
        ("{home}/.super-multica/skills", "user", "managed-multica", "multica"),
        ("{home}/claw", "bundled", "bundled-openclaw", "openclaw"),
    ],
    "claude": [
        ("{home}/.claude/skills", "user", "user-claude", "claude"),
        ("{project}/.claude/skills", "project", "project-claude", "claude"),
    ],
    "umbra": [
        ("{project}/.umbra/skills", "project", "project-umbra", "umbra"),
        ("{home}/.umbra/skills", "user", "user-umbra", "umbra"),
    ],
    "agentmd": [("{project}/workspace/agents/skills", "project", "workspace-agentmd", "agentmd")],
    "multica": [
        ("{home}/.super-multica/agent-profiles/me/skills", "user", "profile", "multica"),
        ("{home}/.super-multica/skills", "user", "managed-multica", "multica"),
    ],
    "agenvoy": [
        ("{project}/.claude/skills", "project", "project-claude", "claude"),
        ("{project}/.skills", "project", "project-skills", "agenvoy"),
        ("{project}/extensions/skills", "project", "extensions", "agenvoy"),
        ("{home}/.config/agenvoy/skills/.system", "user", "system-agenvoy", "agenvoy"),
        ("{home}/.config/agenvoy/skills", "user", "user-agenvoy", "agenvoy"),
        ("{home}/.claude/skills", "user", "user-claude", "claude"),
    ],
    "openclaw": [
        ("{project}/skills", "project", "workspace", "openclaw"),
        ("{project}/.agents/skills", "project", "project-agents", "openclaw"),
        ("{home}/.agents/skills", "user", "user-agents", "openclaw"),
        ("{home}/.openclaw/skills", "user", "managed-openclaw", "openclaw"),
        ("{home}/claw", "bundled", "bundled-openclaw", "openclaw"),
    ],
}


def everywhere(world: World) -> list[str]:
    """Every folder that any dialect looks in."""
    return sorted({place for rows in ROOTS.values() for place, *_ in rows})


def filled(world: World, place: str) -> Path:
    return Path(place.replace("{project}", str(world.project)).replace("{home}", str(world.home)))


@pytest.mark.parametrize("dialect", ROOTS)
def test_a_dialect_looks_in_its_roots_and_no_others_and_ranks_them_in_order(world: World, dialect: str):
    names = {place: f"s{number}" for number, place in enumerate(everywhere(world))}
    for place, name in names.items():
        write_skill(filled(world, place) / name)
    where = world.place(profile="me", env={"OPENCLAW_BUNDLED_SKILLS_DIR": str(world.home / "claw")})
    library = world.open(dialect, place=where)
    found = [(s.id, s.origin.source, s.origin.root, s.origin.dialect.name) for s in library.skills]
    assert found == [(names[place], source, label, read_as) for place, source, label, read_as in ROOTS[dialect]]
    ranks = [skill.origin.rank for skill in library.skills]
    assert ranks == sorted(ranks, reverse=True)
    assert [skill.origin.trusted for skill in library.skills] == [row[1] != "project" for row in ROOTS[dialect]]
    assert codes(library) == []


def test_labels_are_unique_in_a_library(world: World):
    world.state.mkdir()
    for name in ("one", "two"):
        write_skill(world.home / name / "x", body=name)
    write_skill(world.home / ".metier/skills/x")
    (world.state / "config.toml").write_text(
        f'roots = [{{path = "{world.home}/one", label = "user"}}, {{path = "{world.home}/two", label = "user"}}]\n'
    )
    labels = [root.origin.root for root in world.open().roots]
    assert len(set(labels)) == len(labels)


def test_the_nearest_folder_of_a_project_comes_first_and_the_way_up_ends_at_the_git_root(world: World):
    deep = world.project / "packages/app"
    for folder in (deep, world.project / "packages", world.project, world.project.parent):
        write_skill(folder / ".agents/skills/same", body=str(folder))
    library = world.open(place=world.place(deep))
    assert [skill.origin.root for skill in library.skills] == [
        "project-agents:packages/app",
        "project-agents:packages",
        "project-agents",
    ]


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_the_git_root_is_known_by_any_dot_git(tmp_path: Path, kind: str):
    deep = tmp_path / "a/b/c"
    deep.mkdir(parents=True)
    mark = tmp_path / "a/.git"
    if kind == "folder":
        mark.mkdir()
    elif kind == "file":
        mark.write_text("gitdir: /somewhere/.git/worktrees/a\n")
    else:
        mark.symlink_to("/nowhere")
    assert find_place(str(deep)).project == str(tmp_path / "a")


def test_a_real_worktree_is_a_project_of_its_own(tmp_path: Path):
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "init.defaultBranch=main"]
    main = tmp_path / "main"
    subprocess.run([*git, "init", "-q", str(main)], check=True)
    subprocess.run([*git, "-C", str(main), "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    subprocess.run([*git, "-C", str(main), "worktree", "add", "-q", str(main / "tree"), "-b", "b"], check=True)
    (main / "tree/inner").mkdir()
    assert find_place(str(main / "tree/inner")).project == str(main / "tree")


def test_a_folder_without_git_is_its_own_project(tmp_path: Path):
    (tmp_path / "plain").mkdir()
    place = find_place(str(tmp_path / "plain"))
    assert place.project == place.cwd == str(tmp_path / "plain")
    assert place.ancestors == (place.cwd,)


HERE = "from metier.host.facts import find_place; place = find_place(); print(place.cwd, place.project, place.state, sep='\\n')"


def test_a_home_under_git_is_nobodys_project_but_its_own(world: World):
    (world.home / ".git").mkdir()
    (world.home / "work").mkdir()
    variables = {"HOME": str(world.home)}
    assert python(HERE, env=variables, cwd=world.home / "work").stdout.splitlines()[1] == str(world.home / "work")
    assert python(HERE, env=variables, cwd=world.home).stdout.splitlines()[1] == str(world.home)


def test_standing_in_the_home_folder_its_skills_and_plugins_are_the_users_own(world: World):
    for root in (".agents/skills", ".claude/skills", ".metier/skills", ".umbra/skills"):
        write_skill(world.home / root / root.split("/")[0][1:])
    plugin = world.home / ".metier/plugins/mine"
    write_skill(plugin / "skills/from-plugin")
    (plugin / ".claude-plugin").mkdir()
    (plugin / ".claude-plugin/plugin.json").write_text('{"name": "mine"}')
    library = world.open(place=world.place(world.home))
    assert {skill.origin.source for skill in library.skills} == {"user", "plugin"}
    assert len(library.skills) == 5
    assert all(verdict.usable for verdict in library.verdicts)


def test_a_home_that_is_a_link_is_the_same_home(world: World):
    link = world.home.parent / "link"
    link.symlink_to(world.home)
    write_skill(world.home / ".agents/skills/mine")
    code = "import metier; print([(s.id, s.origin.source) for s in metier.open(index=False).skills])"
    done = python(code, env={"HOME": str(link)}, cwd=world.home)
    assert done.stdout.strip() == "[('mine', 'user')]", done.stderr


def test_metier_path_comes_before_everything_and_says_what_is_missing(world: World):
    write_skill(world.home / "one/same", body="one")
    write_skill(world.home / "two/same", body="two")
    write_skill(world.project / ".agents/skills/same", body="three")
    place = world.place(env={"METIER_PATH": f"~/two::{world.home}/one:{world.home}/missing"})
    library = world.open(place=place)
    assert [(s.origin.source, s.origin.root) for s in library.skills[:2]] == [("path", "path-1"), ("path", "path-2")]
    assert library.read(library.find("same").skill).text.strip() == "two"
    assert codes(library) == ["not-found"]


def test_a_configured_root_stands_between_the_project_and_the_user(world: World):
    world.state.mkdir()
    for folder in ("extra", ".agents/skills"):
        write_skill(world.home / folder / "same", body=folder)
    write_skill(world.project / ".agents/skills/same", body="project")
    (world.state / "config.toml").write_text('roots = ["~/extra", {path = "~/gone", dialect = "umbra"}]\n')
    library = world.open()
    assert [skill.origin.source for skill in library.skills] == ["project", "configured", "user"]
    [root] = [root for root in library.roots if root.origin.path.endswith("gone")]
    assert root.origin.dialect.name == "umbra"
    assert [(problem.code, problem.path) for problem in library.problems] == [("not-found", str(world.home / "gone"))]


def test_a_configured_root_with_an_unknown_dialect_is_a_finding_and_ends_nothing(world: World):
    world.state.mkdir()
    (world.state / "config.toml").write_text('roots = [{path = "~/x", dialect = "latin"}]\n')
    [problem] = [one for one in world.open().problems if one.code == "config-type"]

    assert "roots[0].dialect" in problem.message
    assert problem.path.endswith("config.toml")


@pytest.mark.parametrize(
    ("place", "dialect"),
    [
        (".claude/skills", "claude"),
        (".umbra/skills", "umbra"),
        (".agents/skills", "standard"),
        ("workspace/agents/skills", "agentmd"),
        ("extensions/skills", "agenvoy"),
        (".config/agenvoy/skills", "agenvoy"),
        (".config/agenvoy/skills/.system", "agenvoy"),
        (".openclaw/skills", "openclaw"),
        (".super-multica/skills", "multica"),
        (".super-multica/agent-profiles/me/skills", "multica"),
        (".umbra/skills/group", "umbra"),
        ("skills", "standard"),
        ("anywhere", "standard"),
        ("x.umbra/skills", "standard"),
        (".super-multica/agent-profiles/me/other", "standard"),
    ],
)
def test_a_named_root_is_read_in_the_dialect_of_its_place(world: World, place: str, dialect: str):
    write_skill(world.home / place / "one")
    library = world.open(root=world.home / place)
    assert [(skill.id, skill.origin.dialect.name) for skill in library.skills] == [("one", dialect)]
    assert library.skills[0].origin.trusted
    asked = world.open("multica", root=world.home / place)
    assert asked.skills[0].origin.dialect.name == "multica"


@pytest.mark.parametrize(("name", "reason"), [("missing", "does not exist"), ("file", "is not a folder")])
def test_a_named_root_that_is_no_folder_is_a_clear_error(world: World, name: str, reason: str):
    (world.home / "file").write_text("")
    with pytest.raises(BadRequest, match=reason):
        world.open(root=world.home / name)


def test_a_named_root_may_itself_be_a_skill(world: World):
    write_skill(world.home / "anywhere/one")
    assert ids(world.open(root=world.home / "anywhere/one")) == ["one"]


@pytest.mark.parametrize("profile", ["../x", "a/b", ".hidden", "a\0b"])
def test_a_profile_is_a_name_and_no_path(profile: str):
    with pytest.raises(BadRequest):
        find_place(".", profile)


def test_without_a_profile_no_profile_is_looked_in(world: World):
    write_skill(world.home / ".super-multica/agent-profiles/{profile}/skills/x")
    write_skill(world.home / ".super-multica/agent-profiles/me/skills/y")
    assert ids(world.open("multica")) == []
    assert ids(world.open("multica", place=world.place(profile="me"))) == ["y"]


def test_metiers_own_root_lies_where_metier_home_says(world: World):
    write_skill(world.home / "state/skills/here")
    write_skill(world.home / ".metier/skills/not-here")
    moved = World(world.home, world.project, world.home / "state")
    assert ids(moved.open()) == ["here"]


def test_a_missing_root_is_nothing_to_speak_of_and_a_file_in_its_place_neither(world: World):
    (world.home / ".agents").mkdir()
    (world.home / ".agents/skills").write_text("")
    library = world.open()
    assert (library.skills, library.problems) == ((), ())


def test_a_working_folder_that_is_gone_is_a_clear_error(tmp_path: Path):
    gone = tmp_path / "gone"
    gone.mkdir()
    code = (
        "import os, metier; os.rmdir(os.getcwd())\ntry: metier.open()\nexcept metier.MetierError as e: print(e, e.hint)"
    )
    done = python(code, env={"HOME": str(tmp_path)}, cwd=gone)
    assert "the working folder no longer exists" in done.stdout, done.stderr


def test_the_place_asks_the_system_when_home_is_not_set():
    done = python(HERE, cwd=Path("/"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[2] == pwd.getpwuid(os.getuid()).pw_dir + "/.metier"
