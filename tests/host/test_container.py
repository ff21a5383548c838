"""Containers as a sandbox: what the engine is asked for, and that nothing gets past it."""

import json
import os
import stat
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.host.boxes import program

from metier import sandbox
from metier.sandbox import container, kernel, profile, syscalls
from metier.types.errors import BadRequest, Refused
from metier.types.sandbox import SandboxPermissions, SandboxSpec, SandboxSupport

IMAGE = "example.org/python@sha256:" + "ab" * 32
DOCKER = SandboxSupport("docker", "", engine="/usr/bin/docker", image=IMAGE)
PODMAN = SandboxSupport("podman", "", engine="/usr/bin/podman", image=IMAGE)


def request(world: dict[str, Path], support: SandboxSupport = DOCKER, **more: object) -> container.ContainerRequest:
    wanted = program("/somewhere/bin/python3.12", "-c", "pass", cwd=world["work"])
    box = SandboxSpec("require", str(world["skill"]), str(world["work"]), **more)  # type: ignore[arg-type]
    chosen = container.image_program(wanted, box, box.work)
    return container.ContainerRequest(wanted, box, profile.build_view(wanted, box, box.work, (), chosen), support)


def options(world: dict[str, Path], support: SandboxSupport = DOCKER, **more: object) -> list[str]:
    return container.container_options(request(world, support, **more), "metier-1", "/run/one")


def mounts(words: list[str]) -> list[str]:
    return [value for name, value in pairwise(words) if name == "--mount"]


def test_the_engine_is_asked_for_a_container_that_has_and_reaches_nothing(world: dict[str, Path]):
    skill, work = world["skill"], world["work"]
    assert options(world) == [
        *("create", "--rm", "--name", "metier-1", "--pull", "never", "--init", "--no-healthcheck"),
        *("--log-driver", "none", "--hostname", "skill", "--ipc", "private", "--read-only", "--cap-drop", "ALL"),
        *("--security-opt", "no-new-privileges", "--security-opt", "seccomp=/run/one/filter.json"),
        *("--network", "none", "--user", f"{os.geteuid()}:{os.getegid()}"),
        *("--pids-limit", "288", "--memory", "2147483648", "--memory-swap", "2147483648", "--shm-size", "67108864"),
        *("--ulimit", "core=0:0", "--ulimit", "fsize=1073741824:1073741824", "--ulimit", "nofile=1024:1024"),
        *("--tmpfs", "/tmp:rw,nosuid,nodev,exec,mode=1777,size=268435456"),
        *("--mount", f"type=bind,src={skill},dst={skill},ro,bind-recursive=disabled"),
        *("--mount", f"type=bind,src={work},dst={work}"),
        *("--env-file", "/run/one/variables", "--workdir", str(work)),
        *("--entrypoint", "python3", IMAGE, "-c", "pass"),
    ]


def test_gvisor_is_the_same_with_another_kernel(world: dict[str, Path]):
    gvisor = SandboxSupport("gvisor", "", engine="/usr/bin/docker", image=IMAGE)
    with_podman = SandboxSupport("gvisor", "", engine="/usr/bin/podman", image=IMAGE)
    assert options(world, gvisor)[:3] == ["create", "--runtime", "runsc"]
    assert options(world, with_podman)[:3] == ["--runtime", "runsc", "create"]
    assert options(world, gvisor)[3:] == options(world)[1:]


def test_podman_passes_on_no_proxies_and_fills_nothing_that_is_hidden(world: dict[str, Path]):
    (world["project"] / "secret").mkdir()
    hidden = {
        "permissions": SandboxPermissions(read=(str(world["project"]),)),
        "hidden": (f"{world['project']}/secret",),
    }
    words = options(world, PODMAN, **hidden)
    assert "--http-proxy=false" in words
    assert f"type=tmpfs,dst={world['project']}/secret,tmpfs-size=4096,tmpfs-mode=0555,ro,notmpcopyup" in mounts(words)
    assert f"type=bind,src={world['skill']},dst={world['skill']},ro,bind-nonrecursive" in mounts(words)
    rootless = SandboxSupport("podman", "", engine="/usr/bin/podman", image=IMAGE, rootless=True)
    assert "keep-id" in options(world, rootless)


