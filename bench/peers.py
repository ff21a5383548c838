"""The peers: which version, how it is installed, and how much faster metier must be."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from measure import STATE


@dataclass(frozen=True)
class Peer:
    """One library, pinned."""

    name: str
    pin: str
    script: str
    at_least: float
    """How many times faster than it metier has to be."""
    npm: bool = False


ANY = 2.5
YAML = 8.0
"""For those that read real YAML."""

PEERS = (
    Peer("openai-agents", "openai-agents==0.24.0", "peer_openai_agents.py", ANY),
    Peer("agent-skills-sdk", "agent-skills-sdk==0.1.1", "peer_agent_skills_sdk.py", YAML),
    Peer("strands-agents", "strands-agents==1.62.0", "peer_strands.py", YAML),
    Peer("deepagents", "deepagents==0.7.32", "peer_deepagents.py", YAML),
    Peer("pydantic-ai-harness", "pydantic-ai-harness[skills]==0.62.0", "peer_pydantic_ai_harness.py", YAML),
    Peer("skills-ref", "skills-ref==0.1.1", "peer_skills_ref.py", 70.0),
    Peer("npx-skills", "skills@1.5.18", "npx_skills.py", ANY, npm=True),
)


class NotInstalled(Exception):
    """A peer that cannot be had here, and why."""


def install(peer: Peer) -> Path:
    """The Python that runs this peer's contender; installed on first use, bytecode compiled."""
    folder = STATE / "peers" / peer.name
    stamp = folder / "installed.txt"
    python = Path(sys.executable) if peer.npm else folder / "bin" / "python"
    if not stamp.exists() or stamp.read_text() != peer.pin:
        shutil.rmtree(folder, ignore_errors=True)
        print(f"installing {peer.pin}", file=sys.stderr)
        for command in _npm(peer, folder) if peer.npm else _pip(peer, folder):
            _do(command)
        stamp.write_text(peer.pin)
    return python


def _pip(peer: Peer, folder: Path) -> list[list[str]]:
    python = str(folder / "bin" / "python")
    return [
        [sys.executable, "-m", "venv", str(folder)],
        [python, "-m", "pip", "install", "--quiet", peer.pin],
        [python, "-m", "compileall", "-q", str(folder / "lib")],
    ]


def _npm(peer: Peer, folder: Path) -> list[list[str]]:
    if not shutil.which("node") or not shutil.which("npm"):
        raise NotInstalled("no node here")
    folder.mkdir(parents=True)
    return [["npm", "install", "--prefix", str(folder), "--silent", "--no-audit", "--no-fund", peer.pin]]


def _do(command: list[str]) -> None:
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if done.returncode and "compileall" not in command:
        raise NotInstalled((done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1])
