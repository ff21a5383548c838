"""Print an SBOM of metier's runtime as CycloneDX 1.6: the packages of requirements/base.txt, with their hashes.

python -m scripts.sbom > sbom.cdx.json

The file depends on the pins and the version only, so the same source gives the same bytes.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from metier import __version__

ROOT = Path(__file__).parents[1]
_PIN = re.compile(r"^([A-Za-z0-9_.-]+)==([^\s;\\]+)((?:[^\n]*\\\n\s+--hash=sha256:[0-9a-f]{64})+)", re.MULTILINE)


def pinned_packages(text: str) -> list[tuple[str, str, list[str]]]:
    """Name, version and SHA-256 digests of every pinned package."""
    return [(name, version, re.findall(r"sha256:([0-9a-f]{64})", rest)) for name, version, rest in _PIN.findall(text)]


def sbom_document() -> dict[str, Any]:
    packages = pinned_packages((ROOT / "requirements" / "base.txt").read_text(encoding="utf-8"))
    own = f"pkg:pypi/metier@{__version__}"
    components = [
        {
            "type": "library",
            "bom-ref": f"pkg:pypi/{name}@{version}",
            "name": name,
            "version": version,
            "purl": f"pkg:pypi/{name}@{version}",
            # One for every file of the release that may be installed: a wheel per platform, and the sdist.
            "externalReferences": [
                {
                    "type": "distribution",
                    "url": f"pkg:pypi/{name}@{version}",
                    "hashes": [{"alg": "SHA-256", "content": digest}],
                }
                for digest in digests
            ],
        }
        for name, version, digests in packages
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, json.dumps([own, components], sort_keys=True))}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": "metier",
                "version": __version__,
                "purl": own,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": components,
        "dependencies": [{"ref": own, "dependsOn": [item["bom-ref"] for item in components]}],
    }


if __name__ == "__main__":
    json.dump(sbom_document(), sys.stdout, indent=2)
    print()
