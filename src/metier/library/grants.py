"""What a skill's programs may reach: environment, files, network, and the sandbox they run in.

A skill asks in its frontmatter, and gets it once a person agreed to the skill as it is; the configuration, where it
mentions the skill, replaces what it asks for.  Neither can
open metier's own folder, because a program that could write there could approve itself.  Keys and passwords are opened
only by the user's own configuration, never by a skill or a project.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, get_args

from ..dialects import PROTECTED_FOLDERS
from ..host import paths
from ..host.git import named_by_git, read_git_pairs, repository_of
from ..resolve.capabilities import RequestedPermissions, permission_requests, requested_permissions
from ..resolve.environment import build_overlay, is_forbidden_name
from ..sandbox.obeyed import PROTECTED
from ..sandbox.profile import PRIVATE
from ..sources.plugins import find_plugins
from ..sources.roots import RootOptions, find_roots
from ..types.dialect import ShellRules
from ..types.errors import Refused
from ..types.place import Place
from ..types.sandbox import ProcessResult, ProgramSpec, SandboxNeed, SandboxPermissions, SandboxSpec
from ..types.settings import DEFAULT_SKILL_SETTINGS, Setting, Settings, SkillSettings
from ..types.skill import Skill
from ..types.tree import TextTree
from .locks import has_agreement, was_installed

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
    """What the frontmatter asks for, once a person agreed; a key that the configuration sets counts instead."""
    withheld = withheld_requests(library, skill)
    requested = (RequestedPermissions() if withheld else requested_permissions(skill))._asdict()
    configured = _skill_entry(library, skill, not withheld).permissions
    effective = {key: configured.get(key, value) for key, value in requested.items()}
    notes: list[str] = []
    if withheld:
        notes.append(f"not granted before you run `metier approve {skill.name}`: {', '.join(withheld)}")
    elif _keeps_settings(library.settings, skill):
        notes.append(
            f"your settings for `{skill.settings_key}` are not for this project's skill of that name;"
            f" to lend them to it, run `metier trust {library.place.project}`"
        )
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


def withheld_requests(library: Library, skill: Skill) -> tuple[str, ...]:
    """What a skill asks for and does not get, because nobody agreed to it as it is now; empty where all is granted.

    A skill is a file: whoever can write one must not be able to give himself the network or a key.
    """
    outside = library.place.env
    requests = [
        request for request in permission_requests(skill) if not request.variable or request.variable in outside
    ]
    if not requests or has_agreement(library, skill):
        return ()
    return tuple(dict.fromkeys(request.text for request in requests))


def _skill_entry(library: Library, skill: Skill, agreed: bool) -> SkillSettings:
    """The settings of a skill; a project's configuration counts for its own skills only."""
    own_path = skill.path if skill.origin.source == "project" else ""
    entry = library.settings.entry_for(skill.settings_key, own_path)
    # By `skillKey` it names another skill's settings, keys included: that is a request like any other.
    if not agreed and skill.settings_key != skill.id:
        return DEFAULT_SKILL_SETTINGS._replace(enabled=entry.enabled)
    return entry


def _keeps_settings(settings: Settings, skill: Skill) -> bool:
    """Whether the user has settings for a skill of that name, and this one of the project's does not get them."""
    strange = skill.origin.source == "project" and skill.path not in settings.lent
    return strange and settings.user_entry(skill.settings_key).hands_out


def _is_users_own(settings: Settings, skill: Skill, key: str) -> bool:
    """Whether the user's configuration sets this key, and the project's does not override it."""
    if skill.origin.source == "project" and skill.path not in settings.lent:
        return False
    users = settings.user_entry(skill.settings_key).permissions
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
    env, grants = plain_environment(library), grants_for_skill(library, skill)
    env.update(skill_variables(library, skill))
    env.update(_option_variables(skill.options, "METIER_OPTION_"))
    reached = {"METIER_READ": grants.permissions.read, "METIER_WRITE": grants.permissions.write}
    env.update({name: ":".join(places) for name, places in reached.items() if places})
    if any(paths.is_inside(path, library.place.state) for places in reached.values() for path in places):
        env["METIER_HOME"] = library.place.state  # it was granted a part of metier's folder and must find it
    env |= {"SKILL_DIR": skill.directory, "CLAUDE_SKILL_DIR": skill.directory, "PYTHONDONTWRITEBYTECODE": "1"}
    # Without this Python would run a planted __pycache__/x.pyc in place of the x.py that was approved.
    env |= {"PYTHONPYCACHEPREFIX": "/nonexistent"}
    return env


