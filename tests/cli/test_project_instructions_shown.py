"""What a project tells agents is shown before it is trusted, in a dry run, and by `why`."""

from __future__ import annotations

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
