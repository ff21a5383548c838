"""The front door: `metier list` and the completion of a name are answered from memory when nothing has changed.

Everything an answer depended on was noted with it; each note is checked by `stat` before the answer is given.
In doubt the full command line runs.  Nothing is imported here that this does not need.
"""

from __future__ import annotations

import os
import sys

from ... import __version__

INDEX_VERSION = 4
"""The index's own `READER`; a test holds the two together, so that the index need not be imported here."""
_VARIABLES = (
    "HOME",
    "METIER_HOME",
    "METIER_PATH",
    "OPENCLAW_BUNDLED_SKILLS_DIR",
    "NO_COLOR",
    "TERM",
    "PATH",
    "COLUMNS",
)
_SITES = ("site-packages", "dist-packages")
_QUOTING = "'\"\\"
TAKES_NAME = ("show", "why", "status")


def main() -> int:
    arguments = sys.argv[1:]
    completing = os.environ.get("_METIER_COMPLETE")
    try:
        answer = _recall_completion(completing) if completing else _recall_listing(arguments)
    except (OSError, ValueError, AttributeError):  # no working folder, no standard output: the command line says so
        answer = None
    if answer is not None:
        return _write_answer(answer)
    try:
        from .app import run, run_completion
    except KeyboardInterrupt:
        return 130
    return run_completion() if completing else run(arguments)


def _write_answer(answer: str) -> int:
    try:
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        sys.stdout.write(answer)
        sys.stdout.flush()
    except OSError as error:
        from .app import report_unwritable

        return report_unwritable(error)
    return 0


def _recall_listing(arguments: list[str]) -> str | None:
    if arguments == ["list"]:
        return recall_answer(memo_key("list", ""))
    if len(arguments) == 3 and arguments[0] == "--root" and arguments[1] and arguments[2] == "list":
        return recall_answer(memo_key("list", arguments[1]))
    return None


def _recall_completion(kind: str) -> str | None:
    """Answer for `metier [--root DIR] show|why|status PREFIX`, in the form click's scripts read."""
    line = os.environ.get("COMP_WORDS", "")
    if kind != "bash_complete" or any(mark in line for mark in _QUOTING):
        return None
    words, position = line.split(), int(os.environ.get("COMP_CWORD", ""))
    before, prefix = words[1:position], words[position] if position < len(words) else ""
    root = ""
    if before[:1] == ["--root"] and len(before) > 1:
        root, before = before[1], before[2:]
    if len(before) != 1 or before[0] not in TAKES_NAME or prefix.startswith("-"):
        return None
    names = recall_answer(memo_key("names", root))
    if names is None:
        return None
    return "".join(f"plain,{name}\n" for name in names.split("\n") if name and name.startswith(prefix))


def memo_key(kind: str, root: str) -> str:
    """Everything outside the file system that an answer depends on."""
    tty = kind == "list" and sys.stdout.isatty()
    values = [f"{name}={os.environ.get(name)}" for name in _VARIABLES]
    sites = [path for path in sys.path if path.endswith(_SITES)]
    code = os.stat(os.path.dirname(os.path.abspath(__file__)))
    parts = [
        __version__,
        str(code.st_mtime_ns),
        kind,
        root and os.path.abspath(root),
        os.getcwd(),
        str(os.get_terminal_size().columns) if tty else "",
    ]
    return "\0".join([*parts, *values, *sites])


def _index_path() -> str:
    home = os.environ.get("HOME") or os.path.expanduser("~")
    state = os.environ.get("METIER_HOME") or home + "/.metier"
    return os.path.abspath(home + state[1:] if state.startswith("~/") else state) + "/index.db"


def recall_answer(key: str) -> str | None:
    """The remembered answer, if everything it was made from is still the same."""
    path = _index_path()
    if not os.path.exists(path):
        return None
    from ...host.facts import query_index

    rows = query_index(path, INDEX_VERSION, "SELECT guards, answer FROM memos WHERE key = ?", (key,))
    if not rows:
        return None
    guards, answer = rows[0]
    return answer if _guards_hold(guards) else None


def _guards_hold(guards: str) -> bool:
    stat = os.stat
    for line in guards.split("\n"):
        path, _, expected = line.rpartition("\t")
        first = path[:1]
        if first == "/":
            try:
                status = stat(path)
            except (OSError, ValueError):
                if expected:
                    return False
                continue
            if expected != f"{status.st_ino} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_size}":
                return False
        elif first == "=":
            value = os.environ.get(path[1:])
            if expected != ("unset" if value is None else "set" if value else "empty"):
                return False
        elif first == "!":
            from ...host.facts import has_binary, search_path

            where = search_path(os.environ.get("PATH", ""), _index_path().rpartition("/")[0])
            if expected != str(has_binary(path[1:], where)):
                return False
    return True


if __name__ == "__main__":
    sys.exit(main())
