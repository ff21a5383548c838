"""Inspect a skill before it is placed: strict validation, what it can do, and what looks dangerous.

The result is what a person reads before approving.  Everything works on the texts of a folder; nothing of it runs.
A finding that is certain is an error and can't be approved with --yes; one that only may be bad is a warning.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..catalog.similarity import find_lookalikes
from ..dialects import DIALECTS
from ..host.facts import monotonic
from ..library.trust import can_run, find_commands
from ..parse.check import check_skill_file
from ..parse.reader import parse
from ..resolve.capabilities import permission_lines
from ..types.dialect import Dialect
from ..types.installed import FileManifest, InspectedSkill, SkillPowers
from ..types.problem import Finding, Problem, problem_from
from ..types.skill import BrokenSkill, Found, Origin, Skill
from .recipes import InstallEnvironment, InstallPlan, InvalidRecipe, OtherMachine, plan_recipe
from .rules import ScannedLine, apply_rules, hidden_comments, read_lines
from .transaction import name_fault

_HEAD_BYTES = 69_632
"""The part of a SKILL.md that is parsed for its frontmatter."""
_URL = re.compile(r"https?://(?:[^/\s@\"']+@)?([A-Za-z0-9.-]+\.[A-Za-z]{2,}|\d+\.\d+\.\d+\.\d+|localhost)")
_GOES_OUT = re.compile(
    r"\b(curl|wget|ncat|ssh|scp|rsync|requests|urllib|httpx|aiohttp|socket|smtplib|axios|node-fetch)\b|\b(fetch)\s*\("
)
_ENV_NAME = re.compile(
    r"\$\{?([A-Z][A-Z0-9_]{2,})\b|environ(?:\.get)?[\[(]\s*[\"']([A-Z][A-Z0-9_]{2,})[\"']"
    r"|getenv\(\s*[\"']([A-Z][A-Z0-9_]{2,})[\"']|process\.env\.([A-Z][A-Z0-9_]{2,})"
)
_ORDINARY_ENV = frozenset(
    {
        "PATH",
        "HOME",
        "PWD",
        "USER",
        "SHELL",
        "LANG",
        "TERM",
        "TMPDIR",
        "ARGUMENTS",
        "SKILL_DIR",
        "CLAUDE_SKILL_DIR",
        "METIER_READ",
        "METIER_WRITE",
        "METIER_HOME",
        "BASH_SOURCE",
        "IFS",
        "OLDPWD",
        "EOF",
    }
)
"""Variables that say nothing about what a skill reaches."""
_TRIGGER_BAIT = re.compile(
    r"\b(?:always|must)\b[^.\n]{0,40}\b(?:use|invoke|call|run|load|choose|activate)\b"
    r"[^.\n]{0,40}\b(?:first|before|this skill|instead)"
    r"|\b(?:for|on)\s+(?:every|any|all|each)\s+(?:single\s+)?(?:task|request|question|prompt|message|conversation)"
    r"|\bbefore\s+any\s+other\s+(?:skill|tool)|\bregardless\s+of\s+(?:the\s+)?(?:task|request|question|user)"
    r"|\b(?:highest|top|maximum)\s+priority\b|\binstead\s+of\s+(?:any|all)\s+other",
    re.IGNORECASE,
)
_SHADOWED_MODULES = frozenset(
    {
        "sitecustomize",
        "usercustomize",
        "os",
        "sys",
        "json",
        "re",
        "io",
        "types",
        "typing",
        "logging",
        "random",
        "string",
        "socket",
        "ssl",
        "subprocess",
        "threading",
        "email",
        "http",
        "urllib",
        "hashlib",
        "base64",
        "struct",
        "time",
        "datetime",
        "copy",
        "csv",
        "sqlite3",
        "shutil",
        "pathlib",
        "tempfile",
        "collections",
        "functools",
        "yaml",
        "requests",
        "numpy",
        "pandas",
        "pip",
        "setuptools",
    }
)
"""Python files with these names would be imported in place of the real module."""
_PROGRAM_MAGIC = {
    b"\x7fELF": "a program for Linux",
    b"MZ": "a program for Windows",
    b"\xcf\xfa\xed\xfe": "a program for macOS",
    b"\xca\xfe\xba\xbe": "compiled code",
    b"\0asm": "compiled WebAssembly",
}
_ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar", ".skill", ".whl", ".jar")
_NPM_HOOKS = ("preinstall", "install", "postinstall", "prepare", "prepublish", "preprepare", "postprepare")


class SkillFolderContents(NamedTuple):
    """A skill's folder as it was fetched.  Not `SkillFiles`: large files are represented by their first bytes."""

    place: str
    """Inside what was fetched."""
    name: str
    """The name its folder will have."""
    files: FileManifest
    texts: Mapping[str, str]
    """Of the files that are text and not too large."""
    heads: Mapping[str, bytes]
    """The first bytes of those that are not."""


