"""What a skill's programs get here: an environment of their own, a boundary, and what they may reach."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from ..host import paths
from ..host.checkout import repository_of
from ..resolve.overlay import is_never, overlay
from ..types.dialect import Shell
from ..types.errors import Refused
from ..types.running import Box, Need, Program, Ran
from ..types.skill import Skill
from ..types.tree import Tree
from .granting import granted
from .installed import from_elsewhere

if TYPE_CHECKING:
    from .library import Library

_PASSED = ("PATH", "LANG", "LANGUAGE", "TZ", "TERM", "USER", "LOGNAME", "NO_COLOR", "COLUMNS")
"""Names of the caller's environment that every program gets; `LC_…` too."""
_PATH = "/usr/local/bin:/usr/bin:/bin"
_OWN = frozenset({"user", "bundled", "path", "configured"})
"""Sources whose skills the user wrote or named: a boundary is preferred for them, not required."""
_NEEDS: tuple[Need, ...] = ("off", "prefer", "require")


def plain_environment(library: Library) -> dict[str, str]:
    """What every program gets of the caller's environment."""
    outside = library.place.env
    env = {"PATH": _PATH} | {name: outside[name] for name in _PASSED if name in outside}
    env.update({name: value for name, value in outside.items() if name.startswith("LC_")})
    return env


def environment(library: Library, skill: Skill) -> dict[str, str]:
    """The whole environment of a skill's programs: a few names of ours, what it declares, its settings and options."""
    outside, env = library.place.env, plain_environment(library)
    needs, given = skill.requires, granted(library, skill)
    declared = (*needs.env, *given.env, *((needs.primary_env,) if needs.primary_env else ()))
    env.update({name: outside[name] for name in declared if name in outside and not is_never(name)})
    entry = library.settings.entry_for(skill.settings_key, skill.origin.source == "project")
    env.update(overlay(entry.env, declared, env, needs.primary_env, entry.api_key).added)
    env.update(_options(skill.options, "METIER_OPTION_"))
    reached = {"METIER_READ": given.permissions.read, "METIER_WRITE": given.permissions.write}
    env.update({name: ":".join(places) for name, places in reached.items() if places})
    if any(paths.is_inside(one, library.place.state) for places in reached.values() for one in places):
        env["METIER_HOME"] = library.place.state  # it works on metier's own files, and has to find them
    env |= {"SKILL_DIR": skill.directory, "CLAUDE_SKILL_DIR": skill.directory, "PYTHONDONTWRITEBYTECODE": "1"}
    env |= {"PYTHONPYCACHEPREFIX": "/nonexistent"}  # what stands beside a script, compiled, is not run in its place
    return env


def _options(options: Tree, prefix: str) -> Iterator[tuple[str, str]]:
    """`config.options`, each as a variable; a table's options have its name in front."""
    for key, value in options.items():
        name = prefix + "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in key).upper()
        if isinstance(value, Tree):
            yield from _options(value, name + "_")
        elif isinstance(value, tuple):
            yield name, "\n".join(item for item in value if isinstance(item, str))
        elif "\0" not in value:
            yield name, value


def box(library: Library, skill: Skill, cwd: str, write: tuple[str, ...], scheduled: bool = False) -> Box:
    """The boundary for a skill's programs: its folder, the working folder and project to read, and what is granted."""
    given = granted(library, skill).permissions
    project = library.place.project
    readable = (cwd, project, *filter(None, [repository_of(project)])) if paths.is_inside(cwd, project) else (cwd,)
    home = library.place.home
    outer = tuple(one for one in readable if one not in ("/", home) and not paths.is_inside(home, one))
    tools = f"{library.place.state}/tools"  # what metier installed for skills is theirs to run
    outer = (*outer, tools) if paths.exists(tools) else outer
    return Box(
        need_of(library, skill, scheduled),
        skill.directory,
        hidden=(library.place.state,),
        permissions=replace(given, read=tuple(dict.fromkeys((*outer, *given.read))), write=(*given.write, *write)),
    )


def command_need(library: Library) -> Need:
    """For a command that an agent runs and a person allowed."""
    said = library.settings.at("sandbox.need")
    return said if said in get_args(Need) else "prefer"  # type: ignore[return-value]  # one of the three


def need_of(library: Library, skill: Skill, scheduled: bool = False) -> Need:
    """`require` for what others wrote and what runs unattended; the user's configuration may say otherwise."""
    said = library.settings.at("sandbox.need")
    if said in get_args(Need):
        need: Need = said  # type: ignore[assignment]  # one of the three, as the line above says
        return "require" if scheduled and need != "off" else need
    own = skill.origin.source in _OWN and not from_elsewhere(library, skill)
    return "prefer" if own and not scheduled else "require"


def run_program(library: Library, program: Program, boundary: Box) -> Ran:
    """Run inside the boundary; a refusal is how it ended."""
    from ..host import sandbox  # most commands run nothing

    try:
        return sandbox.run(program, boundary, sandbox.here(library.place.env, library.place.state))
    except Refused as refusal:
        return Ran(None, "", note=f"{refusal.message}; {refusal.hint}" if refusal.hint else refusal.message)


def shell_program(shell: Shell, env: Mapping[str, str]) -> tuple[str, ...]:
    """The shell that a dialect's commands are written for, or the plain one where it is missing."""
    from ..host.memo import which

    wanted = ("bash", "sh") if shell.program == "bash" else ("sh", "bash")
    found = next((one for name in wanted if (one := which(name, env.get("PATH", "")))), "/bin/sh")
    plain = ("--noprofile", "--norc") if found.endswith("bash") else ()
    return (found, *plain, "-c")
