"""Containers as a tier: Docker, Podman, or either with gVisor's kernel, if the user's configuration chooses one.

The same view as under bubblewrap becomes mounts of a container: nothing of the machine but what was granted, at its own
path.  The programs are the image's, which is named by its digest.  The container is created first and started
afterwards, so that complaints of the engine are not mixed with what the program prints.

A container is no child of ours.  It is ended by its name, and `_mourner` ends it if we are killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from ..host.facts import monotonic, sleep
from ..host.fs import write_bytes
from ..host.paths import is_inside
from ..host.process import ProcessCapture, SpawnedProcess, follow_process
from ..types.errors import Refused
from ..types.sandbox import ProcessResult, ProgramSpec, SandboxLimits, SandboxSpec, SandboxSupport, is_pinned_image
from . import kernel, limits, profile
from .profile import ChosenProgram, PathAccess, SandboxView

ENGINE_FOLDERS = (
    "/usr/bin",
    "/usr/local/bin",
    "/opt/homebrew/bin",
    "/opt/podman/bin",
    "/Applications/Docker.app/Contents/Resources/bin",
)
"""Where to look for the client: never on PATH, where a project could put its own."""
UNTRIED_CHECKS = ("read /etc/shadow", "write /dev")
"""Checks that mean nothing here: both are the image's, or memory that goes with the container."""
GVISOR_UNTRIED = (
    "shared memory",
    "flag an open file",
    "UDP",
    "ptrace",
    "user namespace",
    "keyctl",
    "io_uring",
    "type ahead",
)
"""Checks of the filter, which gVisor does not apply: its own kernel answers these calls, not the machine's."""
_CLIENT_VARIABLES = (
    "HOME",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "DOCKER_CONFIG",
    "DOCKER_CERT_PATH",
    "DOCKER_TLS_VERIFY",
    "CONTAINER_HOST",
    "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "DBUS_SESSION_BUS_ADDRESS",
)
"""What the client itself may see of the environment.  A skill's variables never get there: one could name a server."""
_CLIENT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch
_PYTHON = re.compile(r"python[0-9.]*").fullmatch
_UNMOUNTABLE = re.compile(r'[,"\x00-\x1f\x7f]').search
"""Characters that the engines' lists of options read as the end of a path."""
_CREATE_SECONDS = 60.0
_CLIENT_SECONDS = 20.0
_SPARE_PROCESSES = 32
_ASK_INTERVAL, _MOST_ASKED = 0.3, 6
"""Seconds between two questions for the process inside, and how many are asked."""
_SHARED = 64 << 20
"""The largest /dev/shm, in bytes."""
_FATAL_SIGNALS = frozenset({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 31})
_KILLED = 128 + 9
_NOT_STARTED = re.compile(
    r"\[FATAL tini|.*\bcatatonit\b.*fail|Error response from daemon: |Error: (?:OCI runtime|unable to start|crun|runc)"
).match
"""How the engines, and the init that they bring, complain of a program that can't be started."""


class ContainerRequest(NamedTuple):
    """What to run, what it may see, and in which engine."""

    program: ProgramSpec
    box: SandboxSpec
    view: SandboxView
    support: SandboxSupport


# --- Finding out what is there ---


def find_engine(tier: str, image: str, client: str = "") -> SandboxSupport:
    """The engine of a tier with its image; `none` with the reason if one of them is missing."""
    if not is_pinned_image(image):
        return SandboxSupport("none", "`sandbox.image` names no image by its digest, such as NAME@sha256:…")
    names = ("docker", "podman") if tier == "gvisor" else (tier,)
    paths = (client,) if client else [f"{folder}/{name}" for name in names for folder in ENGINE_FOLDERS]
    engine = next((path for path in paths if os.access(path, os.X_OK)), "")
    if not engine:
        return SandboxSupport("none", f"{' or '.join(names)} is not installed")
    support = SandboxSupport(tier, "", engine=engine, image=image)  # type: ignore[arg-type]  # one of CONTAINER_TIERS
    asked = _ask_client(support, "image", "inspect", "--format", "{{json .Config.Volumes}}", image)
    if asked.returncode:
        complaint = _last_line(asked.stderr)
        missing = re.search("no such image|image not known", complaint, re.IGNORECASE)
        name = os.path.basename(engine)
        return SandboxSupport("none", f"{name} has no image {image}: pull it" if missing else f"{name}: {complaint}")
    # A volume of the image is writable, on the machine's disk, and no limit counts it.
    if asked.stdout.strip() not in ("null", "{}"):
        return SandboxSupport("none", f"the image {image} declares volumes, which a program could fill")
    return replace(support, rootless=_is_rootless(support))