def inspect_skill(
    folder: SkillFolderContents,
    dialect: Dialect,
    nearby: Sequence[tuple[str, str]],
    clock: Callable[[], float] = monotonic,
) -> InspectedSkill:
    """Inspect one skill.  Nothing of it runs."""
    data = folder.texts.get("SKILL.md", "").encode("utf-8", "surrogateescape")
    path = f"{folder.place}/SKILL.md" if folder.place else "SKILL.md"
    origin = Origin("user", 1, "install", "/", dialect)
    candidate = Found(
        origin,
        folder.name,
        f"/{folder.name}/SKILL.md",
        (0, 0, 0, len(data)),
        data[:_HEAD_BYTES],
        len(data) <= _HEAD_BYTES,
    )
    read = parse(candidate, DIALECTS)
    faults = tuple(
        problem_from(finding, path) for finding in check_skill_file(data, folder.name) if finding.code != "bom-stripped"
    )
    commands = find_commands(data, read.origin.dialect)
    scripts = tuple(
        sorted(name for name, record in folder.files.items() if name != "SKILL.md" and _can_execute(name, record.mode))
    )
    prefix = f"{folder.place}/" if folder.place else ""
    scanned = _collect_findings(_scan_folder(folder, read, (commands, scripts), nearby, _deadline(clock)))
    findings = tuple(dict.fromkeys(problem_from(finding, prefix + name) for name, finding in scanned))
    loads = isinstance(read, Skill)
    name = read.name if isinstance(read, Skill) else folder.name
    return InspectedSkill(
        folder.place,
        name,
        read.description if isinstance(read, Skill) else "",
        faults if loads else faults or tuple(problem_from(finding, path) for finding in read.findings),
        tuple(sorted(findings, key=_finding_order)),
        powers_of(read, commands, scripts, folder.texts),
        loads,
    )


INSPECTION_SECONDS = 60.0
"""Longer than the largest skill of honest people takes, on a slow machine."""


class _OutOfTime(Exception):
    """The time for an inspection is up."""


def _deadline(clock: Callable[[], float]) -> Callable[[], None]:
    until = clock() + INSPECTION_SECONDS

    def check() -> None:
        if clock() > until:
            raise _OutOfTime

    return check


def _collect_findings(scanned: Iterator[tuple[str, Finding]]) -> list[tuple[str, Finding]]:
    """What is found while there is time; a skill that was not looked at whole can't be approved."""
    found: list[tuple[str, Finding]] = []
    try:
        found.extend(scanned)
    except _OutOfTime:
        why = f"inspecting it took longer than {INSPECTION_SECONDS:g} s"
        found.append(("SKILL.md", Finding("scan-failed", 0, (why,), fatal=True)))
    return found


def _finding_order(finding: Problem) -> tuple[int, str, int]:
    return ("error", "warning", "info").index(finding.severity), finding.path, finding.line


def _can_execute(name: str, mode: str) -> bool:
    return can_run(name, mode.isdecimal() and bool(int(mode, 8) & 0o111))


