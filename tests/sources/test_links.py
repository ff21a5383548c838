"""Links, special files and unreadable ones: followed, contained or refused, the same by both ways to open files."""

import contextlib
import json
import os
import socket
import threading
import time
from pathlib import Path

import pytest
from tests.home import World, as_somebody_else, codes, ids, world_for_everybody, write_skill

from metier.host import files
from metier.types.errors import OutsideSkill

SECRET = "---\nname: secret\ndescription: Outside.\n---\nsecret\n"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside/secret"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(SECRET)
    return folder


@pytest.fixture
def theirs(world: World) -> Path:
    """A root in which links are contained."""
    root = world.project / ".agents/skills"
    root.mkdir(parents=True)
    return root


@pytest.fixture
def own(world: World) -> Path:
    """A root in which links are the user's own."""
    root = world.home / ".agents/skills"
    root.mkdir(parents=True)
    return root


def broken_codes(library):
    return {item.id: [mark.code for mark in item.findings] for item in library.broken}


def test_a_linked_folder_is_followed_in_a_user_root(world: World, opener, own: Path, outside: Path):
    (own / "linked").symlink_to(outside)
    library = world.open()
    assert ids(library) == ["linked"]
    assert library.read(library.skills[0]).text.strip() == "secret"


def test_a_linked_folder_that_leaves_a_project_root_is_refused_and_said(world: World, opener, theirs: Path, outside):
    (theirs / "absolute").symlink_to(outside)
    (theirs / "relative").symlink_to(os.path.relpath(outside, theirs))
    library = world.open()
    assert ids(library) == []
    assert codes(library) == ["link-outside", "link-outside"]


def test_a_linked_folder_that_stays_in_its_project_root_is_followed(world: World, opener, theirs: Path):
    write_skill(theirs / "group/real")
    (theirs / "a-link").symlink_to("group/../group/real")
    (theirs / "group/to-itself").symlink_to(".")
    library = world.open()
    assert ids(library) == ["a-link"]
    assert codes(library) == []


def test_the_same_file_through_two_roots_loads_once(world: World, opener, own: Path):
    write_skill(own / "one")
    claude = world.home / ".claude/skills"
    claude.mkdir(parents=True)
    (claude / "one").symlink_to(own / "one")
    (claude / "again").symlink_to(own / "one")
    assert [skill.origin.root for skill in world.open().skills] == ["user-agents"]


def test_loops_and_links_to_nowhere_end_and_are_said(world: World, opener, own: Path, theirs: Path):
    for root in (own, theirs):
        (root / "loop-a").symlink_to("loop-b")
        (root / "loop-b").symlink_to("loop-a")
        (root / "nowhere").symlink_to("missing")
        (root / "parent").symlink_to("..")
        write_skill(root / "good")
    library = world.open()
    assert ids(library) == ["good", "good"]
    assert codes(library).count("link-broken") == 6


def test_a_link_to_the_root_of_the_disk_brings_nothing(world: World, opener, own: Path, theirs: Path):
    (own / "everything").symlink_to("/")
    (theirs / "everything").symlink_to("/")
    library = world.open()
    assert ids(library) == []
    assert codes(library) == ["link-outside"]


def test_a_link_to_a_file_is_no_skill(world: World, opener, own: Path, outside: Path):
    (own / "file").symlink_to(outside / "SKILL.md")
    library = world.open()
    assert (ids(library), codes(library)) == ([], [])


def test_a_skill_file_may_be_a_link_inside_its_folder(world: World, opener, own: Path, theirs: Path):
    for root in (own, theirs):
        write_skill(root / "one").rename(root / "one/real.md")
        (root / "one/docs").mkdir()
        (root / "one/SKILL.md").symlink_to("docs/../real.md")
    library = world.open()
    assert ids(library) == ["one", "one"]
    assert [library.read(skill).text.strip() for skill in library.skills] == ["Do it.", "Do it."]


def test_a_skill_file_may_be_a_link_inside_a_folder_that_is_reached_by_a_link(world: World, opener, own, outside: Path):
    (outside / "SKILL.md").rename(outside / "real.md")
    (outside / "SKILL.md").symlink_to("real.md")
    (own / "linked").symlink_to(outside)
    library = world.open()
    assert ids(library) == ["linked"]
    assert library.read(library.skills[0]).text.strip() == "secret"


