"""The operations that conformance cases name, each through the same stages the library uses."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import datetime
from typing import Any

from ...catalog import Budget, command_names, compact_path, fit, layout, match, named
from ...catalog.entries import entries_of
from ...dialects import ALL
from ...host import files, scratch
from ...install.reference import github
from ...parse import parse
from ...parse.body import body_of
from ...resolve import Terms, asked, resolve
from ...resolve.overlay import overlay
from ...types.dialect import Limits, Listing
from ...types.errors import BadRequest
from ...types.problem import Mark
from ...types.settings import Settings
from ...types.skill import Broken, Found, Origin, Skill
from ...types.tools import allowed_tools
from ...types.verdict import Facts
from . import conform_acts
from .validate import reports_of

Case = dict[str, Any]
_KEY = (1, 0, 0, 0)


def _bytes(given: Case) -> bytes:
    text = given.get("text", "").encode("utf-8", "surrogatepass")
    data: bytes = base64.b64decode(given["base64"]) if "base64" in given else text
    return data + b"x" * max(0, int(given.get("pad_to_bytes", 0)) - len(data))


def _origin(dialect: str, path: str = "/skills") -> Origin:
    return Origin("user", 1, "root", path, ALL[dialect])


def _read(dialect: str, data: bytes, directory: str) -> Skill | Broken:
    """A file as discovery reads it: a bounded head, and none at all of one that is too large."""
    origin = _origin(dialect)
    path = f"/skills/{directory}/SKILL.md"
    limit = Limits().file_bytes
    if len(data) > limit:
        mark = Mark("too-large", 0, (str(len(data)), str(limit)), fatal=True)
        return Broken(directory, path, _KEY, origin, (mark,))
    head = data[: files.HEAD]
    if len(data) > len(head):
        head = data[: len(head) + files.wanted_beyond(head)]
    return parse(Found(origin, directory, path, _KEY, head, len(head) >= len(data)), ALL)


def _fields(skill: Skill) -> Case:
    extra = skill.extra
    fields: Case = {
        "argument_hint": skill.argument_hint,
        "user_invocable": skill.user_may_invoke,
        "disable_model_invocation": not skill.model_may_invoke,
        "allowed_tools": list(skill.allowed_tools),
        "arguments": list(skill.arguments),
    }
    for key, value in extra.plain().items():
        fields.setdefault(key.replace("-", "_"), value)
    return fields


def frontmatter(dialect: str, given: Case) -> Case:
    data = _bytes(given)
    found = _read(dialect, data, given["dir"])
    codes = [mark.code for mark in found.marks]
    if isinstance(found, Broken):
        return {"loads": False, "codes": codes}
    body, _ = body_of(data, found.origin.dialect)
    return {
        "loads": True,
        "name": found.name,
        "description": found.description,
        "body": body,
        "fields": _fields(found),
        "codes": codes,
    }


def validate(_: str, given: Case) -> Case:
    with scratch.folder() as root:
        path = scratch.inside(root, given["dir"])
        if given.get("target") == "file":
            scratch.write(path, b"")
        elif given.get("target") != "missing":
            written = {name: text.encode("utf-8", "surrogatepass") for name, text in given.get("files", {}).items()}
            if "text" in given or "base64" in given:
                written["SKILL.md"] = _bytes(given)
            scratch.fill(path, written)
        return {"errors": [one.code for report in reports_of(path) for one in report.problems]}


def commands(dialect: str, given: Case) -> Case:
    rules = ALL[dialect].serving.commands
    skills = [one for one in given["skills"] if one.get("user_invocable", True)]
    names = command_names([(one["name"], one.get("dir", one["name"])) for one in skills], rules.form, given["reserved"])
    return {"commands": sorted(names) if rules.alphabetical else names}


def matching(dialect: str, given: Case) -> Case:
    rules = ALL[dialect].serving.commands
    found = match(given["input"], named([(name, name) for name in given["skills"]], rules.form), rules.matching)
    return {"skill": found.name, "arguments": found.arguments, "user_message": found.user_message}


def fitting(dialect: str, given: Case) -> Case:
    serving = ALL[dialect].serving
    origin = _origin("standard")
    skills = [
        Skill(one["name"], one["name"], one["description"], one["location"], _KEY, origin) for one in given["skills"]
    ]
    entries = entries_of(skills, serving.listing, given.get("home", ""))
    budget = Budget(given.get("max_skills", serving.limits.listed), given.get("max_chars", serving.limits.characters))
    found = fit(entries, layout(serving.listing.format), budget)
    return {"included": len(found.entries), "text": found.text}


def eligibility(dialect: str, given: Case) -> Case:
    text = f"---\n{given['frontmatter'].rstrip()}\n---\nBody.\n"
    skill = _read(dialect, text.encode(), given["id"] if "id" in given else conform_acts.name_in(text, dialect))
    if isinstance(skill, Broken):
        return {"eligible": False, "diagnostics": [mark.code for mark in skill.marks]}
    env = given["env"]
    facts = Facts(
        given["platform"],
        frozenset(given["bins"]),
        frozenset(name for name in env if env[name]),
        frozenset(name for name in env if not env[name]),
    )
    allowed = given["config"].get("skills", {}).get("allowBundled", [])
    settings = Settings(tree=given["config"], allow_bundled=tuple(allowed) if isinstance(allowed, list) else ())
    bundled = frozenset({skill.path}) if given.get("bundled") else frozenset[str]()
    asked([skill])
    [verdict] = resolve([skill], facts, Terms(settings=settings, bundled=bundled))
    return {"eligible": verdict.eligible, "diagnostics": list(verdict.diagnostics)}


def env_overlay(_: str, given: Case) -> Case:
    found = overlay(
        given["skill_env"],
        tuple(given["declared"]),
        given["process_env"],
        given.get("primary_env", ""),
        given.get("api_key", ""),
    )
    return {"overlay": found.added, "blocked": list(found.blocked)}


def tools(_: str, given: Case) -> Case:
    found = allowed_tools(given["value"])
    return {"error": True} if found is None else {"tools": list(found)}


def compact(dialect: str, given: Case) -> Case:
    listing: Listing = ALL[dialect].serving.listing
    return {"text": compact_path(given["path"], given["home"]) if listing.paths == "home" else given["path"]}


def source(_: str, given: Case) -> Case:
    try:
        found = github(given["spec"])
    except BadRequest:
        return {"error": True}
    named = {"kind": found.kind, "owner": found.owner, "repo": found.repo, "url": found.url}
    return named | {key: value for key, value in (("path", found.path), ("ref", found.ref)) if value}


def schedule_time(_: str, given: Case) -> Case:
    from ...schedule import when

    try:
        found = when.schedule_time(given["text"], datetime.fromisoformat(given["now"]), given["tz"])
    except BadRequest as error:
        return {"error": True, "message": error.message}
    if isinstance(found, when.Cron):
        return {"kind": "cron", "cron": found.expression}
    return {"kind": "once", "at": found.at.isoformat()}


OPS: dict[str, Callable[[str, Case], Case]] = {
    "frontmatter": frontmatter,
    "validate": validate,
    "commands": commands,
    "match": matching,
    "fit": fitting,
    "eligibility": eligibility,
    "env_overlay": env_overlay,
    "allowed_tools": tools,
    "compact_path": compact,
    "source": source,
    "split": conform_acts.split,
    "substitute": conform_acts.substitute,
    "render": conform_acts.render,
    "tools": conform_acts.tools,
    "schedule_time": schedule_time,
}
ABSENT = {"source": ("path", "ref")}
"""What an operation must not give when a case does not name it."""
