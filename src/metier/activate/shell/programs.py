"""The programs that the readers of commands know, and what each can do with its words.

One table per property; every module that judges a command asks here, so that a program learnt once is known to all.
The tables are lists of what is known to be safe, or known to be dangerous; no table guesses.  Which way a table errs
decides what an unknown program gets: `DATA_PROGRAMS` and `QUIET_PROGRAMS` name the safe ones, so anything else is
refused or asked about; `FORBIDDEN_PROGRAMS` and `STARTERS` only add to what those refuse.
"""

from __future__ import annotations

import re

from .words import ShellWord


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# --- Shells and interpreters ---

SHELLS = _names("sh bash zsh dash ksh mksh ash fish csh tcsh rbash nu xonsh yash")
STREAM_EDITORS = _names("sed gsed awk gawk mawk nawk")
"""Interpreters whose first operand is code, and which only read and print unless that code says otherwise."""
LANGUAGES = _names(
    """
    python pypy ipython perl ruby node nodejs deno bun php lua luajit tclsh expect osascript pwsh powershell Rscript R
    julia scala groovy elixir erl ghci runghc jshell swift racket guile sbcl clojure ts-node tsx
    """
)
"""Interpreters of general languages: their code can do anything."""
INTERPRETERS = LANGUAGES | STREAM_EDITORS
"""Programs that take code, or the name of a program: in an option, as their first operand, or from a pipe."""
CODE_RUNNERS = SHELLS | INTERPRETERS | {"eval", "source", "trap"}
"""Programs that are looked for in the words of others, which may run them."""

# --- Words of the shell ---

RESERVED_WORDS = _names("if then else elif fi do done while until ! { } esac")
DECLARATIONS = _names("export readonly declare typeset local")
"""Builtins that assign: `name=…` among their words is an assignment."""
NAME_BUILTINS = DECLARATIONS | {"read", "unset", "let", "wait", "getopts"}
"""Builtins that take names of variables; some shells run what is between the brackets of such a name."""

# --- Programs that run nothing ---

PLAIN_PROGRAMS = _names(
    """
    echo printf : true false test [ [[ grep egrep fgrep rg ls cat head tail wc sort uniq cut tr diff which type file
    stat basename dirname realpath readlink jq gh man date cd mkdir touch rm cp mv read export local declare typeset
    readonly unset set printenv curl wget seq sleep exit
    """
)
"""Programs that run no other: a shell's name among their words is only a word."""
DATA_PROGRAMS = (PLAIN_PROGRAMS - {"gh"}) | _names(
    """
    for select case in return break continue shift wait pwd getopts let command ag fd fdfind find gfind bfs tree du df
    cmp comm paste join nl tac rev fold fmt pr column expand unexpand shuf split iconv tee ln dd install chmod md5sum
    sha1sum sha224sum sha256sum sha384sum sha512sum shasum cksum b2sum sum base32 base64 xxd od hexdump strings numfmt
    expr cal whoami id hostname uname nproc ps pgrep pidof uptime free host dig nslookup ping getent uuidgen mktemp
    rmdir gzip gunzip zcat bzip2 bunzip2 bzcat xz unxz xzcat zstd zstdcat tar zip unzip zipinfo yq xq dasel tokei scc
    shellcheck yamllint ruff black ffprobe pdftotext pdfinfo lsof json.tool journalctl true tput look ggrep gdate
    gstat ghead gtail gsort bat batcat eza
    """
)
"""Programs that read, write or print their arguments and run nothing; the options that would are refused apart."""
NO_OPTION_PROGRAMS = _names("[ [[ test echo : true false for select case set printf")
"""Programs without options that matter, or whose options are checked on their own."""
READ_ONLY_PROGRAMS = NO_OPTION_PROGRAMS | _names(
    """
    grep egrep fgrep ggrep ls cat head ghead tail gtail wc cut tr diff cmp comm basename dirname realpath readlink
    which type stat gstat jq cd date gdate mkdir rmdir touch read export local declare typeset readonly unset printenv
    seq sleep exit nl tac rev fold fmt paste join column expand unexpand md5sum sha1sum sha224sum sha256sum sha384sum
    sha512sum shasum cksum b2sum sum base32 base64 od hexdump strings du df numfmt expr id command in return break
    continue shift wait pwd getopts let pgrep pidof look cal nproc uname whoami awk gawk mawk nawk
    """
)
"""Programs whose options only change what they print, or that take none after their code."""
QUIET_PROGRAMS = _names(
    """
    echo printf cat ls pwd cd true false : test [ [[ head tail wc cut tr uniq grep egrep fgrep rg stat file du df
    basename dirname realpath readlink mkdir rmdir touch rm chmod date sleep seq diff cmp id whoami uname which type
    tree jq export read unset set exit return
    """
)
"""Programs that start nothing, whatever their words are: for permission rules, which see no argument apart."""
HARMLESS_PROGRAMS = _names("git pwd date whoami hostname nproc uname id dirname which")
"""Programs whose output is the author's as long as their words are."""
STEADY_COMMANDS = frozenset({"git merge-base"})
"""Commands that print a commit's name, or nothing."""