def powers_of(
    read: Skill | BrokenSkill, commands: Sequence[str], scripts: Sequence[str], texts: Mapping[str, str]
) -> SkillPowers:
    """What a skill can do: from its frontmatter, the commands in its body and the files that can run."""
    reach = reach_of([*commands, *(texts.get(name, "") for name in scripts)])
    env = set(reach.env)
    binaries = {word for command in commands for word in [_command_program(command)] if word}
    tools: set[str] = set()
    recipes: list[str] = []
    if isinstance(read, Skill):
        needs = read.requires
        env |= {*needs.env, *filter(None, (needs.primary_env,))}
        binaries |= {*needs.binaries, *needs.any_binary}
        tools |= {*read.allowed_tools, *((f"tool:{read.dispatch.tool}",) if read.dispatch is not None else ())}
        # Hooks and MCP servers run programs too; they are shown as they are written.
        tools |= {
            f"{key}: {json.dumps(read.extra.plain()[key], sort_keys=True)[:200]}"
            for key in ("hooks", "mcp")
            if key in read.extra
        }
        recipes = [f"{recipe.kind} {recipe.package}".strip() for recipe in read.install]
    return SkillPowers(
        tuple(commands),
        tuple(scripts),
        reach.network,
        tuple(sorted(env)),
        tuple(sorted(binaries)),
        tuple(sorted(tools)),
        tuple(recipes),
        permission_lines(read) if isinstance(read, Skill) else (),
    )


def reach_of(running: Sequence[str]) -> SkillPowers:
    """What texts would reach if they ran: hosts, programs that use the network, and variables."""
    hosts = {host.lower() for text in running for host in _URL.findall(text)}
    ways = {f"uses {program or function}" for text in running for program, function in _GOES_OUT.findall(text)}
    env = {name for text in running for groups in _ENV_NAME.findall(text) for name in groups if name} - _ORDINARY_ENV
    return SkillPowers(network=tuple(sorted(hosts | ways)), env=tuple(sorted(env)))


def _command_program(command: str) -> str:
    """The program that a command starts, past assignments and wrappers such as `sudo`; empty if unclear."""
    words = (word for word in command.split() if not re.fullmatch(r"\w+=.*|sudo|env|time|exec|\(|\{|!", word))
    first = next(words, "")
    return first.rpartition("/")[2] if re.fullmatch(r"[\w./+-]+", first) else ""


def _scan_folder(
    folder: SkillFolderContents,
    read: Skill | BrokenSkill,
    running: tuple[Sequence[str], Sequence[str]],
    nearby: Sequence[tuple[str, str]],
    check: Callable[[], None],
) -> Iterator[tuple[str, Finding]]:
    commands, scripts = running
    yield from apply_rules(_timed(read_lines(folder.texts, scripts, commands), check))
    for name, text in folder.texts.items():
        check()
        if name.lower().endswith((".md", ".html", ".txt")):
            yield from hidden_comments(name, text)
        if name.rpartition("/")[2] == "package.json":
            yield from _package_hooks(name, text)
        # The content is elsewhere: what was fetched is not what the author tested.
        if text.startswith("version https://git-lfs.github.com/spec/v1"):
            yield name, Finding("lfs-pointer", 0, (name,))
    yield from _suspicious_files(folder)
    if isinstance(read, Skill):
        yield from _check_frontmatter(read)
        yield from (("SKILL.md", finding) for finding in find_lookalikes(read.name, read.description, nearby))


def _timed(lines: Iterator[ScannedLine], check: Callable[[], None]) -> Iterator[ScannedLine]:
    """The lines, as long as there is time: no rule takes long for one of them."""
    for line in lines:
        check()
        yield line


def _package_hooks(name: str, text: str) -> Iterator[tuple[str, Finding]]:
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return
    scripts = tree.get("scripts") if isinstance(tree, dict) else None
    for hook in _NPM_HOOKS:
        if isinstance(scripts, dict) and hook in scripts:
            yield name, Finding("package-hooks", 0, (hook,))


