"""Claude Code: the largest superset of the standard; the folder's name is the command."""

from __future__ import annotations

from ...types.dialect import (
    ArgumentRules,
    AuthoringRules,
    CommandRules,
    Dialect,
    ListingRules,
    PluginManifest,
    ServingRules,
    ShellRules,
    UnsupportedField,
)
from ..common import COMMON_FIELDS, PROJECT_CLAUDE, USER_CLAUDE, VENDOR_KEYS

_CLAUDE_FIELDS = frozenset(
    {
        "when_to_use",
        "arguments",
        "allowed-tools",
        "disallowed-tools",
        "model",
        "effort",
        "context",
        "agent",
        "background",
        "hooks",
        "paths",
        "shell",
        "license",
        "compatibility",
        "version",
    }
)

_UNSUPPORTED = (
    UnsupportedField("agent", "a forked skill runs in a subagent like its parent", frozenset({"general-purpose"})),
    UnsupportedField("background", "the conversation waits for a forked skill", frozenset({"false"})),
    UnsupportedField(
        "context", "only `fork` is known; the skill runs in the conversation", frozenset({"fork", "inherit"})
    ),
    UnsupportedField("effort", "the model thinks as much as it is configured to"),
    UnsupportedField("hooks", "none of them runs"),
    UnsupportedField("model", "the run keeps its model", frozenset({"inherit"})),
    UnsupportedField("paths", "it is listed whatever files are worked on"),
    UnsupportedField("shell", "commands in the body run in bash", frozenset({"bash"})),
)

# They exit with 1 to say "no match" or "different".
_QUIET_PROGRAMS = frozenset({"grep", "rg", "egrep", "fgrep", "find", "diff", "test", "[", "git diff", "git grep"})

DIALECT = Dialect(
    name="claude",
    title="Claude Code",
    precedence=1,
    authoring=AuthoringRules(
        fields=COMMON_FIELDS | _CLAUDE_FIELDS,
        description="first-paragraph",
        frontmatter_required=False,
        broken_yaml_is_empty=True,
        identity="directory",
        requires_at=("metier", *VENDOR_KEYS),
        arguments=ArgumentRules(first=0, splitting="shell", missing="stays", bracketed=True, named=True, escape=True),
        shell=ShellRules(
            fenced=True,
            anchored=True,
            cwd="agent",
            on_failure="abort",
            output="merged",
            program="bash",
            seconds=120.0,
            quiet=_QUIET_PROGRAMS,
        ),
        variables=("CLAUDE_SKILL_DIR", "CLAUDE_PROJECT_DIR", "CLAUDE_SESSION_ID", "CLAUDE_EFFORT"),
        unused="ARGUMENTS: ",
        unused_when="no-whole",
        unsupported=_UNSUPPORTED,
    ),
    serving=ServingRules(
        roots=(USER_CLAUDE, PROJECT_CLAUDE),
        listing=ListingRules("plain", description_cut=1_536),
        delivery="user-message",
        commands=CommandRules(form="directory", stacks=True),
    ),
    manifest=PluginManifest(".claude-plugin/plugin.json", namespaced=True),
)
