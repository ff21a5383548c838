"""What a project tells agents is shown before it is trusted, in a dry run, and by `why`."""

from __future__ import annotations

import sys

from tests.cli.console import Desk


def test_why_says_whether_a_model_gets_the_instructions(desk: Desk) -> None:
    assert "no skill" in desk.say("why", "AGENTS.md").err.lower() or desk.say("why", "AGENTS.md").code != 0
    (desk.project / "AGENTS.md").write_text("Use tabs. See @docs.md and @none.md\n")
    (desk.project / "docs.md").write_text("Docs.\n")
    said = desk.say("why", "AGENTS.md").out
    assert "the project is not trusted" in said
    assert "metier trust" in said
    shown = desk.say("trust", "--yes").out
    assert "AGENTS.md: a model that works here is told to follow its" in shown
    said = desk.say("why", "AGENTS.md").out
    assert "sent      yes" in said
    assert "imports docs.md" in said
    assert "@none.md: there is no such file" in said


def test_why_says_how_another_name_is_chosen(desk: Desk) -> None:
    (desk.project / "CLAUDE.md").write_text("Use tabs.\n")
    said = desk.say("why", "CLAUDE.md").out
    assert 'instructions = ["AGENTS.md", "CLAUDE.md"]' in said


def test_a_dry_run_shows_the_instructions(desk: Desk) -> None:
    (desk.project / "AGENTS.md").write_text("Use tabs.\n")
    desk.say("trust", "--yes")
    said = desk.say("run", "--dry-run", "--model", "anthropic:claude-sonnet-4-5", "hello", ANTHROPIC_API_KEY="x")
    assert "Use tabs." in said.out, said.err


def test_the_first_lines_and_a_digest_are_shown_before_trust(desk: Desk) -> None:
    (desk.project / "AGENTS.md").write_text("Use tabs.\n\n" + "".join(f"Rule {n}\x1b[2K.\n" for n in range(9)))
    shown = desk.say("trust", "--yes").out
    assert "(sha256 " in shown
    assert "AGENTS.md| Use tabs." in shown
    assert "AGENTS.md| Rule 3" in shown
    assert "AGENTS.md| … 5 more lines" in shown
    assert "\x1b[2K" not in shown


_SWAPPING = """\
import sys
from pathlib import Path
from metier.faces.cli import app, trust

def swap(question):
    Path("AGENTS.md").write_text("Use vims.\\n")
    return True

trust.can_ask, trust.ask_confirmation = (lambda: True), swap
sys.exit(app.run(["trust"]))
"""


def test_what_changes_while_the_question_stands_is_not_trusted(desk: Desk) -> None:
    (desk.project / "AGENTS.md").write_text("Use tabs.\n")
    said = desk.say(program=[sys.executable, "-c", _SWAPPING])
    assert said.code != 0
    assert "the project changed since it was shown" in said.err
    assert "No trusted projects." in desk.say("trust", "--list").out
    assert desk.say(program=[sys.executable, "-c", _SWAPPING]).code == 0
