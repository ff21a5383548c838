"""metier render, preview, read and script: what a model gets from a skill, and what it can run."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, cast, get_args

import click

from ...types.activation import Activation, Call, Message
from ...types.dialect import DeliveryMode
from ...types.errors import BadRequest
from ...types.problem import Problem, problem_from
from ...types.sandbox import SCRIPT_SUFFIXES
from ...types.skill import Skill
from ...types.text import estimate_tokens, visible_text
from .options import CliContext, skill_names
from .output import count_of, paint, printable, problem_dict, say, say_json, warn

if TYPE_CHECKING:
    from ...library.library import Library


def join_arguments(arguments: tuple[str, ...]) -> str | tuple[str, ...]:
    """One argument is the text as a person would type it, and so are plain words; others stay as they are."""
    if all(re.fullmatch(r"[^\s'\"\\]+", word) for word in arguments):
        return " ".join(arguments)
    return arguments[0] if len(arguments) == 1 else arguments


def print_model_text(text: str) -> None:
    """Print text for a model: exact in a pipe, without control characters on a terminal."""
    say(visible_text(text) if sys.stdout.isatty() else text)


@click.command("render")
@click.argument("name", shell_complete=skill_names)
@click.argument("arguments", metavar="[-- ARGS...]", nargs=-1)
@click.option(
    "--delivery",
    type=click.Choice([*get_args(DeliveryMode), "body"]),
    help="Use another delivery than the dialect's; `body` prints only the rendered text",
)
@click.option("--json", "as_json", is_flag=True, help="Print text, messages, substitutions and cost as JSON")
@click.pass_obj
def render(context: CliContext, name: str, arguments: tuple[str, ...], delivery: str | None, as_json: bool) -> None:
    """Print the exact messages a model gets when a skill is called with these arguments.

    Commands in the body run if the skill is trusted; `metier preview` runs nothing.
    """
    library = context.library()
    activation, messages = _activate_skill(library, name, join_arguments(arguments), delivery)
    if as_json:
        say_json(_activation_dict(library, activation, messages))
        return
    if delivery == "body":
        print_model_text(activation.text)
    for message in messages if delivery != "body" else ():
        if message.call is not None:
            from json import dumps

            say(f"[{message.role} calls {message.call.name} {dumps(dict(message.call.arguments), ensure_ascii=False)}]")
        else:
            print_model_text(message.text)
    for insert in activation.inserts:
        if insert.note:
            origin = insert.kind if insert.kind == "removed" else f"{insert.kind} {insert.source}"
            warn(printable(f"{origin}: {insert.note}"))
    _warn_foreign(library, activation.skill)


def _warn_foreign(library: Library, skill: Skill) -> None:
    for issue in _foreign_problems(library, skill):
        warn(f"{printable(issue.message)}: {printable(issue.hint)}")


def _activate_skill(
    library: Library, name: str, arguments: str | tuple[str, ...], delivery: str | None, preview: bool = False
) -> tuple[Activation, tuple[Message, ...]]:
    from ...activate.deliver import deliver

    skill = library.find(name).skill
    access = library.skill_access(by="user")
    command = next((candidate.name for candidate in library.commands() if candidate.skill == skill), skill.name)
    activation = access.render(skill, Call(command, arguments, "user", access.cwd), preview=preview)
    serving = library.dialect.serving
    if delivery not in (None, "body"):
        serving = serving._replace(delivery=cast(DeliveryMode, delivery))
    return activation, deliver(activation, serving, access.resources(skill), activation.call.typed or f"/{command}")


def _foreign_problems(library: Library, skill: Skill) -> tuple[Problem, ...]:
    """Constructs in the body that belong to another dialect."""
    from ...parse.lint import foreign_constructs

    findings = foreign_constructs(library.read(skill).text, skill.origin.dialect, skill.arguments)
    return tuple(problem_from(finding._replace(line=0), skill.path) for finding in findings)


def _activation_dict(library: Library, activation: Activation, messages: tuple[Message, ...]) -> dict[str, object]:
    return {
        "skill": activation.skill.name,
        "path": activation.skill.path,
        "arguments": activation.call.typed,
        "text": activation.text,
        "digest": activation.digest,
        "characters": len(activation.text),
        "tokens": activation.tokens,
        "inserts": [insert._asdict() for insert in activation.inserts],
        "problems": [problem_dict(issue) for issue in _foreign_problems(library, activation.skill)],
        "messages": [
            {
                "role": message.role,
                "text": message.text,
                **({"tool": message.call.name, "arguments": dict(message.call.arguments)} if message.call else {}),
            }
            for message in messages
        ],
    }


@click.command("preview")
@click.argument("name", shell_complete=skill_names)
@click.argument("arguments", metavar="[-- ARGS...]", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print JSON")
@click.pass_obj
def preview(context: CliContext, name: str, arguments: tuple[str, ...], as_json: bool) -> None:
    """Show a skill's catalog entry, its instructions, what it runs and its token cost, without running anything."""
    library = context.library()
    activation, messages = _activate_skill(library, name, join_arguments(arguments), None, preview=True)
    entry = _catalog_entry(library, activation.skill)
    commands = [insert.source for insert in activation.inserts if insert.kind == "command"]
    scripts = [
        script
        for script in library.skill_access(by="user").scripts(activation.skill) or ()
        if script.endswith(SCRIPT_SUFFIXES)
    ]
    sent = "\n".join(message.text for message in messages)
    cost = {"listed": estimate_tokens(entry), "activated": estimate_tokens(sent)}
    if as_json:
        say_json(
            {
                **_activation_dict(library, activation, messages),
                "entry": entry,
                "cost": cost,
                "commands": commands,
                "scripts": scripts,
            }
        )
        return
    say(paint("in the catalog", "bold") + f"  about {count_of(cost['listed'], 'token')}, in every conversation")
    print_model_text(entry.rstrip("\n") or "  not listed; run `metier why` to see why")
    say()
    say(paint("when called", "bold") + f"  about {count_of(cost['activated'], 'token')}, each time")
    print_model_text(sent)
    say()
    for label, items in (("commands that run", commands), ("scripts it may run", scripts)):
        say(f"{paint(label, 'bold')}  {len(items) or 'none'}")
        for item in items:
            say(f"  {printable(item)}")
    _warn_foreign(library, activation.skill)


