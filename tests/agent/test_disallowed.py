"""`disallowed-tools`: what an active skill denies itself is refused, whoever would allow it."""

from __future__ import annotations

import pytest
from tests.agent.talking import call, session, spoken
from tests.home import World, write_skill

from metier.types.event import Used


def _answers(world: World, denied: str, *calls: object) -> list[str]:
    write_skill(world.home / ".claude/skills/quiet", "Reads.", "Read.\n", f"disallowed-tools: {denied}\n")
    (world.project / "notes.txt").write_text("A note.\n")
    talk, _ = session(world, [[*calls], "done"])
    with talk:
        return [event.text for event in spoken(talk, "/quiet", "once") if isinstance(event, Used)]


@pytest.mark.parametrize("denied", ["Bash", "run_command", "Read, Bash(touch:*)", "Bash(touch *)"])
def test_a_tool_that_a_skill_disallows_is_refused_while_it_is_active(world: World, denied: str) -> None:
    (answer,) = _answers(world, denied, call("run_command", command="touch made.txt"))
    assert "an active skill disallows" in answer
    assert not (world.project / "made.txt").exists()


def test_other_tools_are_as_before(world: World) -> None:
    (answer,) = _answers(world, "Bash", call("read_file", path="notes.txt"))
    assert "A note." in answer


def test_a_skill_that_is_not_active_denies_nothing(world: World) -> None:
    write_skill(world.home / ".claude/skills/quiet", "Reads.", "Read.\n", "disallowed-tools: Read\n")
    (world.project / "notes.txt").write_text("A note.\n")
    talk, _ = session(world, [[call("read_file", path="notes.txt")], "done"])
    with talk:
        (answer,) = [event.text for event in spoken(talk, "hello", "once") if isinstance(event, Used)]
    assert "A note." in answer
