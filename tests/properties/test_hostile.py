"""Hostile arguments by the hundred thousand, by a model and by a person, through real shells: none of them runs.

The commands are those that authors write, with placeholders in every kind of quotes.  `METIER_SOAK=1` sends 500,000
arguments through bash and dash; `METIER_HOSTILE` sets another number.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.activate.shelling import activated, block
from tests.properties.test_commands import Bench

from metier.activate.render import CommandFailed
from metier.types.activation import InvokedBy
from metier.types.dialect import ShellRules
from metier.types.errors import MetierError
from metier.types.sandbox import ProcessResult

ARGUMENTS = int(os.environ.get("METIER_HOSTILE", "0")) or (500_000 if os.environ.get("METIER_SOAK") else 800)
EACH, PARTS = 4, 4
"""Arguments of one call, and parts into which the work is split, so that it can be spread over cores."""
BATCH = 50
"""Calls between two looks for the canary."""
WHERE = {"bash": "/bin/bash", "dash": "/bin/dash" if Path("/bin/dash").exists() else "/bin/sh"}

COMMANDS = (
    "echo $1", 'echo "$1"', "echo '$1'", "echo $ARGUMENTS", 'echo "$ARGUMENTS"', "printf '%s\\n' $@", "echo pre$1post",
    'echo "a $1 b $2"', "cat -- $1", 'cat -- "$1" 2>/dev/null', "grep -- '$1' file", 'grep -e "$1" file | wc -l',
    "head -n 1 -- $1", "sort -- $1 | head -1", 'x="$1"; echo "$x"', "x=$1; echo $x", 'for i in $ARGUMENTS; do echo "$i"; done',
    'case "$1" in a*) echo a;; *) echo "$2";; esac', "cat <<EOF\n$1\nEOF", "cat <<'EOF'\n$1\nEOF", "wc -c < file; echo $1",
    'if [ -n "$1" ]; then echo "$1"; fi', '[ "$1" = x ] && echo same', 'test -e "$1" || echo none', "echo $(echo $1)",
    'echo "$(printf %s "$1" | tr a b)"', "echo $1 | tr a-z A-Z", 'find . -name "$1"', "git log --oneline -- $1",
    'git status --short; echo "$1"', "echo ${@:2}", "set -- $ARGUMENTS; echo $#", 'export NOTE="$1"; env | grep NOTE',
    "echo a && echo $1 || echo $2", "(echo $1; echo $2)", "{ echo $1; }", "! grep -q -- $1 file", "echo \\$1 $1",
    'y=${x:-"$1"}; echo "$y"', "awk '{print $1}' file; echo $1", "sed -n 1p file; echo '$2'", "echo $1 > out.txt; wc -c < out.txt",
)  # fmt: skip
BITES = (
    "pwn", ";", "|", "&", "&&", "||", "\n", "\r", "$(pwn)", "`pwn`", "${x:-$(pwn)}", "$((a[$(pwn)]))", "<(pwn)", ">(pwn)", "'", '"', "\\", "\\\n",
    "$'\\x70wn'", "$1", "$@", "${1}", "{pwn,}", "~", "*", "?", "[", "]", "]]", "(", ")", "{", "}", "((", "))", "!", "#", " ", "\t", "\x0b", "\x1b",
    "EOF", "\nEOF\n", "-e", "-c", "-exec pwn ;", "--", "--upload-pack=pwn", "--output=pwned", "-Opwn", "a[$(pwn)]", "x=pwn", "PATH=.", "IFS=x",
    "function x { pwn; }", "x() { pwn; }", "esac", "fi", "done", ";;", "then", "%s", "%n", "\u2028", "\u00a0", "\u202e", "é", "\x7f", "\udcff",
    "${IFS}", "$IFS", "BASH_ENV=pwn", "() { :; }; pwn", "@(pwn)", "!(x)", "$[pwn]", "<<EOF", "<<<pwn", "2>&1", ">pwned", "\x00",
)  # fmt: skip


def hostile(chance: random.Random) -> str:
    return "".join(chance.choice(BITES) for _ in range(chance.randrange(1, 6))).replace("\0", "")


class Call:
    """A command with hostile arguments, as it was rendered to be run; refused ones are not run at all."""

    def __init__(self, chance: random.Random) -> None:
        self.command = chance.choice(COMMANDS)
        self.values = tuple(hostile(chance) for _ in range(EACH))
        self.by: InvokedBy = chance.choice(("user", "model"))
        self.runs: list[tuple[str, dict[str, str]]] = []

        def remember(source: str, env: dict[str, str], how: ShellRules, seconds: float) -> ProcessResult:
            self.runs.append((source, env))
            return ProcessResult(0, "")

        try:
            activated(block(self.command), self.values, "umbra", remember, self.by)
        except (CommandFailed, MetierError):
            self.runs = []


def spawn(bench: Bench, shell: str, source: str, env: dict[str, str]) -> None:
    around = {"PATH": str(bench.bin), "LANG": "C.UTF-8", "HOME": str(bench.work)}
    # A few arguments can't be passed at all (a lone surrogate in the wrong place): nothing runs then.
    subprocess.run(
        [WHERE[shell], "-c", source],
        env=around | env,
        cwd=bench.work,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )


def run_all(bench: Bench, calls: list[Call]) -> bool:
    """Whether all of them ran without the canary."""
    bench.fresh()
    for call in calls:
        for source, env in call.runs:
            for shell in WHERE:
                spawn(bench, shell, source, env)
    return not bench.pwned.exists()


def batches(part: int) -> Iterator[list[Call]]:
    chance = random.Random(1_000 + part)
    left = ARGUMENTS // (PARTS * EACH)
    while left > 0:
        yield [Call(chance) for _ in range(min(BATCH, left))]
        left -= BATCH


@pytest.mark.parametrize("part", range(PARTS))
def test_no_hostile_argument_runs_whoever_sent_it(tmp_path: Path, part: int):
    bench = Bench(tmp_path)
    ran = {"user": 0, "model": 0}
    total = 0
    for calls in batches(part):
        if not run_all(bench, calls):
            guilty = next((call for call in calls if not run_all(bench, [call])), calls[0])
            pytest.fail(f"{guilty.by}: {guilty.command!r} with {guilty.values!r} ran the canary")
        total += len(calls)
        for call in calls:
            ran[call.by] += bool(call.runs)
    # Refusing everything would pass too: it would be no use to anybody.
    assert min(ran.values()) >= total // 10, (ran, total)


def test_the_canary_is_found_where_it_does_run(tmp_path: Path):
    bench = Bench(tmp_path)
    for shell in WHERE:
        bench.fresh()
        spawn(bench, shell, "echo x; pwn", {})
        assert bench.pwned.exists()
