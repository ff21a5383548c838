"""Who may call what."""

import pytest

from metier.agent.agent_files import parse_rules
from metier.agent.permissions import Permission
from metier.types.activation import ToolCall


def command(text: object) -> ToolCall:
    return ToolCall("c", "run_command", {"command": text})


def permission(allow: tuple[str, ...] = (), ask: tuple[str, ...] = (), deny: tuple[str, ...] = ()) -> Permission:
    return Permission(parse_rules(allow), parse_rules(ask), parse_rules(deny))


@pytest.mark.parametrize(
    ("rule", "typed", "covered"),
    [
        ("run_command(git status*)", "git status --short", True),
        ("run_command(git *)", "git", True),
        ("Bash(git:*)", "git diff", True),
        ("Bash(git diff:*)", "git push", False),
        ("run_command(git *)", "gitk", False),
        ("run_command(git *)", "git status; rm -rf /", False),
        ("run_command(git *)", "git status && curl evil", False),
        ("run_command(git *)", "git log | sh", False),
        ("run_command(git *)", "git log $(rm x)", False),
        ("run_command(git *)", "git log `rm x`", False),
        ("run_command(git *)", "git log > /etc/passwd", False),
        ("run_command(git *)", "git log\nrm x", False),
        ("run_command(git *)", "git 'unbalanced", False),
        ("run_command(echo *)", 'echo "$\\\n(rm x)"', False),
        ("run_command(echo *)", 'echo "a$\\\n\\\n(rm x)"', False),
        ("run_command(echo *)", "echo $\\\n(rm x)", False),
        ("run_command(echo *)", "echo $\\\n'x'", False),
        ("run_command(echo *)", "echo $[x]", False),
        ("run_command(git *)", "git log \\\n  --oneline", True),
        ("run_command(make test)", "make test", True),
        ("run_command", "anything at all; really", True),
        ("run_command(*)", "anything at all; really", True),
    ],
)
def test_a_pattern_for_one_command_does_not_cover_several(rule, typed, covered):
    says, _ = permission(allow=(rule,)).says(command(typed))

    assert (says == "allow") == covered


@pytest.mark.parametrize(
    "typed",
    [
        "rm -rf x",
        "ls; rm -rf x",
        "true && rm  -rf x",
        "echo $(rm -rf x)",
        ["rm", "-f", "x"],
        "\\rm -f x",
        "'rm' -f x",
        'r"m" -f x',
        "r\\\nm -f x",
        "X=1 rm -f x",
        "/bin/rm -f x",
        "2>out rm -f x",
        "env X=1 rm -f x",
        "ls | xargs rm",
        "find . -exec rm {} +",
        "sh -c 'ls; rm -f x'",
        "if true; then rm -f x; fi",
        "f() { rm -f x; }; f",
        'echo "a `rm -f x` b"',
        "echo \"$(rm 'x y')\"",
        "ls # it's\nrm -f x #'",
    ],
)
def test_what_is_forbidden_is_forbidden_wherever_it_stands_in_a_command(typed):
    says, why = permission(allow=("run_command",), deny=("run_command(rm *)",)).says(command(typed))

    assert says == "deny"
    assert "rm *" in why


@pytest.mark.parametrize(
    "typed",
    [
        "$X -f x",
        "{rm,-f,x}",
        "/bin/r? -f x",
        "cat <<E\n'\nE\nrm -f x #'",
        "$'rm' -f x",
        "$\\\n'\\x72m' -f x",
        "$\\\nX -f x",
        "cat <\\\n<E\n'\nE\nrm -f x #'",
        "echo `echo '` ; rm -f x; echo `'`",
        "echo `echo # `; rm -f x\n`",
        "((2 #1)); rm -f x\n))",
        "[[ a =~ (#) ]]; rm -f x\n)",
        "X='a[$(rm -f x)]'; echo $((X))",
        "rm 'unbalanced",
        "echo rm -f x | sh",
        "eval $X",
        "case x in x) rm -f x;; esac; '",
    ],
)
def test_what_may_turn_out_to_be_forbidden_is_asked_for(typed):
    says, _ = permission(allow=("run_command",), deny=("run_command(rm *)",)).says(command(typed))

    assert says in ("ask", "deny")


