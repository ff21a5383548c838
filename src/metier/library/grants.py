"""What a skill's programs may reach: environment, files, network, and the sandbox they run in.

A skill asks in its frontmatter; the configuration, where it mentions the skill, replaces what it asks for.  Neither can
open metier's own folder, because a program that could write there could approve itself.  Keys and passwords are opened
only by the user's own configuration, never by a skill or a project.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, get_args

from ..dialects import PROTECTED_FOLDERS
from ..host import paths
from ..host.git import repository_of
from ..resolve.capabilities import requested_permissions
from ..resolve.environment import build_overlay, is_forbidden_name
from ..sandbox.profile import PRIVATE
from ..types.dialect import ShellRules
from ..types.errors import Refused
from ..types.place import Place
from ..types.sandbox import ProcessResult, ProgramSpec, SandboxNeed, SandboxPermissions, SandboxSpec
from ..types.settings import Setting, Settings
from ..types.skill import Skill
from ..types.tree import TextTree
from .locks import was_installed

if TYPE_CHECKING:
    from ..sandbox import MachineOptions
    from .library import Library


@dataclass(frozen=True)
class SkillGrants:
    """What a skill is granted: permissions, variables, and notes about what it asked for and does not get."""

    permissions: SandboxPermissions = field(default_factory=SandboxPermissions)
    env: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def grants_for_skill(library: Library, skill: Skill) -> SkillGrants:
    """What the frontmatter asks for; a key that the configuration sets for the skill counts instead."""
    requested = requested_permissions(skill)._asdict()
    configured = _configured_permissions(library.settings, skill)
    effective = {key: configured.get(key, value) for key, value in requested.items()}
    notes: list[str] = []
    read, write = (tuple(_granted_paths(library, skill, key, effective, notes)) for key in ("read", "write"))
    notes += [f"{path} may be written but does not exist: create it first" for path in write if not paths.exists(path)]
    hosts, env = (tuple(map(str, _as_tuple(effective[key]))) for key in ("hosts", "env"))
    return SkillGrants(SandboxPermissions(bool(effective["network"]), hosts, read, write), env, tuple(notes))


def _granted_paths(
    library: Library, skill: Skill, key: str, effective: Mapping[str, object], notes: list[str]
) -> Iterator[str]:
    """The granted paths for `read` or `write`; each refused path becomes a note."""
    users_own = _is_users_own(library.settings, skill, key)
    for text in map(str, _as_tuple(effective[key])):
        path = paths.absolute_path(
            text.replace("$METIER_HOME", library.place.state), skill.directory, library.place.home
        )
        real = paths.real_path(path)  # a link to something private is as private
        if _may_schedule(library, skill, real):
            yield path
        elif _is_metiers_own(library, real):
            notes.append(f"no access to {text}: it belongs to metier")
        elif _is_private(library, real) and not users_own:
            notes.append(
                f"no access to {text}: it is private; to allow it, set `{key}` in"
                f" [skills.entries.{skill.settings_key}.permissions] of your own configuration"
            )
        else:
            yield path


def _configured_permissions(settings: Settings, skill: Skill) -> Mapping[str, Setting]:
    """What the configuration grants a skill; a project's configuration counts for its own skills only."""
    return settings.entry_for(skill.settings_key, skill.origin.source == "project").permissions


def _is_users_own(settings: Settings, skill: Skill, key: str) -> bool:
    """Whether the user's configuration sets this key, and the project's does not override it."""
    users = (
        Settings(settings.own_tree if settings.project_tree else settings.tree).entry(skill.settings_key).permissions
    )
    projects = Settings(settings.project_tree).entry(skill.settings_key).permissions
    return key in users and (skill.origin.source != "project" or key not in projects)


def _is_metiers_own(library: Library, real: str) -> bool:
    return any(paths.is_inside(real, paths.real_path(folder)) for folder in closed_folders(library.place))