# --- Programs that run others ---

FORBIDDEN_PROGRAMS = _names(
    """
    eval trap alias bind complete compgen enable fc hash mapfile readarray jobs coproc function ssh su runuser
    parallel watch script at batch crontab rsh tmux screen dtach systemd-run chroot nsenter flock entr gdb lldb ed ex
    vi vim nvim emacs m4 dc gnuplot octave psql mysql mariadb sqlite3 mongosh
    """
)
"""Programs that read their arguments, or their input, as commands."""
STARTERS = SHELLS | _names(
    """
    ! { if then elif else while until do time env command builtin exec nohup nice ionice setsid stdbuf timeout sudo
    doas su runuser xargs parallel find watch strace ltrace busybox toybox chroot unshare nsenter bwrap eval source .
    trap flock setpriv taskset chrt prlimit script start-stop-daemon ld.so setarch numactl systemd-run fakeroot
    catchsegv unbuffer
    """
)
"""Programs and words of the shell that start another program, which is named somewhere in their words."""
WRAPPERS = {
    "env": "uC",
    "nohup": "",
    "time": "fo",
    "timeout": "sk",
    "nice": "n",
    "ionice": "cnp",
    "exec": "a",
    "command": "",
    "builtin": "",
    "sudo": "ughpCDRTU",
    "doas": "uC",
    "stdbuf": "ioe",
    "setsid": "",
    "xargs": "IndPLsEa",
    "strace": "eop",
    "unshare": "",
    "ltrace": "eo",
    "chrt": "TPD",
    "taskset": "",
    "setpriv": "",
    "unbuffer": "",
    "caffeinate": "tw",
    "busybox": "",
}
"""Programs that run another, with those of their short options that take a value."""
PACKAGE_RUNNERS = _names("npx bunx uvx")
"""Programs that run another by its name."""
PROJECT_RUNNERS = dict.fromkeys(("pipx", "uv", "poetry", "pipenv", "pdm", "rye", "hatch"), "run") | {"bundle": "exec"}
"""Programs that do so after this subcommand."""
FIND_PROGRAMS = _names("find gfind bfs fd fdfind")
RUNS_BY_OPTION = FIND_PROGRAMS | _names("rg ag sort gsort tar zip split install man wget curl bat batcat")
"""Programs that read and print, but have an option that runs or loads something."""
RUNNING_OPTIONS = _names(
    """
    exec eval pre rsh rsh-command rsync-path to-command exec-path use-compress-program compress-program upload-pack
    receive-pack upload-archive config-env open-files-in-pager extcmd use-askpass info-script new-volume-script
    unzip-command rcfile init-file split-string script-shell hostname-bin pager template wrapper exec-batch
    strip-program expression tree-filter msg-filter
    """
)
"""Long options that name a program to run, in any program."""
ABBREVIATING_PROGRAMS = _names(
    """
    tar gtar bsdtar rsync sort gsort wget curl git sed gsed zip man split gsplit install ginstall env awk gawk
    """
)
"""Programs that accept the first letters of a long option, and have some that run something."""

# --- git ---