@pytest.mark.parametrize(
    "typed",
    [
        "env -Srm\\ -f\\ x",
        "flock . rm -f x",
        "setpriv rm -f x",
        "taskset 1 rm -f x",
        "chrt -o 0 rm -f x",
        "prlimit --nofile=100 rm -f x",
        "script -qc 'rm -f x' /dev/null",
        "ld.so /bin/rm -f x",
        "/lib64/ld-linux-x86-64.so.2 /bin/rm -f x",
        "rbash -c 'rm -f x'",
        "start-stop-daemon --start --exec /bin/rm -- -f x",
        "a-program-of-somebodys --then rm -f x",
        "echo 'r''m -f x' | bash /dev/stdin",
        "echo 'r''m -f x' | bash -s a",
        "echo 'r''m -f x' | . /dev/stdin",
        "echo 'r''m -f x' | python3 -",
        "make -f /dev/stdin <<< 'a:;r''m -f x'",
        "hash -p /bin/r''m zz; zz x",
        "compgen -C 'r''m -f x'",
        "X=1 compgen -C '$(printf r)m x'",
        "if true; then hash -p /bin/[r]m zz; fi; zz x",
        "mapfile -C 'rm -f x;:' -c 1 <<< a",
        "PS4='$(rm -f x)'; set -x; :",
        "BASH_ENV=y bash -c :",
        "X='a[$(rm -f x)]'; test -v X",
        'perl -e \'system("r"."m x")\'',
        'awk \'BEGIN{system("r" "m x")}\'',
        "git -c alias.x='!rm -f x' x",
        "echo 'r''m -f x' > z.sh; bash z.sh",
        "echo 'r''m -f x' | tee z.sh; ./z.sh",
        "ln -s /bin/rm zz; ./zz x",
    ],
)
def test_no_program_that_starts_others_carries_a_forbidden_one_past_a_rule(typed):
    assert permission(allow=("run_command",), deny=("run_command(rm *)",)).says(command(typed))[0] in ("ask", "deny")


@pytest.mark.parametrize(
    "typed",
    [
        "test -v 'a[$(id)]'",
        "[ -v 'a[$(id)]' ]",
        "[[ -v 'a[$(id)]' ]]",
        "printf -v 'a[$(id)]' x",
        "printf '-va[$(id)]' x",
        "read 'a[$(id)]'",
        "declare -a 'x=($(id))'",
    ],
)
def test_a_rule_for_a_word_of_the_shell_does_not_cover_what_it_runs_between_brackets(typed):
    rules = permission(allow=tuple(f"run_command({name} *)" for name in ("test", "[[]", "printf", "read", "declare")))

    assert rules.says(command(typed))[0] == "ask"
    assert rules.says(command("test -f 'a[1]'"))[0] == "allow"
    assert rules.says(command("printf '[%s]' a"))[0] == "allow"


@pytest.mark.parametrize(
    "typed",
    [
        "npm test",
        "python3 -m pytest -q 2>&1 | tail -n 5",
        "bash scripts/build.sh > log.txt 2>&1",
        "python -c 'print(1)'",
        "awk -F'|' '{print $1}' x",
        "PYTHONPATH=src pytest",
        "GIT_PAGER=cat git log",
        "[[ -f x ]] && echo y",
        "python3 -m venv .venv && . .venv/bin/activate && pip install -r requirements.txt",
        "npm run format",
        "sleep $((1 + 2))",
        "find . -name '*.py' | xargs wc -l",
        "ruby -v",
    ],
)
def test_ordinary_work_is_not_asked_for_because_something_else_is_forbidden(typed):
    denied = ("run_command(rm *)", "run_command(git push*)")

    assert permission(allow=("run_command",), deny=denied).says(command(typed))[0] == "allow"


def test_options_before_what_a_program_is_told_to_do_hide_it_from_no_rule():
    rules = permission(allow=("run_command",), deny=("run_command(git push*)",))

    assert rules.says(command("git -C . push"))[0] == "ask"
    assert rules.says(command("git add push.py"))[0] == "allow"


@pytest.mark.parametrize("typed", ["echo 'a; rm x'", "git commit -m 'rm old things'", "grep -rn rm src", "[ -f x ]"])
def test_what_only_speaks_of_a_forbidden_command_is_not_forbidden(typed):
    assert permission(allow=("run_command",), deny=("run_command(rm *)",)).says(command(typed))[0] == "allow"