def _suspicious_files(folder: SkillFolderContents) -> Iterator[tuple[str, Finding]]:
    names = set(folder.files)
    folders = {name[:at] for name in names for at, letter in enumerate(name) if letter == "/"}
    for name in names:
        last = name.rpartition("/")[2]
        stem, _, suffix = last.rpartition(".")
        if last.lower() == "skill.md" and name != "SKILL.md" and "/" in name:
            yield name, Finding("nested-skill", 0, (name,))
        if suffix == "py" and stem in _SHADOWED_MODULES and "__init__" not in stem:
            yield name, Finding("import-shadow", 0, (name,), fatal="customize" in stem)
        if suffix == "pth":  # Python runs lines of these at startup
            yield name, Finding("import-shadow", 0, (name,), fatal=True)
        if suffix in ("pyc", "pyo"):
            yield name, Finding("compiled-code", 0, (name, "compiled Python"), fatal=not _has_source(name, names))
        elif suffix in ("so", "dll", "dylib", "exe", "node", "wasm", "class"):
            yield name, Finding("compiled-code", 0, (name, "compiled code"))
        elif description := next(
            (
                description
                for magic, description in _PROGRAM_MAGIC.items()
                if folder.heads.get(name, b"").startswith(magic)
            ),
            "",
        ):
            yield name, Finding("compiled-code", 0, (name, description))
        # What is inside an archive is not inspected.
        if last.lower().endswith(_ARCHIVES):
            yield name, Finding("archive-inside", 0, (name,))
        parent = name.rpartition("/")[0]
        if last == "HEAD" and _is_repository(parent, names, folders):
            yield name, Finding("git-inside", 0, (parent or ".",), fatal=True)


def _is_repository(folder: str, names: set[str], folders: set[str]) -> bool:
    """Whether a folder looks like a git repository.  Git run inside it would obey its config and hooks."""
    inner_folders = [f"{folder}/{inner}".lstrip("/") for inner in ("objects", "refs", "hooks")]
    return f"{folder}/config".lstrip("/") in names and any(inner in folders for inner in inner_folders)


def _has_source(name: str, names: set[str]) -> bool:
    """Whether the source of a compiled Python file is there, in its folder or above `__pycache__`."""
    parent, _, last = name.rpartition("/")
    source = last.partition(".")[0] + ".py"
    folder = parent.removesuffix("__pycache__").rstrip("/")
    return (f"{folder}/{source}" if folder else source) in names


_ASSUMED_ENVIRONMENT = InstallEnvironment("", frozenset({"brew", "npm", "uv", "go"}), "/tools")


def _check_frontmatter(skill: Skill) -> Iterator[tuple[str, Finding]]:
    """Findings about the frontmatter: names, descriptions and install recipes."""
    fault = name_fault(skill.name) if re.search(r"[/\\\x00]|^\.+$|^-", skill.name) else ""
    if fault:  # `team/tool` is a path too, but stays inside the root
        down = all(not name_fault(part) for part in skill.name.split("/"))
        yield "SKILL.md", Finding("name-hazard", 2, (skill.name[:80], fault), fatal=not down)
    bait = _TRIGGER_BAIT.search(skill.description)
    if bait is not None:
        yield "SKILL.md", Finding("trigger-bait", 2, (bait[0][:100],))
    # These are printed inside the tags of a catalog: a closing tag would end them early.
    for text in (skill.name, skill.description, skill.argument_hint):
        if re.search(
            r"</\s*(?:skill|name|location|description)\s*>|</?\s*(?:available_skills|skill-context|system)\s*/?>",
            text,
            re.IGNORECASE,
        ):
            yield "SKILL.md", Finding("envelope-tag", 2, (text[:100],), fatal=True)
    for recipe in skill.install:
        environment = InstallEnvironment(
            recipe.platforms[0] if recipe.platforms else "linux", _ASSUMED_ENVIRONMENT.programs, "/tools"
        )
        plan = plan_recipe(recipe, environment, skill.id)
        # A recipe that is wrong everywhere was forged; the other refusals are about this machine.
        if not isinstance(plan, InstallPlan | OtherMachine):
            details = (recipe.package[:80] or recipe.kind, plan)
            yield "SKILL.md", Finding("install-hazard", 2, details, fatal=isinstance(plan, InvalidRecipe))
        elif isinstance(plan, InstallPlan) and plan.kind == "download" and not plan.sha256:
            yield "SKILL.md", Finding("install-hazard", 2, (recipe.package[:80], "no sha256 is given"))
