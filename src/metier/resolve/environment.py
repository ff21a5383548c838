"""Which configured variables (`env`, `apiKey`) a skill may get; `library.grants.skill_environment` builds the whole.

A skill gets what it declares.  Variables that make an interpreter or the loader run other code are refused even when
declared, and anything that looks like a secret is refused unless declared: a setting for one skill must not leak
another service's key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

_FORBIDDEN_NAMES = frozenset(
    {
        "NODE_OPTIONS",
        "NODE_PATH",
        "PYTHONHOME",
        "PYTHONPATH",
        "PERL5LIB",
        "PERL5OPT",
        "RUBYLIB",
        "RUBYOPT",
        "BASH_ENV",
        "ENV",
        "GIT_EXTERNAL_DIFF",
        "SHELL",
        "SHELLOPTS",
        "PS4",
        "GCONV_PATH",
        "IFS",
        "SSLKEYLOGFILE",
        "OPENSSL_CONF",
    }
)
"""They choose what code a program loads or runs, or make it write its secrets down."""
_FORBIDDEN_PREFIXES = ("DYLD_", "LD_", "BASH_FUNC_")
# A skill may declare a key that it needs; one it does not declare is somebody else's.
_SECRET_ENDINGS = ("API_KEY", "TOKEN", "PASSWORD", "PRIVATE_KEY", "SECRET")
_SECRETS = frozenset({"AWS_SECRET_ACCESS_KEY"})


class EnvironmentOverlay(NamedTuple):
    added: dict[str, str]
    blocked: tuple[str, ...]


def build_overlay(
    requested: Mapping[str, str],
    declared: tuple[str, ...],
    present: Mapping[str, str],
    primary: str,
    api_key: str,
) -> EnvironmentOverlay:
    """What a skill's settings add to the environment of its processes, and what was refused."""
    added: dict[str, str] = {}
    blocked: list[str] = []
    declared_names = {name.strip().upper() for name in (*declared, primary) if name.strip()}
    pairs = [(name.strip(), value) for name, value in requested.items()]
    if primary.strip() and api_key.strip():
        pairs.append((primary.strip(), api_key.strip()))
    for name, value in pairs:
        # What the caller already has wins: settings fill gaps, they never override the user's shell.
        if not name or not value or present.get(name) or name in added:
            continue
        if "\0" in name + value or "=" in name or is_blocked_name(name, declared_names):
            blocked.append(name)
        else:
            added[name] = value
    return EnvironmentOverlay(added, tuple(dict.fromkeys(blocked)))


def is_forbidden_name(name: str) -> bool:
    """Whether a variable decides what code a program runs; declaring it makes no difference."""
    upper = name.upper()
    return upper in _FORBIDDEN_NAMES or upper.startswith(_FORBIDDEN_PREFIXES)


def is_blocked_name(name: str, declared_names: set[str]) -> bool:
    upper = name.upper()
    if is_forbidden_name(upper):
        return True
    if upper in declared_names:
        return False
    return upper.endswith(_SECRET_ENDINGS) or upper in _SECRETS
