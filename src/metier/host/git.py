"""Run git so that nothing in a repository can run: no hooks, no filters, no checkout, no prompt, a time limit.

A repository from elsewhere is fetched bare, one commit deep, and its files are read out of the object database: a
working tree is never checked out, because checkout is where git runs filters, follows links and honours attributes.
The user's own configuration is cut down to what reaches the user's repositories; `protocol.allow` and the rest of
`HARDENED_CONFIG` come after it and win.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import subprocess
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..types.errors import BadRequest, HostError, Refused
from .facts import has_binary, monotonic
from .paths import absolute_path, is_inside, read_text_file
from .trees import remove_tree

_MOST_BYTES = 65_536


# --- The checkout an agent works in ---


def repository_of(project: str) -> str:
    """The repository of a worktree or submodule that lies outside the project; empty for any other project.

    Anybody can write a `.git` file that points to any folder, so the repository must point back to the project.
    """
    # A link in place of `.git` is not followed: it could lead elsewhere by the time git reads it.
    gitfile_lines = _read_lines(f"{project}/.git")[:1]
    if not gitfile_lines or not gitfile_lines[0].startswith("gitdir: ") or os.path.islink(f"{project}/.git"):
        return ""
    git_dir = _resolve_real_path(project, gitfile_lines[0].removeprefix("gitdir: "))
    above = os.path.dirname(git_dir)
    # A worktree has a folder in `worktrees` of its repository, whose `gitdir` names the `.git` of the worktree.
    if os.path.basename(above) == "worktrees":
        pointer = _read_lines(f"{git_dir}/gitdir")[:1]
        if pointer and _resolve_real_path(git_dir, pointer[0]) == _resolve_real_path(project, ".git"):
            return os.path.dirname(above)
        return ""
    # The repository of a submodule names its working tree in `config`.
    settings = [line.partition("=") for line in _read_lines(f"{git_dir}/config")]
    worktrees = [value.strip().strip('"') for name, _, value in settings if name.strip() == "worktree"]
    return (
        git_dir if worktrees and _resolve_real_path(git_dir, worktrees[-1]) == _resolve_real_path(project, ".") else ""
    )


def git_folders(project: str) -> tuple[str, ...]:
    """The folders that git writes for a checkout: its repository and, in a worktree, the worktree's part of it."""
    git = f"{project}/.git"
    if os.path.isdir(git) and not os.path.islink(git) and os.path.isfile(f"{git}/HEAD"):
        return (git,)
    common = repository_of(project)
    if not common:
        return ()
    git_dir = _resolve_real_path(project, _read_lines(git)[0].removeprefix("gitdir: "))
    return tuple(dict.fromkeys((common, git_dir))) if ".git" in git_dir.split("/") else ()


def git_target(path: str) -> str:
    """The folder that a `.git` file leads to; empty if it leads nowhere."""
    first = next(iter(_read_lines(path)), "")
    return _resolve_real_path(os.path.dirname(path), first[8:]) if first.startswith("gitdir: ") else ""


_CONFIG_KEYS = (
    r"^(user\.(name|email)|core\.(hookspath|fsmonitor|sshcommand|editor|pager|askpass|attributesfile|gitproxy)"
    r"|sequence\.editor|gpg\..*program|credential\..*helper|credential\.helper|include(if\..*)?\.path"
    r"|(filter|diff|merge|difftool|mergetool)\..*\.(clean|smudge|process|command|textconv|driver|cmd)|alias\..*"
    r"|diff\.external|pager\..*|interactive\.difffilter)$"
)
"""The committer, and every setting whose value git executes or reads as more settings."""
_PLANTABLE_NAMES = ("commondir", "rebase-merge", "rebase-apply")
"""Files that redirect git to other settings, or that it runs when a rebase continues.

The sandbox can't guard these with an empty placeholder: git would take it for another repository or a rebase."""


def named_by_git(project: str, pairs: Iterable[tuple[str, str]], home: str) -> list[str]:
    """The paths in a project that git's settings name: what is there is executed, or read as more settings."""
    paths: list[str] = []
    for key, value in pairs:
        if key.startswith("user."):
            continue
        if key == "core.hookspath":  # also if it does not exist yet
            paths.append(absolute_path(value, project, home))
            continue
        # A program may come with arguments, and an interpreter before it; settings are relative to `.git`.
        words = value.removeprefix("!").split()[:4] if not key.endswith(".path") else [value]
        bases = (f"{project}/.git", project)
        named = (absolute_path(word, base, home) for word in words for base in bases if "/" in word or "." in word)
        paths += [path for path in named if is_inside(path, project) and os.path.isfile(path)]
    return list(dict.fromkeys(paths))


