"""Markdown, a piece at a time: what the writers of generated pages share."""

from collections.abc import Iterable, Sequence

NOTICE = "<!-- Written by `make docs`. Change the code it describes, or scripts/docs*.py. -->\n"


def page(title: str, *parts: str) -> str:
    """A whole generated page; parts are separated by a blank line."""
    body = "\n\n".join(part.strip("\n") for part in parts if part.strip("\n"))
    return f"{NOTICE}\n# {title}\n\n{body}\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    lines += [f"| {' | '.join(cell(one) for one in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    """Text that stays inside its cell."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def codes(texts: Iterable[str]) -> str:
    return ", ".join(code(text) for text in texts)


def prose(text: str) -> str:
    """A docstring as paragraphs, its line breaks inside a paragraph undone."""
    paragraphs = [" ".join(one.split()) for one in (text or "").split("\n\n")]
    return "\n\n".join(one for one in paragraphs if one)
