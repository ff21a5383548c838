"""Takes the picture in README.md: runs metier in a real terminal (tmux) and draws what stands there as SVG.

.venv/bin/python scripts/picture.py
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "images" / "terminal.svg"
HOME = Path("/tmp/you")
COMMANDS = ("metier list", "metier why weather-report", "metier commands de")
KEPT = ("code-review", "commit-message")
COLUMNS, ROWS = 124, 60
WIDE, HIGH, EDGE = 8.0, 18, 16

PAPER, INK, FAINT = "#1b1f27", "#d5dae3", "#8b93a3"
COLOURS = {31: "#f07178", 32: "#8fce7e", 33: "#e8c26a", 34: "#78a9f0", 36: "#63cfd6"}
_style = re.compile(r"\x1b\[([0-9;]*)m")


class Span(NamedTuple):
    column: int
    text: str
    colour: str
    bold: bool


def prepare() -> dict[str, str]:
    """A home with the example workspace, trusted, and two of the bundled skills."""
    HOME.mkdir()
    shutil.copytree(ROOT / "examples" / "workspace", HOME / "workspace")
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    env = {"HOME": str(HOME), "PATH": path, "LANG": "C.UTF-8", "TERM": "xterm-256color", "HISTFILE": "/dev/null"}
    for command in ("init", "trust"):
        subprocess.run(["metier", command], cwd=HOME / "workspace", env=env, check=True, capture_output=True)
    for skill in (HOME / ".metier" / "skills").iterdir():
        if skill.name not in KEPT:
            shutil.rmtree(skill)
    return env


def taken(env: dict[str, str]) -> str:
    """What the terminal shows after the commands, with its colours."""
    tmux = ["tmux", "-L", f"picture-{os.getpid()}", "-f", "/dev/null"]
    size = ["-x", str(COLUMNS), "-y", str(ROWS)]
    shell = r"exec env PS1='\n$ ' bash --norc --noprofile"
    subprocess.run([*tmux, "new-session", "-d", *size, shell], cwd=HOME / "workspace", env=env, check=True)
    try:
        for command in ("clear", *COMMANDS):
            time.sleep(1)
            subprocess.run([*tmux, "send-keys", command, "Enter"], env=env, check=True)
        time.sleep(1)
        seen = subprocess.run([*tmux, "capture-pane", "-e", "-p"], env=env, check=True, capture_output=True, text=True)
        return seen.stdout.strip().removesuffix("$").rstrip()
    finally:
        subprocess.run([*tmux, "kill-server"], env=env, check=False, capture_output=True)


def spans(lines: list[str]) -> Iterator[list[Span]]:
    """Each line as pieces of one style; a style holds until another one is set."""
    colour, bold = INK, False
    for line in lines:
        found, column = list[Span](), 0
        for number, part in enumerate(_style.split(line)):
            if number % 2:
                for code in (int(one or 0) for one in part.split(";")):
                    colour = COLOURS.get(code, FAINT if code == 2 else INK if code in (0, 39) else colour)
                    bold = (bold or code == 1) and code not in (0, 22)
            elif part:
                found.append(Span(column, part, colour, bold))
                column += len(part)
        yield found


def drawn(text: str) -> str:
    lines = text.split("\n")
    width, height = round(COLUMNS * WIDE + 2 * EDGE), len(lines) * HIGH + 2 * EDGE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f'<rect width="{width}" height="{height}" rx="8" fill="{PAPER}"/>',
        '<g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="13" xml:space="preserve">',
    ]
    for row, pieces in enumerate(spans(lines)):
        y = EDGE + row * HIGH + 13
        for one in pieces:
            kept = one.text.rstrip()
            if not kept.strip():
                continue
            start = len(kept) - len(kept.lstrip())
            x, length = EDGE + (one.column + start) * WIDE, (len(kept) - start) * WIDE
            weight = ' font-weight="bold"' if one.bold or kept.startswith("$ ") else ""
            parts.append(
                f'<text x="{x:.1f}" y="{y}" textLength="{length:.1f}" lengthAdjust="spacingAndGlyphs"'
                f' fill="{one.colour}"{weight}>{escape(kept.lstrip())}</text>'
            )
    return "\n".join([*parts, "</g>", "</svg>", ""])


def main() -> int:
    if HOME.exists():
        print(f"{HOME} is there already; move it away", file=sys.stderr)
        return 1
    try:
        text = taken(prepare())
    finally:
        shutil.rmtree(HOME, ignore_errors=True)
    PICTURE.write_text(drawn(text), encoding="utf-8")
    print(f"written: {PICTURE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
