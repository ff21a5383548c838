"""A name belongs to whoever has it: a newcomer takes none by `--yes`, and none that deceives is used at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.console import Desk


def source(desk: Desk, folder: str, name: str = "deploy") -> Path:
    file = desk.project / "src" / folder / "SKILL.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"---\nname: {name}\ndescription: Somebody else's way to deploy it all.\n---\nTheirs.\n")
    return file.parent


def used(desk: Desk, *words: str) -> str:
    return desk.say(*words, "render", "deploy").out


def test_in_one_root_the_folder_that_is_called_so_keeps_its_name(desk: Desk):
    desk.skill("deploy", "---\nname: deploy\ndescription: Mine.\n---\nMine.\n")
    assert desk.say("add", "--yes", str(source(desk, "aaa"))).code == 0

    assert "Mine." in used(desk)
    assert "1 shadowed" in desk.say("list").out


@pytest.mark.parametrize("words", [["--yes"], ["--yes", "--json"], ["--unapproved"]])
def test_a_name_that_is_in_use_is_not_taken_without_a_person(desk: Desk, words: list[str]):
    desk.skill("tool", "---\nname: deploy\ndescription: Mine.\n---\nMine.\n")
    said = desk.say("add", *words, str(source(desk, "deploy")))
    if "--unapproved" in words:
        assert said.code == 0
        said = desk.say("approve", "deploy", "--yes")

    assert said.code == 4
    assert "would be used in place of" in said.err
    assert "Mine." in used(desk)


def test_neither_by_a_root_that_comes_first(desk: Desk):
    desk.skill("deploy", "---\nname: deploy\ndescription: Mine.\n---\nMine.\n")
    said = desk.say("add", "--yes", "--project", str(source(desk, "deploy")))

    assert (said.code, "would be used in place of" in said.err) == (4, True)
    assert "Mine." in used(desk)


def test_neither_by_an_update_that_renames(desk: Desk):
    desk.skill("tool", "---\nname: deploy\ndescription: Mine.\n---\nMine.\n")
    theirs = source(desk, "aaa", "aaa")
    assert desk.say("add", "--yes", str(theirs)).code == 0
    source(desk, "aaa", "deploy")
    said = desk.say("update", "aaa", "--yes")

    assert "would be used in place of" in said.err
    assert "Mine." in used(desk)


def test_what_takes_nothing_is_added_as_ever(desk: Desk):
    assert desk.say("add", "--yes", str(source(desk, "deploy"))).code == 0
    assert desk.say("add", "--yes", "--force", str(source(desk, "deploy"))).code == 0

    assert "Theirs." in used(desk)


@pytest.mark.parametrize(
    "name", ["../../x", "a/b", "..", "'a\\\\b'", "x" * 65, "d\u0435ploy", "\uff44eploy", "'\u200b'", "\u0501eploy"]
)
def test_a_name_that_is_a_path_too_long_or_a_disguise_is_not_used(desk: Desk, name: str):
    desk.skill("deploy", "---\nname: deploy\ndescription: Mine.\n---\nMine.\n")
    desk.skill("other", f"---\nname: {name}\ndescription: Other.\n---\nOther.\n")

    assert "Other." not in desk.say("catalog").out
    assert "Mine." in used(desk)
    assert "is not used: it" in desk.say("why", "other").out
    assert "misnamed" in desk.say("list").out
    assert desk.say("status").code == 0


@pytest.mark.parametrize("name", ["größe", "デプロイ", "Deploy It", "deploy_2", "x" * 64])
def test_an_honest_name_in_any_script_is_used(desk: Desk, name: str):
    desk.skill("deploy", "---\nname: deploy\ndescription: Mine.\n---\nMine.\n")
    desk.skill("other", f"---\nname: {name}\ndescription: Other.\n---\nOther.\n")

    assert "Other." in desk.say("catalog").out