def read_git_pairs(project: str, env: Mapping[str, str]) -> list[tuple[str, str]]:
    """Settings of the user and of the repository that name programs and files.  Runs nothing of theirs."""
    if not os.path.lexists(f"{project}/.git"):
        return []
    # None of the GIT_ variables: they could point git at other settings.
    minimal = {name: env[name] for name in ("HOME", "XDG_CONFIG_HOME") if name in env}
    minimal["PATH"] = path_outside_project(env.get("PATH", os.defpath), project)
    try:
        output = subprocess.run(
            ["git", "config", "--includes", "-z", "--get-regexp", _CONFIG_KEYS],
            env=minimal,
            cwd=project,
            timeout=10,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
        ).stdout.decode("utf-8", "replace")
    except (OSError, subprocess.SubprocessError):
        return []
    return [(key, value) for key, _, value in (entry.partition("\n") for entry in output.split("\0")) if value]


def path_outside_project(path: str, project: str) -> str:
    """PATH without folders inside the project, which could hold a git of its own."""
    real = os.path.realpath(project)
    folders = [folder for folder in path.split(":") if folder.startswith("/")]
    return ":".join(folder for folder in folders if not is_inside(os.path.realpath(folder), real))


@contextlib.contextmanager
def remove_planted_git_files(folders: Sequence[str]) -> Iterator[list[str]]:
    """Remove, after the block, files that redirect git and did not exist before it; yields a note for each."""
    missing = [
        path for folder in folders for name in _PLANTABLE_NAMES if not os.path.lexists(path := f"{folder}/{name}")
    ]
    notes: list[str] = []
    try:
        yield notes
    finally:
        for path in filter(os.path.lexists, missing):
            remove_tree(path)
            notes.append(f"{path} was removed: git would follow it")


def _read_lines(path: str) -> list[str]:
    """The lines of a small file; none if it can't be read."""
    try:
        return (read_text_file(path, _MOST_BYTES) or "").splitlines()
    except (HostError, ValueError):
        return []


def _resolve_real_path(folder: str, path: str) -> str:
    try:
        return os.path.realpath(os.path.join(folder, path))
    except ValueError:
        return ""


# --- Fetching from elsewhere ---

# Hooks, monitors, attributes and pagers run programs; links and NTFS names write outside the repository; automatic
# maintenance outlives the command.  `protocol.allow` closes every transport that `GitAccess` does not open again.
HARDENED_CONFIG = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.symlinks", "false"),
    ("core.attributesFile", "/dev/null"),
    ("core.pager", "cat"),
    ("core.protectNTFS", "true"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("commit.gpgsign", "false"),
    ("protocol.allow", "never"),
    ("protocol.version", "2"),
    ("credential.interactive", "false"),
    ("fetch.writeCommitGraph", "false"),
    ("transfer.advertiseSID", "false"),
    # git would take the password along to any host, and reach addresses that `http` refuses: `follow_redirect` looks.
    ("http.followRedirects", "false"),
)
# What git and ssh need to reach a server; everything else, GIT_ variables above all, is dropped.
_INHERITED = (
    "PATH",
    "HOME",
    "XDG_CONFIG_HOME",
    "SSH_AUTH_SOCK",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GIT_SSL_CAINFO",
)
_is_user_setting = re.compile(
    r"(?:credential|http)\.(?!.*followredirects\Z).*|core\.sshcommand|ssh\.variant|url\..*\.insteadof"
).fullmatch
"""The user's settings that are needed to reach the user's repositories."""
_MOST_BLOCKS = 2_097_152
"""The largest file that git may write, in blocks of 512 bytes: 1 GiB."""
_MOST_OUTPUT = 67_108_864
"""Bytes of output, such as the list of a commit's files."""
_percent = re.compile(r"(Receiving objects|Resolving deltas|Counting objects): +(\d+)%")
_userinfo = re.compile(r"(?<=://)[^/\s@]+@")


class GitAccess(NamedTuple):
    """How git may reach a repository."""

    env: Mapping[str, str]
    protocols: tuple[str, ...] = ("https", "ssh")
    url: str = ""
    secret: str = ""
    """`user:password` for the URL; passed in the environment, never as an argument, and never shown."""
    seconds: float = 300.0
    pinned: str = ""
    """`host:port:address`: the address that was checked, so that git makes no lookup of its own."""


class GitRedirected(HostError):
    """The server says that the repository is elsewhere."""


class TreeEntry(NamedTuple):
    """A file of a commit."""

    path: str
    mode: str
    oid: str