def _is_rootless(support: SandboxSupport) -> bool:
    if _is_podman(support):
        return os.geteuid() != 0
    return "name=rootless" in _ask_client(support, "info", "--format", "{{json .SecurityOptions}}").stdout


def _is_podman(support: SandboxSupport) -> bool:
    return os.path.basename(support.engine) == "podman"


def _ask_client(
    support: SandboxSupport, *words: str, seconds: float = _CLIENT_SECONDS
) -> subprocess.CompletedProcess[str]:
    """Run a short command of the client; that it can't be run, or hangs, is an answer too."""
    argv = [support.engine, *words]
    try:
        return subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=_client_environment(),
            cwd="/",
            timeout=seconds,
            check=False,
            encoding="utf-8",
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(argv, 124, "", f"no answer in {seconds:g} s")
    except OSError as error:
        return subprocess.CompletedProcess(argv, 126, "", error.strerror or str(error))


def _client_environment() -> dict[str, str]:
    return {"PATH": _CLIENT_PATH, **{name: os.environ[name] for name in _CLIENT_VARIABLES if name in os.environ}}


def _last_line(text: str) -> str:
    return next(iter(text.strip().splitlines()[-1:]), "") or "it gave no reason"


# --- What the program is ---


def image_program(program: ProgramSpec, box: SandboxSpec, work: str) -> ChosenProgram:
    """The program as the image has it: one of the machine's is looked up there by its name."""
    name = program.argv[0]
    if "/" not in name:
        return ChosenProgram(name)
    path = os.path.normpath(os.path.join(program.cwd or work or "/tmp", name))
    granted = [folder for folder in (box.skill, work, *box.permissions.read, *box.permissions.write) if folder]
    visible = any(is_inside(spelled, folder) for spelled in (path, os.path.realpath(path)) for folder in granted)
    # An interpreter inside a granted folder, such as a virtual environment's, needs libraries that are not there.
    if visible and not _PYTHON(os.path.basename(path)):
        return ChosenProgram(path)
    name = os.path.basename(path)
    return ChosenProgram("python3" if _PYTHON(name) else name)


# --- The container ---


def container_options(request: ContainerRequest, name: str, folder: str) -> list[str]:
    """The view and the limits as options of the engine.  `folder` holds the filter and the variables."""
    support, view, permissions = request.support, request.view, request.box.permissions
    runtime = ["--runtime", "runsc"] if support.tier == "gvisor" else []
    # Podman takes the runtime before the command.
    options = [*runtime, "create"] if _is_podman(support) else ["create", *runtime]
    options += ["--rm", "--name", name, "--pull", "never", "--init", "--no-healthcheck", "--log-driver", "none"]
    options += ["--hostname", "skill", "--ipc", "private", "--read-only", "--cap-drop", "ALL"]
    options += ["--security-opt", "no-new-privileges", "--security-opt", f"seccomp={folder}/filter.json"]
    options += [] if permissions.network else ["--network", "none"]
    options += [*_user_options(support), *_limit_options(request.box.limits)]
    options += ["--tmpfs", f"/tmp:rw,nosuid,nodev,exec,mode=1777,size={request.box.limits.scratch}"]
    for access in _with_links(profile.mounted_paths(view)):
        sealed = request.box.sealed if access[1].path == os.path.realpath(request.box.skill) else ""
        mounted = access if not sealed else (access[0], PathAccess(sealed, "read"))
        options += _mount_option(mounted, _is_podman(support))
    options += ["--env-file", f"{folder}/variables", "--workdir", view.cwd]
    return [*options, "--entrypoint", view.argv[0], support.image, *view.argv[1:]]


def _user_options(support: SandboxSupport) -> list[str]:
    """The user inside who owns outside what we own: nobody else could write the work folder."""
    if _is_podman(support):
        keep = ["--userns", "keep-id"] if support.rootless else []
        # Podman hands the proxies of the machine, and passwords in them, to every container unless told not to.
        return [*keep, "--http-proxy=false", "--user", f"{os.geteuid()}:{os.getegid()}"]
    return ["--user", "0:0" if support.rootless else f"{os.geteuid()}:{os.getegid()}"]


def _limit_options(box_limits: SandboxLimits) -> list[str]:
    # More than the limit, so that the watch, where it sees the processes, notices before one is refused.
    options = ["--pids-limit", str(box_limits.processes + _SPARE_PROCESSES)]
    # Both the same: no swap, or the limit would be twice as high.
    options += ["--memory", str(box_limits.memory), "--memory-swap", str(box_limits.memory)]
    options += ["--shm-size", str(min(_SHARED, box_limits.scratch))]
    ulimits = {"core": 0, "fsize": box_limits.file, "nofile": 1024}
    return options + [word for name, most in ulimits.items() for word in ("--ulimit", f"{name}={most}:{most}")]


