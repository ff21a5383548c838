"""The files of a skill as one value, and the digests that are stored of them."""

import os
from pathlib import Path

import pytest

from metier.schedule.pins import pin_folder
from metier.sources.skill_files import LINK_MODE, SkillFile, SkillFiles, folder_digest, manifest_digest
from metier.types.installed import FileRecord

STORED = "sha256:9282648b6dba69856a3636dd1cb56491c5703c422bfe56884a345cb6cb144c83"
"""Of the folder below, as stored pins and `bundled.json` already have it."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "s"
    (made / "scripts").mkdir(parents=True)
    for name, data, mode in (
        ("SKILL.md", b"---\nname: s\n---\nBody.\n", 0o640),
        ("scripts/run.sh", b"echo \xff\n", 0o755),
        ("aä.txt", b"x", 0o644),
    ):
        (made / name).write_bytes(data)
        (made / name).chmod(mode)
    os.symlink("SKILL.md", made / "link.md")
    return made


def test_the_digest_of_a_folder_is_the_one_that_was_stored_before(folder: Path):
    assert folder_digest(str(folder)) == STORED


def test_a_pin_has_the_digest_and_the_files_that_were_stored_before(folder: Path):
    pin = pin_folder(str(folder))

    assert pin.digest == STORED
    assert pin.files == (
        '{"SKILL.md": [false, "LS0tCm5hbWU6IHMKLS0tCkJvZHkuCg=="], "a\\u00e4.txt": [false, "eA=="], '
        '"link.md": [true, "LS0tCm5hbWU6IHMKLS0tCkJvZHkuCg=="], "scripts/run.sh": [true, "ZWNobyD/Cg=="]}'
    )


def test_the_digest_of_a_locks_list_is_the_one_that_was_stored_before():
    manifest = {
        "SKILL.md": FileRecord("sha256:aa", "644"),
        "l": FileRecord("link:SKILL.md", "link"),
        "aä": FileRecord("sha256:bb", "755"),
    }

    assert manifest_digest(manifest) == "sha256:11f01b6bf4dee6c50a7c30a2503875737d66947cf3220346139dccbc79566715"


def test_files_in_any_order_have_the_digest_of_their_folder(folder: Path):
    read = {"scripts/run.sh": 0o755, "SKILL.md": 0o600, "link.md": 0o777, "aä.txt": 0o444}
    files = SkillFiles({path: SkillFile(mode, (folder / path).read_bytes()) for path, mode in read.items()})

    assert files.digest == STORED


def test_a_digest_changes_with_a_path_a_byte_and_the_executable_bit():
    files = SkillFiles({"a": SkillFile(0o644, b"1"), "b": SkillFile(0o644, b"2")})
    others = (
        {"a": (0o644, b"1"), "c": (0o644, b"2")},
        {"a": (0o644, b"1"), "b": (0o644, b"3")},
        {"a": (0o744, b"1"), "b": (0o644, b"2")},
        {"a": (0o644, b"12"), "b": (0o644, b"")},
    )

    assert len({files.digest, *(SkillFiles.from_pairs(pairs).digest for pairs in others)}) == 5
    assert SkillFiles.from_pairs({"a": (0o600, b"1"), "b": (0o664, b"2")}).digest == files.digest


def test_texts_are_what_is_utf_8_without_nul():
    files = SkillFiles.from_pairs(
        {"a.md": (0o644, b"\xef\xbb\xbfA\r\n"), "b": (0o644, b"\xff"), "c": (0o644, b"x\0"), "d": (LINK_MODE, b"a.md")}
    )

    assert files.texts == {"a.md": "\ufeffA\r\n", "d": "a.md"}


def test_other_texts_keep_the_mode_and_add_nothing():
    files = SkillFiles.from_pairs({"run.sh": (0o755, b"old"), "a": (0o644, b"a")})

    changed = files.with_texts({"run.sh": "new", "more": "x"})

    assert dict(changed) == {"run.sh": (0o755, b"new"), "a": (0o644, b"a")}
    assert dict(files) == {"run.sh": (0o755, b"old"), "a": (0o644, b"a")}