@pytest.mark.parametrize("target", ["/etc/passwd", "../../../../../../etc/passwd", "../other/SKILL.md"])
def test_a_skill_file_that_is_a_link_out_of_its_folder_is_broken(world: World, opener, own, theirs: Path, target: str):
    for root in (own, theirs):
        write_skill(root / "other")
        (root / "bad").mkdir()
        (root / "bad/SKILL.md").symlink_to(target)
    library = world.open()
    assert ids(library) == ["other", "other"]
    assert broken_codes(library) == {"bad": ["link-outside"]}
    assert len(library.broken) == 2


def test_a_skill_file_that_leads_nowhere_or_round_and_round_is_broken(world: World, opener, own: Path):
    for name, target in (("nowhere", "missing.md"), ("round", "SKILL.md")):
        (own / name).mkdir()
        (own / name / "SKILL.md").symlink_to(target)
    assert broken_codes(world.open()) == {"nowhere": ["link-broken"], "round": ["link-broken"]}


@pytest.mark.parametrize("place", [".agents/skills", ".agents", "skills", ".claude/skills"])
def test_a_project_root_that_is_a_link_out_of_the_project_is_not_entered(world: World, opener, own, outside, place):
    write_skill(own / "mine")
    link = world.project / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(world.home / ".agents" / ("" if place == ".agents" else "skills"))
    library = world.open()
    assert [(skill.id, skill.origin.source) for skill in library.skills] == [("mine", "user")]
    assert codes(library) == ["link-outside"]
    assert library.match("/mine").name == "mine"


def test_a_project_root_may_be_a_link_to_another_of_the_project(world: World, opener, theirs: Path):
    write_skill(theirs / "shared")
    (world.project / ".claude").mkdir()
    (world.project / ".claude/skills").symlink_to("../.agents/skills")
    library = world.open()
    assert [(skill.id, skill.origin.root) for skill in library.skills] == [("shared", "project-agents")]
    assert codes(library) == []


def test_an_untrusted_root_takes_no_file_from_a_trusted_one(world: World, own: Path, theirs: Path):
    write_skill(own / "mine")
    (theirs / "mine").mkdir()
    os.link(own / "mine/SKILL.md", theirs / "mine/SKILL.md")
    library = world.open()
    assert [(skill.origin.source, skill.id) for skill in library.skills] == [("project", "mine"), ("user", "mine")]
    assert library.find("mine").skill.origin.source == "user"


@pytest.mark.parametrize("root", ["own", "theirs"])
def test_special_files_are_broken_skills_and_hold_nothing_up(world: World, opener, own, theirs: Path, root: str):
    place = own if root == "own" else theirs
    for name in ("pipe", "socket", "folder", "good"):
        (place / name).mkdir()
    os.mkfifo(place / "pipe/SKILL.md")
    (place / "folder/SKILL.md").mkdir()
    with socket.socket(socket.AF_UNIX) as listener, contextlib.chdir(place / "socket"):
        listener.bind("SKILL.md")
    write_skill(place / "good")
    library = world.open()
    assert ids(library) == ["good"]
    assert broken_codes(library) == {name: ["not-a-file"] for name in ("folder", "pipe", "socket")}


def test_a_device_is_a_broken_skill(world: World, opener, own: Path):
    (own / "device").mkdir()
    try:
        os.mknod(own / "device/SKILL.md", 0o020666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root may make devices")
    assert broken_codes(world.open()) == {"device": ["not-a-file"]}


READ = """
import json, sys
from metier.library.open import open_at
from metier.library.open import OpenRequest
from metier.types.place import Place
from metier.host import files
home, project, opener = sys.argv[1:]
files.use_plain_walk(opener == 'walk')
library = open_at(Place(project, project, home, home + '/.metier', {}, 'linux'), OpenRequest(use_index=False))
broken = [[item.id, item.findings[0].code] for item in library.broken]
print(json.dumps([[skill.id for skill in library.skills], broken, [problem.code for problem in library.problems]]))
"""


@pytest.mark.parametrize("how", ["openat2", "walk"])
def test_what_may_not_be_read_is_said_and_the_rest_loads(how: str):
    with world_for_everybody() as world:
        for root in (world.home / ".agents/skills", world.project / ".agents/skills"):
            write_skill(root / "file").chmod(0)
            write_skill(root / "folder")
            (root / "folder").chmod(0)
            write_skill(root / "group/inner")
            (root / "group").chmod(0o311)
            write_skill(root / "good")
        write_skill(world.home / ".claude/skills/x")
        (world.home / ".claude/skills").chmod(0)
        loaded, broken, said = json.loads(as_somebody_else(READ, str(world.home), str(world.project), how))
        assert loaded == ["good", "good"]
        assert broken == [["file", "unreadable"], ["folder", "unreadable"]] * 2
        assert said == ["unreadable"] * 3


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "/etc/passwd",
        "a/../../x",
        "",
        "a\0b",
        "out",
        "out/passwd",
        "up",
        "folder/../../x",
        "..",
        "./../x",
    ],
)
def test_reading_a_file_of_a_skill_never_leaves_its_folder(opener, tmp_path: Path, path: str):
    folder = tmp_path / "skill"
    (folder / "folder").mkdir(parents=True)
    (tmp_path / "x").write_text("outside")
    (folder / "out").symlink_to("/etc")
    (folder / "up").symlink_to("../x")
    with pytest.raises(OutsideSkill):
        files.read_skill_file(str(folder), path, 100)


