"""Files that say what an output must be.  METIER_GOLDEN=1 writes them; the diff is then read like any other."""

import os
from pathlib import Path


def same_as(file: Path, text: str) -> None:
    if os.environ.get("METIER_GOLDEN"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), f"{file.name} says otherwise; METIER_GOLDEN=1 writes it anew"