def has_git(env: Mapping[str, str]) -> bool:
    return has_binary("git", env.get("PATH", ""))


def resolve_ref(url: str, ref: str, access: GitAccess) -> str:
    """The commit that a branch or tag points to now."""
    if re.fullmatch(r"[0-9a-f]{40}", ref):
        return ref
    # A branch wins over a tag of the same name; `^{}` is the commit that an annotated tag points to.
    preferred = (f"refs/heads/{ref}", f"refs/tags/{ref}^{{}}", f"refs/tags/{ref}") if ref else ("HEAD",)
    patterns = ("HEAD",) if not ref else (f"refs/heads/{ref}", f"refs/tags/{ref}", f"refs/tags/{ref}^{{}}")
    output = _run_git(("ls-remote", "--end-of-options", url, *patterns), None, access, seconds=60)
    refs = {name: oid for oid, _, name in (line.partition("\t") for line in output.decode().splitlines())}
    for name in preferred:
        if re.fullmatch(r"[0-9a-f]{40}", refs.get(name, "")):
            return refs[name]
    reason = f"has no branch or tag `{ref}`" if ref else "has no commit yet"
    raise BadRequest(f"{redact_url(url)} {reason}", "check the name; give a commit by all its 40 digits")


_ASKED = "/info/refs?service=git-upload-pack"
"""What git asks a server for first."""


def follow_redirect(
    url: str, access: GitAccess, check_address: Callable[[str], None] | None = None
) -> tuple[str, GitAccess]:
    """Where a repository has moved to, and how git may reach it there.

    Every hop is checked as that of a download is, and by `check_address` as the repository it would be.  The password
    stays with the server it is for.
    """
    from . import http  # slow to import

    def check_hop(address: str) -> None:
        if check_address is not None:
            check_address(address.partition("?")[0].removesuffix(_ASKED.partition("?")[0]))

    limits = http.FetchLimits(
        "http" in access.protocols, True, seconds=60.0, secret=access.secret, env=access.env, check_address=check_hop
    )
    target = http.follow_redirects(url.rstrip("/") + _ASKED, limits)
    if not target.url.endswith(_ASKED):
        raise Refused(f"{redact_url(url)} redirects to {redact_url(target.url)}", "that is not a git repository")
    moved = target.url.removesuffix(_ASKED)
    secret = access.secret if http.same_origin(url, moved) else ""
    return moved, access._replace(url=moved, secret=secret, pinned=target.pinned)


def fetch_commit(
    folder: str,
    url: str,
    commit: str,
    ref: str,
    access: GitAccess,
    progress: Callable[[str, int, int], None] | None = None,
) -> None:
    """Fetch one commit without its history into a new bare repository, and verify it."""
    _run_git(("init", "--quiet", "--bare", "--template=", "--end-of-options", folder), None, access)
    # A partial clone: files are left out here, and `fetch_blobs` fetches the ones that are wanted.
    for key, value in (
        ("remote.origin.url", url),
        ("remote.origin.promisor", "true"),
        ("remote.origin.partialclonefilter", "blob:none"),
    ):
        _run_git(("config", key, value), folder, access)
    options = ("--depth=1", "--no-tags", "--no-recurse-submodules", "--filter=blob:none")
    try:
        _run_git(("fetch", "--progress", *options, "origin", commit), folder, access, progress)
    except HostError:
        if ref == commit:
            raise
        _run_git(
            ("fetch", "--progress", *options, "origin", ref or "HEAD"), folder, access, progress
        )  # some servers serve names only
    verified = _run_git(
        ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}"), folder, access
    )
    if verified.decode().strip() != commit:
        raise Refused(f"{redact_url(url)} did not return the commit {commit}", "it changed meanwhile; try again")


def commit_time(folder: str, commit: str, access: GitAccess) -> int:
    """The time of a commit, in Unix seconds."""
    output = _run_git(("show", "-s", "--format=%ct", "--no-ext-diff", "--end-of-options", commit), folder, access)
    return int(output.decode().strip() or 0)


def list_tree(folder: str, commit: str, access: GitAccess) -> list[TreeEntry]:
    """Every file of a commit, links and submodules included."""
    output = _run_git(("ls-tree", "-r", "-z", "--full-tree", "--end-of-options", commit), folder, access)
    entries = []
    for record in output.split(b"\0"):
        head, _, path = record.partition(b"\t")
        if head:
            mode, _, oid = head.decode().split(" ")
            entries.append(TreeEntry(path.decode("utf-8", "surrogateescape"), mode, oid))
    return entries