def closed_folders(place: Place) -> tuple[str, ...]:
    """Folders that no program sees: metier's own, and scheduler skills that are stored elsewhere."""
    from .scheduled import scheduler_trees  # most commands run nothing

    elsewhere = (tree.path for tree in scheduler_trees(place) if not paths.is_inside(tree.path, place.state))
    return (place.state, *elsewhere)


def _is_private(library: Library, real: str) -> bool:
    return any(paths.is_inside(real, paths.real_path(f"{library.place.home}/{name}")) for name in PRIVATE)


def _may_schedule(library: Library, skill: Skill, real: str) -> bool:
    """The bundled skill that creates scheduled tasks may write to the folder of scheduler skills."""
    place = paths.real_path(f"{library.place.state}/scheduler")
    return real == place and skill.path in library.bundled and not was_installed(library, skill)


def _as_tuple(value: Setting | object) -> tuple[object, ...]:
    if isinstance(value, list | tuple):
        return tuple(value)
    return () if value is None or value == "" else (value,)


# --- Environment ---

_PASSED_VARIABLES = ("PATH", "LANG", "LANGUAGE", "TZ", "TERM", "USER", "LOGNAME", "NO_COLOR", "COLUMNS")
"""Variables of the caller that every program gets; `LC_…` too.  An allow list: the rest may hold secrets."""
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
_USER_SOURCES = frozenset({"user", "bundled", "path", "configured"})
"""Sources whose skills the user wrote or named: a sandbox is preferred for them, not required."""


def plain_environment(library: Library) -> dict[str, str]:
    """The part of the caller's environment that every program gets."""
    outside = library.place.env
    env = {"PATH": _DEFAULT_PATH} | {name: outside[name] for name in _PASSED_VARIABLES if name in outside}
    env.update({name: value for name, value in outside.items() if name.startswith("LC_")})
    return env


def skill_environment(library: Library, skill: Skill) -> dict[str, str]:
    """The environment of a skill's scripts and commands, all but HOME and TMPDIR, which the sandbox sets.

    In this order, later ones win: the plain one, variables it declares, its settings, its options
    (`METIER_OPTION_…`), the folders it was granted (`METIER_READ`, `METIER_WRITE`), and where it lies (`SKILL_DIR`).
    """
    outside, env = library.place.env, plain_environment(library)
    needs, grants = skill.requires, grants_for_skill(library, skill)
    declared = (*needs.env, *grants.env, *((needs.primary_env,) if needs.primary_env else ()))
    env.update({name: outside[name] for name in declared if name in outside and not is_forbidden_name(name)})
    entry = library.settings.entry_for(skill.settings_key, skill.origin.source == "project")
    env.update(build_overlay(entry.env, declared, env, needs.primary_env, entry.api_key).added)
    env.update(_option_variables(skill.options, "METIER_OPTION_"))
    reached = {"METIER_READ": grants.permissions.read, "METIER_WRITE": grants.permissions.write}
    env.update({name: ":".join(places) for name, places in reached.items() if places})
    if any(paths.is_inside(path, library.place.state) for places in reached.values() for path in places):
        env["METIER_HOME"] = library.place.state  # it was granted a part of metier's folder and must find it
    env |= {"SKILL_DIR": skill.directory, "CLAUDE_SKILL_DIR": skill.directory, "PYTHONDONTWRITEBYTECODE": "1"}
    # Without this Python would run a planted __pycache__/x.pyc in place of the x.py that was approved.
    env |= {"PYTHONPYCACHEPREFIX": "/nonexistent"}
    return env


def _option_variables(options: TextTree, prefix: str) -> Iterator[tuple[str, str]]:
    """`config.options` as variables; options of a nested table are prefixed with its name."""
    for key, value in options.items():
        name = prefix + "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in key).upper()
        if isinstance(value, TextTree):
            yield from _option_variables(value, name + "_")
        elif isinstance(value, tuple):
            yield name, "\n".join(item for item in value if isinstance(item, str))
        elif "\0" not in value:
            yield name, value


