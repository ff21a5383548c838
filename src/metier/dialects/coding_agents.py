"""Where other agents look for skills, as data: one row for each.

A path in `project` is beneath a project.  In `user`, `~/` is the home, `{config}/` the folder of XDG_CONFIG_HOME, and
`{own}/` the agent's own folder, which a variable may move.  The rows follow what each agent and the common installers
document; an agent is taken to be on a machine where its own folder is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class CodingAgent(NamedTuple):
    """Another agent: its folders for skills, in order of precedence."""

    name: str
    title: str
    own: str
    """The folder that it keeps its own things in."""
    project: tuple[str, ...]
    user: tuple[str, ...]
    variable: str = ""
    """The variable that moves its own folder."""
    user_first: bool = False
    """The user's skills win over the project's."""


_SHARED = ".agents/skills"
_SHARED_USER = "~/.agents/skills"


def _plain(name: str, title: str, folder: str, own: str = "") -> CodingAgent:
    """An agent with one folder of the same name in projects and in the home."""
    return CodingAgent(name, title, own or f"~/{folder}", (f"{folder}/skills",), ("{own}/skills",))


_ROWS = (
    CodingAgent("adal", "AdaL", "~/.adal", (".adal/skills",), ("{own}/skills",)),
    CodingAgent("amp", "Amp", "{config}/amp", (_SHARED,), ("{config}/agents/skills",)),
    CodingAgent("antigravity", "Antigravity", "~/.gemini/antigravity", (".agent/skills",), ("{own}/skills",)),
    _plain("augment", "Augment", ".augment"),
    CodingAgent(
        "claude",
        "Claude Code",
        "~/.claude",
        (".claude/skills",),
        ("{own}/skills",),
        "CLAUDE_CONFIG_DIR",
        user_first=True,
    ),
    _plain("cline", "Cline", ".cline"),
    _plain("codebuddy", "CodeBuddy", ".codebuddy"),
    CodingAgent("codex", "Codex", "~/.codex", (_SHARED, ".codex/skills"), (_SHARED_USER, "{own}/skills"), "CODEX_HOME"),
    _plain("command-code", "Command Code", ".commandcode"),
    _plain("continue", "Continue", ".continue"),
    CodingAgent(
        "copilot",
        "GitHub Copilot",
        "~/.copilot",
        (".github/skills", _SHARED, ".claude/skills"),
        ("{own}/skills", _SHARED_USER, "~/.claude/skills"),
    ),
    _plain("crush", "Crush", ".crush", "{config}/crush"),
    CodingAgent("cursor", "Cursor", "~/.cursor", (".cursor/skills", _SHARED), ("{own}/skills", _SHARED_USER)),
    _plain("droid", "Droid", ".factory"),
    CodingAgent("gemini", "Gemini CLI", "~/.gemini", (_SHARED, ".gemini/skills"), (_SHARED_USER, "{own}/skills")),
    _plain("goose", "Goose", ".goose", "{config}/goose"),
    CodingAgent("hermes", "Hermes", "~/.hermes", (), ("{own}/skills",)),
    _plain("iflow", "iFlow CLI", ".iflow"),
    _plain("junie", "Junie", ".junie"),
    _plain("kilo", "Kilo Code", ".kilocode"),
    CodingAgent("kimi", "Kimi Code CLI", "~/.kimi", (_SHARED,), ("{config}/agents/skills",)),
    _plain("kiro", "Kiro CLI", ".kiro"),
    _plain("kode", "Kode", ".kode"),
    _plain("mcpjam", "MCPJam", ".mcpjam"),
    _plain("mux", "Mux", ".mux"),
    _plain("neovate", "Neovate", ".neovate"),
    CodingAgent("openclaw", "OpenClaw", "~/.openclaw", ("skills", _SHARED), (_SHARED_USER, "{own}/skills")),
    CodingAgent("opencode", "OpenCode", "{config}/opencode", (_SHARED,), ("{own}/skills",)),
    _plain("openhands", "OpenHands", ".openhands"),
    CodingAgent("pi", "Pi", "~/.pi/agent", (".pi/skills",), ("{own}/skills",)),
    _plain("pochi", "Pochi", ".pochi"),
    _plain("qoder", "Qoder", ".qoder"),
    _plain("qwen", "Qwen Code", ".qwen"),
    CodingAgent("replit", "Replit", "~/.replit", (_SHARED,), ("{config}/agents/skills",)),
    _plain("roo", "Roo Code", ".roo"),
    _plain("trae", "Trae", ".trae"),
    CodingAgent("trae-cn", "Trae CN", "~/.trae-cn", (".trae/skills",), ("{own}/skills",)),
    _plain("vibe", "Mistral Vibe", ".vibe"),
    CodingAgent("windsurf", "Windsurf", "~/.codeium/windsurf", (".windsurf/skills",), ("{own}/skills",)),
    _plain("zencoder", "Zencoder", ".zencoder"),
)
CODING_AGENTS: Mapping[str, CodingAgent] = {row.name: row for row in _ROWS}
"""Every other agent that is known, by name."""


def own_folder(agent: CodingAgent, home: str, env: Mapping[str, str]) -> str:
    """The folder that an agent keeps its things in, on this machine."""
    moved = env.get(agent.variable, "").strip() if agent.variable else ""
    return moved if moved.startswith("/") else _expand(agent.own, home, env)


def user_roots(agent: CodingAgent, home: str, env: Mapping[str, str]) -> tuple[str, ...]:
    """Where an agent looks for the user's skills, in order."""
    own = own_folder(agent, home, env)
    return tuple(dict.fromkeys(_expand(path.replace("{own}", own), home, env) for path in agent.user))


def _expand(path: str, home: str, env: Mapping[str, str]) -> str:
    config = env.get("XDG_CONFIG_HOME", "").strip()
    config = config if config.startswith("/") else f"{home}/.config"
    return path.replace("{config}", config).replace("~/", f"{home}/", 1)