def _with_links(seen: Iterable[PathAccess]) -> Iterator[tuple[str, PathAccess]]:
    """Where each path is mounted: a link has no file system to lie in, so what it leads to is mounted there too.

    With everything inside: a protected folder must stay protected by whichever name it is reached.
    """
    seen = tuple(seen)
    for access in seen:
        if access.kind != "link":
            yield access.path, access
    for link in seen:
        target = os.path.realpath(link.path)
        if link.kind == "link":
            for access in seen:
                if access.kind != "link" and is_inside(access.path, target):
                    yield link.path + access.path[len(target) :], access


def _mount_option(mount: tuple[str, PathAccess], podman: bool) -> list[str]:
    inside, access = mount
    for path in (inside, access.path):
        if _UNMOUNTABLE(path):
            raise Refused(
                f"{path!r} can't be mounted in a container: its name has a comma, a quote or a control character",
                "rename it, or use another sandbox tier",
                path,
            )
    if access.kind == "write":
        return ["--mount", f"type=bind,src={access.path},dst={inside}"] if os.path.lexists(access.path) else []
    if access.kind == "hide" and os.path.isdir(access.path):
        # Podman would fill the new file system with what lies beneath it.
        empty = ",notmpcopyup" if podman else ""
        return ["--mount", f"type=tmpfs,dst={inside},tmpfs-size=4096,tmpfs-mode=0555,ro{empty}"]
    source = "/dev/null" if access.kind == "hide" else access.path
    # Not recursive: engines before 2024 leave file systems that are mounted further down writable.
    alone = "bind-nonrecursive" if podman else "bind-recursive=disabled"
    return ["--mount", f"type=bind,src={source},dst={inside},ro,{alone}"] if os.path.lexists(source) else []


def variable_lines(env: Mapping[str, str], podman: bool = False) -> str:
    """The environment as the engines read it from a file: one variable a line, nothing quoted.

    PATH is the image's, where the programs are.  Docker's client would add the proxies of its own configuration; an
    empty one keeps them out.
    """
    proxies = () if podman else (*_PROXIES, *map(str.lower, _PROXIES))
    lines = [f"{name}=" for name in proxies if name not in env]
    for name, value in env.items():
        if name == "PATH":
            continue
        if not _VARIABLE(name) or "\n" in value or "\r" in value:
            raise Refused(
                f"the variable {name!r} can't be given to a container: it has a line break or an unusual name",
                "write its value to a file, or use another sandbox tier",
            )
        lines.append(f"{name}={value}")
    return "\n".join(lines) + "\n"


# --- Running ---


def run_in_container(request: ContainerRequest, swept: Callable[[], str] = lambda: "") -> ProcessResult:
    """Run a program in a container of its own."""
    support, box, view = request.support, request.box, request.view
    name = f"metier-{os.urandom(8).hex()}"
    with tempfile.TemporaryDirectory(prefix="metier-work-") as folder:
        # The folder is ours alone; on the command line every user could read the variables.
        rules = json.dumps(kernel.filter_profile(box.permissions.network))
        write_bytes(f"{folder}/filter.json", rules.encode(), 0o600, sync=False)
        write_bytes(
            f"{folder}/variables", os.fsencode(variable_lines(view.env, _is_podman(support))), 0o600, sync=False
        )
        options = container_options(request, name, folder)
        watch = limits.LimitWatch(box.limits, None, view.work, view.writes)
        with _mourner(support, name):
            try:
                created = _ask_client(support, *options, seconds=_CREATE_SECONDS)
                os.unlink(f"{folder}/variables")  # if we are killed, no key stays on the disk
                if created.returncode:
                    note = f"the container can't be made: {_last_line(created.stderr)}"
                    return ProcessResult(None, "", tier=support.tier, note=note)
                inner = _InnerProcess(support, name, created.stdout.strip())
                spawned = _start_container(request, name, lambda pid: watch(inner.pid or pid) or swept())
                followed = follow_process(spawned, request.program.seconds, request.program.output)
                return _process_result(request, name, followed, spawned.process.returncode)
            except OSError as error:
                return ProcessResult(None, "", tier=support.tier, note=f"it can't be started: {error.strerror}")
            finally:
                _remove_container(support, name)


