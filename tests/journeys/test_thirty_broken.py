"""A folder of thirty broken skills: each fault is explained, and what can be mended is mended and nothing else."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

METIER = str(Path(sys.executable).parent / "metier")


class Fault(NamedTuple):
    """What a file holds, the code that says so, whether the skill still loads, and the file after `lint --fix`."""

    data: bytes
    code: str
    loads: bool = False
    fixed: bytes | None = None


def head(name, more=""):
    return f"---\nname: {name}\ndescription: It does a thing.\n{more}---\n# Title\n\nBody text.\n".encode()


FAULTS = {
    "alias": Fault(head("alias", "metadata:\n  a: *b\n"), "invalid-yaml"),
    "anchor": Fault(head("anchor", "metadata: &a {b: c}\n"), "invalid-yaml"),
    "bom": Fault(b"\xef\xbb\xbf" + head("bom"), "bom-stripped", True, head("bom")),
    "bad-type": Fault(b"---\nname: bad-type\ndescription: [a, b]\n---\nBody\n", "field-type"),
    "colon": Fault(
        b"---\nname: colon\ndescription: Use when: asked\n---\nBody\n", "yaml-repaired", True,
        b'---\nname: colon\ndescription: "Use when: asked"\n---\nBody\n',
    ),
    "control": Fault(b"---\nname: control\ndescription: a\x07b\n---\nBody\n", "invalid-yaml", False, b"---\nname: control\ndescription: ab\n---\nBody\n"),
    "crlf-colon": Fault(
        b"---\r\nname: crlf-colon\r\ndescription: Use when: asked\r\n---\r\nBody\r\n", "yaml-repaired", True,
        b'---\r\nname: crlf-colon\r\ndescription: "Use when: asked"\r\n---\r\nBody\r\n',
    ),
    "deep": Fault(head("deep", "metadata: " + "[" * 100 + "\n"), "invalid-yaml"),
    "duplicate": Fault(head("duplicate", "description: Again.\n"), "duplicate-key", True),
    "empty": Fault(b"", "no-frontmatter"),
    "empty-block": Fault(b"---\n---\nBody text.\n", "not-a-mapping", False, b"---\nname: empty-block\ndescription: Body text.\n---\nBody text.\n"),
    "four-hyphens": Fault(b"----\nname: four-hyphens\ndescription: d\n----\n", "no-frontmatter"),
    "hidden": Fault(head("hidden", "").replace(b"Body", "Bo\u200b\u202ed\u2066y".encode()), "hidden-text", True, head("hidden")),
    "late-fence": Fault(b"\n" + head("late-fence"), "no-frontmatter", False, head("late-fence")),
    "latin": Fault(b"---\nname: latin\ndescription: caf\xe9\n---\n", "not-utf8"),
    "list": Fault(b"---\n- a\n- b\n---\nBody\n", "not-a-mapping"),
    "mismatch": Fault(head("something-else"), "name-mismatch", True),
    "merge": Fault(head("merge", "metadata:\n  <<: {a: b}\n"), "invalid-yaml"),
    "no-description": Fault(b"---\nname: no-description\n---\nBody text.\n", "missing-description", False, b"---\nname: no-description\ndescription: Body text.\n---\nBody text.\n"),
    "no-fence": Fault(b"# Title\n\nText.\n", "no-frontmatter", False, b"---\nname: no-fence\ndescription: Text.\n---\n# Title\n\nText.\n"),
    "no-name": Fault(b"---\ndescription: It does a thing.\n---\nBody\n", "missing-name", True, b"---\nname: no-name\ndescription: It does a thing.\n---\nBody\n"),
    "nul": Fault(head("nul").replace(b"Body", b"Bo\0dy"), "nul-byte"),
    "star": Fault(b"---\nname: star\ndescription: *bold* words\n---\nBody\n", "yaml-repaired", True, b'---\nname: star\ndescription: "*bold* words"\n---\nBody\n'),
    "tabs": Fault(head("tabs", "metadata:\n\tauthor: me\n"), "yaml-repaired", True, head("tabs", "metadata:\n  author: me\n")),
    "tag": Fault(head("tag", 'metadata: !!python/object/apply:os.system ["touch pwned"]\n'), "invalid-yaml"),
    "too-large": Fault(head("too-large") + b"x" * 256_000, "too-large"),
    "tools": Fault(head("tools", "allowed-tools: Bash(git add *\n"), "tools-invalid", True),
    "two-documents": Fault(head("two-documents", "--- x\na: b\n"), "invalid-yaml"),
    "typo": Fault(head("typo", "user-invokable: false\n"), "field-typo", True, head("typo", "user-invocable: false\n")),
    "unclosed": Fault(
        b"---\nname: unclosed\ndescription: It does a thing.\n\n# Title\n\nBody text.\n", "unclosed-frontmatter", False,
        b"---\nname: unclosed\ndescription: It does a thing.\n---\n\n# Title\n\nBody text.\n",
    ),
    "unbalanced": Fault(head("unbalanced", "metadata: {a: [b\n"), "invalid-yaml"),
    "utf16": Fault(head("utf16").decode().encode("utf-16"), "not-utf8"),
}  # fmt: skip
"""Those whose fault is in the bytes; those whose fault is the file itself are made by hand below."""

FILES = {"fifo": "not-a-file", "folder": "not-a-file", "dangling": "link-broken", "link-out": "link-outside"}


class Place(NamedTuple):
    root: Path
    env: dict[str, str]

    def run(self, *args):
        done = subprocess.run(
            [METIER, *args], capture_output=True, text=True, timeout=120, env=self.env, cwd=self.root.parent
        )
        for stream in (done.stdout, done.stderr):
            assert "Traceback" not in stream
            assert "\x1b" not in stream
            assert not set(stream) & set("\u200b\u202e\u2066\x07\0")
        return done

    def at(self, *args):
        return self.run("--root", str(self.root), *args)


@pytest.fixture
def place(tmp_path):
    root = tmp_path / "root"
    for name, fault in FAULTS.items():
        (root / name).mkdir(parents=True)
        (root / name / "SKILL.md").write_bytes(fault.data)
    (root / "small").mkdir()
    (root / "small" / "skill.md").write_bytes(head("small"))
    (root / "good").mkdir()
    (root / "good" / "SKILL.md").write_bytes(head("good"))
    for name in FILES:
        (root / name).mkdir()
    os.mkfifo(root / "fifo" / "SKILL.md")
    (root / "folder" / "SKILL.md").mkdir()
    os.symlink("nowhere", root / "dangling" / "SKILL.md")
    os.symlink(root / "good" / "SKILL.md", root / "link-out" / "SKILL.md")
    home = tmp_path / "home"
    home.mkdir()
    return Place(
        root, {"PATH": os.environ["PATH"], "HOME": str(home), "METIER_HOME": str(tmp_path / "state"), "NO_COLOR": "1"}
    )


def test_there_are_thirty_and_more():
    assert len(FAULTS) + len(FILES) >= 30


def test_status_explains_every_skill_that_does_not_load(place):
    done = place.at("status", "-v")

    assert done.returncode == 0
    lines = done.stdout.splitlines()
    for name, code in [*((name, fault.code) for name, fault in FAULTS.items() if not fault.loads), *FILES.items()]:
        said = [number for number, line in enumerate(lines) if f"/{name}/SKILL.md" in line and f"[{code}]" in line]
        assert len(said) == 1, (name, code)
        assert "→" in lines[said[0] + 1], name
    assert f"Not loaded: {sum(not fault.loads for fault in FAULTS.values()) + len(FILES)}" in lines


def test_why_explains_each_one(place):
    broken = [*((name, fault.code) for name, fault in FAULTS.items() if not fault.loads), *FILES.items()]
    for name, code in broken[::3]:
        done = place.at("why", name)
        assert done.returncode == 0, (name, done.stderr)
        assert re.search(r"^  parsed +no +\S", done.stdout, re.MULTILINE), (name, code)
        assert "→" in done.stdout, name
    assert re.search(r"^  parsed +yes", place.at("why", "good").stdout, re.MULTILINE)


def test_why_says_what_was_repaired(place):
    assert "repaired" in place.at("why", "colon").stdout
    assert "byte order mark" in place.at("why", "bom").stdout


def test_lint_explains_every_fault_in_one_line_with_a_hint(place):
    done = place.run("lint", str(place.root))

    assert done.returncode == 1
    lines = done.stdout.splitlines()
    for name, code in [*((name, fault.code) for name, fault in FAULTS.items()), *FILES.items(), ("small", "file-case")]:
        said = [number for number, line in enumerate(lines) if f"/{name}/" in line and f"[{code}]" in line]
        assert said, (name, code)
        assert lines[said[0] + 1].startswith("  → "), name
    assert not [line for line in lines if "/good/" in line]
    places = [line for line in lines if not line.startswith("  →")][:-1]
    assert all(re.match(r"/.+?: (error|warning|info): .+ \[[a-z0-9-]+\]$", line) for line in places)


def test_lint_gives_the_same_findings_as_one_json_document(place):
    found = json.loads(place.run("lint", "--json", str(place.root)).stdout)

    codes = {Path(one["path"]).parent.name: {problem["code"] for problem in one["problems"]} for one in found}
    for name, fault in FAULTS.items():
        assert fault.code in codes[name]


def test_fix_mends_what_can_be_mended_and_touches_no_other_byte(place):
    os.chmod(place.root / "colon" / "SKILL.md", 0o640)
    done = place.run("lint", "--fix", str(place.root))

    assert done.returncode == 1
    for name, fault in FAULTS.items():
        after = (place.root / name / "SKILL.md").read_bytes()
        assert after == (fault.data if fault.fixed is None else fault.fixed), name
        assert (f"/{name}/SKILL.md: fixed: " in done.stdout) == (fault.fixed is not None), name
    assert (place.root / "small" / "SKILL.md").read_bytes() == head("small")
    assert not (place.root / "small" / "skill.md").exists()
    assert (place.root / "colon" / "SKILL.md").stat().st_mode & 0o777 == 0o640
    assert (place.root / "good" / "SKILL.md").read_bytes() == head("good")
    assert os.readlink(place.root / "dangling" / "SKILL.md") == "nowhere"
    assert not (place.root.parent / "pwned").exists()


def test_fixing_twice_is_fixing_once(place):
    place.run("lint", "--fix", str(place.root))
    again = place.run("lint", "--fix", str(place.root))

    assert "mended:" not in again.stdout
    assert again.stdout.splitlines()[-1].endswith(", 0 fixed")


def test_what_was_mended_loads_afterwards(place):
    place.run("lint", "--fix", str(place.root))
    listed = place.at("list").stdout

    for name in (name for name, fault in FAULTS.items() if fault.loads or fault.fixed is not None):
        assert name in listed or "something-else" in listed, name


def test_status_is_the_same_with_a_warm_index(place):
    first, second = place.at("status", "-v"), place.at("status", "-v")

    assert first.stdout == second.stdout
    assert first.returncode == second.returncode == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_that_may_not_be_read_is_named(place):
    os.chmod(place.root / "good" / "SKILL.md", 0)

    assert "[unreadable]" in place.at("status", "-v").stdout
