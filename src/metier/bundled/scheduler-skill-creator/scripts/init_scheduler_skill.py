#!/usr/bin/env python3
"""Make the folder of a new scheduler skill: init_scheduler_skill.py <short>

The folder is <short>-<8 hexadecimal digits> in $METIER_HOME/scheduler (~/.metier/scheduler where that is not set),
and SKILL.md in it waits to be filled in.
"""

import os
import re
import secrets
import sys

LONGEST = 64
TEMPLATE = """---
name: {name}
description: TODO what this does, in one sentence
---

## 任務

TODO the steps, complete in themselves: nobody can be asked while this runs.

## 輸出格式

TODO what the result looks like, with a short example.
"""


def tree():
    """The folder of scheduler skills."""
    home = os.environ.get("METIER_HOME") or os.path.join("~", ".metier")
    return os.path.join(os.path.expanduser(home), "scheduler")


def main(arguments):
    if len(arguments) != 1 or arguments[0] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if arguments in (["-h"], ["--help"]) else 2
    given = arguments[0]
    short = re.sub(r"[^a-z0-9]+", "-", given.strip().lower()).strip("-")
    if not short:
        print("[ERROR] short name must contain at least one letter or digit")
        return 1
    if short != given:
        print(f"note: normalized {given!r} -> {short!r}")
    name = f"{short}-{secrets.token_hex(4)}"
    if len(name) > LONGEST:
        print(f"[ERROR] full name '{name}' too long ({len(name)} > {LONGEST})")
        return 1
    folder = os.path.join(tree(), name)
    try:
        os.makedirs(tree(), mode=0o700, exist_ok=True)
        os.mkdir(folder, 0o700)
    except FileExistsError:
        print(f"[ERROR] collision on {folder}; rerun to get another suffix")
        return 1
    except OSError as error:
        print(f"[ERROR] {folder} can't be made: {error.strerror}")
        return 1
    path = os.path.join(folder, "SKILL.md")
    with open(path, "x", encoding="utf-8") as file:
        file.write(TEMPLATE.format(name=name))
    print(f"[OK] created   : {path}")
    print(f"[OK] skill name: {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