GIT_COMMANDS = _names(
    """
    log diff show status blame annotate branch tag rev-parse rev-list shortlog ls-files ls-tree ls-remote describe
    name-rev merge-base cat-file grep for-each-ref show-ref diff-tree diff-index diff-files format-patch archive
    remote notes whatchanged reflog range-diff cherry check-ignore check-ref-format symbolic-ref count-objects config
    add commit checkout switch restore reset rm mv merge rebase stash cherry-pick revert clone fetch pull push
    worktree apply am init var version clean show-branch
    """
)
"""Subcommands that take an argument as data."""
GIT_WRITES = _names(
    """
    checkout switch restore reset merge rebase stash cherry-pick revert clone pull worktree apply am mv init
    """
)
"""Subcommands that change files of the project."""
GIT_RUNS = _names("bisect submodule filter-branch filter-repo difftool mergetool config")
"""Subcommands that run what their words or the configuration say."""
GIT_OPTION_RUNS = _names(
    """
    grep clone fetch pull push ls-remote archive rebase merge init cherry-pick revert am config worktree apply
    format-patch
    """
)
"""Subcommands with an option that runs something."""
GIT_TAKES = ("-c", "-C", "--git-dir", "--work-tree", "--namespace")
"""Options before the subcommand that take a value."""

# --- Builds and checks ---

_SCRIPT_COMMANDS = _names("test t start run run-script view info show search ls list why")
_PACKAGE_COMMANDS = _SCRIPT_COMMANDS | {"outdated", "explain", "audit", "docs"}
BUILD_COMMANDS: dict[str, frozenset[str]] = {
    "npm": _PACKAGE_COMMANDS,
    "pnpm": _PACKAGE_COMMANDS,
    "yarn": _PACKAGE_COMMANDS,
    "cargo": _names("test build check clippy doc search tree metadata info run"),
    "gh": _names("pr issue repo run release search api label workflow gist status project"),
    "docker": _names("ps images inspect logs stats top port version info search history diff"),
    "podman": _names("ps images inspect logs stats top port version info history"),
    "kubectl": _names("get describe logs top explain version api-resources"),
    "helm": _names("list status history get search"),
    "systemctl": _names("status is-active is-enabled show list-units"),
    "go": _names("doc version"),
    "pip": _names("show index list freeze"),
    "brew": _names("info list search desc"),
}
"""Subcommands after which an argument is data, for tools that run code of the project."""
CHECKERS = _names(
    """
    pytest py.test unittest coverage mypy pyright flake8 pylint bandit isort radon eslint tsc jest vitest mocha
    playwright prettier biome stylelint rspec rubocop phpunit golangci-lint gofmt rustfmt
    """
)
"""Test runners, linters and formatters: they run the project's code, or its settings."""
TYPED_COMMANDS: dict[str, frozenset[str]] = {
    "go": _names("test build vet list"),
    "npm": _names("run run-script"),
    "pnpm": _names("run"),
    "yarn": _names("run"),
    "deno": _names("test check lint"),
    "bun": _names("test"),
    "dotnet": _names("test build"),
    "swift": _names("test build"),
}
"""Subcommands that run the project's code, or its settings: only a person may choose which by an argument."""

# --- Variables ---

STEERING_VARIABLE = re.compile(
    r"(?:PATH|ENV|IFS|PS[0-4]|SHELL|HOME|XDG_CONFIG_HOME|CDPATH|BROWSER|VISUAL|PROMPT_COMMAND|GCONV_PATH|OPENSSL_CONF"
    r"|CC|CXX|CPP|LD|AR|AS|MAKE\w*|MFLAGS|GZIP|VIRTUAL_ENV|SUDO_\w+|SSH_\w+|CLASSPATH|COMPILER_PATH|GCC_\w+|TERMINFO\w*"
    r"|CARGO\w*|RUST\w*|GO(?:FLAGS|PATH|ROOT|ENV|TOOLCHAIN)|JAVA_\w+|AWK\w+|DOCKER_\w+|KUBECONFIG|AWS_CONFIG_FILE"
    r"|RIPGREP_\w+|FZF_\w+|UV_\w+|PIP_\w+"
    r"|\w*(?:PAGER|EDITOR|OPTS|OPTIONS|PRELOAD|LIBRARY_PATH|_COMMAND|LESSOPEN|LESSCLOSE|ASKPASS|WRAPPER)"
    r"|(?:LD|DYLD|GIT|BASH|PYTHON|PERL5|RUBY|NODE|NPM_CONFIG|npm_config|METIER)\w*)"
)
"""Variables that decide what runs, or how."""


_version = re.compile(r"[0-9.]+$")


def program_name(word: ShellWord) -> str:
    """The name of a program, without its path."""
    return word.text.rpartition("/")[2] or word.text


def base_program(name: str) -> str:
    """The name without a version: `python3.11` is python."""
    return _version.sub("", name).rstrip("-") or name
