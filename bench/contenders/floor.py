"""The floor: the least that discovering and listing skills can cost in Python.  No YAML, no diagnostics."""

from __future__ import annotations

import os

from contender import run


def discover(root: str) -> tuple[int, str, object]:
    """List the folder, read 4 KB of each SKILL.md, split `key: value` lines, write the catalog."""
    skills = []
    for entry in os.scandir(root):
        path = f"{root}/{entry.name}/SKILL.md"
        handle = os.open(path, os.O_RDONLY)
        head = os.read(handle, 4096)
        os.close(handle)
        fields = {}
        for line in head[: head.find(b"\n---", 3)].decode().split("\n"):
            key, colon, value = line.partition(": ")
            if colon:
                fields[key] = value
        skills.append((fields.get("name", entry.name), fields.get("description", ""), path))
    skills.sort()
    lines = ["<available_skills>"]
    for name, description, path in skills:
        description = description.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        lines.append(
            f"<skill>\n<name>{name}</name>\n<description>{description}</description>\n"
            f"<location>{path}</location>\n</skill>"
        )
    lines.append("</available_skills>")
    return len(skills), "\n".join(lines), skills


run(discover)
