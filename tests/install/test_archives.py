"""metier's own extractor: files and folders only, the whole archive or nothing."""

import io
import os
import stat
import struct
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from tests.cli.console import Desk

from metier.host.archives import BOUNDS, unpack_archive
from metier.host.trees import inner_path
from metier.types.errors import Refused


def tar(path: Path, *members: tuple[str, bytes] | tarfile.TarInfo, mode: str = "w:gz", **more: int) -> Path:
    with tarfile.open(path, mode, **more) as out:  # type: ignore[call-overload]
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                out.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size, info.mode = len(member[1]), 0o4777
                out.addfile(info, io.BytesIO(member[1]))
    return path


def zipped(path: Path, *members: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in members:
            out.writestr(name, data)
    return path


def special(name: str, kind: bytes, to: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, to
    return info


def zip_mode(name: str, mode: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, mode << 16
    return info


def take(archive: Path, target: Path, strip: int = 0) -> list[str]:
    target.mkdir()
    unpack_archive(str(archive), str(target), strip)
    return sorted(str(path.relative_to(target)) for path in target.rglob("*") if path.is_file())


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_every_kind_of_tar_is_read(tmp_path, mode):
    archive = tar(tmp_path / "a", ("./x/y.txt", b"1"), ("x/" + "long" * 60, b"2" * 100_000), mode=mode)
    assert take(archive, tmp_path / "out") == ["x/" + "long" * 60, "x/y.txt"]
    assert (tmp_path / "out/x/y.txt").read_bytes() == b"1"


def test_a_gnu_tar_and_a_ustar_with_a_prefix_are_read(tmp_path):
    for number, form in enumerate((tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT)):
        name = "/".join(["folder"] * 20) + "/file"
        archive = tar(tmp_path / f"a{number}", (name, b"1"), mode="w", format=form)
        assert take(archive, tmp_path / f"out{number}") == [name]


def test_an_archive_of_a_commit_is_read(tmp_path, repo):
    out = subprocess.run(["git", "archive", "--format=tar.gz", "HEAD"], cwd=repo.path, capture_output=True).stdout
    (tmp_path / "a.tgz").write_bytes(out)
    assert "skills/pdf/SKILL.md" in take(tmp_path / "a.tgz", tmp_path / "out")


def test_a_zip_is_read_and_only_the_right_to_run_is_kept_of_modes(tmp_path):
    archive = zipped(tmp_path / "a.zip", (zip_mode("s/run.sh", 0o106777), b"x"), ("s/plain", b"y"))
    assert take(archive, tmp_path / "out") == ["s/plain", "s/run.sh"]
    assert stat.S_IMODE((tmp_path / "out/s/run.sh").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "out/s/plain").stat().st_mode) == 0o644
    tar(tmp_path / "b", ("run", b"x"))
    take(tmp_path / "b", tmp_path / "out2")
    assert stat.S_IMODE((tmp_path / "out2/run").stat().st_mode) == 0o755


def test_folders_that_are_stripped_leave_what_is_inside(tmp_path):
    archive = tar(tmp_path / "a", ("wrap/x", b"1"), ("wrap/d/y", b"2"), ("loose", b"3"))
    assert take(archive, tmp_path / "out", strip=1) == ["d/y", "x"]


def test_an_archive_of_which_stripping_leaves_nothing_is_refused(desk: Desk):
    archive = tar(desk.project / "a.tar", ("wrap/x", b"1"))
    said = desk.say("unpack", str(archive), "out", "--strip", "2")
    assert (said.code, "no file of" in said.err) == (4, True)
    assert not (desk.project / "out").exists()


BAD = {
    "up": [("ok", b"1"), ("../out", b"2")],
    "up-inside": [("a/../../out", b"2")],
    "absolute": [("/out", b"2")],
    "backslash": [("..\\out", b"2")],
    "drive": [("C:/out", b"2")],
    "newline": [("a\nb", b"2")],
    "twice": [("a", b"1"), ("a", b"2")],
    "case": [("A/x", b"1"), ("a/x", b"2")],
    "accent": [("e\u0301", b"1"), ("\xe9", b"2")],
    "file-and-folder": [("a", b"1"), ("a/b", b"2")],
    "git": [("s/.git/config", b"[core]\nfsmonitor = touch /tmp/x\n")],
    "git-in-other-letters": [("s/.GIT./config", b"x")],
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_an_archive_that_leads_out_or_is_ambiguous_is_refused_whole(tmp_path, name, kind):
    make = tar if kind == "tar" else zipped
    archive = make(tmp_path / "a", *BAD[name])
    with pytest.raises(Refused):
        take(archive, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "out"]


@pytest.mark.parametrize(
    "member",
    [
        special("l", tarfile.SYMTYPE, "/etc/passwd"), special("l", tarfile.LNKTYPE, "../x"),
        special("f", tarfile.FIFOTYPE), special("d", tarfile.CHRTYPE), special("s", tarfile.GNUTYPE_SPARSE),
    ],
    ids=["link", "hard-link", "pipe", "device", "sparse"],
)  # fmt: skip
def test_a_tar_with_anything_but_files_and_folders_is_refused_whole(tmp_path, member):
    with pytest.raises(Refused):
        take(tar(tmp_path / "a", ("ok", b"1"), member), tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_the_link_trick_that_gets_past_pythons_own_filter_is_refused(tmp_path):
    """A chain of links longer than a path may be: the data filter of several Pythons writes through it."""
    deep = "d" * 200
    members: list[tarfile.TarInfo | tuple[str, bytes]] = [special(deep, tarfile.DIRTYPE)]
    members += [special("a", tarfile.SYMTYPE, deep), special("a/b", tarfile.SYMTYPE, ".."), ("a/b/victim", b"x")]
    (tmp_path / "victim").write_text("mine")
    with pytest.raises(Refused):
        take(tar(tmp_path / "a", *members), tmp_path / "out")
    assert (tmp_path / "victim").read_text() == "mine"


@pytest.mark.parametrize("mode", [stat.S_IFLNK | 0o777, stat.S_IFIFO | 0o644, stat.S_IFCHR | 0o644])
def test_a_zip_with_a_link_or_a_device_is_refused_whole(tmp_path, mode):
    with pytest.raises(Refused):
        take(zipped(tmp_path / "a", ("ok", b"1"), (zip_mode("l", mode), b"/etc")), tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_what_leads_out_only_after_stripping_is_refused(tmp_path):
    with pytest.raises(Refused):
        take(tar(tmp_path / "a", ("wrap/../../x", b"1")), tmp_path / "out", strip=1)
    archive = tar(tmp_path / "b", ("one/same", b"1"), ("two/same", b"2"))
    with pytest.raises(Refused):
        take(archive, tmp_path / "out2", strip=1)


def bomb_zip(path: Path) -> Path:
    return zipped(path, ("zeros", b"\0" * 100_000_000))


def bomb_tar(path: Path) -> Path:
    return tar(path, ("zeros", b"\0" * 100_000_000))


def many_tar(path: Path) -> Path:
    with tarfile.open(path, "w:gz", compresslevel=1) as out:
        for number in range(60_000):
            out.addfile(tarfile.TarInfo(f"f{number}"))
    return path


def overlapping_zip(path: Path) -> Path:
    """Two entries that share bytes: the body of the first is the second, header and all."""
    second = zipped(path, ("second", b"y" * 1000)).read_bytes()
    with zipfile.ZipFile(path) as opened:
        cut = opened.start_dir
    table = second[cut : second.rindex(b"PK\x05\x06")]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as out:
        out.writestr("first", second[:cut])
        at = out.start_dir - cut
    first = path.read_bytes()
    start, end = first.index(b"PK\x01\x02", at + cut), first.rindex(b"PK\x05\x06")
    both = first[start:end] + table[:42] + at.to_bytes(4, "little") + table[46:]
    tail = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 2, 2, len(both), start, 0)
    path.write_bytes(first[:start] + both + tail)
    return path


def lying_zip(path: Path) -> Path:
    """The table of contents says one byte; the entry has many."""
    zipped(path, ("first", b"x" * 100_000))
    data = bytearray(path.read_bytes())
    start = data.index(b"PK\x01\x02")
    data[start + 24 : start + 28] = (1).to_bytes(4, "little")
    path.write_bytes(data)
    return path


def boasting_zip(path: Path) -> Path:
    """The table of contents says more bytes than there are."""
    zipped(path, ("first", b"x" * 1000))
    data = bytearray(path.read_bytes())
    start = data.index(b"PK\x01\x02")
    data[start + 24 : start + 28] = (2000).to_bytes(4, "little")
    path.write_bytes(data)
    return path


def huge_header_tar(path: Path) -> Path:
    with tarfile.open(path, "w:gz") as out:
        info = tarfile.TarInfo("x")
        info.pax_headers = {"comment": "c" * 5_000_000}
        out.addfile(info)
    return path


def trailing(path: Path) -> Path:
    path.write_bytes(tar(path, ("a", b"1")).read_bytes() + b"more")
    return path


def trailing_zip(path: Path) -> Path:
    path.write_bytes(zipped(path, ("a", b"1")).read_bytes() + b"more")
    return path


def leading_zip(path: Path) -> Path:
    path.write_bytes(b"PK\x03\x04 not really" + zipped(path, ("a", b"1")).read_bytes())
    return path


def cut_short(path: Path) -> Path:
    path.write_bytes(tar(path, ("a", os.urandom(50_000))).read_bytes()[:-9_000])
    return path


def cut_zip(path: Path) -> Path:
    path.write_bytes(zipped(path, ("a", os.urandom(50_000))).read_bytes()[:-30])
    return path


def nonsense(path: Path) -> Path:
    path.write_bytes(b"this is no archive" * 100)
    return path


def empty(path: Path) -> Path:
    path.write_bytes(b"")
    return path


MADE = (
    bomb_zip, bomb_tar, many_tar, overlapping_zip, lying_zip, boasting_zip, huge_header_tar, trailing, trailing_zip, leading_zip,
    cut_short, cut_zip, nonsense, empty,
)  # fmt: skip


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_bombs_liars_and_torn_archives_are_refused_soon_and_in_little_memory(tmp_path, make):
    archive = make(tmp_path / "a")
    (tmp_path / "out").mkdir()
    code = (
        "import sys, time\nfrom metier.host.archives import unpack_archive\nfrom metier.types.errors import Refused\n"
        "began = time.process_time()\n"
        "try:\n    unpack_archive(sys.argv[1], sys.argv[2])\n"
        "except Refused as error:\n"
        "    peak = open('/proc/self/status').read().partition('VmHWM:')[2].split()[0]\n"
        "    print('refused', time.process_time() - began, peak)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(archive), str(tmp_path / "out")], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.startswith("refused"), done.stdout + done.stderr
    _, seconds, kilobytes = done.stdout.split()
    assert float(seconds) <= 2
    assert int(kilobytes) <= 100_000


def test_a_zip_with_a_million_entries_is_refused_before_its_table_is_read(tmp_path):
    length = 9_000_000
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 50_000, 50_000, length, 4, 0)
    (tmp_path / "a").write_bytes(b"PK\x03\x04" + bytes(length) + end)
    with pytest.raises(Refused, match="too many entries"):
        take(tmp_path / "a", tmp_path / "out")


def test_a_zip_inside_a_zip_is_only_a_file(tmp_path):
    inner = zipped(tmp_path / "inner.zip", ("../../x", b"1")).read_bytes()
    assert take(zipped(tmp_path / "a.zip", ("inner.zip", inner)), tmp_path / "out") == ["inner.zip"]


def test_a_full_disk_is_no_archives_fault(tmp_path):
    archive = tar(tmp_path / "a", ("x", b"1" * 100_000))
    code = (
        "import resource, signal, sys\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "from metier.host.archives import unpack_archive\nfrom metier.types.errors import HostError\n"
        "try:\n    unpack_archive(sys.argv[1], sys.argv[2])\nexcept HostError as error:\n    print(error.message)\n"
    )
    (tmp_path / "out").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code, str(archive), str(tmp_path / "out")], capture_output=True, text=True
    )
    assert "can't be written" in done.stdout, done.stderr


def test_bounds_are_those_that_are_written_down():
    assert (BOUNDS.entries, BOUNDS.total, BOUNDS.one, BOUNDS.ratio) == (20_000, 512 << 20, 256 << 20, 200)


def test_unpack_makes_the_folder_whole_or_not_at_all(desk: Desk):
    good = tar(desk.project / "good.tar.gz", ("wrap/SKILL.md", b"x"), ("wrap/a/b", b"y"))
    said = desk.say("unpack", str(good), "out", "--strip", "1")
    assert (said.code, said.out) == (0, f"Unpacked 2 files to {desk.project}/out\n")
    assert (desk.project / "out/a/b").read_text() == "y"
    bad = tar(desk.project / "bad.tar.gz", ("ok", b"1"), ("../../evil", b"2"))
    said = desk.say("unpack", str(bad), "other")
    assert said.code == 4
    assert "../../evil" in said.err
    assert sorted(path.name for path in desk.project.iterdir()) == [".git", "bad.tar.gz", "good.tar.gz", "out"]
    assert not (desk.project.parent.parent / "evil").exists()


def test_unpack_writes_over_nothing(desk: Desk):
    good = tar(desk.project / "good.tar.gz", ("a", b"x"))
    (desk.project / "out").mkdir()
    assert desk.say("unpack", str(good), "out").code == 0
    again = desk.say("unpack", str(good), "out")
    assert again.code == 2
    assert "already exists" in again.err
    (desk.project / "link").symlink_to("/tmp")
    assert desk.say("unpack", str(good), "link").code == 2
    assert desk.say("unpack", "nowhere.zip", "x").code == 2
    assert desk.say("unpack", ".", "x").code == 2


def test_a_named_pipe_is_no_archive_and_nobody_waits_for_it(tmp_path):
    os.mkfifo(tmp_path / "skill.tar.gz")
    with pytest.raises(Refused, match="is no regular file"):
        unpack_archive(str(tmp_path / "skill.tar.gz"), str(tmp_path / "target"))


@pytest.mark.parametrize("mark", ["\u202e", "\u2066", "\u200f", "\u061c"])
def test_a_name_with_a_mark_of_direction_is_refused(mark: str):
    """`exe.jpg` may be a `gpj.exe` that is written from right to left."""
    with pytest.raises(Refused, match="control character"):
        inner_path(f"scripts/{mark}gpj.exe")