def skill_variables(library: Library, skill: Skill) -> dict[str, str]:
    """The variables that a skill declares and the caller has, and those that its settings add."""
    needs, outside, agreed = skill.requires, library.place.env, not withheld_requests(library, skill)
    granted = grants_for_skill(library, skill).env
    declared = (*needs.env, *granted, *((needs.primary_env,) if needs.primary_env else ()))
    lent = declared if agreed else granted
    variables = {name: outside[name] for name in lent if name in outside and not is_forbidden_name(name)}
    entry = _skill_entry(library, skill, agreed)
    present = plain_environment(library) | variables
    return variables | build_overlay(entry.env, declared, present, needs.primary_env, entry.api_key).added


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


# --- Secrets ---

_GIVEN_VARIABLES = frozenset(
    (*_PASSED_VARIABLES, "HOME", "PWD", "OLDPWD", "SHELL", "TMPDIR", "EDITOR", "PAGER", "VISUAL", "HOSTNAME", "DISPLAY")
)
"""They say where a program runs and not what it may open: hiding a user's name or folder would garble every answer."""


def secret_values(library: Library) -> Iterator[str]:
    """What is hidden in everything that is shown, sent or kept.

    Whatever a skill is lent is a secret, whatever its name; so is a variable whose name says so, although no skill gets
    it, and the password of a URL in any variable.  The path of something that exists is none: it opens nothing.
    """
    from ..record.redaction import is_secret_name, url_secrets  # most commands hide nothing

    lent = _lent_names(library)
    for name, value in library.place.env.items():
        secret = name in lent or is_secret_name(name)
        if secret and name not in _GIVEN_VARIABLES and not (value.startswith("/") and _is_path(value)):
            yield value
        if name.startswith("OTEL_EXPORTER_OTLP_") and name.endswith("HEADERS"):
            yield from _header_secrets(value)
        yield from url_secrets(value)
    for skill in library.skills if library.settings.mentions_skills else ():
        entry = library.settings.entry(skill.settings_key)
        for value in (entry.api_key, *entry.env.values()):
            if not (value.startswith("/") and _is_path(value)):
                yield value
            yield from url_secrets(value)


def _header_secrets(value: str) -> Iterator[str]:
    """The values of `name=value,name=value`: what opens the service that traces go to."""
    from urllib.parse import unquote  # most commands hide nothing

    for pair in value.split(","):
        # `Basic` or `Bearer` is no part of what opens it, and alone it is in every text about HTTP.
        yield from (word for word in unquote(pair.partition("=")[2]).split() if len(word) > 6)


def _lent_names(library: Library) -> set[str]:
    """The variables that some skill asks for or is granted, and those that hold the keys of models."""
    models = library.settings.tree.get("models")
    tables = models.values() if isinstance(models, Mapping) else ()
    names = {str(table.get("key", "")) for table in tables if isinstance(table, Mapping)}
    told = library.settings.own("notify")
    for table in told.values() if isinstance(told, Mapping) else ():
        if isinstance(table, Mapping):
            names.update((str(table.get("secret", "")), str(table.get("to", "")).partition(":$")[2]))
    for skill in library.skills:
        needs = skill.requires
        names.update(needs.env, (needs.primary_env,))
        if skill.extra:
            names.update(requested_permissions(skill).env)
        if library.settings.mentions_skills:
            configured = library.settings.entry(skill.settings_key).permissions.get("env")
            names.update(map(str, _as_tuple(configured)))
    # What the configuration lists for all commands of an agent.
    listed = library.settings.own("agent.env")
    names.update(map(str, listed if isinstance(listed, list) else ()))
    return names


def _is_path(value: str) -> bool:
    """Whether it is the path of something here, or a list of such; a key may begin with a slash as well."""
    return all(part.startswith("/") and paths.can_be_path(part) and paths.exists(part) for part in value.split(":"))


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
        kept=git_order_paths(library, (*permissions.write, *write)),
    )


def _sandbox_settings(library: Library) -> Mapping[str, object]:
    """The user's `sandbox` table."""
    table = library.settings.own("sandbox")
    return table if isinstance(table, Mapping) else {}


def _allowed_files(library: Library) -> tuple[str, ...]:
    """Names that other programs obey, and that the user lets sandboxed programs make."""
    allow = _sandbox_settings(library).get("allow")
    return tuple(map(str, allow)) if isinstance(allow, list | tuple) else ()


