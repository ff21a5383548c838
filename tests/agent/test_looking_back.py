"""git_log and git_rollback: an agent looks at what skills were, and takes a change back."""

from tests.agent.talking import call, session, spoken
from tests.home import World, write_skill

from metier.agent.permissions import Permission, parse_rule
from metier.install import managed, remove, transaction
from metier.record.history import HistoryChange, record_change
from metier.sources.skill_files import SkillFiles
from metier.types.activation import ToolCall
from metier.types.agent import AgentFile
from metier.types.event import Offered, Used

ROOT = ".config/agenvoy/skills"


def changed(world: World, text: str = "Better.\n") -> str:
    """A skill that was improved; the commit before that."""
    file = write_skill(world.home / ROOT / "pdf", body="Good.\n")
    (one,) = (skill for skill in world.open("agenvoy").skills if skill.name == "pdf")
    record = managed.managed_skill(world.open("agenvoy"), one)
    first = record_change(record.repository, HistoryChange("add", "pdf", record.folder))
    assert first is not None
    contents = SkillFiles.from_pairs({"SKILL.md": (0o644, file.read_bytes().replace(b"Good.\n", text.encode()))})
    assert managed.apply_edit(record, managed.SkillEdit(contents, "improve", "it failed", "run-1")) is not None
    return first.rev


def answers(events: list[object]) -> list[str]:
    return [event.text for event in events if isinstance(event, Used)]


def test_an_agent_finds_a_change_and_takes_it_back_and_the_library_is_looked_at_again(world: World):
    rev = changed(world)
    back = call("git_rollback", tag="skills", commit=rev[:7])
    talk, _ = session(world, [call("git_log", tag="skills"), back, call("run_skill", skill="pdf"), "Done."], "agenvoy")

    log, told, skill = answers(spoken(talk, "take it back", "once"))

    newest, oldest = log.splitlines()
    assert "improve_pdf_" in newest
    assert oldest.startswith(rev[:12])
    assert told == f"rolled back skills to {rev[:7]}: pdf"
    assert "Good." in skill
    assert "Better." not in skill


def test_a_changed_description_is_offered_anew_after_a_rollback(world: World):
    rev = changed(world)
    file = world.home / ROOT / "pdf/SKILL.md"
    file.write_text(file.read_text().replace("Does it.", "Does other things."))
    talk, _ = session(world, [call("git_rollback", tag="skills", commit=rev), "Done."], "agenvoy")
    events = spoken(talk, "take it back", "once")
    assert [event.changed for event in events if isinstance(event, Offered)] == [("pdf",)]


def test_what_was_not_there_then_goes_to_the_trash_and_what_is_gone_comes_back(world: World):
    rev = changed(world)
    library = world.open("agenvoy")
    root = str(world.home / ROOT)
    write_skill(world.home / ROOT / "new")
    ground = managed.install_root_for(library.place, root)
    record_change(ground.history, HistoryChange("add", "new", f"{root}/new"))
    remove.remove_skill(ground, "pdf")
    assert managed.rollback_to(world.open("agenvoy"), rev) == ("new", "pdf")
    assert [skill.name for skill in world.open("agenvoy").skills if skill.origin.path == root] == ["pdf"]
    assert "new" in [what for _, what, _ in transaction.list_trash(ground)]


def test_only_one_skill_goes_back_where_one_is_named(world: World):
    rev = changed(world)
    write_skill(world.home / ROOT / "new")
    back = ToolCall("1", "git_rollback", {"tag": "skills", "commit": rev, "name": "pdf"})
    talk, _ = session(world, [back, "Done."], "agenvoy")
    assert answers(spoken(talk, "go", "once")) == [f"rolled back skills to {rev}: pdf"]
    assert (world.home / ROOT / "new").exists()


def test_mistakes_are_answered_in_words(world: World):
    wrong = [
        call("git_log", tag="skills"),
        call("git_log", tag="tools"),
        call("git_rollback", tag="skills", commit=""),
        call("git_rollback", tag="skills", commit="--hard"),
        call("git_rollback", tag="skills", commit="HEAD~1"),
    ]
    write_skill(world.home / ROOT / "pdf")
    talk, _ = session(world, [*wrong, "Done."], "agenvoy")
    found = answers(spoken(talk, "go", "once"))
    assert found[0] == "no commits yet"
    assert found[1].startswith("tag must be 'skills', got \"tools\"")
    assert found[2].startswith("commit is required")
    assert found[3].startswith("no history has a version `--hard`")
    assert found[4].startswith("no history has a version `HEAD~1`")


def test_looking_needs_no_yes_and_going_back_does(world: World):
    rev = changed(world)
    lines = [call("git_log", tag="skills"), call("git_rollback", tag="skills", commit=rev), "Done."]
    talk, _ = session(world, lines, "agenvoy")
    events = spoken(talk, "take it back")
    assert events[-1].reason == "refused-approval"
    assert len(answers(events)) == 1
    rule = parse_rule("git_rollback")
    assert rule is not None
    talk, _ = session(world, lines[1:], "agenvoy", rules=Permission(allow=(rule,)))
    assert spoken(talk, "take it back")[-1].outcome == "finished"


def test_elsewhere_an_agent_has_them_when_its_file_names_them(world: World):
    write_skill(world.home / ".metier/skills/pdf")
    plain, _ = session(world, ["Done."])
    assert not {"git_log", "git_rollback"} & plain.tools().names
    named, _ = session(world, ["Done."], file=AgentFile("a", tools=("git_log",)))
    assert "git_log" in named.tools().names
    assert "git_rollback" not in named.tools().names
