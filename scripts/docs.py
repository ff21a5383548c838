"""Write the generated documentation: the pages of docs/reference, and the marked regions of other pages.

A region is delimited by `<!-- generated: NAME -->` and `<!-- end -->`.  With --check nothing is written, and the
exit code is 1 if anything is stale.  Everything comes from the code, so two runs give the same bytes.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from scripts.docs_api import api  # noqa: E402
from scripts.docs_cli import cli  # noqa: E402
from scripts.docs_dialects import answers, differences, fields, roots_of, roots_page  # noqa: E402
from scripts.docs_sandbox import sandbox  # noqa: E402
from scripts.docs_tables import configuration, problems  # noqa: E402

DOCS = ROOT / "docs"
PAGES = {
    "reference/api.md": api,
    "reference/cli.md": cli,
    "reference/configuration.md": configuration,
    "reference/problems.md": problems,
    "reference/roots.md": roots_page,
}
REGIONS = {"answers": answers, "fields": fields, "roots": roots_of, "differences": differences, "sandbox": sandbox}
_region = re.compile(r"(<!-- generated: ([a-z ]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def region(name: str) -> str:
    """The text of a region; `roots umbra` is the region `roots` for the dialect umbra."""
    kind, _, subject = name.partition(" ")
    if kind not in REGIONS:
        raise SystemExit(f"unknown generated region `{name}`; known: {', '.join(REGIONS)}")
    return REGIONS[kind](subject)


def filled(text: str) -> str:
    """A page with its regions regenerated."""
    return _region.sub(lambda found: f"{found[1]}{region(found[2])}{found[3]}", text)


def wanted() -> Iterator[tuple[Path, str]]:
    """Every page with generated content, and that content."""
    for name, write in PAGES.items():
        yield DOCS / name, write()
    for page in (*sorted((DOCS / "dialects").glob("*.md")), DOCS / "concepts/sandbox.md"):
        yield page, filled(page.read_text(encoding="utf-8"))


def stale() -> list[Path]:
    """The pages that are out of date."""
    return [page for page, text in wanted() if not page.exists() or page.read_text(encoding="utf-8") != text]


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print("usage: docs.py [--check]", file=sys.stderr)
        return 2
    old = stale()
    for page in old:
        print(("stale: " if arguments else "written: ") + page.relative_to(ROOT).as_posix())
    if arguments:
        return 1 if old else 0
    texts = dict(wanted())
    for page in old:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(texts[page], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
