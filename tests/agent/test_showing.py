"""What a person sees who has to decide about a call."""

import pytest
from tests.agent.talking import call, session, spoken

from metier.agent.policies import render_call
from metier.faces.cli.events import event_lines
from metier.faces.tui.lines import question_lines
from metier.types.activation import ToolCall
from metier.types.event import Asked, Used
from metier.types.model import Answer, Tool, ToolParameter

KNOWN = frozenset({"command", "seconds"})


def asked(text: str, **more: object) -> Asked:
    wanted = ToolCall("1", "run_command", {**more, "command": text})
    return Asked(
        "1", "approval", "run_command", render_call(wanted, KNOWN), wanted.arguments, ("once", "no"), "", "why"
    )


def faces(one: Asked) -> list[str]:
    return ["\n".join(event_lines(one)), "\n".join(line.text for line in question_lines(one))]


@pytest.mark.parametrize(
    ("command", "seen"),
    [
        ("ls -la; : \x1b]; id > here ; : \x07", "ls -la; : \\x1b]; id > here ; : \\x07"),
        ("ls " + "a" * 2000 + "; id > here", "; id > here"),
        ("ls # the files\nid > here", "ls # the files\n  │ id > here"),
        ("ls\r\x1b[2Kid", "ls\\r\\x1b[2Kid"),
        ("ls \u202eid\u2066 \u200d\ufe0f \xa0x", "ls \\u202eid\\u2066 \\u200d\\ufe0f \\u00a0x"),
        ("ls\t; id", "ls\\t; id"),
    ],
)
def test_every_character_of_a_command_is_seen_by_whoever_is_asked(command, seen):
    for face in faces(asked(command)):
        assert seen in face


def test_what_decides_stands_first_and_what_does_nothing_is_not_in_its_way():
    for face in faces(asked("id > here", note="x" * 310, seconds=5)):
        assert face.splitlines()[0].endswith("run_command: id > here")
        assert "  seconds: 5" in face
        assert "xxx" not in face


def test_a_command_with_characters_that_nobody_sees_is_refused(world):
    talk, _ = session(world, [call("run_command", command="ls; : \x1b]; touch here ; : \x07"), "Then not."])
    events = spoken(talk, "go", answer="once")

    assert not [one for one in events if isinstance(one, Asked)]
    assert [(one.error, "U+001B" in one.text) for one in events if isinstance(one, Used)] == [(True, True)]
    assert not (world.project / "here").exists()


def test_a_yes_to_somebody_elses_tool_holds_for_all_of_its_arguments(world):
    tool = Tool(
        "srv__exec", "x", (ToolParameter("path", "p"), ToolParameter("script", "s")), lambda given: Answer("done")
    )
    calls = [
        call("srv__exec", id="1", path="README.md", script="cat"),
        call("srv__exec", id="2", path="README.md", script="cat"),
        call("srv__exec", id="3", path="README.md", script="rm -rf x"),
        "Done.",
    ]
    talk, _ = session(world, calls, tools_beside=lambda: (tool,))
    events = spoken(talk, "go", answer="always")

    assert ["rm -rf x" in one.text for one in events if isinstance(one, Asked)] == [False, True]
