"""What authors write in commands: the ordinary is taken, and what would make code of an argument is refused."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path

import pytest
from tests.activate.shelling import SHELLS, Runner, ran, refusal

HOSTILE = "a[$(touch pwned)];`touch pwned`\"'|touch pwned&\n$(touch pwned)"
WORDS = (HOSTILE, "two words", "*", "~", "$HOME")
MORE = (("-v", "a[$(touch pwned)]"), ("a[$(touch pwned)]", "touch pwned"), ("touch", "pwned"))
SOAK = bool(os.environ.get("METIER_SOAK"))

TAKEN = [
    "git log $1",
    "git log --oneline -5 -- $1",
    "git -C docs status --short $1",
    'git diff "$1"..HEAD --stat',
    "git commit -m '$ARGUMENTS'",
    "gh pr view $ARGUMENTS",
    'gh issue list --search "$1" | head -5',
    'python3 scripts/x.py "$1"',
    "python3 -u scripts/x.py $ARGUMENTS",
    "python3 -m json.tool $1",
    "python3 -c 'import sys; print(sys.argv[1])' $1",
    "python3 scripts/x.py -c $1 -e $2",
    "node dist/cli.js --name $1",
    "bash scripts/x.sh $1",
    "bash -e scripts/x.sh $1",
    "sh -s -- \"$1\" <<'EOF'\necho hello\nEOF",
    "./scripts/x.sh $ARGUMENTS",
    'for f in $ARGUMENTS; do echo "$f"; done',
    'for f in $ARGUMENTS\ndo\n  wc -l -- "$f"\ndone',
    '[ -n "$1" ] && echo yes',
    "[ -z $1 ] || echo no",
    'if [ "$1" = "prod" ]; then echo careful; else echo fine; fi',
    'if test "$1" != "prod"; then echo fine; fi',
    '[[ -n "$1" ]] && echo yes',
    '[[ "$1" == pro* ]] && echo yes',
    "case $1 in staging) echo s;; prod|production) echo p;; *) echo '?';; esac",
    "case $1 in\n  sh|bash) echo shell ;;\n  python) echo python ;;\nesac",
    'echo "$(case $1 in a) echo "x";; *) echo y;; esac)"',
    'grep -rn "$1" . | head -5',
    "grep -c python3 $1",
    'echo "$1" | tr a-z A-Z',
    "echo $1 | sed 's/a/b/' | awk '{print NF}'",
    "echo $1 | python3 -c 'import sys; print(len(sys.stdin.read()))'",
    "echo $1 | bash scripts/x.sh",
    "awk -v name=\"$1\" '{ print name }' file",
    "awk -F, -vname=$1 '{ print name }' file",
    "awk -F : '{ print }' $1",
    "sed -n '1,5p' -- $1",
    'curl -s "https://example.com/$1"',
    "cat <<EOF\nHello $1, $HOME and $(date)\nEOF",
    "cat <<-'EOF' | wc -l\n\tnothing\n\tEOF\necho $1",
    "X=$1 printenv X",
    'x=$1; echo "$x"',
    'x="$1"\nif [ -n "$x" ]; then\n  echo "$x" && \\\n    echo again\nfi',
    "export WHO=$1; printenv WHO",
    "ls -l $1 2>/dev/null || echo none",
    "echo $1 > out.txt 2>&1",
    "cat < $1",
    "wc -l < $1",
    "find . -name $1",
    "find . -type f -exec grep -l $1 {} +",
    "find . -name '*.py' | xargs grep -n $1",
    "echo $ARGUMENTS | xargs -n1 echo",
    "timeout 5 git log $1",
    "env LANG=C git log $1",
    "time -p git log $1",
    "command -v git && echo $1",
    "cd $1 && ls -l",
    "make $1",
    "npm test -- $ARGUMENTS",
    "npm run build -- --mode $1",
    "docker ps --filter name=$1",
    "tar tzf $1",
    "jq \".$1\" package.json",
    "printf '%s\\n' $ARGUMENTS",
    "set -- $ARGUMENTS; echo \"$#\"",
    "source .venv/bin/activate && pytest -k $1",
    "$HOME/bin/tool $1",
    '"$(git rev-parse --show-toplevel)/scripts/x.sh" $1',
    "args=($ARGUMENTS); echo ${#args}",
    "# $1 is the branch\ngit log $1",
    "echo hi # $1",
    "echo $((1 + 2)); head -n 3 README.md",
    "echo ${UNSET:-nothing} $1",
    "f() { echo hello; }; f; echo $1",
    "read -r first rest <<EOF\n$1\nEOF\necho \"$first\"",
]  # fmt: skip
"""With plain arguments all of these are taken, in every dialect that has commands."""

REFUSED = [
    # it would choose the program
    "$1", "$ARGUMENTS", "$1 --version", '"$1" x', "./scripts/$1.sh", "bash scripts/$1.sh", "bash $1", "sh < $1",
    "python3 $1", "python3 -m $1", "python3 -W ignore $1", "node -r $1 x.js", "npx $1", "exec $1", "command $1",
    "env $1", "env -u X $1", "env X=1 $1", "nohup $1", "time $1", "sudo -u me $1", "timeout 5 $1", "nice -n 5 $1",
    "for f in $ARGUMENTS; do $f; done", 'for f in $ARGUMENTS; do "$f" -v; done', "x=$1; $x", 'x=$1; "${x}" y',
    "x=$(echo $1); $x", "echo $1; $_", "set -- $1; \"$@\"", "f() { \"$@\"; }; f $1", "find . -exec $1 {} ;",
    "echo $1 | xargs -I{} {} x", "echo $1 | xargs -I % %", "echo $1 | xargs env", "echo $1 | xargs git",
    "git $ARGUMENTS", "tar $ARGUMENTS", "if $1; then echo; fi", "! $1", "{ $1; }", "( $1 )", "echo x && \\\n  $1",
    "cd $1 && ./run.sh", "PATH=$1 git log", "export PATH=$1:$PATH; git log", "env PATH=$1 git log", "HOME=$1 git log",
    "LD_PRELOAD=$1 git log", "BASH_ENV=$1 bash x.sh", "PAGER=$1 git log", "GIT_SSH_COMMAND=$1 git fetch",
    "echo $1 > x.sh; sh x.sh", "echo $1 >x.sh && ./x.sh", "echo $1 > x.py; python3 x.py",
    # it would be code
    "eval $1", 'eval "echo $1"', "e'va'l $1", "x=$1; eval \"$x\"", "echo x && \\\n  eval $1", "command -p eval $1",
    "builtin eval $1", "time -p eval $1", "sh -c $1", 'bash -c "echo $1"', "bash -xc $1", "x=$1; bash -c \"$x\"",
    "busybox sh -c $1", "docker run -it img sh -c $1", "ssh host $1", "su -c $1", "watch $1", "trap $1 EXIT",
    "alias x=$1", "python3 -c $1", 'python3 -c "print($1)"', "perl -e $1", "perl -p -e $1", "perl -ne $1", "perl -M$1 x",
    "ruby -e $1", "node -e $1", "node --eval=$1", "deno eval $1", "php -r $1", "awk $1 file", 'awk "{print $1}" file',
    "sed $1 file", 'sed "s/a/$1/" file', "sed -e 's/a/b/' -e $1 f", "find . -exec python3 -c $1 ;",
    "uv run python -c $1", "env -S 'sh -c' $1", "sqlite3 db \"select '$1'\"", "psql -c $1", "vim -c $1", "crontab $1",
    "git bisect run $1", "git rebase -x $1 main", "git rebase --exec=$1 main", "git -c $1 log", "git submodule foreach $1",
    "git config core.pager $1", "git clone --upload-pack=$1 x", "git fetch --upload-pack $1", "rg --pre $1 x",
    "tar xf a --to-command $1", "tar xf a --checkpoint-action=exec=$1", "parallel $1", "for f do eval $1; done",
    "function f { eval $1; }; f", "f() { eval $1; }; f", "hash -p $1 ls", "jobs -x $1",
    # it would come out of a pipe as code
    "echo $1 | sh", "echo $1 | bash 2>/dev/null", "echo $1 | sh 3</dev/null", "echo $1 | bash -s", "echo $1 | sh -",
    "echo $1 | python3", "echo $1 | python3 -", "echo $1 | { python3; }", "echo $1 | ( sh )", "echo $1 |\n sh",
    "echo $1 | sh /dev/stdin", "echo $1 | sed -f -", "echo $1 | awk -f /dev/stdin", "echo $1 | xargs sh -c",
    "echo $1 | xargs python3", "echo $1 | xargs -I{} sh -c {}", "sh <<EOF\necho $1\nEOF", "bash <<< $1",
    "python3 <<EOF\nprint($1)\nEOF", "cat <<EOF | sh\n$1\nEOF", "bash <(echo $1)", "python3 <(echo $1)", "tee >(sh) <<< $1",
    "source <(echo $1)", ". /dev/stdin <<EOF\n$1\nEOF", "echo $1 | while read x; do $x; done", "echo $1 | tee >(bash)",
    "echo $1 | sqlite3 db", "exec <<< $1; sh", "x=$1; sh <<EOF\n$x\nEOF", "sh <<EOF\n$(echo $1)\nEOF",
    "f() { sh; }; echo $1 | f",
    # the reader can't give it
    "cat <<'EOF'\n$1\nEOF", "echo `echo $1`", "x=$1; echo `eval $x`", "echo ${x:-$1}", "echo $'$1'", "echo \\$1", "echo $(($1 + 1))",
    "echo $[$1]", "(( x = $1 ))", "echo '$1", 'echo "$1', "echo $(echo $1", "cat <<EOF\n$1", "echo $$1",
    "x=$1; cat <<EOF\n${y:-$(eval $x)}\nEOF", 'x=$1; echo "${y:-$(eval $x)}"', "cat <<EOF\n$(eval\n$1)\nEOF",
    # it would be a name
    "read $1", "wait -p $1", "read -p x $1", "unset $1", "export $1", "declare $1", "printf -v $1 x", "local $1",
]  # fmt: skip
"""All of these are refused, whatever the argument is."""

RECKONING = [
    "[[ $1 -eq 1 ]]", "x=$1; [[ $x -eq 1 ]]", "[[ -n a && 3 -eq $1 ]]", "[ -v $1 ]", "test -v $1", "[ $1 $2 ]",
    "[ $ARGUMENTS ]", "[ -n $ARGUMENTS ]", "x=$1; [ -n $x ]", "let x=$1", "declare -i n=$1", "declare -i n; n=$1",
    "declare -a n=$1", "declare -n n=$1; echo $n", "x=$1; echo $((x))", "x=$1; (( x ))", "x=$1; echo ${y:x}",
    "x=$1; echo ${!x}", "x=$1; echo ${x@P}", "x=$1; echo ${y[x]}", "read x <<EOF\n$1\nEOF\necho $((x))",
    "for x in $ARGUMENTS; do (( x > 3 )); done", "a=([$1]=x)",
]  # fmt: skip
"""Taken with plain words and numbers; with anything else, some shell would run it."""


@pytest.mark.parametrize("command", TAKEN)
def test_an_ordinary_command_is_taken(command: str):
    assert refusal(command, ("main", "two")) == ""
    assert refusal(command, ("feature/x-1", "two"), by="model") == ""


@pytest.mark.parametrize("command", REFUSED)
def test_a_command_that_would_make_code_of_an_argument_is_refused(command: str):
    assert refusal(command, ("main", "two"))
    assert refusal(command, WORDS)


@pytest.mark.parametrize("command", RECKONING)
def test_a_command_that_reckons_takes_plain_values_only(command: str):
    assert refusal(command, ("3", "4")) == ""
    assert refusal(command, (HOSTILE, "x"))


@pytest.mark.parametrize("command", ["[ $1 $2 ]", "[ $ARGUMENTS ]", "test ! $ARGUMENTS", "x=$2; [ $1 $x ]"])
def test_an_argument_is_no_operator_of_a_test(command: str):
    assert refusal(command, ("-v", "a[$(touch pwned)]"))


@pytest.mark.parametrize("command", [*TAKEN, *RECKONING])
def test_no_shell_runs_what_an_argument_says(command: str, tmp_path: Path):
    tries = [WORDS, *(MORE if SOAK else ())]
    for shell, words in product(SHELLS, tries):
        (tmp_path / "work").mkdir(exist_ok=True)
        ran(command, words, Runner(tmp_path / "work", shell, "/usr/bin:/bin"))
        assert not list(tmp_path.rglob("pwned")), shell


OPTIONS = [
    ("git log $1", "--output=x", False), ("git clone $1 x", "--upload-pack=touch pwned;", True),
    ("git clone $1 x", "--upload-p=touch pwned;", True), ("git grep $1", "-Otouch", True),
    ("tar xf a.tar $1", "--checkpoint-action=exec=touch pwned", True), ("tar xf a.tar $1", "--to-com=touch pwned", True),
    ("tar cf a.tar $1", "-Itouch", True), ("rsync a b $1", "-etouch", True), ("sed 's/a/b/' $1", "-e1e touch pwned", True),
    ("sort $1", "--compress-prog=touch", True), ("rg x $1", "--pre=touch", True), ("find . $1", "-exec", True),
    ("find . $1", "-delete", True), ("find . $1", "-name", False), ("make $1", "--eval=x", True), ("make $1", "-fx", True),
    ("perl -pe 's/a/b/' $1", "-esystem", True), ("perl -ne 'print' $1", "touch pwned|", True),
    ("wget $1", "--use-askpass=touch", True), ("man $1", "-Ptouch", True), ("echo $1", "--exec", False),
    ("x=$1; find . $x", "-exec", True), ("echo $1 | xargs find .", "-exec", True), ("printf $1 x", "-vx", True),
]  # fmt: skip


@pytest.mark.parametrize(("command", "value", "refused"), OPTIONS)
def test_an_option_that_runs_something_is_refused_whoever_typed_it(command: str, value: str, refused: bool):
    assert bool(refusal(command, (value,))) is refused


MODEL = [
    ("git log $1", True), ("git log -- $1", False), ('git log "$1"', True), ("gh pr view $ARGUMENTS", True),
    ("git log x$1", False), ("x=$1; git log $x", True), ('x=$1; git log -- "$x"', False), ("echo $1", False),
    ("for f in $ARGUMENTS; do git log $f; done", True), ("for f in $ARGUMENTS; do git log -- $f; done", False),
    ('[ -n "$1" ] && echo yes', False), ("case $1 in -x) echo x;; esac", False), ("X=$1 printenv X", False),
    ("echo $1 | xargs git log --", False), ("git log --grep=$1", False), ('x="$1"; git log ${x}', True),
    ("python3 x.py $1", True), ("python3 x.py -- $1", False),
]  # fmt: skip


@pytest.mark.parametrize(("command", "refused"), MODEL)
def test_an_option_from_a_model_or_a_schedule_needs_the_authors_two_dashes(command: str, refused: bool):
    assert refusal(command, ("--output=x",), by="user") == ""
    assert bool(refusal(command, ("--output=x",), by="model")) is refused
    assert bool(refusal(command, ("--output=x",), by="schedule")) is refused
    assert refusal(command, ("plain",), by="model") == ""


DERIVED = [
    ("BRANCH=\"$1\"; git fetch . \"${BRANCH#origin/}\"", "origin/--upload-pack=touch pwned;"),
    ("git fetch . \"$(basename \"$1\")\"", "x/--upload-pack=touch pwned;"),
    ('x=$1; git fetch . "${x##*/}"', "a/b/--upload-pack=pwn"), ('x=$1; git fetch . "${x#*/}"', "a/--upload-pack=./pwn/x"),
    ('x=$1; git fetch . "${x%b}"', "--upload-pack=./pwnb"), ('x=$1; git fetch . "${x#??}"', "ab--upload-pack=./pwn"),
    ('x=$1; git fetch . "${x#a*}"', "ab--upload-pack=./pwn"), ('x=$1; git fetch . "${x:2}"', "ab--upload-pack=./pwn"),
    ("x=$1; git fetch . ${x#a}", "ab --upload-pack=./pwn"),
    ("printf '%s\\n' \"$1\" | while read -r l; do git fetch . \"$l\"; done", "\n--upload-pack=touch pwned;"),
    ("for f in $1; do git fetch . $f; done", "a\n--upload-pack=./pwn"),
    ("IFS=,; for f in $1; do git fetch . $f; done", "a,--upload-pack=./pwn"),
    ("x=\"$1\"; git fetch . $x", "main --upload-pack=./pwn"), ("x=\"$1\"; git fetch . $x", "*"),
    ("x=$1; x=$(cat list); git fetch . \"$x\"", "main"), ("x=$1; read -r x < list; git fetch . \"$x\"", "main"),
    ("x=$1; . ./lib.sh; git fetch . \"$x\"", "main"), ("x=$1; : ${x:=--all}; git fetch . \"${x/a/b}\"", "main"),
    ("git grep hi $(echo \"$1\" | tr , ' ')", "x,-O./pwn"), ("echo \"$1\" | xargs git grep hi", "\"-O./pwn\""),
    ("find $(echo \"$1\" | tr , ' ')", ".,-exec,touch,pwned,;"), ("echo \"$1\" | xargs find", ". \"-exec\" touch pwned \";\""),
    ("echo \"$1\" | xargs find --", ". \\-exec touch pwned \\;"), ("find -- $1 -name x", "-delete"),
    ("find . -maxdepth 0 -exec git fetch . $1 \\;", "--upload-pack=touch pwned;"), ("install $1 a b", "--strip-prog=./pwn"),
    ("cat $1 | xargs tar cf o.tar", "list"), ("sort \"$(cat $1)\"", "list"), ("make \"$(cat $1)\"", "list"),
    ("make -- \"$(cat $1)\"", "list"), ("make T=$(cat $1)", "list"), ("x=$(cat $1); npm test \"$x\"", "list"),
    ("man $1", "--config=x"), ("curl $1 https://example.com", "--engine=./x.so"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "value"), DERIVED)
def test_what_the_shell_makes_of_an_argument_is_no_option_that_runs_something(command: str, value: str, tmp_path: Path):
    assert refusal(command, (value,), by="model")
    assert refusal(command, (value,))
    ran(command, (value,), Runner(tmp_path, "bash"))
    assert not (tmp_path / "pwned").exists()


SURE = [
    "x=\"$1\"; git fetch . $x", "x=$1; git log \"${x}\"..HEAD", "FILE=$1; echo \"FILE: $FILE\"; git log \"$FILE\"",
    "for f in $ARGUMENTS; do git blame \"$f\"; done", "git fetch . -- \"$(basename \"$1\")\"",
    "git diff $(git merge-base main $1) --stat", "git log -\"$(git ls-files $1 | wc -l)\"", "git log $(git rev-parse --verify $1)",
    "git ls-files $1 | xargs wc -l", "rg -l $1 | xargs cat", "git diff --name-only $1 | xargs -I{} git log -1 --format=%s -- {}",
    "x=$(basename \"$1\"); grep -rn \"$x\" src", "find src -name $1 -exec git log -1 {} \\;", "ls $1 | xargs awk '{ print }'",
    'BRANCH="$1"; git fetch . "${BRANCH#origin/}"', 'x="$1"; git log "${x##*/}" -1', 'x="$1"; git log "${x%.md}"',
    "name=$(basename $1); cat \"docs/$name\"", "x=$1; git log \"${x:-main}\" -- a || git log \"$x\"",
]  # fmt: skip


@pytest.mark.parametrize("command", SURE)
def test_what_is_known_to_be_no_option_is_taken_from_anyone(command: str):
    assert refusal(command, ("main",), by="model") == ""
    assert refusal(command, ("docs/x-1.md",)) == ""


def test_a_person_may_give_a_program_that_runs_nothing_what_the_shell_works_out():
    for command in (
        'git log "$(cat $1)"',
        'x=$(cat $1); ./scripts/x.sh "$x"',
        "cat $1 | xargs rm",
        "echo $1 | xargs git log",
    ):
        assert refusal(command, ("list",)) == ""
        assert "write `--` before it" in refusal(command, ("list",), by="model")


def test_a_second_word_behind_an_option_may_be_a_name():
    assert refusal("read -p $1 x", ("name?",)) == ""
    assert refusal("read -p $ARGUMENTS", ("name?", "a[$(touch pwned)]"))


def test_a_later_word_of_several_is_an_option_too():
    assert refusal("git log x$ARGUMENTS", ("a", "--output=x"), by="model")
    assert refusal("git log x$ARGUMENTS", ("a", "b"), by="model") == ""
