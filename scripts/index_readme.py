"""README.md as a package index shows it: every relative link leads to the repository, at the version that is built.

A hook of the build: hatchling calls it for the wheel and the sdist. The address is `Repository` of pyproject.toml.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"(!\[[^\]]*\]\()(?![a-z]+:|#)([^)\s]+)")
_LINK = re.compile(r"((?<!!)\[(?:[^\[\]]|\[[^\]]*\])*\]\()(?![a-z]+:|#)([^)\s]+)")


def absolute_links(text: str, repository: str, version: str) -> str:
    """The text with absolute links: pictures to the file itself, others to the page that shows it."""
    text = _PICTURE.sub(rf"\1{repository}/raw/v{version}/\2", text)
    return _LINK.sub(rf"\1{repository}/blob/v{version}/\2", text)


class IndexReadme(MetadataHookInterface):
    """Sets `readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        root = Path(self.root)
        text = (root / "README.md").read_text(encoding="utf-8")
        source = (root / "src" / "metier" / "__init__.py").read_text(encoding="utf-8")
        [version] = re.findall(r'(?m)^__version__ = "(.+)"$', source)
        text = absolute_links(text, metadata["urls"]["Repository"], version)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