def test_where_the_engine_runs_as_the_user_root_inside_is_the_user(world: dict[str, Path]):
    words = options(world, SandboxSupport("docker", "", engine="/usr/bin/docker", image=IMAGE, rootless=True))
    assert words[words.index("--user") + 1] == "0:0"


def test_what_is_protected_is_mounted_again_read_only_and_after_the_folder_around_it(world: dict[str, Path]):
    project = world["project"]
    for name in (".git", ".claude", "nested/.git"):
        (project / name).mkdir(parents=True)
    found = mounts(options(world, permissions=SandboxPermissions(write=(str(project),))))
    assert found.index(f"type=bind,src={project},dst={project}") == 0
    for name in (".git", ".claude", "nested/.git"):
        assert f"type=bind,src={project}/{name},dst={project}/{name},ro,bind-recursive=disabled" in found


def test_what_is_protected_stays_so_by_the_name_of_a_link(world: dict[str, Path], tmp_path: Path):
    project, link = world["project"], tmp_path / "link"
    (project / ".git").mkdir()
    link.symlink_to(project)
    found = mounts(options(world, permissions=SandboxPermissions(write=(str(link),))))
    assert f"type=bind,src={project},dst={link}" in found
    assert f"type=bind,src={project}/.git,dst={link}/.git,ro,bind-recursive=disabled" in found


def test_with_the_network_the_container_has_one(world: dict[str, Path]):
    assert "--network" not in options(world, permissions=SandboxPermissions(network=True))


@pytest.mark.parametrize("name", ["a,ro=false", 'a"b', "a\nb", "a\tb"])
def test_a_name_that_would_be_read_as_options_is_refused(world: dict[str, Path], name: str):
    (world["project"] / name).mkdir()
    with pytest.raises(Refused, match="can't be mounted"):
        options(world, permissions=SandboxPermissions(read=(f"{world['project']}/{name}",)))


@given(st.text("abc,=\"' :\n\t-é", min_size=1, max_size=12).filter(lambda name: name.strip("./")))
def test_no_name_becomes_an_option_of_its_mount(name: str):
    access = profile.PathAccess(f"/srv/{name}", "hide")
    try:
        found = container._mount_option((access.path, access), podman=False)
    except Refused:
        return
    assert found == ["--mount", f"type=bind,src=/dev/null,dst=/srv/{name},ro,bind-recursive=disabled"]
    assert found[1].count(",") == 4


def test_variables_go_through_a_file_in_which_nothing_can_be_added(world: dict[str, Path]):
    lines = container.variable_lines({"PATH": "/x", "KEY": 'a=b "c" #d $e', "HTTP_PROXY": "mine"})
    assert 'KEY=a=b "c" #d $e\n' in lines
    assert "HTTP_PROXY=mine\n" in lines
    assert "https_proxy=\n" in lines  # the client's own configuration would fill it
    assert "PATH=" not in lines
    for name, value in {"KEY": "a\nOTHER=b", "A\nB": "x", "# A": "x", "A B": "x", "KEY2": "a\rb"}.items():
        with pytest.raises(Refused, match="can't be given to a container"):
            container.variable_lines({name: value})
    assert "secret" not in " ".join(options(world))


def test_a_program_of_the_machine_is_the_images_of_that_name(world: dict[str, Path]):
    box = SandboxSpec("require", str(world["skill"]), str(world["work"]))

    def chosen(name: str) -> str:
        return container.image_program(program(name, cwd=world["work"]), box, box.work).path

    assert chosen("sh") == "sh"
    assert chosen("/usr/bin/node") == "node"
    assert chosen(sys.executable) == "python3"
    assert chosen("./tool") == f"{world['work']}/tool"
    assert chosen(f"{world['skill']}/run.sh") == f"{world['skill']}/run.sh"


