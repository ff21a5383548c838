"""The operations of conformance cases that run something, each in a fresh folder."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ...act.tools import tools_of
from ...activate import Forms, Given, fill, pieces, user_message
from ...activate import split as split_words
from ...activate.deliver import request
from ...dialects import ALL
from ...host import paths, scratch
from ...host.place import here
from ...parse import head_of, text_of
from ...parse.text import Refusal
from ...runtime.desk import LibraryDesk
from ...runtime.library import Library
from ...runtime.opening import Request, open_at
from ...types.activation import Activation, Call
from ...types.dialect import ToolName
from ...types.errors import MetierError

Case = dict[str, Any]
_AGENT_TOOLS: tuple[ToolName, ...] = ("skill_use", "skill_read_file", "skill_run_script", "run_skill", "read")


def split(dialect: str, given: Case) -> Case:
    reads = ALL[dialect].authoring.arguments
    return {"args": list(split_words(given["text"], reads.splitting if reads else "none"))}


def substitute(dialect: str, given: Case) -> Case:
    authoring = ALL[dialect].authoring
    variables = dict(given.get("variables", {}))
    if "skill_dir" in given:
        variables |= dict.fromkeys(("SKILL_DIR", "CLAUDE_SKILL_DIR"), given["skill_dir"])
    known = tuple(name for name in variables if name in authoring.variables or name in given.get("variables", {}))
    forms = Forms(authoring.arguments, (), known if authoring.variables else ())
    filled = Given(_arguments(given), (), variables)
    return {"text": fill(pieces(given["body"], forms), authoring.arguments, filled)}


def _arguments(given: Case) -> str | tuple[str, ...]:
    written: str | list[str] = given["arguments"]
    return written if isinstance(written, str) else tuple(written)


def name_in(text: str, dialect: str) -> str:
    """The name that a SKILL.md gives itself, for a case that does not name the folder."""
    try:
        read = text_of(text.encode("utf-8", "surrogatepass"), True, [])
        name = head_of(read, ALL[dialect].authoring, []).tree.get("name")
    except Refusal:
        name = None
    return (name.strip() if isinstance(name, str) else "") or "skill"


@contextlib.contextmanager
def _place(dialect: str, skills: dict[str, bytes], agent: list[str] | None = None) -> Iterator[tuple[Library, str]]:
    """A library over a folder of skills, and an empty working folder beside it."""
    with scratch.folder() as base:
        root, cwd = f"{base}/skills", f"{base}/work"
        scratch.fill(root, skills)
        scratch.fill(cwd, {})
        place = replace(here(cwd), cwd=cwd, project=cwd, home=f"{base}/home", state=f"{base}/home/.metier")
        yield open_at(place, Request(dialect, agent, root, index=False)), cwd


def render(dialect: str, given: Case) -> Case:
    name = name_in(given["skill_md"], dialect)
    files = {f"{name}/{path}": text.encode() for path, text in {**given.get("files", {})}.items()}
    files[f"{name}/SKILL.md"] = given["skill_md"].encode("utf-8", "surrogatepass")
    with _place(dialect, files) as (library, cwd):
        for path, text in given.get("cwd_files", {}).items():
            scratch.write(scratch.inside(cwd, path), text.encode())
        [skill] = library.skills
        if not given.get("trusted", True):
            skill = skill._replace(origin=replace(skill.origin, trusted=False))
        command = next((one.name for one in library.commands()), skill.name)
        call = Call(command, _arguments(given), "user", cwd)
        places = {"{{CWD}}": cwd, "{{SKILL_DIR}}": skill.directory}
        try:
            activation = LibraryDesk(library, cwd, "user", write=(cwd,)).render(skill, call)
        except MetierError as error:
            return {"error": True, "text": error.message, "places": places, "present": _present(cwd, skill.directory)}
        return {
            "text": activation.text,
            "message": _message(activation, library),
            "places": places,
            "present": _present(cwd, skill.directory),
        }


def _message(activation: Activation, library: Library) -> str:
    serving = library.dialect.serving
    return request(activation) if serving.delivery == "model-reads" else user_message(activation, serving)


def _present(cwd: str, directory: str) -> list[str]:
    """Every file that is there afterwards, by the names a case may use."""
    inside = [path for path, _ in paths.tree_of(cwd)]
    own = [f"{directory}/{path}" for path, _ in paths.tree_of(directory)]
    return [*inside, *(f"{cwd}/{path}" for path in inside), *own]


def tools(dialect: str, given: Case) -> Case:
    skills = {path: text.encode("utf-8", "surrogatepass") for path, text in given["skill_files"].items()}
    agent = given["enabled"] if ALL[dialect].serving.unlisted_agent == "none" else None
    with _place(dialect, skills, agent) as (library, cwd):
        root = library.roots[0].origin.path
        for path, target in given.get("symlinks", {}).items():
            scratch.link(scratch.inside(root, path), target)
        offered = {tool.name: tool for tool in tools_of(LibraryDesk(library.reload(), cwd), _AGENT_TOOLS)}
        answers = [offered[call["tool"]].call(call.get("args", {})) for call in given["calls"]]
        return {
            "results": [{"text": one.text, "error": one.error} for one in answers],
            "messages": [{"text": message.text} for one in answers for message in one.messages],
            "places": {"{{ROOT}}": root},
        }
