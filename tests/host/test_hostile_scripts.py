"""Generated hostile scripts with a writable project, and then the user's own programs on what they left, outside.

`strace` lists every program that git, bash, make, npm, node, vim and others start: none may be one of theirs.  The same
program is named by whatever a script leaves, and writes a mark, so that it is noticed without `strace` too.
"""

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.host.boxes import HERE, SOAK, Desk, sh

from metier.sandbox.obeyed import OBEYED

SCRIPTS = int(os.environ.get("METIER_SCRIPTS", 2_000 if SOAK else 12))
BATCH = 20
"""Scripts in one project before the user's programs are run over it."""
MAKERS = {
    "a file": 'mkdir -p "$(dirname "$at")"; printf "%s\\n" "$text" > "$at"; chmod +x "$at"',
    "moved into place": 'mkdir -p "$(dirname "$at")" x$$; printf "%s\\n" "$text" > x$$/y; mv -T x$$/y "$at"',
    "a folder moved": 'mkdir -p x$$; printf "%s\\n" "$text" > x$$/config; cp x$$/config x$$/settings.json; mv -T x$$ "$at"',
    "a link": 'mkdir -p x$$ "$(dirname "$at")"; printf "%s\\n" "$text" > x$$/y; ln -s "$PWD/x$$/y" "$at"',
    "a hard link": 'mkdir -p "$(dirname "$at")"; printf "%s\\n" "$text" > y$$; ln y$$ "$at"',
    "taken over": 'mv "${at%%/*}" aside$$; mkdir -p "$(dirname "$at")"; printf "%s\\n" "$text" > "$at"',
    "copied over": 'cp -r "${at%%/*}" c$$; rm -rf "${at%%/*}"; mv -T c$$ "${at%%/*}"; printf "%s\\n" "$text" > "$at"',
    "closed": 'mkdir -p "$(dirname "$at")"; printf "%s\\n" "$text" > "$at"; chmod 311 "$(dirname "$at")"',
    "old": 'mkdir -p "$(dirname "$at")"; printf "%s\\n" "$text" > "$at"; touch -d 2001-01-01 "$at" "$(dirname "$at")"',
}  # fmt: skip
TEXTS = (
    "[core]\n\tfsmonitor = {tool}\n\thooksPath = {folder}\n\tpager = {tool}\n[alias]\n\tstatus = !{tool}\n",
    "#!/bin/sh\n{tool}\n",
    "all:\n\t{tool}\n$(shell {tool})\n",
    '{{"scripts": {{"preinstall": "{tool}", "test": "{tool}", "prepare": "{tool}"}}, "name": "x", "version": "1.0.0"}}',
    "script-shell={tool}\nnode-options=--require {tool}\n",
    ":silent !{tool}\n",
    "require('child_process').execFileSync('{tool}')\n",
)
REPOSITORIES = (
    "git init -q $at; git -C $at config core.fsmonitor {tool}",
    "git init -q --bare $at; git -C $at config core.bare false; git -C $at config core.worktree .; git -C $at config core.fsmonitor {tool}",
    "git init -q --bare g$$; git -C g$$ config core.bare false; git -C g$$ config core.fsmonitor {tool}; mkdir -p $at; echo gitdir: $PWD/g$$ > $at/.git",
    "git init -q --bare g$$; mkdir -p $at; cp g$$/HEAD $at; echo $PWD/g$$ > $at/commondir; git -C g$$ config core.fsmonitor {tool}; git -C g$$ config core.worktree $PWD/$at",
    "mv vendor v$$; cp -r v$$ vendor; printf '[core]\\nfsmonitor={tool}\\n' >> vendor/lib/.git/config",
    "printf '[core]\\nfsmonitor={tool}\\n' >> .git/config; cp {tool} .git/hooks/post-index-change; mkdir -p .git/hooks",
    "printf '[core]\\nfsmonitor={tool}\\n' >> vendor/lib/.git/config; ln -sfn $PWD/src vendor/lib",
)  # fmt: skip


def hostile_script(chance: random.Random, tool: str, folder: str) -> str:
    """A script that leaves orders in a few places."""
    steps = []
    for _ in range(chance.randint(1, 4)):
        place = chance.choice(["", "src/", "new/", "src/deep/er/", "vendor/lib/", "vendor/"])
        if chance.random() < 0.3:
            body = chance.choice(REPOSITORIES).format(tool=tool)
            at = place + chance.choice(["", "sub", "x y"])
            steps.append(f"at='{at or '.'}'; {body}")
            continue
        row = chance.choice(OBEYED)
        # The folder that skills are read from is the library's to judge, not the sweep's.
        name = row.pattern.replace("*", "x") if not row.pattern.endswith("agents") else ".envrc"
        inner = chance.choice(["", "", "/config", "/settings.json", "/hooks/post-checkout"])
        text = chance.choice(TEXTS).format(tool=tool, folder=folder)
        steps.append(
            f"at='{place}{name}{inner}'; text='{text.replace(chr(39), '')}'; {MAKERS[chance.choice([*MAKERS])]}"
        )
    return "; ".join(f"({step}) 2>/dev/null" for step in steps) + "; true"