@pytest.mark.parametrize(
    ("typed", "covered"),
    [
        ("git status && git log", True),
        ("git log | head -n 3", True),
        ("git log | sh", False),
        ("'git /x'", False),
        ("./git status", False),
        ("X=1 git status", False),
        (["git", "log", "a b"], True),
        (["git log"], False),
        ("git log # it's\nrm x #'", False),
    ],
)
def test_of_several_commands_each_must_be_covered_by_its_own_words(typed, covered):
    rules = permission(allow=("run_command(git *)", "run_command(head *)"))

    assert (rules.says(command(typed))[0] == "allow") == covered


def test_a_no_counts_before_all_and_a_wish_to_be_asked_before_a_yes():
    both = permission(allow=("write_file",), ask=("write_file(*.lock)",), deny=("write_file(secret*)",))
    said = [both.says(ToolCall("c", "write_file", {"path": path}))[0] for path in ("a.py", "uv.lock", "secrets.txt")]

    assert said == ["allow", "ask", "deny"]


def test_what_a_skill_is_granted_never_widens_what_the_user_denied():
    granted = ["Bash(git:*)", "Write"]
    plain, strict = Permission(), permission(ask=("write_file",), deny=("run_command(git push*)",))

    assert plain.says(command("git push"), granted)[0] == "allow"
    assert plain.says(command("rm x"), granted)[0] == "ask"
    assert strict.says(command("git push"), granted)[0] == "deny"
    assert strict.says(command("git pull"), granted)[0] == "allow"
    assert strict.says(ToolCall("c", "write_file", {"path": "x"}), granted)[0] == "ask"


def test_what_only_reads_needs_no_yes_and_all_else_does():
    names = ("read_file", "skill_use", "skill_run_script", "write_file", "run_command", "mcp__x__y")

    assert [Permission().says(ToolCall("c", name))[0] for name in names] == ["allow"] * 3 + ["ask"] * 3


@pytest.mark.parametrize("path", [".env", "deploy/.env.production", "id_ed25519", "certs/server.pem", ".ssh/config"])
def test_a_file_that_holds_secrets_more_often_than_not_is_asked_for(path):
    assert Permission().says(ToolCall("c", "read_file", {"path": path}))[0] == "ask"


def test_a_rule_about_somebody_elses_tool_sees_all_of_its_arguments():
    wanted = ToolCall("c", "srv__exec", {"path": "README.md", "script": "rm -rf x"})

    assert permission(allow=("srv__exec",), deny=("srv__exec(*rm -rf*)",)).says(wanted)[0] == "deny"
    assert permission(allow=("srv__exec",), deny=("srv__exec(README.md)",)).says(wanted)[0] == "deny"
    assert permission(allow=("srv__exec(README.md)",)).says(wanted)[0] == "ask"


@pytest.mark.parametrize(
    "typed", ["rm", "rm -f x", "/bin/rm x", "env rm x", "a; rm -rf .", "git push", "git push origin main"]
)
def test_a_bare_command_that_is_denied_is_denied_with_whatever_follows(typed):
    rules = permission(allow=("run_command",), deny=("run_command(rm)", "run_command(git push)"))
    assert rules.says(command(typed))[0] == "deny"


@pytest.mark.parametrize("typed", ["rmdir x", "git pull", "git log --grep=push"])
def test_a_bare_command_that_is_denied_stands_for_no_other(typed):
    rules = permission(allow=("run_command",), deny=("run_command(rm)", "run_command(git push)"))
    assert rules.says(command(typed))[0] == "allow"


def test_a_bare_command_that_is_allowed_is_allowed_as_it_stands():
    assert permission(allow=("run_command(rm)",)).says(command("rm -rf ."))[0] == "ask"


@pytest.mark.parametrize(
    "typed", ["ed -s zz <<< '!rm zz'", "at now <<< 'rm zz'", "rg --pre rm x", "vim -c ':!rm x' y", "sqlite3 a"]
)
def test_a_program_that_takes_commands_of_its_own_is_asked_about_where_something_is_denied(typed):
    assert permission(allow=("run_command",), deny=("run_command(rm *)",)).says(command(typed))[0] in ("ask", "deny")