@pytest.mark.parametrize(
    ("path", "outcome"),
    [
        ("plain", b"text"),
        ("folder/inner", b"inner"),
        ("link", b"text"),
        ("link-folder/inner", b"inner"),
        ("folder/back", b"text"),
        ("chain", b"text"),
        ("./plain", b"text"),
        ("folder//inner", b"inner"),
        ("missing", FileNotFoundError),
        ("plain/below", NotADirectoryError),
        ("folder", files.NotRegular),
        ("pipe", files.NotRegular),
        ("big", files.TooLarge),
        ("round", OutsideSkill),
        ("dangling", FileNotFoundError),
    ],
)
def test_both_openers_give_the_same_for_the_same_tree(opener, tmp_path: Path, path: str, outcome):
    folder = tmp_path / "skill"
    (folder / "folder").mkdir(parents=True)
    (folder / "plain").write_text("text")
    (folder / "folder/inner").write_text("inner")
    (folder / "link").symlink_to("plain")
    (folder / "link-folder").symlink_to("folder")
    (folder / "folder/back").symlink_to("../plain")
    (folder / "chain").symlink_to("link-folder/back")
    (folder / "round").symlink_to("round")
    (folder / "dangling").symlink_to("nothing")
    (folder / "big").write_bytes(b"x" * 101)
    os.mkfifo(folder / "pipe")
    if isinstance(outcome, bytes):
        assert files.read_skill_file(str(folder), path, 100)[1] == outcome
    else:
        with pytest.raises(outcome):
            files.read_skill_file(str(folder), path, 100)


def test_no_opener_leaves_a_file_open(opener, tmp_path: Path):
    folder = tmp_path / "skill"
    (folder / "a/b/c").mkdir(parents=True)
    (folder / "a/b/c/deep").write_text("text")
    (folder / "a/out").symlink_to("/etc")
    files.read_skill_file(str(folder), "a/b/c/deep", 100)
    before = len(os.listdir("/proc/self/fd"))
    for path in ("a/b/c/deep", "a/b/missing", "a/out/passwd", "a/b/c/deep/x", "a/b"):
        for _ in range(20):
            with contextlib.suppress(OSError, OutsideSkill):
                files.read_skill_file(str(folder), path, 100)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("swapped", ["a", "."])
def test_no_byte_from_outside_is_read_while_a_folder_is_swapped_for_a_link(
    world: World, opener, theirs: Path, tmp_path: Path, swapped: str
):
    """One thread puts a link to a folder outside where a skill (or the root) was, again and again."""
    write_skill(theirs / "a", "inside")
    write_skill(tmp_path / "outside/a", "OUTSIDE")
    place = theirs / "a" if swapped == "a" else theirs
    target = tmp_path / "outside/a" if swapped == "a" else tmp_path / "outside"
    aside = world.project / "aside"
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            place.rename(aside)
            place.symlink_to(target)
            time.sleep(0)
            place.unlink()
            aside.rename(place)
            time.sleep(0)

    thread = threading.Thread(target=swap)
    thread.start()
    seen: set[str] = set()
    refused = 0
    try:
        began = time.monotonic()
        while (past := time.monotonic() - began) < 0.8 or (past < 60 and not (seen and refused)):
            library = world.open()
            seen |= {skill.description for skill in library.skills}
            refused += "link-outside" in codes(library)
    finally:
        done.set()
        thread.join()
    assert seen == {"inside"}
    assert refused
