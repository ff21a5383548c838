"""The documentation is true: generated pages are current, links work, and every example runs.

A ```python block runs on its own in a trusted copy of the example workspace.  The ```console blocks of a page run in
order in an untrusted copy, or in the one that `<!-- examples: PLACE -->` selects.  Output is compared word by word:
`…` matches anything within a line, and a line that is only `…` matches any lines.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from scripts import docs

import metier
from metier.types.problem import CODE_FAMILIES, CODE_MEANINGS

ROOT = Path(__file__).parents[2]
WORKSPACE = ROOT / "examples" / "workspace"
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
LINKED = sorted(
    [*PAGES, ROOT / "AGENTS.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *ROOT.glob("[!.]*/README.md")]
)
_place = re.compile(r"<!-- examples: (\w+) -->")
_fence = re.compile(r"(`{3,})(\w*)$")
_link = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")


class Block(NamedTuple):
    page: Path
    line: int
    language: str
    text: str

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT).as_posix()}:{self.line}"


def blocks(page: Path, *languages: str) -> list[Block]:
    """The fenced blocks of a page in some languages; a fence ends at one as long as itself."""
    found = []
    fence, language, start, held = "", "", 0, list[str]()
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if fence:
            if line == fence:
                found.append(Block(page, start, language, "\n".join(held)))
                fence = ""
            else:
                held.append(line)
        elif opened := _fence.match(line):
            fence, language, start, held = opened[1], opened[2], number, []
    return [block for block in found if block.language in languages]


class Place:
    """An environment for examples: a separate home, and a working folder."""

    def __init__(self, folder: Path, kind: str = "workspace") -> None:
        self.cwd = folder / ("metier" if kind == "clone" else "workspace")
        home = folder / "home"
        home.mkdir()
        (self.cwd / ".git").mkdir(parents=True)
        shutil.copytree(WORKSPACE, self.cwd / ("examples/workspace" if kind == "clone" else "."), dirs_exist_ok=True)
        kept = {
            key: value for key, value in os.environ.items() if not key.startswith(("METIER_", "OPENCLAW_", "WEATHER_"))
        }
        bin_ = Path(sys.executable).parent
        self.env = {**kept, "HOME": str(home), "PATH": f"{bin_}:{os.environ['PATH']}", "PYTHONUTF8": "1"}
        if kind == "trusted":
            self.run("metier trust")

    def run(self, command: str) -> str:
        """What a command prints, standard error after standard output; `cd` and `export` persist."""
        word, _, rest = command.partition(" ")
        if word == "cd":
            self.cwd = (self.cwd / rest.replace("~", self.env["HOME"])).resolve(strict=True)
            return ""
        if word == "export":
            name, _, value = rest.partition("=")
            self.env[name] = value
            return ""
        done = subprocess.run(
            ["sh", "-c", command], cwd=self.cwd, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        return done.stdout + done.stderr


def commands(block: Block) -> Iterator[tuple[str, list[str]]]:
    """Each `$ command` of a block with the lines shown below it."""
    command, shown = "", list[str]()
    for line in block.text.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, shown
            command, shown = line[2:], []
        else:
            shown.append(line)
    assert command, f"{block.name}: no line begins with `$ `"
    yield command, shown


def words(lines: list[str]) -> list[str]:
    """Lines with alignment removed, without blank ones."""
    return [text for line in lines if (text := " ".join(line.split()))]


def pattern(shown: list[str]) -> re.Pattern[str]:
    lines = [
        r"(?:.*\n)*?" if line == "…" else r".*".join(re.escape(part) for part in line.split("…")) + r"\n"
        for line in words(shown)
    ]
    return re.compile("".join(lines))


def says(shown: list[str], printed: str) -> bool:
    return pattern(shown).fullmatch("".join(line + "\n" for line in words(printed.splitlines()))) is not None


def test_three_dots_stand_for_anything_in_a_line_and_alone_for_lines():
    assert says(["one …", "…", "last"], "one two\nand\nmore\nlast\n")
    assert says(["name   ready", "…"], "name ready\n")
    assert not says(["one"], "one\ntwo\n")
    assert not says(["one", "…"], "two\n")


PYTHON = [block for page in PAGES for block in blocks(page, "python")]
WITH_CONSOLE = [page for page in PAGES if blocks(page, "console")]


@pytest.mark.parametrize("block", PYTHON, ids=lambda block: block.name)
def test_a_python_example_runs(block: Block, tmp_path: Path):
    place = Place(tmp_path, "trusted")
    done = subprocess.run(
        [sys.executable, "-c", block.text],
        cwd=place.cwd,
        env=place.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", WITH_CONSOLE, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_shows_what_its_commands_print(page: Path, tmp_path: Path):
    chosen = _place.search(page.read_text(encoding="utf-8"))
    place = Place(tmp_path, chosen[1] if chosen else "workspace")

    for block in blocks(page, "console"):
        for command, shown in commands(block):
            printed = place.run(command)
            assert says(shown, printed), f"{block.name}: `{command}` prints\n{printed}"


def test_there_are_examples_of_both_kinds():
    assert len(PYTHON) > 5
    assert len(WITH_CONSOLE) > 5


def test_generated_pages_are_up_to_date():
    assert [page.name for page in docs.stale()] == [], "run `make docs`"


def test_generating_twice_gives_the_same_bytes():
    assert dict(docs.wanted()) == dict(docs.wanted())


def test_every_problem_code_is_in_the_reference():
    text = (ROOT / "docs" / "reference" / "problems.md").read_text(encoding="utf-8")

    assert [code for code in CODE_MEANINGS if f"| `{code}` |" not in text] == []
    assert sorted(CODE_MEANINGS) == sorted(code for family in CODE_FAMILIES.values() for code in family)


def test_every_public_name_is_exported_and_documented():
    tree = ast.parse((ROOT / "src" / "metier" / "__init__.py").read_bytes())
    [typed] = [node for node in tree.body if isinstance(node, ast.If)]
    declared = sorted(
        name.asname or name.name for node in typed.body if isinstance(node, ast.ImportFrom) for name in node.names
    )
    text = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")

    assert metier.__all__ == declared
    assert [name for name in declared if not getattr(metier, name).__doc__] == []
    assert [name for name in declared if f"## metier.{name}\n" not in text] == []


def without_code(page: Path) -> str:
    kept, fence = [], ""
    for line in page.read_text(encoding="utf-8").splitlines():
        opened = _fence.match(line)
        if fence:
            fence = "" if line == fence else fence
        elif opened:
            fence = opened[1]
        else:
            kept.append(line)
    return "\n".join(kept)


def anchors(page: Path) -> set[str]:
    """The anchors of headings: lowercase, hyphens for spaces, no punctuation but `_`."""
    titles = re.findall(r"^#+ (.+)$", without_code(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path):
    lost = []
    for found in _link.finditer(re.sub(r"`[^`\n]*`", "``", without_code(page))):
        target = found[1] or found[2]
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists() or (anchor and anchor not in anchors(there)):
            lost.append(target)

    assert lost == []


def test_every_page_is_in_the_table_of_contents():
    index = ROOT / "docs" / "index.md"
    listed = {
        (index.parent / found[1]).resolve() for found in _link.finditer(index.read_text(encoding="utf-8")) if found[1]
    }
    missing = [page for page in (ROOT / "docs").rglob("*.md") if page != index and page.resolve() not in listed]

    assert [page.relative_to(ROOT).as_posix() for page in missing] == []


def test_make_try_asks_nothing_and_shows_the_main_job():
    done = subprocess.run(
        ["sh", str(ROOT / "scripts" / "try.sh")],
        env=os.environ | {"MODEL": "no"},  # nothing is fetched by a test
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr
    assert "$ metier catalog" in done.stdout
    assert "<name>release-notes</name>" in done.stdout
    assert "no local model: disabled by MODEL=no" in done.stdout
    assert '"system": "You are a careful assistant' in done.stdout
    assert "\x1b" not in done.stdout
