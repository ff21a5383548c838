"""Reading a skill's files: no way out of its folder, nothing private, nothing that hangs or floods."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.agent.toolbox import Tools
from tests.home import World, as_somebody_else, world_for_everybody, write_skill

from metier.host import files
from metier.library.access import PAGE_BYTES


@pytest.fixture
def tools(world: World) -> Tools:
    return Tools.with_lint(world)


@contextmanager
def meanwhile(act: Callable[[int], None]) -> Iterator[None]:
    """Something that goes on beside a test."""
    done = threading.Event()

    def go() -> None:
        number = 0
        while not done.is_set():
            number += 1
            act(number)

    thread = threading.Thread(target=go)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize(
    "path",
    ["../x", "/etc/passwd", "C:\\x", "C:/x", "\\\\host\\x", "..\\x", "references//../..", "~/x", "~", "..", ".", "",
     "references/../../other/SKILL.md", "references/..", "./../other/SKILL.md"],
)  # fmt: skip
def test_no_path_leads_out_of_a_skill(tools: Tools, path: str, tmp_path: Path):
    answer = tools.file(path)

    assert answer.error
    assert str(tmp_path) not in answer.text
    assert "Secret" not in answer.text


def test_an_escape_of_an_address_is_a_name_like_any_other(tools: Tools):
    assert tools.file("%2e%2e/other/SKILL.md").text == "File not found: '%2e%2e/other/SKILL.md' in skill 'lint'"


def test_links_out_of_a_skill_are_refused_and_links_inside_it_are_followed(tools: Tools, tmp_path: Path):
    skill = tools.root / "lint"
    (tmp_path / "secret").write_text("Secret text.")
    (skill / "out").symlink_to(tmp_path / "secret")
    (skill / "up").symlink_to("../other/SKILL.md")
    (skill / "folder").symlink_to(tmp_path)
    (skill / "loop").symlink_to("loop")
    (skill / "in").symlink_to("references/rules.md")

    for path in ("out", "up", "folder/secret", "loop"):
        assert tools.file(path).text == f"Access denied: '{path}' is outside skill directory"
    assert tools.file("in").text == "Be kind.\n"


def test_a_link_that_is_swapped_while_files_are_read_gives_nothing_away(tools: Tools, tmp_path: Path):
    skill = tools.root / "lint"
    (tmp_path / "secret").write_text("Secret text.")
    targets = ("references/rules.md", str(tmp_path / "secret"))

    def swap(number: int) -> None:
        os.symlink(targets[number % 2], skill / "next")
        os.rename(skill / "next", skill / "swapped")

    with meanwhile(swap):
        texts = {tools.file("swapped").text for _ in range(500)}
    assert not any("Secret" in text for text in texts)


def test_a_pipe_is_no_file_and_nothing_hangs(tools: Tools):
    os.mkfifo(tools.root / "lint" / "pipe")

    answer = tools.file("pipe")
    assert answer.error
    assert answer.text.startswith("Not a file: 'pipe' is a")


def test_scripts_behind_links_and_special_files_are_not_offered(tools: Tools):
    scripts = tools.root / "lint" / "scripts"
    (scripts / "link.sh").symlink_to("/bin/sh")
    os.mkfifo(scripts / "pipe.sh")

    for name in ("link.sh", "pipe.sh", "/bin/sh", "-c", "say.sh\n", "SAY.SH"):
        answer = tools("skill_run_script", skill_name="lint", script_name=name)
        assert answer.error, name
        assert "oops" not in answer.text
    denied = tools("skill_run_script", skill_name="lint", script_name="link.sh").text
    assert denied == "Access denied: 'link.sh' is outside scripts/ directory"


@pytest.mark.parametrize(
    "name", ["-c.sh", "--version.py", "two words.sh", "line\nbreak.sh", "$(touch pwned).sh", "*.py"]
)
def test_a_script_with_an_odd_name_or_an_odd_beginning_is_a_script_and_no_option(tools: Tools, name: str):
    text = "print('it ran')\n" if name.endswith(".py") else "#!/no/such/shell\r\necho it ran #\r\n"
    (tools.root / "lint" / "scripts" / name).write_text(text, newline="")

    assert tools("skill_run_script", skill_name="lint", script_name=name).text.strip() == "it ran"
    assert not list(tools.root.parent.rglob("pwned"))


def test_a_scripts_folder_that_is_a_link_is_none(tools: Tools, world: World, tmp_path: Path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.sh").write_text("echo it ran")
    write_skill(tools.root / "linked")
    (tools.root / "linked" / "scripts").symlink_to(tmp_path / "elsewhere")

    answer = Tools(world, agent=["linked"])("skill_run_script", skill_name="linked", script_name="x.sh")
    assert answer.error
    assert "it ran" not in answer.text


def test_a_long_file_is_read_in_parts_that_together_are_the_file(tools: Tools):
    text = "a" + "é" * PAGE_BYTES + "ende"
    (tools.root / "lint" / "long.txt").write_text(text, encoding="utf-8")
    parts: list[str] = []
    offset: int | None = 0
    while offset is not None:
        page = tools.desk.page(tools.desk.skill("lint"), "long.txt", offset)
        parts.append(page.text)
        offset = page.next

    size = len(text.encode())
    assert "".join(parts) == text
    assert len(parts) == 3
    ending = f"\n[{size - PAGE_BYTES + 1} of {size} bytes left: continue with offset {PAGE_BYTES - 1}]"
    assert tools.file("long.txt").text.endswith(ending)
    assert tools.file("long.txt", size).text == ""
    assert tools.file("long.txt", 10**11).text == ""


def test_a_huge_file_costs_no_more_than_a_part_of_it(tools: Tools):
    with (tools.root / "lint" / "huge.txt").open("wb") as file:
        file.write(b"a" * PAGE_BYTES)
        file.truncate(1 << 30)

    assert len(tools.file("huge.txt").text) < PAGE_BYTES + 200


def test_an_empty_file_is_empty_and_a_binary_one_is_refused_politely(tools: Tools):
    skill = tools.root / "lint"
    (skill / "empty").write_bytes(b"")
    (skill / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    (skill / "latin.txt").write_bytes("\xe9t\xe9".encode("latin-1"))

    assert tools.file("empty").text == ""
    image = tools.file("image.png")
    assert (image.error, image.text) == (True, "Not a text file: 'image.png' holds binary data (10 bytes)")
    assert "is not UTF-8" in tools.file("latin.txt").text


def test_a_file_that_grows_while_it_is_read_is_read_in_parts(tools: Tools):
    path = tools.root / "lint" / "log.txt"
    path.write_text("begun\n")

    def grow(number: int) -> None:
        if number < 2000:
            with path.open("a") as log:
                log.write("b" * 1000)

    with meanwhile(grow):
        answers = [tools.file("log.txt") for _ in range(100)]
    assert all(not answer.error and len(answer.text) < PAGE_BYTES + 200 for answer in answers)


@pytest.mark.parametrize(
    "path", [".env", ".git/config", "references/.secret", "rules.md~", "a.swp", "x.bak", "#a#", "./.env"]
)
def test_private_files_are_refused_and_not_listed(tools: Tools, path: str):
    file = tools.root / "lint" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("TOKEN=hidden")

    answer = tools.file(path)
    assert answer.error
    assert "TOKEN" not in answer.text
    assert path.rpartition("/")[2] not in tools("skill_use", skill_name="lint").messages[0].text


def test_a_link_to_a_private_file_gives_nothing_away(tools: Tools):
    skill = tools.root / "lint"
    (skill / ".env").write_text("TOKEN=hidden")
    (skill / "env").symlink_to(".env")

    for path in ("env", "references/../env", "references/../.env", "../lint/.env"):
        assert tools.file(path).text == f"Access denied: '{path}' is a private file"


def test_a_step_up_behind_a_link_is_a_step_up_from_where_it_leads(tools: Tools, tmp_path: Path):
    (tmp_path / "secret").write_text("Secret text.")
    (tmp_path / "inner").mkdir()
    (tools.root / "lint" / "folder").symlink_to(tmp_path / "inner")

    assert tools.file("folder/../secret").text == "Access denied: 'folder/../secret' is outside skill directory"


def test_a_file_that_may_not_be_read_is_said_to_be_such():
    with world_for_everybody() as world:
        write_skill(world.project / "skills" / "lint")
        shut = world.project / "skills" / "lint" / "shut.md"
        shut.write_text("Secret text.")
        shut.chmod(0)
        code = (
            "import sys\nfrom metier.library.open import open_at, OpenRequest\nfrom metier.types.place import Place\n"
            "from metier.library.access import SkillAccess\nfrom metier.library.skill_tools import tools_of\n"
            "base = sys.argv[1]\nplace = Place(base, base, base, base + '/none', {}, 'linux', '')\n"
            "desk = SkillAccess(open_at(place, OpenRequest('agentmd', ['lint'], base + '/skills', False)), base)\n"
        )
        ask = (
            "print(tools_of(desk, ['skill_read_file'])[0].call({'skill_name': 'lint', 'file_path': 'shut.md'}).text)\n"
        )
        said = as_somebody_else(ask, str(world.project), first=code)
    assert said == "Can't be read: 'shut.md' (permission denied)\n"


@pytest.fixture
def plain_walk() -> Iterator[None]:
    files.use_plain_walk(True)
    yield
    files.use_plain_walk(False)


@pytest.mark.usefixtures("plain_walk")
def test_without_the_one_call_no_path_leads_out_of_a_skill_either(tools: Tools, tmp_path: Path):
    skill = tools.root / "lint"
    (tmp_path / "secret").write_text("Secret text.")
    links: dict[str, Path | str] = {
        "out": tmp_path / "secret", "up": "../other/SKILL.md", "folder": tmp_path, "loop": "loop",
        "references/up": "../../other/SKILL.md",
    }  # fmt: skip
    for name, target in links.items():
        (skill / name).symlink_to(target)
    (skill / "in").symlink_to("references/rules.md")

    for path in ("out", "up", "folder/secret", "loop", "references/up"):
        assert tools.file(path).text == f"Access denied: '{path}' is outside skill directory"
    assert tools.file("in").text == "Be kind.\n"


# OpenClaw's `read` takes a location as the catalog prints it.


def test_read_takes_a_location_of_the_catalog_as_it_is_printed(world: World):
    skills = world.home / ".openclaw" / "skills"
    write_skill(skills / "pdf", body="PDF text.\n")
    write_skill(skills / "hid", body="Hidden text.\n", more="disable-model-invocation: true\n")
    library = world.open("openclaw")
    read = {tool.name: tool for tool in library.tools()}["read"]
    location = "~/.openclaw/skills/pdf/SKILL.md"

    assert f"<location>{location}</location>" in library.catalog().text
    assert "PDF text." in read.call({"path": location}).text
    assert "PDF text." in read.call({"path": f"{skills}/pdf/SKILL.md"}).text
    for path in ("~/.openclaw/skills/hid/SKILL.md", "~/.ssh/id_rsa", "~/.openclaw/skills/pdf/../hid/SKILL.md", "~",
                 "~root/x", "/etc/passwd", "SKILL.md", "", "~/.openclaw/skills/pdf", "~/.openclaw/skills/pdf-evil/x"):  # fmt: skip
        answer = read.call({"path": path})
        assert answer.error, path
        assert "Hidden" not in answer.text