def user_programs(project: Path, home: Path) -> list[tuple[list[str], Path, dict[str, str]]]:
    """What a user runs next, in each folder: programs that are not here are left out."""
    plain = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "GIT_PAGER": "cat", "TERM": "dumb"}
    folders = [project, *(path for path in sorted(project.rglob("*")) if path.is_dir() and not path.is_symlink())]
    folders = [path for path in folders if ".git" not in path.relative_to(project).parts][:40]
    commands = [(["git", "status"], at, plain) for at in folders]
    for at in folders[:12]:
        at_home = plain | {"HOME": str(at)}  # as if the folder were a home
        commands += [(["bash", "-lic", "true"], at, at_home), (["git", "status"], at, at_home)]
        commands += [(["zsh", "-lic", "true"], at, at_home), (["vim", "-es", "-c", "set exrc", "-c", "q"], at, at_home)]
        commands += [(["make", "-n"], at, plain), (["node", "-e", "1"], at, at_home)]
    commands += [(["npm", "install", "--offline", "--no-audit", "--no-fund"], project, plain)]
    commands += [(["npm", "test"], at, plain) for at in folders[:3]] + [(["git", "diff"], project, plain)]
    return [(argv, at, env) for argv, at, env in commands if shutil.which(argv[0], path=plain["PATH"])]


def started(project: Path, home: Path, tool: Path, mark: Path) -> list[str]:
    """The programs of the user's that started one of theirs."""
    tracer = ["strace", "-f", "-qq", "-e", "trace=execve", "-o", str(home / "trace")] if shutil.which("strace") else []
    bad = []
    for argv, at, env in user_programs(project, home):
        run = {
            "cwd": at,
            "env": env,
            "stdin": subprocess.DEVNULL,
            "capture_output": True,
            "timeout": 120,
            "check": False,
        }
        subprocess.run([*tracer, *argv], **run)  # type: ignore[call-overload]
        traced = (home / "trace").read_text(errors="replace") if tracer else ""
        # What a shell is asked to look up counts only if it lies in the project.
        if mark.exists() or f'execve("{tool}"' in traced or f'execve("{project}/' in traced:
            bad.append(f"{argv} in {at}")
            mark.unlink(missing_ok=True)
    return bad


def lay_project(desk: Desk) -> None:
    shutil.rmtree(desk.project)
    for name in ("src/deep/er", "vendor/lib"):
        (desk.project / name).mkdir(parents=True)
    for at in (desk.project, desk.project / "vendor/lib"):
        subprocess.run(["git", "init", "-q", str(at)], check=True)
    (desk.project / "Makefile").write_text("all:\n\t@true\n")
    (desk.project / "src/code.py").write_text("print(1)\n")


@pytest.mark.parametrize("tier", [tier for tier in HERE if tier != "wheel"])
def test_no_program_of_the_users_starts_what_a_hostile_script_left(tier: str, world: dict[str, Path], tmp_path: Path):
    from tests.host.boxes import desk_for

    desk, mark, home = desk_for(tier, world), tmp_path / "mark", tmp_path / "home"
    home.mkdir()
    tool = tmp_path / "tool"
    tool.write_text(f"#!/bin/sh\ntouch '{mark}'\n")
    tool.chmod(0o755)
    chance, failures = random.Random(20_11), []
    count = SCRIPTS if tier == "bubblewrap" else SCRIPTS // 4
    for first in range(0, count, BATCH):
        lay_project(desk)
        scripts = [hostile_script(chance, str(tool), str(tmp_path)) for _ in range(min(BATCH, count - first))]
        for script in scripts:
            ran = desk.run(sh(script, cwd=desk.project, seconds=20), desk.box(write=(desk.project,)))
            assert ran.status == 0, (script, ran)
        failures += [f"{bad} after {first}" for bad in started(desk.project, home, tool, mark)]
    assert failures == []


def test_without_the_sweep_they_would(bubble: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The control: what the scripts leave is obeyed."""
    monkeypatch.setattr("metier.sandbox.quarantine.GrantSweeper.finish", lambda self: ())
    mark, home, tool = tmp_path / "mark", tmp_path / "home", tmp_path / "tool"
    home.mkdir()
    tool.write_text(f"#!/bin/sh\ntouch '{mark}'\n")
    tool.chmod(0o755)
    lay_project(bubble)
    bubble.run(
        sh(f"at=src; {REPOSITORIES[0].format(tool=tool)}", cwd=bubble.project), bubble.box(write=(bubble.project,))
    )
    assert started(bubble.project, home, tool, mark) != []


def test_every_way_is_among_the_scripts():
    chance = random.Random(1)
    text = "\n".join(hostile_script(chance, "/tool", "/folder") for _ in range(500))
    assert all(maker in text for maker in MAKERS.values())
