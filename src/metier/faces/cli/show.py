"""metier show."""

from __future__ import annotations

from json import dumps

import click

from ...types.text import one_line
from .app import Context, skill_names
from .listing import verdict_dict
from .printing import clean, clean_path, paint, paint_state, problem_lines, say, say_json, state_of


@click.command("show")
@click.argument("name", shell_complete=skill_names)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_obj
def show(context: Context, name: str, as_json: bool) -> None:
    """Show one skill: what its frontmatter says, and its instructions as they are written."""
    library = context.library()
    verdict = library.find(name)
    body = library.read(verdict.skill)
    skill = verdict.skill
    if as_json:
        say_json({**verdict_dict(verdict), "argument_hint": skill.argument_hint, "extra": skill.extra.plain(),
                  "body": body.text, "digest": body.digest})  # fmt: skip
        return
    say(f"{paint(clean(skill.name), 'bold')}  {paint_state(state_of(verdict))}")
    if skill.description:
        say(clean(skill.description))
    rows = [("path", skill.path), ("root", skill.origin.root), ("dialect", skill.origin.dialect.name)]
    rows += [("arguments", skill.argument_hint), ("allowed tools", " ".join(skill.allowed_tools))]
    rows += [
        (key, value if isinstance(value, str) else dumps(value, ensure_ascii=False))
        for key, value in skill.extra.plain().items()
        if key != "allowed-tools"
    ]
    for label, text in rows:
        if text:
            say(f"  {paint(clean(label) + ':', 'dim')} {clean_path(text) if label == 'path' else clean(text)}")
    for problem in verdict.problems:
        for line in problem_lines(problem, place=False):
            say(f"  {line}")
    say()
    for line in body.text.split("\n"):
        say(one_line(line.expandtabs(4)))
