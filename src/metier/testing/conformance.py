"""The operations of conformance cases: each takes a dialect and the case's input, and returns plain values.

What an operation needs on disk it writes into a fresh folder.  The form of the values is a contract with the published
cases, so operations translate from metier's types and contain no logic of their own.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from ..activate.deliver import request_message, user_message
from ..activate.template import PlaceholderForms, TemplateValues, fill_pieces, split_text
from ..activate.template import split_arguments as split_words
from ..catalog.commands import command_names, match_command, name_commands
from ..catalog.fit import CatalogBudget, fit_entries
from ..catalog.formats import compact_path, get_layout, make_entries
from ..dialects import DIALECTS
from ..host import files, fs, paths, trees
from ..host.facts import find_place
from ..library.access import SkillAccess
from ..library.library import Library
from ..library.open import OpenRequest, open_at
from ..library.skill_tools import tools_of
from ..parse.document import ParseRefusal, decode_text
from ..parse.reader import parse, parse_body, parse_head
from ..registries.reference import parse_github
from ..resolve.environment import build_overlay
from ..resolve.resolver import ResolvePolicy, required_facts, resolve
from ..sources.strict import reports_of
from ..types.activation import Activation, Call
from ..types.dialect import LibraryLimits, ListingRules, ToolName
from ..types.errors import BadRequest, MetierError
from ..types.problem import Finding
from ..types.schedule import CronTrigger
from ..types.settings import Settings
from ..types.skill import BrokenSkill, Found, Origin, Skill, allowed_tools
from ..types.verdict import Facts

Case = dict[str, Any]
_AGENT_TOOLS: tuple[ToolName, ...] = ("skill_use", "skill_read_file", "skill_run_script", "run_skill", "read")


# --- Arguments and activation ---


def split_op(dialect: str, given: Case) -> Case:
    reads = DIALECTS[dialect].authoring.arguments
    return {"args": list(split_words(given["text"], reads.splitting if reads else "none"))}


def substitute_op(dialect: str, given: Case) -> Case:
    authoring = DIALECTS[dialect].authoring
    variables = dict(given.get("variables", {}))
    if "skill_dir" in given:
        variables |= dict.fromkeys(("SKILL_DIR", "CLAUDE_SKILL_DIR"), given["skill_dir"])
    variable_names = tuple(
        name for name in variables if name in authoring.variables or name in given.get("variables", {})
    )
    forms = PlaceholderForms(authoring.arguments, (), variable_names if authoring.variables else ())
    filled = TemplateValues(_case_arguments(given), (), variables)
    return {"text": fill_pieces(split_text(given["body"], forms), authoring.arguments, filled)}


def _case_arguments(given: Case) -> str | tuple[str, ...]:
    written: str | list[str] = given["arguments"]
    return written if isinstance(written, str) else tuple(written)


def name_in(text: str, dialect: str) -> str:
    """The `name` of a SKILL.md, for a case that does not name the folder."""
    try:
        # Cases may contain lone surrogates, which strict UTF-8 can't encode.
        read = decode_text(text.encode("utf-8", "surrogatepass"), True, [])
        name = parse_head(read, DIALECTS[dialect].authoring, []).tree.get("name")
    except ParseRefusal:
        name = None
    return (name.strip() if isinstance(name, str) else "") or "skill"


@contextlib.contextmanager
def _open_library(
    dialect: str, skills: dict[str, bytes], agent: list[str] | None = None
) -> Iterator[tuple[Library, str]]:
    """A library over a folder of skills, and an empty working folder next to it."""
    with trees.temporary_folder() as base:
        root, cwd = f"{base}/skills", f"{base}/work"
        trees.fill_folder(root, skills)
        trees.fill_folder(cwd, {})
        # A home of its own: the user's skills and configuration must not change a result.
        place = find_place(cwd)._replace(cwd=cwd, project=cwd, home=f"{base}/home", state=f"{base}/home/.metier")
        yield open_at(place, OpenRequest(dialect, agent, root, use_index=False)), cwd


def render_op(dialect: str, given: Case) -> Case:
    name = name_in(given["skill_md"], dialect)
    files = {f"{name}/{path}": text.encode() for path, text in {**given.get("files", {})}.items()}
    files[f"{name}/SKILL.md"] = given["skill_md"].encode("utf-8", "surrogatepass")
    with _open_library(dialect, files) as (library, cwd):
        for path, text in given.get("cwd_files", {}).items():
            fs.write_bytes(trees.path_inside(cwd, path), text.encode(), sync=False)
        [skill] = library.skills
        if not given.get("trusted", True):
            skill = skill._replace(origin=skill.origin._replace(trusted=False))
        command = next((candidate.name for candidate in library.commands()), skill.name)
        call = Call(command, _case_arguments(given), "user", cwd)
        places = {"{{CWD}}": cwd, "{{SKILL_DIR}}": skill.directory}
        try:
            activation = SkillAccess(library, cwd, "user", write=(cwd,)).render(skill, call)
        except MetierError as error:
            return {
                "error": True,
                "text": error.message,
                "places": places,
                "present": _present_paths(cwd, skill.directory),
            }
        return {
            "text": activation.text,
            "message": _delivered_message(activation, library),
            "places": places,
            "present": _present_paths(cwd, skill.directory),
        }


def _delivered_message(activation: Activation, library: Library) -> str:
    serving = library.dialect.serving
    return request_message(activation) if serving.delivery == "model-reads" else user_message(activation, serving)


def _present_paths(cwd: str, directory: str) -> list[str]:
    """Every file that exists afterwards, by the names that a case uses."""
    inside = [path for path, _ in paths.tree_of(cwd)]
    skill_files = [f"{directory}/{path}" for path, _ in paths.tree_of(directory)]
    return [*inside, *(f"{cwd}/{path}" for path in inside), *skill_files]


def tools_op(dialect: str, given: Case) -> Case:
    skills = {path: text.encode("utf-8", "surrogatepass") for path, text in given["skill_files"].items()}
    agent = given["enabled"] if DIALECTS[dialect].serving.unlisted_agent == "none" else None
    with _open_library(dialect, skills, agent) as (library, cwd):
        root = library.roots[0].origin.path
        for path, target in given.get("symlinks", {}).items():
            trees.replace_link(trees.path_inside(root, path), target)
        # Reloaded, as the links were made after the library was opened.
        offered = {tool.name: tool for tool in tools_of(SkillAccess(library.reload(), cwd), _AGENT_TOOLS)}
        answers = [offered[call["tool"]].call(call.get("args", {})) for call in given["calls"]]
        return {
            "results": [{"text": answer.text, "error": answer.error} for answer in answers],
            "messages": [{"text": message.text} for answer in answers for message in answer.messages],
            "places": {"{{ROOT}}": root},
        }


# --- Reading and validation ---


# Any key will do: nothing here is indexed.
_STAT_KEY = (1, 0, 0, 0)


def _case_bytes(given: Case) -> bytes:
    text = given.get("text", "").encode("utf-8", "surrogatepass")
    data: bytes = base64.b64decode(given["base64"]) if "base64" in given else text
    return data + b"x" * max(0, int(given.get("pad_to_bytes", 0)) - len(data))


def _root_origin(dialect: str, path: str = "/skills") -> Origin:
    return Origin("user", 1, "root", path, DIALECTS[dialect])


def _read_skill(dialect: str, data: bytes, directory: str) -> Skill | BrokenSkill:
    """A file as discovery reads it: its head up to a limit, and nothing of a file that is too large."""
    origin = _root_origin(dialect)
    path = f"/skills/{directory}/SKILL.md"
    limit = LibraryLimits().file_bytes
    if len(data) > limit:
        finding = Finding("too-large", 0, (str(len(data)), str(limit)), fatal=True)
        return BrokenSkill(directory, path, _STAT_KEY, origin, (finding,))
    head = data[: files.HEAD]
    if len(data) > len(head):
        head = data[: len(head) + files.bytes_needed_beyond(head)]
    return parse(Found(origin, directory, path, _STAT_KEY, head, len(head) >= len(data)), DIALECTS)


def _skill_fields(skill: Skill) -> Case:
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


def frontmatter_op(dialect: str, given: Case) -> Case:
    data = _case_bytes(given)
    parsed = _read_skill(dialect, data, given["dir"])
    codes = [finding.code for finding in parsed.findings]
    if isinstance(parsed, BrokenSkill):
        return {"loads": False, "codes": codes}
    body, _ = parse_body(data, parsed.origin.dialect)
    return {
        "loads": True,
        "name": parsed.name,
        "description": parsed.description,
        "body": body,
        "fields": _skill_fields(parsed),
        "codes": codes,
    }


def validate_op(_: str, given: Case) -> Case:
    with trees.temporary_folder() as root:
        path = trees.path_inside(root, given["dir"])
        if given.get("target") == "file":
            fs.write_bytes(path, b"", sync=False)
        elif given.get("target") != "missing":
            written = {name: text.encode("utf-8", "surrogatepass") for name, text in given.get("files", {}).items()}
            if "text" in given or "base64" in given:
                written["SKILL.md"] = _case_bytes(given)
            trees.fill_folder(path, written)
        return {"errors": [problem.code for report in reports_of(path) for problem in report.problems]}


# --- Commands and catalog ---


def commands_op(dialect: str, given: Case) -> Case:
    rules = DIALECTS[dialect].serving.commands
    skills = [skill for skill in given["skills"] if skill.get("user_invocable", True)]
    names = command_names(
        [(skill["name"], skill.get("dir", skill["name"])) for skill in skills], rules.form, given["reserved"]
    )
    return {"commands": sorted(names) if rules.alphabetical else names}


def match_op(dialect: str, given: Case) -> Case:
    rules = DIALECTS[dialect].serving.commands
    matched = match_command(
        given["input"], name_commands([(name, name) for name in given["skills"]], rules.form), rules.matching
    )
    return {"skill": matched.name, "arguments": matched.arguments, "user_message": matched.user_message}


def fit_op(dialect: str, given: Case) -> Case:
    serving = DIALECTS[dialect].serving
    origin = _root_origin("standard")
    skills = [
        Skill(item["name"], item["name"], item["description"], item["location"], _STAT_KEY, origin)
        for item in given["skills"]
    ]
    entries = make_entries(skills, serving.listing, given.get("home", ""))
    budget = CatalogBudget(
        given.get("max_skills", serving.limits.listed), given.get("max_chars", serving.limits.characters)
    )
    fitted = fit_entries(entries, get_layout(serving.listing.format), budget)
    return {"included": len(fitted.entries), "text": fitted.text}


# --- Eligibility, sources and schedules ---


def eligibility_op(dialect: str, given: Case) -> Case:
    text = f"---\n{given['frontmatter'].rstrip()}\n---\nBody.\n"
    skill = _read_skill(dialect, text.encode(), given["id"] if "id" in given else name_in(text, dialect))
    if isinstance(skill, BrokenSkill):
        return {"eligible": False, "diagnostics": [finding.code for finding in skill.findings]}
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
    # The case gives the facts; this only shows that the skill's requirements can be collected.
    required_facts([skill])
    [verdict] = resolve([skill], facts, ResolvePolicy(settings=settings, bundled=bundled))
    return {"eligible": verdict.eligible, "diagnostics": list(verdict.diagnostics)}


def env_overlay_op(_: str, given: Case) -> Case:
    result = build_overlay(
        given["skill_env"],
        tuple(given["declared"]),
        given["process_env"],
        given.get("primary_env", ""),
        given.get("api_key", ""),
    )
    return {"overlay": result.added, "blocked": list(result.blocked)}


def allowed_tools_op(_: str, given: Case) -> Case:
    names = allowed_tools(given["value"])
    return {"error": True} if names is None else {"tools": list(names)}


def compact_path_op(dialect: str, given: Case) -> Case:
    listing: ListingRules = DIALECTS[dialect].serving.listing
    return {"text": compact_path(given["path"], given["home"]) if listing.paths == "home" else given["path"]}


def source_op(_: str, given: Case) -> Case:
    try:
        reference = parse_github(given["spec"])
    except BadRequest:
        return {"error": True}
    named = {"kind": reference.kind, "owner": reference.owner, "repo": reference.repo, "url": reference.url}
    return named | {key: value for key, value in (("path", reference.path), ("ref", reference.ref)) if value}


def schedule_time_op(_: str, given: Case) -> Case:
    # Imported here: time zones and cron are slow to load, and one operation needs them.
    from ..schedule import times

    try:
        timing = times.schedule_time(given["text"], datetime.fromisoformat(given["now"]), given["tz"])
    except BadRequest as error:
        return {"error": True, "message": error.message}
    if isinstance(timing, CronTrigger):
        return {"kind": "cron", "cron": timing.expression}
    return {"kind": "once", "at": timing.at.isoformat()}


# --- The table ---


OPS: dict[str, Callable[[str, Case], Case]] = {
    "frontmatter": frontmatter_op,
    "validate": validate_op,
    "commands": commands_op,
    "match": match_op,
    "fit": fit_op,
    "eligibility": eligibility_op,
    "env_overlay": env_overlay_op,
    "allowed_tools": allowed_tools_op,
    "compact_path": compact_path_op,
    "source": source_op,
    "split": split_op,
    "substitute": substitute_op,
    "render": render_op,
    "tools": tools_op,
    "schedule_time": schedule_time_op,
}
ABSENT = {"source": ("path", "ref")}
"""Results that an operation must not return unless a case names them."""
