"""git, called so that nothing of a repository can run: no hooks, no filters, no checkout, no prompt, an end in time."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import subprocess
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from ..types.errors import BadRequest, HostError, Refused
from .clock import monotonic
from .memo import has_binary

HARDENED = (
    ("core.hooksPath", "/dev/null"), ("core.fsmonitor", "false"), ("core.symlinks", "false"),
    ("core.attributesFile", "/dev/null"), ("core.pager", "cat"), ("core.protectNTFS", "true"),
    ("submodule.recurse", "false"), ("fetch.recurseSubmodules", "false"), ("gc.auto", "0"),
    ("maintenance.auto", "false"), ("commit.gpgsign", "false"), ("protocol.allow", "never"),
    ("protocol.version", "2"), ("credential.interactive", "false"),
    ("fetch.writeCommitGraph", "false"), ("transfer.advertiseSID", "false"),
)  # fmt: skip
_INHERITED = (
    "PATH", "HOME", "XDG_CONFIG_HOME", "SSH_AUTH_SOCK", "USER", "LOGNAME", "TMPDIR", "http_proxy", "https_proxy",
    "all_proxy", "no_proxy", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO",
)  # fmt: skip
_THEIRS = re.compile(r"(?:credential|http)\..*|core\.sshcommand|ssh\.variant|url\..*\.insteadof").fullmatch
"""What of the user's own configuration is needed to reach the user's own repositories."""
_MOST_BLOCKS = 2_097_152
"""Of 512 bytes: no file that git writes may grow beyond."""
_MOST_OUTPUT = 67_108_864
_percent = re.compile(r"(Receiving objects|Resolving deltas|Counting objects): +(\d+)%")
_userinfo = re.compile(r"(?<=://)[^/\s@]+@")


class Access(NamedTuple):
    """How git may go somewhere."""

    env: Mapping[str, str]
    protocols: tuple[str, ...] = ("https", "ssh")
    url: str = ""
    secret: str = ""
    """`user:password` for that URL; it goes through the environment and is never shown."""
    seconds: float = 300.0


class Blob(NamedTuple):
    """A file of a commit."""

    path: str
    mode: str
    oid: str


def is_there(env: Mapping[str, str]) -> bool:
    return has_binary("git", env.get("PATH", ""))


def resolve(url: str, ref: str, access: Access) -> str:
    """The commit that a branch or tag is at, now; nothing else is fetched afterwards."""
    if re.fullmatch(r"[0-9a-f]{40}", ref):
        return ref
    wanted = (f"refs/heads/{ref}", f"refs/tags/{ref}^{{}}", f"refs/tags/{ref}") if ref else ("HEAD",)
    asked = ("HEAD",) if not ref else (f"refs/heads/{ref}", f"refs/tags/{ref}", f"refs/tags/{ref}^{{}}")
    said = _git(("ls-remote", "--end-of-options", url, *asked), None, access, seconds=60)
    found = {name: oid for oid, _, name in (line.partition("\t") for line in said.decode().splitlines())}
    for name in wanted:
        if re.fullmatch(r"[0-9a-f]{40}", found.get(name, "")):
            return found[name]
    what = f"has no branch or tag `{ref}`" if ref else "has no commit yet"
    raise BadRequest(f"{shown(url)} {what}", "check the name; a commit is given by all its 40 digits")


def fetch(
    folder: str,
    url: str,
    commit: str,
    ref: str,
    access: Access,
    progress: Callable[[str, int, int], None] | None = None,
) -> None:
    """Bring one commit without its history into a new bare repository, and check that it is that commit."""
    _git(("init", "--quiet", "--bare", "--template=", "--end-of-options", folder), None, access)
    for key, value in (
        ("remote.origin.url", url),
        ("remote.origin.promisor", "true"),
        ("remote.origin.partialclonefilter", "blob:none"),
    ):
        _git(("config", key, value), folder, access)
    options = ("--depth=1", "--no-tags", "--no-recurse-submodules", "--filter=blob:none")
    try:
        _git(("fetch", "--progress", *options, "origin", commit), folder, access, progress)
    except HostError:
        if ref == commit:
            raise
        _git(("fetch", "--progress", *options, "origin", ref or "HEAD"), folder, access, progress)  # by name alone
    found = _git(("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}"), folder, access)
    if found.decode().strip() != commit:
        raise Refused(f"{shown(url)} did not give the commit {commit}", "it changed meanwhile; try again")


def committed(folder: str, commit: str, access: Access) -> int:
    """When a commit was made, in seconds."""
    said = _git(("show", "-s", "--format=%ct", "--no-ext-diff", "--end-of-options", commit), folder, access)
    return int(said.decode().strip() or 0)


def tree(folder: str, commit: str, access: Access) -> list[Blob]:
    """Every file of a commit, links and submodules among them."""
    said = _git(("ls-tree", "-r", "-z", "--full-tree", "--end-of-options", commit), folder, access)
    found = []
    for record in said.split(b"\0"):
        head, _, path = record.partition(b"\t")
        if head:
            mode, _, oid = head.decode().split(" ")
            found.append(Blob(path.decode("utf-8", "surrogateescape"), mode, oid))
    return found


def bring(folder: str, oids: Iterable[str], access: Access, progress: Callable[[str, int, int], None] | None) -> None:
    """Fetch these files, and no others."""
    wanted = "".join(f"{oid}\n" for oid in dict.fromkeys(oids)).encode()
    command = (
        "-c", "fetch.negotiationAlgorithm=noop", "fetch", "--progress", "--no-tags", "--no-write-fetch-head",
        "--no-recurse-submodules", "--filter=blob:none", "--stdin", "origin",
    )  # fmt: skip
    if wanted:
        _git(command, folder, access, progress, given=wanted)


def missing(folder: str, commit: str, access: Access) -> set[str]:
    """The files of a commit that were not brought along."""
    command = ("rev-list", "--objects", "--missing=print", "--no-object-names", "--end-of-options", commit)
    return {line[1:] for line in _git(command, folder, access).decode().splitlines() if line.startswith("?")}


@contextlib.contextmanager
def blobs(folder: str, access: Access) -> Iterator[Callable[[str, int], Iterator[bytes]]]:
    """Reads files by their ids, one at a time and none larger than a bound."""
    running = subprocess.Popen(
        _argv(("cat-file", "--batch"), folder), env=_environment(access._replace(protocols=())),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    assert running.stdin is not None
    assert running.stdout is not None
    feed, said = running.stdin, running.stdout

    def read(oid: str, most: int) -> Iterator[bytes]:
        feed.write(oid.encode() + b"\n")
        feed.flush()
        head = said.readline().split()
        if len(head) != 3 or head[1] != b"blob":
            raise HostError(f"git lacks the file {oid}", "fetch it again")
        left = int(head[2])
        if left > most:
            raise Refused(f"a file of the repository has more than {most} bytes", "nothing was placed")
        while left:
            piece = said.read(min(left, 65_536))
            if not piece:
                raise HostError("git ended too early", "try again")
            left -= len(piece)
            yield piece
        said.read(1)

    try:
        yield read
    except BrokenPipeError as error:
        raise HostError("git ended too early", "try again") from error
    finally:
        with contextlib.suppress(OSError):
            feed.close()
        said.close()
        _end(running)


def shown(url: str) -> str:
    """A URL without whatever password is in it."""
    return _userinfo.sub("", url)


def _environment(access: Access) -> dict[str, str]:
    env = {name: access.env[name] for name in _INHERITED if name in access.env}
    pairs = [*_users_own(access.env), *HARDENED, *((f"protocol.{one}.allow", "always") for one in access.protocols)]
    if access.secret:
        word = b64encode(access.secret.encode()).decode()
        pairs.append((f"http.{access.url}.extraHeader", f"Authorization: Basic {word}"))
    env |= {
        "LC_ALL": "C.UTF-8", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "/bin/false", "SSH_ASKPASS": "/bin/false", "GIT_ALLOW_PROTOCOL": ":".join(access.protocols),
        "GIT_LFS_SKIP_SMUDGE": "1", "GIT_CONFIG_COUNT": str(len(pairs)),
    }  # fmt: skip
    if not any(key == "core.sshcommand" for key, _ in pairs):
        env |= {"GIT_SSH_COMMAND": "ssh -oBatchMode=yes"}
    for number, (key, value) in enumerate(pairs):
        env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return env


_CONFIG_HOME = "XDG_CONFIG_HOME"
_known: dict[tuple[str, str], list[tuple[str, str]]] = {}


def _users_own(env: Mapping[str, str]) -> list[tuple[str, str]]:
    """What the user configured to reach repositories: credentials, proxies, certificates, and no more."""
    who = (env.get("HOME", ""), env.get(_CONFIG_HOME, ""))
    if who not in _known:
        pairs = []
        for scope in ("--system", "--global"):
            plain = {name: env[name] for name in ("HOME", "PATH", _CONFIG_HOME) if name in env}
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                said = subprocess.run(
                    ["git", "config", scope, "--includes", "-z", "--list"], env=plain, cwd="/", timeout=20,
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
                ).stdout.decode("utf-8", "replace")  # fmt: skip
                pairs += [(key, value) for key, _, value in (one.partition("\n") for one in said.split("\0"))]
        _known[who] = [(key, value) for key, value in pairs if _THEIRS(key)]
    return _known[who]


def _argv(arguments: tuple[str, ...], folder: str | None) -> list[str]:
    inside = (f"--git-dir={folder}",) if folder else ()
    return ["/bin/sh", "-c", f'ulimit -f {_MOST_BLOCKS}; exec "$@"', "sh", "git", "--no-pager", *inside, *arguments]


def _git(
    arguments: tuple[str, ...],
    folder: str | None,
    access: Access,
    progress: Callable[[str, int, int], None] | None = None,
    seconds: float | None = None,
    given: bytes = b"",
) -> bytes:
    """Run git to its end, in a session of its own; what it printed."""
    if not is_there(access.env):
        raise HostError("git is not installed", "install git, then try again")
    try:
        running = subprocess.Popen(
            _argv(arguments, folder), cwd="/", env=_environment(access), start_new_session=True,
            stdin=subprocess.PIPE if given else subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
    except OSError as error:
        raise HostError(f"git can't be started: {error.strerror}", "check that git works") from error
    try:
        if running.stdin is not None:
            with contextlib.suppress(BrokenPipeError), running.stdin:
                running.stdin.write(given)
        limit = seconds or access.seconds
        said, complaint = _listen(running, monotonic() + limit, progress)
        status = running.wait(10)
    except (TimeoutError, subprocess.TimeoutExpired):
        raise HostError(f"git {arguments[0]} took longer than {seconds or access.seconds:g} seconds",
                        "check the network, then try again") from None  # fmt: skip
    finally:
        _end(running)
    if status:
        raise _failure(arguments, complaint.decode("utf-8", "replace"), access)
    return said


def _listen(
    running: subprocess.Popen[bytes], until: float, progress: Callable[[str, int, int], None] | None
) -> tuple[bytes, bytes]:
    """Both streams to their ends, bounded in time and size."""
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
                    raise Refused("git says too much: the repository is too large", "nothing was placed")
                parts[key.fd].append(piece)
                if progress is not None and key.fileobj is running.stderr:
                    _report(piece, progress)
        out, error = (b"".join(parts[stream.fileno()]) for stream in (running.stdout, running.stderr))
        return out, error


def _report(piece: bytes, progress: Callable[[str, int, int], None]) -> None:
    found = _percent.findall(piece.decode("utf-8", "replace"))
    if found:
        progress(found[-1][0].lower(), int(found[-1][1]), 100)


def _end(running: subprocess.Popen[bytes]) -> None:
    """Nothing of git stays behind."""
    if running.poll() is None:
        with contextlib.suppress(OSError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    for stream in (running.stdin, running.stdout, running.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def _failure(arguments: tuple[str, ...], complaint: str, access: Access) -> HostError:
    """What git complained of, in one line and without secrets."""
    lines = [line.strip() for line in complaint.replace("\r", "\n").split("\n")]
    said = [line for line in lines if line.startswith(("fatal:", "error:", "ERROR:", "remote:"))] or lines[-1:]
    text = shown("; ".join(dict.fromkeys(said)))[:500]
    for part in (access.secret, access.secret.partition(":")[2]):
        text = text.replace(part, "…") if part else text
    hint = "check the address, then try again"
    if re.search(r"[Aa]uthentication|could not read Username|Permission denied|terminal prompts disabled|40[13]", text):
        hint = "it may be private: let git log in there first (a credential helper or an ssh key), then try again"
    return HostError(f"git {arguments[0] if arguments[0] != '-c' else 'fetch'} failed: {text}", hint)