def fetch_blobs(
    folder: str, oids: Iterable[str], access: GitAccess, progress: Callable[[str, int, int], None] | None
) -> None:
    """Fetch these files, and no others."""
    requested = "".join(f"{oid}\n" for oid in dict.fromkeys(oids)).encode()
    command = (
        "-c",
        # Otherwise we would claim to have all files of the commit that we have.
        "fetch.negotiationAlgorithm=noop",
        "fetch",
        "--progress",
        "--no-tags",
        "--no-write-fetch-head",
        "--no-recurse-submodules",
        "--filter=blob:none",
        "--stdin",
        "origin",
    )
    if requested:
        _run_git(command, folder, access, progress, stdin_data=requested)


def missing_blobs(folder: str, commit: str, access: GitAccess) -> set[str]:
    """The ids of a commit's files that were not fetched."""
    command = ("rev-list", "--objects", "--missing=print", "--no-object-names", "--end-of-options", commit)
    return {line[1:] for line in _run_git(command, folder, access).decode().splitlines() if line.startswith("?")}


@contextlib.contextmanager
def open_blob_reader(folder: str, access: GitAccess) -> Iterator[Callable[[str, int], Iterator[bytes]]]:
    """A function that reads a file by its id, unless it is larger than a limit."""
    running = subprocess.Popen(
        _git_command(("cat-file", "--batch"), folder),
        env=_git_environment(access._replace(protocols=())),  # a missing object is an error, not a download
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert running.stdin is not None
    assert running.stdout is not None
    feed, output = running.stdin, running.stdout

    def read(oid: str, most: int) -> Iterator[bytes]:
        feed.write(oid.encode() + b"\n")
        feed.flush()
        head = output.readline().split()
        if len(head) != 3 or head[1] != b"blob":
            raise HostError(f"the repository lacks the file {oid}", "fetch it again")
        remaining = int(head[2])
        if remaining > most:
            raise Refused(f"a file of the repository has more than {most} bytes", "nothing was placed")
        while remaining:
            piece = output.read(min(remaining, 65_536))
            if not piece:
                raise HostError("git exited unexpectedly", "try again")
            remaining -= len(piece)
            yield piece
        output.read(1)  # the line break after the content

    try:
        yield read
    except BrokenPipeError as error:
        raise HostError("git exited unexpectedly", "try again") from error
    finally:
        with contextlib.suppress(OSError):
            feed.close()
        output.close()
        _kill_process(running)


def redact_url(url: str) -> str:
    """A URL without a user name or password."""
    return _userinfo.sub("", url)


# --- Running git ---


def _git_environment(access: GitAccess) -> dict[str, str]:
    env = {name: access.env[name] for name in _INHERITED if name in access.env}
    pairs = [
        *_user_git_config(access.env),
        *HARDENED_CONFIG,
        *((f"protocol.{protocol}.allow", "always") for protocol in access.protocols),
    ]
    if access.pinned:
        pairs.append(("http.curloptResolve", access.pinned))
    if access.secret:
        credentials = b64encode(access.secret.encode()).decode()
        pairs.append((f"http.{access.url}.extraHeader", f"Authorization: Basic {credentials}"))
    env |= {
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "/bin/false",
        "SSH_ASKPASS": "/bin/false",
        "GIT_ALLOW_PROTOCOL": ":".join(access.protocols),
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_CONFIG_COUNT": str(len(pairs)),
    }
    if not any(key == "core.sshcommand" for key, _ in pairs):
        env |= {"GIT_SSH_COMMAND": "ssh -oBatchMode=yes"}
    for number, (key, value) in enumerate(pairs):
        env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return env


_CONFIG_HOME = "XDG_CONFIG_HOME"
_user_configs: dict[tuple[str, str], list[tuple[str, str]]] = {}


def _user_git_config(env: Mapping[str, str]) -> list[tuple[str, str]]:
    """The user's settings for reaching repositories: credentials, proxies, certificates."""
    user_key = (env.get("HOME", ""), env.get(_CONFIG_HOME, ""))
    if user_key not in _user_configs:
        pairs = []
        for scope in ("--system", "--global"):
            minimal = {name: env[name] for name in ("HOME", "PATH", _CONFIG_HOME) if name in env}
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                output = subprocess.run(
                    ["git", "config", scope, "--includes", "-z", "--list"],
                    env=minimal,
                    cwd="/",
                    timeout=20,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    check=False,
                ).stdout.decode("utf-8", "replace")
                pairs += [(key, value) for key, _, value in (entry.partition("\n") for entry in output.split("\0"))]
        _user_configs[user_key] = [(key, value) for key, value in pairs if _is_user_setting(key)]
    return _user_configs[user_key]


def _git_command(arguments: tuple[str, ...], folder: str | None) -> list[str]:
    # git itself has no limit on what it writes, so a shell sets one.
    inside = (f"--git-dir={folder}",) if folder else ()
    return ["/bin/sh", "-c", f'ulimit -f {_MOST_BLOCKS}; exec "$@"', "sh", "git", "--no-pager", *inside, *arguments]


def _run_git(
    arguments: tuple[str, ...],
    folder: str | None,
    access: GitAccess,
    progress: Callable[[str, int, int], None] | None = None,
    seconds: float | None = None,
    stdin_data: bytes = b"",
) -> bytes:
    """Run git in a session of its own and wait; its output."""
    if not has_git(access.env):
        raise HostError("git is not installed", "install git, then try again")
    # In a session of its own, ssh can't prompt on the terminal, and one signal ends git with its children.
    try:
        running = subprocess.Popen(
            _git_command(arguments, folder),
            cwd="/",
            env=_git_environment(access),
            start_new_session=True,
            stdin=subprocess.PIPE if stdin_data else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        raise HostError(f"git can't be started: {error.strerror}", "check that git works") from error
    try:
        if running.stdin is not None:
            with contextlib.suppress(BrokenPipeError), running.stdin:
                running.stdin.write(stdin_data)
        limit = seconds or access.seconds
        output, complaint = _collect_output(running, monotonic() + limit, progress)
        status = running.wait(10)
    except (TimeoutError, subprocess.TimeoutExpired):
        raise HostError(
            f"git {arguments[0]} took longer than {seconds or access.seconds:g} seconds",
            "check the network, then try again",
        ) from None
    finally:
        _kill_process(running)
    if status:
        raise _git_failure(arguments, complaint.decode("utf-8", "replace"), access)
    return output


def _collect_output(
    running: subprocess.Popen[bytes], until: float, progress: Callable[[str, int, int], None] | None
) -> tuple[bytes, bytes]:
    """Read both streams to the end, within limits of time and size."""
    assert running.stdout is not None
    assert running.stderr is not None
    parts: dict[int, list[bytes]] = {running.stdout.fileno(): [], running.stderr.fileno(): []}
    sizes = dict.fromkeys(parts, 0)
    with selectors.DefaultSelector() as selector, running.stdout, running.stderr:
        for stream in (running.stdout, running.stderr):
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, until - monotonic()))
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                piece = os.read(key.fd, 65_536)
                if not piece:
                    selector.unregister(key.fileobj)
                    continue
                sizes[key.fd] += len(piece)
                if sizes[key.fd] > _MOST_OUTPUT:
                    raise Refused("the output of git is too long: the repository is too large", "nothing was placed")
                parts[key.fd].append(piece)
                if progress is not None and key.fileobj is running.stderr:
                    _report_progress(piece, progress)
        out, error = (b"".join(parts[stream.fileno()]) for stream in (running.stdout, running.stderr))
        return out, error