class _InnerProcess:
    """The first process of a container as this machine sees it, if the engine runs here and not in another machine."""

    def __init__(self, support: SandboxSupport, name: str, container_id: str) -> None:
        self._support, self._name, self._id = support, name, container_id
        self._pid, self._tries, self._due = 0, 0, monotonic() + _ASK_INTERVAL

    @property
    def pid(self) -> int:
        """Its number; 0 while it is not known.  It has none before the container has started, so a few times."""
        if not self._pid and self._tries < _MOST_ASKED and monotonic() > self._due:
            self._tries, self._due = self._tries + 1, monotonic() + _ASK_INTERVAL
            asked = _ask_client(self._support, "inspect", "--format", "{{.State.Pid}}", self._name).stdout.strip()
            self._pid = int(asked) if asked.isdecimal() and self._is_ours(asked) else 0
        return self._pid

    def _is_ours(self, pid: str) -> bool:
        """Whether the number means the same process here: an engine in a virtual machine counts its own."""
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="replace") as file:
            return bool(self._id) and self._id in file.read()
        return False


@contextlib.contextmanager
def _mourner(support: SandboxSupport, name: str) -> Iterator[None]:
    """A process that removes the container should we die: it waits for a line, and gets none when our pipe breaks."""
    waiting = subprocess.Popen(
        ["/bin/sh", "-c", 'read -r line || exec "$0" rm --force "$1"', support.engine, name],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=_client_environment(),
        cwd="/",
        start_new_session=True,
    )
    try:
        yield
    finally:
        assert waiting.stdin is not None
        with contextlib.suppress(BrokenPipeError), waiting.stdin as pipe:
            pipe.write(b"\n")
        waiting.wait()


def _start_container(request: ContainerRequest, name: str, watch: Callable[[int], str]) -> SpawnedProcess:
    """Start the container and follow its output through the client."""
    support, merged = request.support, request.program.merged
    with contextlib.ExitStack() as undo, contextlib.ExitStack() as ours:
        pipes = [os.pipe() for _ in range(2 if merged else 3)]
        for read, write in pipes:
            undo.callback(os.close, read)
            ours.callback(os.close, write)
        process = subprocess.Popen(
            [support.engine, "start", "--attach", name],
            stdin=subprocess.DEVNULL,
            stdout=pipes[1][1],
            stderr=pipes[-1][1],
            env=_client_environment(),
            cwd="/",
            pass_fds=(pipes[0][1],),  # closes when the client ends
            start_new_session=True,
        )
        undo.pop_all()

    def ask() -> None:
        _ask_client(support, "kill", "--signal", "TERM", name)

    def end() -> None:
        # With its first process everything in it dies.  A client that starts nothing is of no use any more.
        if _ask_client(support, "kill", name).returncode:
            process.kill()

    streams = tuple(read for read, _ in pipes[1:])
    return SpawnedProcess(process, streams, pipes[0][0], ask, end, lambda _: None, lambda: watch(process.pid))


def _remove_container(support: SandboxSupport, name: str) -> None:
    """Remove what is left of the container; a running one is killed."""
    for _ in range(3):
        removed = _ask_client(support, "rm", "--force", name)
        # Being removed already, by `--rm`, is an error as well.
        if not removed.returncode or re.search("no such container|no container with", removed.stderr, re.IGNORECASE):
            return
        sleep(0.2)


def _process_result(request: ContainerRequest, name: str, followed: ProcessCapture, code: int) -> ProcessResult:
    tier, texts = request.support.tier, (*followed.texts, "")
    last = _last_line("\n".join(texts))
    if code in (1, 125, 126, 127) and _NOT_STARTED(last) and not (followed.reason or followed.timed_out):
        missing = code == 127 or "executable file" in last
        note = f"{request.program.argv[0]}: not found, or not visible in the sandbox" if missing else last
        return ProcessResult(None, "", tier=tier, note=note)
    reason = followed.reason
    if code == _KILLED and not reason and not followed.timed_out and _ran_out_of_memory(request.support, name):
        reason = f"oom: more than {request.box.limits.memory >> 20} MiB of memory"
    status = 128 - code if code - 128 in _FATAL_SIGNALS else code
    return ProcessResult(status, texts[0], texts[1], followed.timed_out, followed.left_out, tier, reason)


def _ran_out_of_memory(support: SandboxSupport, name: str) -> bool:
    """Whether the engine saw it: told as an event, up to a second or two after the end."""
    filters = ("--filter", f"container={name}", "--filter", "event=oom")
    for _ in range(5):
        sleep(0.4)
        if _ask_client(support, "events", "--since", "10m", "--until", "0s", *filters).stdout.strip():
            return True
    return False