# --- Sandbox ---


def sandbox_for_skill(
    library: Library, skill: Skill, cwd: str, write: tuple[str, ...], scheduled: bool = False
) -> SandboxSpec:
    """The sandbox of a skill's programs: its folder, the working folder and project to read, and what is granted."""
    permissions = grants_for_skill(library, skill).permissions
    project = library.place.project
    readable = (cwd, project, *filter(None, [repository_of(project)])) if paths.is_inside(cwd, project) else (cwd,)
    home = library.place.home
    # Never the home folder or anything above it: that would open everything private in it.
    outer = tuple(folder for folder in readable if folder not in ("/", home) and not paths.is_inside(home, folder))
    tools = f"{library.place.state}/tools"  # programs that metier installed for skills
    outer = (*outer, tools) if paths.exists(tools) else outer
    return SandboxSpec(
        skill_sandbox_need(library, skill, scheduled),
        skill.directory,
        hidden=closed_folders(library.place),
        permissions=replace(
            permissions, read=tuple(dict.fromkeys((*outer, *permissions.read))), write=(*permissions.write, *write)
        ),
    )


def _sandbox_settings(library: Library) -> Mapping[str, object]:
    """The user's `sandbox` table."""
    table = library.settings.own("sandbox")
    return table if isinstance(table, Mapping) else {}


def command_sandbox_need(library: Library) -> SandboxNeed:
    """Whether a command that an agent runs needs a sandbox."""
    configured = _sandbox_settings(library).get("need")
    return configured if configured in get_args(SandboxNeed) else "prefer"  # type: ignore[return-value]  # one of the three


def skill_sandbox_need(library: Library, skill: Skill, scheduled: bool = False) -> SandboxNeed:
    """`require` for what others wrote and what runs unattended, unless the user's configuration overrides it."""
    configured = _sandbox_settings(library).get("need")
    if configured in get_args(SandboxNeed):
        need: SandboxNeed = configured  # type: ignore[assignment]  # one of the three, as the line above says
        return "require" if scheduled and need != "off" else need
    users_own = skill.origin.source in _USER_SOURCES and not was_installed(library, skill)
    return "prefer" if users_own and not scheduled else "require"


def machine_options(library: Library) -> MachineOptions:
    """Which sandbox the user chose, in the environment or in their configuration."""
    from .. import sandbox  # most commands run nothing

    return sandbox.read_machine_options(library.place.env, library.place.state, _sandbox_settings(library))


def run_program(library: Library, program: ProgramSpec, sandbox_spec: SandboxSpec) -> ProcessResult:
    """Run a program in its sandbox; a refusal becomes its result.

    Every program of a library runs through here, so no caller can forget to protect the folders of skills.
    """
    from .. import sandbox  # most commands run nothing

    try:
        spec = replace(sandbox_spec, protected=(*PROTECTED_FOLDERS, *sandbox_spec.protected))
        result = sandbox.run_sandboxed(program, spec, machine_options(library))
    except Refused as refusal:
        return ProcessResult(None, "", note=f"{refusal.message}; {refusal.hint}" if refusal.hint else refusal.message)
    if result.status == 0:
        return result
    from ..host.failure import find_cause  # most programs succeed

    # Now, not when somebody asks why: a full disk may have room again by then.
    return replace(result, cause=find_cause(result, program))


def shell_program(shell: ShellRules, env: Mapping[str, str]) -> tuple[str, ...]:
    """The shell that a dialect's commands are written for, or the other one if it is missing."""
    from ..host.facts import which

    names = ("bash", "sh") if shell.program == "bash" else ("sh", "bash")
    program = next((path for name in names if (path := which(name, env.get("PATH", "")))), "/bin/sh")
    plain = ("--noprofile", "--norc") if program.endswith("bash") else ()
    return (program, *plain, "-c")