def _catalog_entry(library: Library, skill: Skill) -> str:
    """The skill's own lines of the catalog; empty where it is not listed."""
    from ...catalog.formats import get_layout, make_entries

    listing = library.dialect.serving.listing
    if skill not in library.skill_access().offered():
        return ""
    lines: str = get_layout(listing.format).entry(make_entries([skill], listing, library.place.home)[0])
    return lines


@click.command("read")
@click.argument("name", shell_complete=skill_names)
@click.argument("path")
@click.option("--offset", type=click.IntRange(min=0), default=0, help="Start at this byte")
@click.option("--json", "as_json", is_flag=True, help="Print the text, the file size and the next offset as JSON")
@click.pass_obj
def read(context: CliContext, name: str, path: str, offset: int, as_json: bool) -> None:
    """Print a file of a skill, as the tool `skill_read_file` returns it to a model."""
    library = context.library()
    page = library.skill_access(by="user").page(library.find(name).skill, path, offset)
    if as_json:
        say_json({"text": page.text, "size": page.size, "next": page.next})
        return
    text = visible_text(page.text) if sys.stdout.isatty() else page.text
    click.echo(text, nl=bool(text) and not text.endswith("\n"))
    if page.next is not None:
        warn(f"{page.size - page.next} of {page.size} bytes left; continue with --offset {page.next}")


@click.command("script")
@click.argument("name", shell_complete=skill_names)
@click.argument("script")
@click.argument("arguments", metavar="[-- ARGS...]", nargs=-1)
@click.option("--write", multiple=True, metavar="DIR", help="Folder that the script may write to; may be repeated")
@click.option("--json", "as_json", is_flag=True, help="Print output, exit status and sandbox as JSON")
@click.pass_obj
def script(
    context: CliContext, name: str, script: str, arguments: tuple[str, ...], write: tuple[str, ...], as_json: bool
) -> None:
    """Run a script of a skill in a sandbox, as the tool `skill_run_script` does; exits with its status."""
    from ...host import paths
    from ...library.skill_tools import resolve_script, script_answer, split_arguments

    library = context.library()
    folders = [paths.absolute_path(folder, paths.working_folder(), paths.home_folder()) for folder in write]
    for folder in folders:
        if not paths.is_folder(folder):
            raise BadRequest(f"{folder} is not a folder", "create it first, or leave out --write")
    access = library.skill_access(by="user", write=folders)
    # By its qualified name: the check whether it may run must be about this skill, even if another shadows it.
    skill = access.skill(library.find(name).skill.qualified)
    chosen = resolve_script(access, skill, script)
    result = access.run(skill, chosen, split_arguments(arguments))
    reply = script_answer(chosen, result)
    if as_json:
        say_json(
            {
                "script": chosen,
                "stdout": result.stdout,
                "stderr": result.stderr,
                "status": result.status,
                "timed_out": result.timed_out,
                "tier": result.tier,
                "note": result.note,
            }
        )
    else:
        say(reply.text)
    if reply.note:
        warn(printable(reply.note))
    # No status: it could not start.
    raise click.exceptions.Exit(reply.status if reply.status is not None else 1)