def git_order_paths(library: Library, folders: Iterable[str]) -> tuple[str, ...]:
    """What the settings of repositories name in them, such as a folder for hooks: git would execute what is there."""
    home = library.place.home
    return tuple(
        path for folder in folders for path in named_by_git(folder, read_git_pairs(folder, library.place.env), home)
    )


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
    from ..record.trace_context import VARIABLE, current_traceparent

    try:
        spec, closed = keep_roots(library, sandbox_spec)
        protected = (*PROTECTED_FOLDERS, *spec.protected)
        spec = replace(spec, protected=protected, allowed=(*_allowed_files(library), *spec.allowed))
        if traceparent := current_traceparent():
            # A traced program continues the trace of the call that runs it.
            program = replace(program, env={**program.env, VARIABLE: traceparent})
        result = sandbox.run_sandboxed(program, spec, machine_options(library))
    except Refused as refusal:
        return ProcessResult(None, "", note=f"{refusal.message}; {refusal.hint}" if refusal.hint else refusal.message)
    if result.status != 0:
        from ..host.failure import find_cause  # most programs succeed

        # Now, not when somebody asks why: a full disk may have room again by then.
        result = replace(result, cause=find_cause(result, program))
    if closed and result.tier != "none":
        note = f"{', '.join(closed)} is read-only: skills are loaded from it"
        result = replace(result, note="; ".join(filter(None, (result.note, note))))
    # Here, because every face and every tool shows what a program printed.
    hide = library.hide
    swept = tuple(map(hide, result.swept))
    return replace(result, stdout=hide(result.stdout), stderr=hide(result.stderr), note=hide(result.note), swept=swept)


def skill_roots(library: Library) -> tuple[str, ...]:
    """Every folder that skills are loaded from in this place, also those that this library was opened without."""
    roots, place, settings = list(library.roots), library.place, library.settings
    if library.request.root is not None:
        # `--root` shows one root; what a program wrote into another would count in the next run.
        options = RootOptions(library.dialect, library.dialects, settings, find_plugins(place, settings, []))
        roots += find_roots(place, options)
    plugins = [paths.absolute_path(path, place.state, place.home) for path in settings.plugins]
    projects = {root.origin.path for root in roots if root.origin.source == "project"}
    # A project's root that does not exist yet needs no guard: whatever appears there is untrusted.
    listed = (path for path in (*(root.origin.path for root in roots), *plugins) if path not in projects)
    return tuple(dict.fromkeys((*listed, *filter(paths.exists, projects))))


def keep_roots(library: Library, spec: SandboxSpec) -> tuple[SandboxSpec, tuple[str, ...]]:
    """The same sandbox with every root and its lock read-only, and the folders that it may therefore not write.

    A program that could write there would make itself a skill, or change one, and be run as that skill the next time.
    """
    permissions, roots = spec.permissions, skill_roots(library)
    real_roots = [paths.real_path(root) for root in roots]
    closed = tuple(
        path for path in permissions.write if any(paths.is_inside(paths.real_path(path), root) for root in real_roots)
    )
    write = tuple(path for path in permissions.write if path not in closed)
    _refuse_links(roots, write)
    locks = [lock for root in roots if paths.exists(lock := f"{root}-lock.json")]
    kept = (*(_first_missing(root, library.place.home) for root in roots), *locks)
    permissions = replace(permissions, read=(*permissions.read, *closed), write=write)
    return replace(spec, permissions=permissions, kept=tuple(dict.fromkeys((*spec.kept, *kept)))), closed


def _first_missing(path: str, home: str) -> str:
    """The path, or the first folder on the way to it that is missing: who makes that one makes the rest too."""
    while not paths.exists(above := path.rpartition("/")[0]) and above not in ("", f"{home}/.config"):
        path = above
    return path


def _refuse_links(roots: tuple[str, ...], write: tuple[str, ...]) -> None:
    """A link on the way to a root can't be guarded: a program that may replace it chooses another root."""
    names = {name for name in (*PROTECTED, *PROTECTED_FOLDERS) if name.startswith(".")}
    for folder in map(paths.real_path, write):
        for root in roots:
            for link in paths.links_on_the_way(root):
                above = paths.real_path(link.rpartition("/")[0] or "/")
                inner = f"{above}/".removeprefix(f"{folder}/").strip("/").split("/")
                if paths.is_inside(above, folder) and names.isdisjoint(inner):
                    raise Refused(
                        f"{link} is a link on the way to skills, which can't be protected while {folder} is writable",
                        "grant a folder without it, or replace the link by the real folder",
                        link,
                    )


def shell_program(shell: ShellRules, env: Mapping[str, str]) -> tuple[str, ...]:
    """The shell that a dialect's commands are written for, or the other one if it is missing."""
    from ..host.facts import which

    names = ("bash", "sh") if shell.program == "bash" else ("sh", "bash")
    program = next((path for name in names if (path := which(name, env.get("PATH", "")))), "/bin/sh")
    plain = ("--noprofile", "--norc") if program.endswith("bash") else ()
    return (program, *plain, "-c")