def _report_progress(piece: bytes, progress: Callable[[str, int, int], None]) -> None:
    matches = _percent.findall(piece.decode("utf-8", "replace"))
    if matches:
        progress(matches[-1][0].lower(), int(matches[-1][1]), 100)


def _kill_process(running: subprocess.Popen[bytes]) -> None:
    """Kill git with all its children, and close its streams."""
    if running.poll() is None:
        with contextlib.suppress(OSError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    for stream in (running.stdin, running.stdout, running.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def _git_failure(arguments: tuple[str, ...], complaint: str, access: GitAccess) -> HostError:
    """The error that git reported, in one line and without secrets."""
    lines = [line.strip() for line in complaint.replace("\r", "\n").split("\n")]
    complaints = [line for line in lines if line.startswith(("fatal:", "error:", "ERROR:", "remote:"))] or lines[-1:]
    text = redact_url("; ".join(dict.fromkeys(complaints)))[:500]
    for part in (access.secret, access.secret.partition(":")[2]):
        text = text.replace(part, "…") if part else text
    hint = "check the address, then try again"
    if re.search(r"returned error: 30[12378]\b", text):
        return GitRedirected(f"git {arguments[0]} failed: {text}", "use the address that it redirects to")
    if re.search(r"[Aa]uthentication|could not read Username|Permission denied|terminal prompts disabled|40[13]", text):
        hint = "it may be private: set up a git credential helper or an ssh key for it, then try again"
    return HostError(f"git {arguments[0] if arguments[0] != '-c' else 'fetch'} failed: {text}", hint)
