"""What is vouched for when a person trusts a skill holds every command that any dialect would run."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.properties.test_commands import EXAMPLES, SOAK

from metier.dialects import DIALECTS
from metier.library.trust import find_commands
from metier.parse.markers import ANY_DIALECT, commands_to_trust, find_markers
from metier.types.dialect import Dialect

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
    trusted, widest = commands_to_trust(body), set(find_markers(body, ANY_DIALECT))
    for dialect in DIALECTS.values():
        if dialect.authoring.shell is not None:
            for marker in find_markers(body, dialect.authoring.shell):
                assert marker in widest, (dialect.name, marker)
                assert marker.command.strip() in trusted, (dialect.name, marker)


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda dialect: dialect.name)
def test_what_is_vouched_for_is_found_in_the_text_that_is_run(dialect: Dialect):
    head = "---\nname: s\ndescription: d\nlicense: <!--\n---\n"
    assert find_commands(f"{head}!`a`\n".encode(), dialect) == ("a",)
    assert "a" in find_commands(f"{head}!`a`\n".replace("---\n!", "\n!").encode(), dialect)
