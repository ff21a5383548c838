"""metier doctor."""

from __future__ import annotations

import sys
from typing import NamedTuple

import click

from ... import __version__
from ...host import files, paths
from ...host.place import has_binary
from ...runtime import Library
from ...runtime.locking import locks
from ...types.errors import HostError
from ...types.place import Place
from .app import Context
from .printing import arrow, clean, clean_path, paint, say, say_json


class Finding(NamedTuple):
    what: str
    ok: bool
    note: str
    hint: str = ""
    vital: bool = True


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def doctor(context: click.Context, as_json: bool) -> None:
    """Check metier's own footing on this machine.  Exit code 1 if something vital is wrong."""
    settings: Context = context.obj
    try:
        findings = _findings(settings.library())
    except HostError as error:
        findings = [_metier(), Finding("library", False, error.message, error.hint)]
    if as_json:
        say_json([finding._asdict() for finding in findings])
    else:
        for one in findings:
            mark = paint("✓", "green") if one.ok else paint("✗", "red") if one.vital else paint("!", "yellow")
            say(f"{mark} {one.what:<14} {clean_path(one.note)}")
            if not one.ok and one.hint:
                say(f"  {'':<14} {arrow(clean(one.hint))}")
    context.exit(0 if all(one.ok for one in findings if one.vital) else 1)


def _findings(library: Library) -> list[Finding]:
    place = library.place
    openat2, yaml, watch = files.has_openat2(), _c_yaml(), _has_watch()
    git = has_binary("git", place.env.get("PATH", ""))
    return [
        _metier(),
        _optional("state", paths.is_folder(place.state), place.state, "it is made when it is first needed"),
        _index(library),
        _optional(
            "file access", openat2, _either(openat2, "openat2: no link can race", "step by step"), "Linux 5.6 has it"
        ),
        _optional("yaml", yaml, _either(yaml, "libyaml", "pure Python, ten times slower"), "reinstall PyYAML"),
        _optional("watch", watch, _either(watch, "watchfiles", "not installed"), "pip install 'metier[watch]'"),
        *_sandbox(place),
        _optional("git", git, _either(git, "found on PATH", "missing"), "install git"),
        _configuration(library),
        _locks(library),
        _agents(library),
        _optional(
            "skills",
            not library.broken,
            f"{len(library.skills)} load, {len(library.broken)} do not",
            "`metier status -v` says why",
        ),
    ]


def _metier() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("metier", True, f"{__version__}, Python {version} on {sys.platform}")


def _optional(what: str, ok: bool, note: str, hint: str) -> Finding:
    return Finding(what, ok, note, hint, vital=False)


def _either(ok: bool, yes: str, no: str) -> str:
    return yes if ok else no


def _configuration(library: Library) -> Finding:
    """What there is to say but for the index; only errors are vital, a key nobody knows is not."""
    wrong = [one for one in library.problems if one.severity != "info" and not one.code.startswith("index-")]
    note = "; ".join(f"{one.place}: {one.message}" if one.place else one.message for one in wrong) or "nothing wrong"
    vital = not wrong or any(one.severity == "error" for one in wrong)
    return Finding("configuration", not wrong, note, "; ".join(dict.fromkeys(one.hint for one in wrong)), vital)


def _agents(library: Library) -> Finding:
    """What agents' files say that means nothing."""
    from ...runtime.described import agent_files

    found = agent_files(library)
    if not found:
        return _optional("agents", True, "0 described", "")
    from ...runtime.agents import faults_of

    wrong = [fault for one in found.values() for fault in faults_of(library, one)]
    note = "; ".join(wrong) or f"{len(found)} described"
    return _optional("agents", not wrong, note, "mend their files")


def _locks(library: Library) -> Finding:
    """The locks beside the roots: of a root whose lock can't be read nothing is used."""
    said = locks(library.roots, library.place)
    wrong = "; ".join(said.unreadable.values()) if said is not None else ""
    return Finding("locks", not wrong, wrong or "all can be read", "bring back a good copy (from git or a backup)")


def _index(library: Library) -> Finding:
    told = [one for one in library.problems if one.code.startswith("index-")]
    if told:
        return Finding("index", False, told[0].message, told[0].hint, vital=False)
    return Finding("index", True, library.database.path if library.database else "not used", vital=False)


def _sandbox(place: Place) -> list[Finding]:
    """The boundary that scripts run in, as it was found by trying it since the machine last changed."""
    from ...host import sandbox  # slow to start, and only this command asks

    footing = sandbox.probe(sandbox.here(place.env, place.state))
    held = sum(one.held for one in footing.checks)
    found = f"{held} checks held, {footing.limits}" if footing.tier != "none" else "scripts of others are refused"
    note = f"{footing.tier}: {'; '.join(filter(None, (footing.reason, found)))}"
    hint = "let bubblewrap make user namespaces"
    if "METIER_SANDBOX" in footing.reason:
        hint = "unset METIER_SANDBOX to have the best there is"
    elif "bubblewrap is not installed" in footing.reason:
        hint = "install bubblewrap"
    return [
        _optional("sandbox", footing.tier == "bubblewrap", note, hint),
        _optional("scripts", True, f"run with {footing.interpreter}", ""),
    ]


def _c_yaml() -> bool:
    from ...parse.events import has_c_reader

    return has_c_reader()


def _has_watch() -> bool:
    from importlib.util import find_spec

    return find_spec("watchfiles") is not None
