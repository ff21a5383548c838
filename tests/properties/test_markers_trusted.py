"""What is vouched for when a person trusts a skill holds every command that any dialect would run."""

from __future__ import annotations

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.properties.test_commands import EXAMPLES, SOAK

from metier.dialects import DIALECTS
from metier.library.trust import find_commands
from metier.parse.markers import find_markers

BODIES = st.lists(
    st.one_of(
        st.sampled_from(
            ["!`", "`", "``", "```", "````", "~~~", "~~~~", "!", "\n", "\n", "\n", "```!\n", "````!\n", "``` !\n", "```!", " ", "  ",
             "\t", "x", "y $1", "<!--", "-->", "\\", ">", "> ", "- ", "1. ", "\r", "\r\n", "\x0b", "\x0c", "\x85", "\u2028", "é",
             "```sh\n", "\n```\n", "\n````\n", "\n~~~\n", "!`a`", " !`b c` "]
        ),
        st.text(max_size=4),
    ),
    max_size=30,
).map("".join)  # fmt: skip


@settings(
    max_examples=EXAMPLES or (5_000 if SOAK else 500),
    derandomize=not EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(BODIES)
@example("````!\nx\n```\ny\n````")
@example("  ```!\n  x\n  ```")
@example("```!\n~~~\nx\n```")
@example("!`a` `!`b`")
@example("```!\r\nx\r\n```")
def test_every_command_that_would_run_is_vouched_for(body: str):
    body = body.replace("\r\n", "\n").replace("\r", "\n")
    known = set(find_commands(body))
    for dialect in DIALECTS.values():
        if dialect.authoring.shell is not None:
            for one in find_markers(body, dialect.authoring.shell):
                lines = _lines(one.command)
                assert any(lines in _lines(text) for text in known), (dialect.name, one)


def _lines(text: str) -> str:
    """A text whose indentation does not matter."""
    return "\n".join(line.strip(" \t") for line in text.split("\n")).strip()
