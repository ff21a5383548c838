"""Regular expressions that somebody else wrote, searched in a process that is ended when it takes too long."""

from __future__ import annotations

import subprocess
import sys
from json import dumps, loads
from typing import NamedTuple

_SEARCH = """
import json, re, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))
pattern, text = json.load(sys.stdin)
found = re.search(pattern, text, re.MULTILINE)
print(json.dumps(found and found[0][:500]))
"""


class Searched(NamedTuple):
    found: str | None
    """What matched, its beginning; None where nothing did."""
    fault: str = ""
    """Why nobody can say."""


def search(pattern: str, text: str, seconds: float = 2.0) -> Searched:
    """The first match in a text; one that takes longer is given up."""
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _SEARCH],
            input=dumps([pattern, text]),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=seconds,
            env={},
            encoding="ascii",
            check=True,
        )
    except subprocess.TimeoutExpired:
        return Searched(None, f"the regular expression takes longer than {seconds:g} s")
    except (subprocess.CalledProcessError, OSError):
        return Searched(None, "the regular expression can't be searched for")
    return Searched(loads(done.stdout))
