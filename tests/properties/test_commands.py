"""What must hold for every body and every argument: nothing runs that the author did not write, nothing else changes.

Real shells run what the reader takes, with a program `pwn` on the path that only an argument ever names.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from tests.activate.shelling import SHELLS, activated, block

from metier.activate.render import CommandFailed, CommandRunner
from metier.activate.template import PlaceholderForms, TemplateValues, fill_pieces, split_pieces
from metier.dialects import DIALECTS
from metier.types.activation import Activation, InvokedBy
from metier.types.dialect import ShellRules
from metier.types.sandbox import ProcessResult

EXAMPLES = int(os.environ.get("METIER_FUZZ", "0"))
SOAK = bool(os.environ.get("METIER_SOAK"))
TOOLS = ("cat", "tr", "head", "wc", "env", "xargs", "sed", "awk", "find", "grep", "sh", "bash", "sort", "git", "perl")


def bounded(examples: int) -> settings:
    return settings(
        max_examples=EXAMPLES or (examples * 20 if SOAK else examples // 3),
        derandomize=not (SOAK or EXAMPLES),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def _kept_small() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    resource.setrlimit(resource.RLIMIT_CPU, (5, 5))


class Bench:
    """A folder where anything may be done, and a path with a few real programs and the canary on it."""

    def __init__(self, base: Path) -> None:
        self.work, self.bin = base / "work", base / "bin"
        self.bin.mkdir()
        for name in TOOLS:
            if found := shutil.which(name):
                (self.bin / name).symlink_to(os.path.realpath(found))
        canary = self.bin / "pwn"
        canary.write_text(f"#!/bin/sh\n: > '{base}/pwned'\n")
        canary.chmod(0o755)
        self.pwned = base / "pwned"
        self.fresh()

    def fresh(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        self.pwned.unlink(missing_ok=True)  # or whatever is tried after a failure would fail too
        self.work.mkdir()
        (self.work / "file").write_text("one\ntwo\n")
        for part in ("objects", "refs"):
            (self.work / ".git" / part).mkdir(parents=True)
        (self.work / ".git" / "HEAD").write_text("ref: refs/heads/main\n")

    def with_(self, shell: str, kept: list[ProcessResult] | None = None) -> CommandRunner:
        """Runs commands with that shell, and keeps how they ended."""

        def run(source: str, env: dict[str, str], how: ShellRules, seconds: float) -> ProcessResult:
            ran = self.run(shell, source, env)
            if kept is not None:
                kept.append(ran)
            return ran

        return run

    def run(self, shell: str, source: str, env: dict[str, str]) -> ProcessResult:
        with subprocess.Popen(
            [f"/bin/{shell}", "-c", source],
            env={"PATH": str(self.bin), "LANG": "C.UTF-8", "HOME": str(self.work)} | env,
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_kept_small,
        ) as done:
            try:
                out, _ = done.communicate(timeout=60)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(done.pid, signal.SIGKILL)
        return ProcessResult(done.returncode, out.decode("utf-8", "surrogateescape"))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("bench"))


# Commands as nobody would write them: words, quotes, placeholders and operators in any order.  They really run, so
# none of these words can make a loop without an end, or a function that calls itself.

HOLES = st.sampled_from(
    ["$1", "$2", "$ARGUMENTS", "$@", "${@:2}", '"$1"', "'$1'", '"$ARGUMENTS"', "$9", "x$1y", "$1$2"]
)
NAMES = st.sampled_from(
    ["echo", "printf '%s,'", "cat", "tr a b", "head -1", "x=", "x+=", "y=$x", "export z=", "[ -n", "[ -z", "[", "]", "test",
     "[[", "]]", "-eq", "-v", "=", "==", "-a", "let", "declare -i", "declare -a", "declare -n", "read x", "unset x", "env",
     "xargs", "xargs -I{}", "sed", "sed -n p", "awk '{print}'", "find .", "-exec", "-name", "grep x", "sh", "bash", "sh -s",
     "git log", "git", "perl -ne print", "perl -e", "eval", "command", "exec", "time -p", "set --", "trap", "local", "let x=",
     "file", "--", "-", "-c", "-e", "-f", "-s", "in", "for i in", "do", "done", "if", "then", "else", "fi", "case",
     "esac", "a)", "*)", "{", "}", "!", "EOF", "mapfile", "source", ".", "/dev/stdin", "printf -v", "cd",
     "tee x", "cp", "mv x", "ln -s", "./x", "bash x", "make", "make -f", "$SHELL", "/bin/?h", "{sh,}", "sed s/a/b/e", "sed 1e", "nice",
     "awk '{print|\"sh\"}'", "awk '{system($0)}'", "read -r PATH", "for PATH in", "printf -v PATH", "PATH=", "find . -exec", "git -C", "git fetch .", "git grep x",
     "xargs git fetch .", "xargs find", "basename", "sort -o x", "uniq - x", "bash < x", "y=$x", "IFS=,", "--", "> x.txt", "bash < x.txt"],
)  # fmt: skip
GLUE = st.sampled_from(
    [" ", " ", " ", " ", " ", "\n", ";", "; ", " | ", " && ", " || ", " & ", "|&", "(", ")", "$(", ")", '"', "'", "`", "\\",
     "\\\n", " \\\n ", "#", " # ", "$((", "))", "((", "${x", "}", "${x:-", "${!x}", "${x@P}", "${x[0]}", "$x", '"$x"', "$X",
     "$HOME", "$i", "$#", "$_", "$?", "$'", "$\"", "$[", "]", "<", ">", ">>", " 2>&1", " 2>", "<<EOF\n", "<<'EOF'\n",
     "\nEOF\n", "<<<", "<(", ">(", "<<-E\n", "\nE\n", ";;", "\t", "\r", "~", "*", "{a,", "=", "=(", "é", "+="],
)  # fmt: skip
SOUP = st.lists(st.one_of(HOLES, HOLES, NAMES, NAMES, GLUE, GLUE, GLUE), min_size=1, max_size=14).map("".join)
SHAPES = st.sampled_from(
    ["x=@; {}", "echo @ | {}", "for i in @; do {}; done", "f() {{ {}; }}; f @", "case @ in *) {};; esac", "{} <<EOF\n@\nEOF",
     "if [ -n @ ]; then {}; fi", "(echo @; {})", "echo \"$(echo @; {})\"", "{} && \\\n  {} @", "set -- @; {}", "x=@\n{}\n{}",
     "read x <<EOF\n@\nEOF\n{}", "cat <<EOF | {}\n@\nEOF", "{} @ 2>/dev/null", "! {} @", "x=(@); {}"],
)  # fmt: skip


@st.composite
def shaped(draw: st.DrawFn) -> str:
    """An ordinary shape with something odd in it."""
    parts = st.lists(st.one_of(NAMES, NAMES, HOLES, GLUE), min_size=1, max_size=5).map(" ".join)
    return draw(SHAPES).replace("{{", "{").replace("}}", "}").replace("@", draw(HOLES)).replace("{}", draw(parts))


COMMANDS = st.one_of(SOUP, shaped())
HOSTILE = st.sampled_from(
    ["pwn", ";pwn", "; pwn;", "$(pwn)", "`pwn`", "a[$(pwn)]", "x[`pwn`]+1", "'; pwn; '", '"; pwn; "', "\npwn\n", "|pwn",
     "pwn|", "&pwn&", "EOF\npwn", "E\npwn\n", "\\", "\\\n", "'", '"', "-exec", "-c", "-e", "-epwn", "--eval=pwn", "-v", "=",
     "{pwn,}", "*", "?", "~", "-", "--", "", " ", "x y", "$x", "${x}", "$1", "$((pwn))", "!pwn", "#pwn", "<(pwn)", ">pwned",
     "(pwn)", "{ pwn; }", "PATH=.", "x=pwn", "x() { pwn; }", "alias x=pwn", "1e pwn", "system(\"pwn\")", "BEGIN{system(\"pwn\")}",
     "exec('pwn')", "([0]=$(pwn))", "[$(pwn)]=1", "a\tb", "\u2028pwn", "é", "\u202e", "%s", "%n", "sh", "bash", "then", "esac",
     ")", "))", "}", "]]", "\x1b[0m", "$'\\x70wn'", "-Ipwn", "--checkpoint-action=exec=pwn", "git", "-ipwn", "\r", "\x7f",
     "--upload-pack=pwn", "x --upload-pack=pwn", "a/--upload-pack=pwn", "-Opwn", ". -exec pwn ;", "x,-Opwn", "--upload-pack=pwn;x", "5"],
)  # fmt: skip
VALUES = st.lists(st.one_of(HOSTILE, HOSTILE, st.text(max_size=8)), min_size=0, max_size=4).map(tuple)


@bounded(150)
@given(COMMANDS, VALUES, st.sampled_from(["user", "user", "model"]))
@example("x=$1; [[ $x -eq 1 ]]", ("a[$(pwn)]",), "user")
@example("sh <<EOF\n$1\nEOF", ("pwn",), "user")
@example("echo $1 | { perl; }", ("system('pwn')",), "user")
@example("[ $1 $2 ]", ("-v", "a[$(pwn)]"), "user")
@example("echo $1 | bash 2>/dev/null", ("pwn",), "user")
@example('case $1 in *) echo "x $2";; esac', ("x", "$(pwn)"), "user")
@example("echo $1 | tee x; bash x", ("pwn",), "model")
@example("echo $1 > x; mv x y; bash y", ("pwn",), "model")
@example("echo $1 | awk '{print | \"sh\"}'", ("pwn",), "model")
@example("echo $1 | sed 's/^/echo /e'", (";pwn",), "model")
@example("echo $1 | /bin/?h", ("pwn",), "model")
@example("echo $1 | bash //dev/stdin", ("pwn",), "model")
@example("echo $1 | {sh,}", ("pwn",), "model")
@example("perl -ne print echo $1", ("|pwn",), "user")
@example('x="$1"; git fetch . $x', ("main --upload-pack=pwn",), "user")
@example('x="$1"; git fetch . "${x#a/}"', ("a/--upload-pack=pwn",), "user")
@example("echo $1 | xargs find", (". -exec pwn ;",), "user")
@example("echo $1 | sort -o x; bash x", ("pwn",), "user")
@example("echo $1 > x.txt; bash < x.txt", ("pwn",), "user")
@example('echo "$(case x in *) echo "$1";; esac)"', ("$(pwn)",), "user")
def test_no_command_runs_that_the_author_did_not_write(
    bench: Bench, command: str, values: tuple[str, ...], by: InvokedBy
):
    assume("\0" not in "".join(values))
    for shell in SHELLS:
        bench.fresh()
        activated(block(command), values, "umbra", bench.with_(shell), by)
        assert not bench.pwned.exists(), (shell, command, values)
        assert not (bench.work / "pwned").exists() or ">" in command, (shell, command, values)


@bounded(120)
@given(COMMANDS)
@example("X='$1' env | grep $1")
@example("cat <<EOF\n$1 ${HOME}\nEOF")
def test_with_harmless_arguments_a_command_does_what_it_would_with_their_text_in_it(bench: Bench, command: str):
    assume(not _would_join(command))
    runs: list[tuple[str, dict[str, str]]] = []

    def remember(source: str, env: dict[str, str], how: ShellRules, seconds: float) -> ProcessResult:
        runs.append((source, env))
        return ProcessResult(0, "")

    activated(block(command), ("abc",), "umbra", remember)
    assume(runs and runs[0][1])
    reads = DIALECTS["umbra"].authoring.arguments
    textual = fill_pieces(split_pieces(f"{command}\n", PlaceholderForms(reads)), reads, TemplateValues(("abc",)))
    for shell in SHELLS:
        outcomes = []
        for source, env in (runs[0], (textual, {})):
            bench.fresh()
            ran = bench.run(shell, source, env)
            outcomes.append((ran.status, _without_ours(ran.stdout)))
        assert outcomes[0] == outcomes[1], (shell, runs[0][0], textual)


_would_join = re.compile(r"\$[A-Za-z_]\w*\$").search
"""A variable right before another: pasted there, text would be read as part of its name, `$x$1` as `$xabc`."""


def _without_ours(text: str) -> list[str]:
    """Output as it is but for the names that only the rewritten command has in its environment."""
    return sorted(line for line in text.split("\n") if not line.startswith(("METIER_ARG", "_=")))


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
ONE = ['"$1"', "'$1'", "a$1b", '"a $1 b"', "'a $1 b'", 'a"$1"b', "'\"$1\"'", "\"'$1'\"", "$1"]


@bounded(60)
@given(st.sampled_from(ONE), st.lists(st.one_of(WORDS, HOSTILE).filter(bool), min_size=1, max_size=3))
def test_a_value_reaches_the_program_exactly_whatever_quotes_are_around_it(bench: Bench, form: str, words: list[str]):
    said = {"'\"$1\"'": '"@"', "\"'$1'\"": "'@'"}.get(form, form.replace("$1", "@").strip("\"'").replace('"', ""))
    for shell in SHELLS:
        ran: list[ProcessResult] = []
        activated(block(f"printf '%s\\0' {form}"), tuple(words), "umbra", bench.with_(shell, ran))
        assert ran[0].stdout == said.replace("@", words[0]) + "\0"


@bounded(60)
@given(st.lists(st.one_of(WORDS, HOSTILE).filter(bool), max_size=5))
def test_unquoted_arguments_are_words_quoted_ones_are_one_and_missing_ones_vanish(bench: Bench, words: list[str]):
    joined = " ".join(words)
    wanted = {
        "$ARGUMENTS": words,
        "$@": words,
        "${@:2}": words[1:],
        "${@:2:1}": words[1:2],
        '"$ARGUMENTS"': [joined],
        "'${@:2}'": [" ".join(words[1:])],
        "$7": [],
        '"$7"': [""],
        "$1 $2": words[:2],
    }
    for form, expected in wanted.items():
        ran: list[ProcessResult] = []
        activated(block(f"printf '%s\\0' start {form}"), tuple(words), "umbra", bench.with_("sh", ran))
        assert ran[0].stdout.split("\0")[1:-1] == expected, form


# Bodies: what stands between placeholders and commands is the author's, to the byte.

BODY = st.lists(
    st.one_of(
        st.sampled_from(
            ["$1", "$0", "$ARGUMENTS", "$ARGUMENTS[1]", "${@:2}", "$@", "\\$1", "\\\\$1", "${SKILL_DIR}", "${CLAUDE_SKILL_DIR}",
             "!`echo $1`", " !`x`", "```!\necho hi\n```\n", "```\n!`x`\n```\n", "<!-- !`x` -->", "scripts/x", "`", "\n", "\n\n",
             "$name", "$", "${X}", "\u202e", "\U000e0041", "é", "\x00", "~~~\n", "> ", "- ", "\t", "\r"]
        ),
        st.text(max_size=10),
    ),
    max_size=12,
).map("".join)  # fmt: skip


def author_text(activation: Activation) -> str:
    """What the author wrote, from what was rendered and the record of every substitution."""
    out, last = [], 0
    for one in activation.inserts:
        assert activation.text[one.at : one.at + len(one.value)] == one.value
        out += [activation.text[last : one.at], one.source]
        last = one.at + len(one.value)
    return "".join(out) + activation.text[last:]


@bounded(400)
@given(
    st.sampled_from(sorted(DIALECTS)),
    BODY,
    st.one_of(st.text(max_size=30), VALUES),
    st.sampled_from(["", "untrusted", "off"]),
)
def test_no_byte_outside_a_placeholder_changes_and_the_record_shows_every_one_that_did(
    dialect: str, body: str, arguments: str | tuple[str, ...], off: str
):
    def say(source: str, env: dict[str, str], how: ShellRules, seconds: float) -> ProcessResult:
        return ProcessResult(0, "$1 !`pwn` $ARGUMENTS ```!\npwn\n```\n")

    def once() -> Activation | None:
        try:
            return activated(body, arguments, dialect, say, off=off, names=("name",))
        except CommandFailed:
            return None

    first = once()
    assume(first is not None)
    assert first is not None
    assert once() == first
    assert author_text(first) == body