@pytest.mark.parametrize(
    "image", ["", "python", "python:3.12", "python@sha256:12", "--privileged@sha256:" + "a" * 64, "x@md5:" + "a" * 64]
)
def test_an_image_without_a_digest_is_refused(image: str):
    machine = sandbox.MachineOptions(only="docker", image=image, chosen_by="sandbox.tier")
    footing = sandbox.probe_sandbox(machine)
    assert footing.tier == "none"
    assert footing.reason == (
        "sandbox.tier is docker; `sandbox.image` names no image by its digest, such as NAME@sha256:…"
    )
    with pytest.raises(Refused, match="names no image by its digest"):
        sandbox.run_sandboxed(program("true", cwd=""), SandboxSpec("require"), machine)


def test_a_container_is_never_chosen_by_itself_and_not_by_the_environment():
    assert sandbox.read_machine_options({}).only == "auto"
    with pytest.raises(BadRequest):
        sandbox.read_machine_options({"METIER_SANDBOX": "podman"}, configured={"tier": "docker"})
    chosen = sandbox.read_machine_options({}, configured={"tier": "docker", "image": IMAGE})
    assert (chosen.only, chosen.image, chosen.chosen_by) == ("docker", IMAGE, "sandbox.tier")
    assert (
        sandbox.read_machine_options({"METIER_SANDBOX": "landlock"}, configured={"tier": "docker"}).only == "landlock"
    )
    tried = sandbox.probe_sandbox(sandbox.MachineOptions(bwrap="/missing", landlock=False, image=IMAGE))
    assert "docker" not in tried.reason


def engine(folder: Path, text: str) -> str:
    path = folder / "docker"
    path.write_text(f"#!{sys.executable}\nimport os, subprocess, sys\nwords = sys.argv[1:]\n{text}")
    path.chmod(0o755)
    return str(path)


def footing(engine: str) -> SandboxSupport:
    return sandbox.probe_sandbox(
        sandbox.MachineOptions(only="docker", image=IMAGE, engine=engine, chosen_by="sandbox.tier")
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("sys.exit('Cannot connect to the Docker daemon')", "docker: Cannot connect to the Docker daemon"),
        ("sys.exit('Error: No such image: x')", f"docker has no image {IMAGE}: pull it"),
        ("print('{\"/data\": {}}')", "declares volumes, which a program could fill"),
        (
            "print('null' if 'inspect' in words else '[]')\nif 'create' in words: sys.exit('no room')",
            "the self-test did not finish: the container can't be made: no room",
        ),
    ],
)
def test_what_the_engine_lacks_is_said(tmp_path: Path, text: str, reason: str):
    found = footing(engine(tmp_path, text))
    assert found.tier == "none"
    assert reason in found.reason


NO_BOUNDARY = """
state = os.path.dirname(os.path.abspath(__file__)) + "/asked"
if words[:2] == ["image", "inspect"]:
    print("null")
elif words[0] == "create":
    import marshal
    with open(words[words.index("--env-file") + 1]) as file:
        env = dict(line.rstrip("\\n").split("=", 1) for line in file)
    with open(state, "wb") as file:
        marshal.dump((words, env), file)
elif words[0] == "start":
    import marshal
    with open(state, "rb") as file:
        asked, env = marshal.load(file)
    at = asked.index("--entrypoint")
    os.chdir(asked[asked.index("--workdir") + 1])
    os.execve(sys.executable, [sys.executable, *asked[at + 3 :]], env)
"""


def test_an_engine_that_keeps_nothing_apart_is_none(tmp_path: Path):
    """As a client that answers as it should and runs the program as any other."""
    found = footing(engine(tmp_path, NO_BOUNDARY))
    assert found.tier == "none"
    failed = {check.name for check in found.checks if not check.held}
    assert {"read outside", "write outside", "TCP", "signal another", "write .git", "change .git/config"} <= failed
    assert "read outside was done" in found.reason


