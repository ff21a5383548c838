"""Write the tables of the sandbox page from the code."""

from dataclasses import fields

from scripts.docs_text import code, table

from metier.agent.shell_rules import WRITING_COMMANDS
from metier.dialects import PROTECTED_FOLDERS
from metier.sandbox import selftest
from metier.sandbox.obeyed import OBEYED, PROTECTED
from metier.sandbox.profile import ETC, NETWORK, PRIVATE, SYSTEM
from metier.types.sandbox import SandboxLimits

_LIMITS = {
    "processes": "processes and threads at once",
    "memory": "memory of all processes",
    "scratch": "the private temporary folder (bubblewrap)",
    "file": "size of any file",
    "disk": "size of the work folder",
    "files": "files in the work folder",
}


def sandbox(subject: str) -> str:
    """One table of the page: `sandbox checks` and so on."""
    made = {
        "checks": _checks,
        "seen": _seen,
        "private": _private,
        "protected": _protected,
        "obeyed": _obeyed,
        "limits": _limits,
        "commits": _commits,
    }
    return made[subject]()


def _checks() -> str:
    refused = [*selftest.refused_actions("", "", 0, 0, 0), "link outside"]
    rows = [
        ("be refused", ", ".join(refused)),
        ("be refused in a writable folder", ", ".join(selftest.project_actions(""))),
        ("be refused on macOS", ", ".join(selftest.MAC_ACTIONS)),
        ("work", ", ".join(selftest.allowed_actions("", "", "project"))),
    ]
    return table(("must", "what the self-test does"), rows)


def _seen() -> str:
    devices = "null, zero, full, random, urandom"
    rows = [
        ("programs and libraries", _codes(SYSTEM)),
        ("settings", _codes(ETC)),
        ("settings, with the network", _codes(NETWORK)),
        ("settings of interpreters", "`/etc/python3*`"),
        ("devices", f"{devices}; under bubblewrap also its own terminals and `/dev/shm`"),
        ("processes", "its own under bubblewrap; a few figures of the machine under Landlock"),
    ]
    return table(("kind", "readable"), rows)


def _private() -> str:
    return f"In your home: {_codes(PRIVATE)}.\n"


def _protected() -> str:
    return f"{_codes(tuple(dict.fromkeys((*PROTECTED, *PROTECTED_FOLDERS))))}.\n"


def _obeyed() -> str:
    """The table of the sweep, one line for each tool and reason."""
    groups: dict[tuple[str, str, bool], list[str]] = {}
    for row in OBEYED:
        groups.setdefault((row.tool, row.reason, row.ordinary), []).append(row.pattern)
    rows = [
        (f"{tool} (ordinary)" if ordinary else tool, _codes(tuple(names)), reason)
        for (tool, reason, ordinary), names in groups.items()
    ]
    return table(("program", "obeys", "why"), rows)


def _commits() -> str:
    return f"{_codes(tuple(f'git {one}' for one in WRITING_COMMANDS))}.\n"


def _limits() -> str:
    defaults = {one.name: one.default for one in fields(SandboxLimits)}
    assert defaults.keys() == _LIMITS.keys(), "describe every limit here"
    return table(
        ("limit", "applies to", "default"), [(code(name), _LIMITS[name], _amount(defaults[name])) for name in _LIMITS]
    )


def _amount(value: object) -> str:
    assert isinstance(value, int)
    return f"{value:,}" if value < 1 << 20 else f"{value >> 20:,} MiB"


def _codes(names: tuple[str, ...]) -> str:
    return ", ".join(map(code, names))
