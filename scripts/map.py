"""Print the first docstring line of each package: the stages in order, then the others.

Docstrings are read without importing anything.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

STAGES = ("sources", "parse", "resolve", "catalog", "activate", "agent", "record", "improve")
PACKAGE = Path(__file__).parent.parent / "src" / "metier"


def first_line(module: Path) -> str:
    """The first line of a module's docstring, without its period; empty if there is none."""
    text = ast.get_docstring(ast.parse(module.read_bytes())) or ""
    return text.partition("\n")[0].strip().removesuffix(".")


def modules(package: Path) -> dict[str, Path]:
    """The top-level modules by name, each with the file of its docstring."""
    packages = {init.parent.name: init for init in package.glob("*/__init__.py")}
    files = {file.stem: file for file in package.glob("*.py") if not file.stem.startswith("__")}
    return packages | files


def stages(package: Path = PACKAGE) -> dict[str, str]:
    """The first line of every stage that exists, in order."""
    found = modules(package)
    return {name: first_line(found[name]) for name in STAGES if name in found}


def lines(package: Path = PACKAGE) -> Iterator[str]:
    """The whole map, one line per module."""
    for name, line in stages(package).items():
        yield line or f"{name}: has no docstring"
    for name, file in sorted(modules(package).items()):
        if name not in STAGES:
            line = first_line(file) or "has no docstring"
            yield line if line.lower().startswith(f"{name}:") else f"{name}: {line}"


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in lines())
