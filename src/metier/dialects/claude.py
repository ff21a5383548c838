"""Claude Code: the largest superset of the standard; the folder's name is the command."""

from __future__ import annotations

from ..types.dialect import Arguments, Authoring, Commands, Dialect, Listing, Serving, Shell
from .common import FIELDS, PROJECT_CLAUDE, USER_CLAUDE, VENDORS

_OWN = frozenset(
    {
        "when_to_use", "arguments", "allowed-tools", "disallowed-tools", "model", "effort", "context", "agent",
        "background", "hooks", "paths", "shell", "license", "compatibility", "version",
    }
)  # fmt: skip

_QUIET = frozenset({"grep", "rg", "egrep", "fgrep", "find", "diff", "test", "[", "git diff", "git grep"})

CLAUDE = Dialect(
    name="claude",
    title="Claude Code",
    authoring=Authoring(
        fields=FIELDS | _OWN,
        description="first-paragraph",
        frontmatter_required=False,
        broken_yaml_is_empty=True,
        identity="directory",
        requires_at=("metier", *VENDORS),
        arguments=Arguments(first=0, splitting="shell", missing="stays", bracketed=True, named=True, escape=True),
        shell=Shell(
            fenced=True,
            anchored=True,
            cwd="agent",
            on_failure="abort",
            output="merged",
            program="bash",
            seconds=120.0,
            quiet=_QUIET,
        ),
        variables=("CLAUDE_SKILL_DIR", "CLAUDE_PROJECT_DIR", "CLAUDE_SESSION_ID", "CLAUDE_EFFORT"),
        unused="ARGUMENTS: ",
        unused_when="no-whole",
    ),
    serving=Serving(
        roots=(USER_CLAUDE, PROJECT_CLAUDE),
        listing=Listing("plain", description_cut=1_536),
        delivery="user-message",
        commands=Commands(form="directory", stacks=True),
    ),
)
