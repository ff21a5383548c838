"""What would give this machine a better sandbox: the next step for a person, from what was found by trying."""

from __future__ import annotations

import contextlib

from ..types.sandbox import SandboxSupport

_SWITCHES = (
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
    ("kernel/unprivileged_userns_clone", "0", "1"),
    ("user/max_user_namespaces", "0", "10000"),
)
"""Kernel settings that forbid user namespaces: the name, the value that forbids them, one that allows them."""

_FULL_TIERS = ("bubblewrap", "seatbelt", "docker", "podman", "gvisor")
"""Tiers that lack nothing; with Landlock, a program still sees other processes and the machine's `/tmp`."""


def suggest_improvement(support: SandboxSupport) -> str:
    """The step to a better tier; empty if this is the best."""
    if support.tier in _FULL_TIERS:
        return ""
    if "METIER_SANDBOX" in support.reason:
        return "unset METIER_SANDBOX to use the best available sandbox"
    if "sandbox.image" in support.reason:
        return "set `sandbox.image` in your configuration to an image with its digest, or remove `sandbox.tier`"
    if "sandbox.tier" in support.reason:
        return "see `sandbox.tier` in your configuration"
    if "bubblewrap needs Linux" in support.reason:
        return "run skills of others on Linux"
    if "bubblewrap is not installed" in support.reason:
        return "pip install 'metier[sandbox]', or install bubblewrap"
    if "is not the one of" in support.reason:
        return "install metier[sandbox] again, or install the system's bubblewrap"
    for name, forbids, allows in _SWITCHES:
        if _kernel_setting(name) == forbids:
            return f"let bubblewrap make user namespaces: sysctl -w {name.replace('/', '.')}={allows}"
    # No setting of the kernel: a container, a security module or a filter of system calls refuses it.
    return "let bubblewrap make user namespaces: this container or its system call filter forbids it"


def _kernel_setting(name: str) -> str:
    with contextlib.suppress(OSError), open(f"/proc/sys/{name}", encoding="ascii") as file:
        return file.read().strip()
    return ""