def test_no_variable_of_a_skill_reaches_the_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    seen = tmp_path / "seen"
    client = engine(tmp_path, f"open({str(seen)!r}, 'a').write(repr(dict(os.environ)))\nprint('null')")
    support = SandboxSupport("docker", "", engine=client, image=IMAGE)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    env = {"DOCKER_HOST": "tcp://evil.example", "LD_PRELOAD": "/evil.so", "TOKEN": "skill-secret"}
    wanted = program("true", cwd="", env=env)
    sandbox._run_confined(wanted, SandboxSpec("require"), support, False)
    text = seen.read_text()
    assert "PATH" in text
    assert not [word for word in ("evil", "skill-secret", "sk-secret") if word in text]


def test_the_container_is_removed_when_its_program_has_ended_and_when_it_can_not_start(tmp_path: Path):
    calls = tmp_path / "calls"
    client = engine(tmp_path, f"open({str(calls)!r}, 'a').write(' '.join(words)[:60] + chr(10))\nprint('null')")
    support = SandboxSupport("docker", "", engine=client, image=IMAGE)
    sandbox._run_confined(program("true", cwd=""), SandboxSpec("require"), support, False)
    made, started, *_, removed = calls.read_text().splitlines()
    name = started.split()[-1]
    assert made.startswith(f"create --rm --name {name}")
    assert (started, removed) == (f"start --attach {name}", f"rm --force {name}")


def test_the_variables_are_ours_alone_and_go_with_the_program(tmp_path: Path):
    client = engine(
        tmp_path,
        "import stat\nif 'create' in words:\n path = words[words.index('--env-file') + 1]\n"
        " open(os.path.dirname(os.path.abspath(__file__)) + '/mode', 'w')"
        ".write(f'{os.stat(path).st_mode:o} {os.stat(os.path.dirname(path)).st_mode:o} {path}')",
    )
    sandbox._run_confined(
        program("true", cwd=""), SandboxSpec("require"), SandboxSupport("docker", "", engine=client, image=IMAGE), False
    )
    file, folder, path = (tmp_path / "mode").read_text().split()
    assert stat.S_IMODE(int(file, 8)) == 0o600
    assert stat.S_IMODE(int(folder, 8)) == 0o700
    assert not os.path.exists(path)


def test_no_key_stays_on_the_disk_while_the_program_runs(tmp_path: Path):
    """Or it would stay there for good if metier were killed."""
    client = engine(
        tmp_path,
        "note = os.path.dirname(os.path.abspath(__file__)) + '/path'\n"
        "if 'create' in words: open(note, 'w').write(words[words.index('--env-file') + 1])\n"
        "if 'start' in words: print(os.path.exists(open(note).read()))",
    )
    support = SandboxSupport("docker", "", engine=client, image=IMAGE)
    assert sandbox._run_confined(program("true", cwd=""), SandboxSpec("require"), support, False).stdout == "False\n"


def test_the_filter_by_names_refuses_what_the_filter_by_numbers_does():
    found = kernel.filter_profile(network=False)
    assert found["defaultAction"] == "SCMP_ACT_ALLOW"
    rules: list[dict[str, object]] = found["syscalls"]  # type: ignore[assignment]
    whole = {name: rule["errnoRet"] for rule in rules if not rule["args"] for name in rule["names"]}  # type: ignore[attr-defined]
    assert {"ptrace", "keyctl", "bpf", "mount", "unshare", "io_uring_setup", "socket", "clone3"} <= set(whole)
    assert whole["ptrace"] == 1
    assert whole["clone3"] == 38
    assert set(whole) - {"socket"} == {*syscalls.FORBIDDEN_CALLS, *syscalls.ABSENT_CALLS}
    json.dumps(found)
    families = [
        rule["args"][0]
        for rule in kernel.filter_profile(network=True)["syscalls"]  # type: ignore[attr-defined]
        if rule["names"] == ["socket"]
    ]
    refused = {check["value"] for check in families if check["op"] == "SCMP_CMP_EQ"}
    assert 1 in refused
    assert not refused & {2, 10, 16}
    assert {check["value"] for check in families if check["op"] == "SCMP_CMP_GT"} == {max(refused)}
