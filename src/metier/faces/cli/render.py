"""metier render and metier preview."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any, cast, get_args

import click

from ...types.activation import Activation, Call, Message
from ...types.dialect import Delivery
from ...types.problem import Problem, problem
from ...types.running import SCRIPTS
from ...types.skill import Skill
from ...types.text import seen, tokens_of
from .app import Context, skill_names
from .printing import clean, counted, paint, problem_dict, say, say_json, warn

WORDS = {"ignore_unknown_options": True}
"""What follows NAME belongs to the skill; `--` says so beyond doubt."""


def given(arguments: tuple[str, ...]) -> str | tuple[str, ...]:
    """One argument is the text as a person would type it; several are words."""
    return arguments[0] if len(arguments) == 1 else arguments if arguments else ""


def told(text: str) -> None:
    """Text for a model: exact in a pipe; on a terminal, without what would do something to it."""
    say(seen(text) if sys.stdout.isatty() else text)


@click.command("render")
@click.argument("name", shell_complete=skill_names)
@click.argument("arguments", metavar="[-- ARGS...]", nargs=-1)
@click.option(
    "--delivery",
    type=click.Choice([*get_args(Delivery), "body"]),
    help="Another delivery than the dialect's; `body` is the rendered text alone.",
)
@click.option("--json", "as_json", is_flag=True, help="Text, messages, every substitution, and the cost.")
@click.pass_obj
def render(context: Context, name: str, arguments: tuple[str, ...], delivery: str | None, as_json: bool) -> None:
    """Print exactly what a model gets when this skill is called with these arguments.

    Commands in the body run, if the skill is trusted; `metier preview` runs nothing.
    """
    library = context.library()
    activation, messages = _activated(library, name, given(arguments), delivery)
    if as_json:
        say_json(_document(library, activation, messages))
        return
    if delivery == "body":
        told(activation.text)
    for message in messages if delivery != "body" else ():
        if message.call is not None:
            from json import dumps

            say(f"[{message.role} calls {message.call.name} {dumps(dict(message.call.arguments), ensure_ascii=False)}]")
        else:
            told(message.text)
    for one in activation.inserts:
        if one.note:
            what = one.kind if one.kind == "removed" else f"{one.kind} {one.source}"
            warn(clean(f"{what}: {one.note}"))
    _warn_of(library, activation.skill)


def _warn_of(library: Any, skill: Skill) -> None:
    for one in _lacking(library, skill):
        warn(f"{clean(one.message)}: {clean(one.hint)}")


def _activated(
    library: Any, name: str, arguments: str | tuple[str, ...], delivery: str | None, preview: bool = False
) -> tuple[Activation, tuple[Message, ...]]:
    from ...activate import deliver

    skill = library.find(name).skill
    desk = library.desk(by="user")
    command = next((one.name for one in library.commands() if one.skill == skill), skill.name)
    activation = desk.render(skill, Call(command, arguments, "user", desk.cwd), preview=preview)
    serving = library.dialect.serving
    if delivery not in (None, "body"):
        serving = replace(serving, delivery=cast(Delivery, delivery))
    return activation, deliver(activation, serving, desk.resources(skill), activation.call.typed or f"/{command}")


def _lacking(library: Any, skill: Skill) -> tuple[Problem, ...]:
    """What the body says in another dialect's words."""
    from ...parse.foreign import foreign

    marks = foreign(library.read(skill).text, skill.origin.dialect, skill.arguments)
    return tuple(problem(mark._replace(line=0), skill.path) for mark in marks)


def _document(library: Any, activation: Activation, messages: tuple[Message, ...]) -> dict[str, object]:
    return {
        "skill": activation.skill.name,
        "path": activation.skill.path,
        "arguments": activation.call.typed,
        "text": activation.text,
        "digest": activation.digest,
        "characters": len(activation.text),
        "tokens": activation.tokens,
        "inserts": [one._asdict() for one in activation.inserts],
        "problems": [problem_dict(one) for one in _lacking(library, activation.skill)],
        "messages": [
            {
                "role": one.role,
                "text": one.text,
                **({"tool": one.call.name, "arguments": dict(one.call.arguments)} if one.call else {}),
            }
            for one in messages
        ],
    }


@click.command("preview")
@click.argument("name", shell_complete=skill_names)
@click.argument("arguments", metavar="[-- ARGS...]", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_obj
def preview(context: Context, name: str, arguments: tuple[str, ...], as_json: bool) -> None:
    """Show what a skill costs and does, running nothing: its line in the catalog, its instructions, its price."""
    library = context.library()
    activation, messages = _activated(library, name, given(arguments), None, preview=True)
    entry = _entry(library, activation.skill)
    commands = [one.source for one in activation.inserts if one.kind == "command"]
    scripts = [one for one in library.desk(by="user").scripts(activation.skill) or () if one.endswith(SCRIPTS)]
    sent = "\n".join(message.text for message in messages)
    cost = {"listed": tokens_of(entry), "activated": tokens_of(sent)}
    if as_json:
        say_json(
            {
                **_document(library, activation, messages),
                "entry": entry,
                "cost": cost,
                "commands": commands,
                "scripts": scripts,
            }
        )
        return
    say(paint("in the catalog", "bold") + f"  about {counted(cost['listed'], 'token')}, in every conversation")
    told(entry.rstrip("\n") or "  not listed: `metier why` says the reason")
    say()
    say(paint("when it is called", "bold") + f"  about {counted(cost['activated'], 'token')}, each time")
    told(sent)
    say()
    for label, found in (("commands that run", commands), ("scripts it may run", scripts)):
        say(f"{paint(label, 'bold')}  {len(found) or 'none'}")
        for one in found:
            say(f"  {clean(one)}")
    _warn_of(library, activation.skill)


def _entry(library: Any, skill: Skill) -> str:
    """The skill's own lines of the catalog; empty where it is not listed."""
    from ...catalog import layout
    from ...catalog.entries import entries_of

    listing = library.dialect.serving.listing
    if skill not in library.desk().offered():
        return ""
    lines: str = layout(listing.format).entry(entries_of([skill], listing, library.place.home)[0])
    return lines
