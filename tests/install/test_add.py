"""metier add, in all its forms, against real repositories, servers and archives."""

import io
import json
import os
import shutil
import stat
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tests.cli.console import Desk
from tests.install.servers import Repo, files, git, git_http, serving, skill_text

from metier.install.transaction import name_fault


def placed(desk: Desk, under: Path | None = None) -> list[str]:
    root = under or desk.skills
    found = [path for path in root.rglob("*") if path.is_file() and ".metier" not in path.relative_to(root).parts]
    return sorted(str(path.relative_to(root)) for path in found)


def names(desk: Desk, *words: str) -> list[str]:
    return sorted(one["name"] for one in json.loads(desk.say(*words, "list", "--json").out)["skills"])


def lock_of(desk: Desk) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((desk.state / "skills-lock.json").read_text())
    return found


@pytest.fixture
def bare(repo: Repo) -> Path:
    """The same repository as a server has it."""
    path = repo.path.parent / "skills.git"
    git("clone", "-q", "--bare", str(repo.path), str(path), cwd=repo.path)
    git("config", "uploadpack.allowFilter", "true", cwd=path)
    return path


WHOLE = [
    "skills/.claude-plugin/marketplace.json", "skills/README.md", "skills/skills/brand-guidelines/SKILL.md",
    "skills/skills/docx/SKILL.md", "skills/skills/pdf/SKILL.md", "skills/skills/pdf/reference.md",
    "skills/skills/pdf/scripts/fill.py",
]  # fmt: skip


def test_a_repository_like_anthropics_installs_whole_and_all_its_skills_are_found(desk: Desk, repo: Repo):
    said = desk.say("add", str(repo.path), "--yes")
    assert said.code == 0, said.err
    assert placed(desk) == WHOLE
    assert names(desk) == ["brand-guidelines", "docx", "pdf"]
    assert "Added 3 skills" in said.out
    assert os.access(desk.skills / "skills/skills/pdf/scripts/fill.py", os.X_OK)


def test_one_skill_of_it_installs_singly(desk: Desk, repo: Repo):
    said = desk.say("add", str(repo.path), "--skill", "pdf", "--yes")
    assert said.code == 0, said.err
    assert placed(desk) == ["pdf/SKILL.md", "pdf/reference.md", "pdf/scripts/fill.py"]
    assert said.out.endswith(f"Added skill 'pdf' to {desk.skills}/pdf\n")
    entry = lock_of(desk)["skills"]["pdf"]
    assert entry["source"]["path"] == "skills/pdf"


def test_a_skill_that_is_not_there_is_named_with_the_nearest(desk: Desk, repo: Repo):
    said = desk.say("add", str(repo.path), "--skill", "pfd", "--yes")
    assert said.code == 2
    assert "did you mean `pdf`" in said.err
    assert placed(desk) == []


def test_a_bare_repository_a_branch_and_a_tag_are_taken_at_their_commit(desk: Desk, repo: Repo):
    first = git("rev-parse", "HEAD", cwd=repo.path)
    git("tag", "-a", "v1", "-m", "one", cwd=repo.path)
    repo.skill("skills/later")
    second = repo.commit()
    assert desk.say("add", f"{repo.path}@v1", "--yes", "--name", "old").code == 0
    assert desk.say("add", f"{repo.path}@main", "--yes", "--name", "new").code == 0
    assert desk.say("add", f"{repo.path}@{first}", "--yes", "--name", "exact").code == 0
    found = {key: one["source"]["commit"] for key, one in lock_of(desk)["skills"].items()}
    assert found["old/skills/pdf"] == found["exact/skills/pdf"] == first
    assert found["new/skills/later"] == second
    assert not (desk.skills / "old/skills/later").exists()


@pytest.mark.parametrize("secure", [True, False], ids=["https", "http"])
def test_a_git_server_serves_it_over_the_network(desk: Desk, bare: Path, certificate: Path, secure: bool):
    with serving(git_http(bare.parent), certificate if secure else None) as server:
        url = f"{server.url}/skills.git"
        refused = desk.say("add", url, "--yes", **server.env)
        if not secure:
            assert refused.code == 2
            assert "--allow-insecure" in refused.err
            assert server.seen == []
        said = desk.say("add", url, "--yes", "--force", "--allow-insecure", **server.env)
        assert said.code == 0, said.err
        assert placed(desk) == WHOLE
        assert lock_of(desk)["skills"]["skills/skills/pdf"]["source"]["source"] == url


def test_only_the_folder_that_is_wanted_comes_over_the_network(desk: Desk, repo: Repo, bare: Path, certificate: Path):
    repo.write("big.bin", os.urandom(3_000_000))
    repo.commit()
    git("push", "-q", str(bare), "main", cwd=repo.path)
    count = []

    def counted(asked):
        before = asked.wfile.write

        def write(data: bytes) -> int:
            count.append(len(data))
            before(data)
            return len(data)

        asked.wfile.write = write
        git_http(bare.parent)(asked)

    with serving(counted, certificate) as server:
        said = desk.say("add", f"{server.url}/skills.git/-/tree/main/skills/pdf", "--yes", **server.env)
    assert said.code == 0, said.err
    assert placed(desk) == ["pdf/SKILL.md", "pdf/reference.md", "pdf/scripts/fill.py"]
    assert sum(count) < 200_000


def test_a_private_repository_is_reached_with_the_users_own_credentials(desk: Desk, bare: Path, certificate: Path):
    secret = "s3cr3t-t0ken"
    with serving(git_http(bare.parent, secret), certificate) as server:
        url = f"{server.url}/skills.git"
        denied = desk.say("add", url, "--yes", **server.env)
        assert denied.code == 5
        assert "git credential helper" in denied.err
        (desk.home / ".gitconfig").write_text(f"[credential]\n\thelper = \"store --file='{desk.home}/creds'\"\n")
        (desk.home / "creds").write_text(url.replace("https://", f"https://me:{secret}@") + "\n")
        said = desk.say("add", url, "--yes", **server.env)
        assert said.code == 0, said.err
        by_url = desk.say("add", url.replace("https://", f"https://me:{secret}@"), "--yes", "--force", **server.env)
        assert by_url.code == 0, by_url.err
    everything = said.out + said.err + by_url.out + by_url.err + (desk.state / "skills-lock.json").read_text()
    assert secret not in everything


def test_a_password_in_an_address_is_shown_nowhere_when_it_fails(desk: Desk, bare: Path, certificate: Path):
    with serving(git_http(bare.parent, "right"), certificate) as server:
        url = server.url.replace("https://", "https://me:hush-hush@") + "/skills.git"
        said = desk.say("add", url, "--yes", **server.env)
    assert said.code == 5
    assert "hush-hush" not in said.out + said.err
    kept = [path for path in desk.home.rglob("*") if path.is_file() and b"hush-hush" in path.read_bytes()]
    assert kept == []


def packed(repo: Repo, wrapper: str = "pdf") -> dict[str, bytes]:
    """The skill `pdf` as each kind of archive."""
    folder = repo.path / "skills/pdf"
    zipped, tarred = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as out, tarfile.open(fileobj=tarred, mode="w:gz") as other:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                name = "/".join(filter(None, (wrapper, str(file.relative_to(folder)))))
                out.write(file, name)
                other.add(file, name)
    return {"zip": zipped.getvalue(), "tar.gz": tarred.getvalue(), "skill": zipped.getvalue()}


@pytest.mark.parametrize("ending", ["zip", "tar.gz", "skill"])
@pytest.mark.parametrize("wrapper", ["pdf", ""])
def test_an_archive_is_added_from_a_file_and_from_a_server(desk: Desk, repo: Repo, certificate, ending, wrapper):
    data = packed(repo, wrapper)[ending]
    (desk.project / f"pdf.{ending}").write_bytes(data)
    said = desk.say("add", f"pdf.{ending}", "--yes")
    assert said.code == 0, said.err
    wanted = ["pdf/SKILL.md", "pdf/reference.md", "pdf/scripts/fill.py"]
    assert placed(desk) == wanted
    with serving(files({f"/pdf.{ending}": data}), certificate) as server:
        again = desk.say("add", f"{server.url}/pdf.{ending}", "--yes", "--force", **server.env)
        assert again.code == 0, again.err
    assert placed(desk) == wanted
    assert lock_of(desk)["skills"]["pdf"]["source"]["digest"].startswith("sha256:")


def test_an_archive_that_is_refused_leaves_nothing(desk: Desk):
    with tarfile.open(desk.project / "bad.tar.gz", "w:gz") as out:
        info = tarfile.TarInfo("pdf/SKILL.md")
        info.size = 4
        out.addfile(info, io.BytesIO(b"text"))
        link = tarfile.TarInfo("pdf/key")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        out.addfile(link)
    said = desk.say("add", "bad.tar.gz", "--yes")
    assert said.code == 4
    assert "pdf/key" in said.err
    assert placed(desk) == []
    assert not desk.skills.exists()  # not even an empty staging area


def test_a_local_folder_is_copied_without_its_links(desk: Desk, tmp_path: Path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "SKILL.md").write_text(skill_text("mine"))
    (folder / "key").symlink_to("/etc/passwd")
    said = desk.say("add", str(folder), "--yes")
    assert said.code == 0, said.err
    assert placed(desk) == ["mine/SKILL.md"]
    assert "`key` is a link and was left out" in said.out


def test_a_folder_that_carries_a_repository_inside_is_refused(desk: Desk, tmp_path: Path):
    folder = tmp_path / "mine/inner"
    folder.mkdir(parents=True)
    (tmp_path / "mine/SKILL.md").write_text(skill_text("mine"))
    git("init", "-q", cwd=folder)
    said = desk.say("add", str(tmp_path / "mine"), "--yes")
    assert said.code == 4
    assert "git repository" in said.err


def test_links_and_submodules_of_a_repository_are_left_out_and_nothing_of_it_runs(desk: Desk, repo: Repo, tmp_path):
    proof = tmp_path / "ran"
    (repo.path / "skills/pdf/link").symlink_to("/etc/passwd")
    repo.write(".gitattributes", "* filter=evil\n")
    repo.write(".gitmodules", f"[submodule \"x\"]\n\tpath = x\n\turl = {repo.path}\n\tupdate = !touch '{proof}'\n")
    git("config", "filter.evil.smudge", f"touch '{proof}'", cwd=repo.path)
    git("config", "core.fsmonitor", f"touch '{proof}'", cwd=repo.path)
    hook = repo.path / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch '{proof}'\n")
    hook.chmod(0o755)
    git("-c", "core.fsmonitor=false", "-c", "filter.evil.clean=cat", "add", "-A", cwd=repo.path)
    head = git("rev-parse", "HEAD", cwd=repo.path)
    git("update-index", "--add", "--cacheinfo", f"160000,{head},x", cwd=repo.path)
    git("-c", "core.fsmonitor=false", "commit", "-qm", "evil", cwd=repo.path)
    proof.unlink(missing_ok=True)
    said = desk.say("add", str(repo.path), "--yes", GIT_CONFIG_COUNT="1", GIT_CONFIG_KEY_0="core.fsmonitor", GIT_CONFIG_VALUE_0=f"touch '{proof}'")  # fmt: skip
    assert said.code == 0, said.err
    assert not proof.exists()
    assert "`skills/pdf/link` is a link" in said.out
    assert "`x` is another repository" in said.out
    assert not [path for path in desk.skills.rglob("*") if path.is_symlink()]
    assert not (desk.skills / "skills/skills/pdf/link").exists()


@pytest.mark.parametrize(
    "source",
    ["ext::sh -c touch% x", "--upload-pack=touch x", "-x/repo", "file:///tmp/x", "http://example.com/x.git", "git://example.com/x",
     "fd::17", "https://-x/y.git", "a/b@--upload-pack=x", "a/b@-x", "owner", "", "https://exa mple.com/x", "ssh://-oProxyCommand=x/y"],
)  # fmt: skip
def test_what_git_could_take_for_an_order_is_refused_before_git_is_asked(desk: Desk, source):
    said = desk.say("add", "--yes", "--", source)
    assert said.code == 2, said.out + said.err
    assert "Traceback" not in said.err
    assert placed(desk) == []


def test_an_existing_folder_is_refused_by_name_and_replaced_by_force(desk: Desk, repo: Repo):
    assert desk.say("add", str(repo.path), "--skill", "pdf", "--yes").code == 0
    (desk.skills / "pdf/NOTES.md").write_text("mine")
    said = desk.say("add", str(repo.path), "--skill", "pdf", "--yes")
    assert said.code == 4
    assert f"Skill 'pdf' already exists at {desk.skills}/pdf. Use --force to overwrite." in said.err
    assert (desk.skills / "pdf/NOTES.md").exists()
    assert desk.say("add", str(repo.path), "--skill", "pdf", "--yes", "--force").code == 0
    assert not (desk.skills / "pdf/NOTES.md").exists()
    assert [path.read_text() for path in (desk.skills / ".metier/trash").rglob("NOTES.md")] == ["mine"]


def test_force_deletes_nothing_when_what_is_new_can_not_be_had(desk: Desk, repo: Repo):
    assert desk.say("add", str(repo.path), "--yes").code == 0
    before = {path: path.read_bytes() for path in desk.skills.rglob("*") if path.is_file()}
    shutil.rmtree(repo.path / ".git/objects")
    said = desk.say("add", str(repo.path), "--yes", "--force")
    assert said.code != 0
    assert {path: path.read_bytes() for path in desk.skills.rglob("*") if path.is_file()} == before


def test_without_a_terminal_and_without_yes_the_summary_is_printed_and_nothing_placed(desk: Desk, repo: Repo):
    said = desk.say("add", str(repo.path))
    assert said.code == 4
    assert "can run: scripts/fill.py" in said.out
    assert "this needs approval, but the session is not interactive" in said.err
    assert placed(desk) == []


def test_a_dry_run_and_json_say_everything_and_place_nothing(desk: Desk, repo: Repo):
    said = desk.say("add", str(repo.path), "--dry-run", "--json")
    assert said.code == 0, said.err
    found = json.loads(said.out)
    assert found["placed"] == []
    [target] = found["targets"]
    assert target["folder"] == "skills"
    assert target["commit"] == git("rev-parse", "HEAD", cwd=repo.path)
    pdf = next(one for one in target["skills"] if one["name"] == "pdf")
    assert pdf["capabilities"]["scripts"] == ["scripts/fill.py"]
    assert pdf["valid"] is True
    assert placed(desk) == []
    unasked = desk.say("add", str(repo.path), "--json")
    assert unasked.code == 4
    assert json.loads(unasked.out)["placed"] == []


def test_a_person_is_asked_and_may_say_no(desk: Desk, repo: Repo):
    said = desk.answering("add", str(repo.path), answer="n\n")
    assert said.code == 4
    assert "Add skills? [y/N]" in said.out
    assert placed(desk) == []
    said = desk.answering("add", str(repo.path), answer="y\n")
    assert said.code == 0, said.out
    assert placed(desk) == WHOLE


def test_where_it_goes_is_chosen_by_option(desk: Desk, repo: Repo):
    pick = ("--skill", "pdf", "--yes")
    assert desk.say("add", str(repo.path), *pick, "--project").code == 0
    assert (desk.project / ".metier/skills/pdf/SKILL.md").exists()
    assert (desk.project / ".metier/skills-lock.json").exists()
    assert desk.say("add", str(repo.path), *pick, "--profile", "office").code == 0
    profile = desk.home / ".super-multica/agent-profiles/office/skills"
    assert (profile / "pdf/SKILL.md").exists()
    assert desk.say("--dialect", "multica", "add", str(repo.path), "--yes").code == 0
    assert placed(desk, desk.home / ".super-multica/skills") == WHOLE
    assert "pdf" in names(desk, "--dialect", "multica")
    assert desk.say("--root", "elsewhere", "add", str(repo.path), *pick).code == 0
    assert (desk.project / "elsewhere/pdf/SKILL.md").exists()
    assert (desk.project / "elsewhere-lock.json").exists()
    assert desk.say("add", str(repo.path), *pick, "--project", "--user").code == 2


def test_what_a_person_adds_to_a_project_is_trusted_and_nothing_else_of_it(desk: Desk, repo: Repo):
    desk.skill("theirs", under=desk.project / ".agents/skills")
    assert desk.say("add", str(repo.path), "--skill", "pdf", "--yes", "--project").code == 0
    assert desk.say("add", str(repo.path), "--skill", "docx", "--unapproved", "--project").code == 0
    found = {one["name"]: one["state"] for one in json.loads(desk.say("list", "--json").out)["skills"]}
    assert found == {"docx": "untrusted", "pdf": "ready", "theirs": "untrusted"}


@pytest.mark.parametrize("name", ["../x", ".", "..", "/abs", "C:x", "con", "a/b", "", "-x", "x\ny", "a\\b", "x."])
def test_a_name_that_is_no_folders_is_refused_before_any_path_is_built(desk: Desk, repo: Repo, name):
    before = sorted(path for path in desk.home.parent.rglob("*"))
    said = desk.say("add", str(repo.path), "--skill", "pdf", "--yes", f"--name={name}")
    if name == "":
        return  # no name is given at all
    assert said.code == 2
    assert sorted(path for path in desk.home.parent.rglob("*")) == before


def test_the_name_in_the_frontmatter_never_becomes_a_path(desk: Desk, tmp_path: Path):
    folder = tmp_path / "odd"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: ../../escape\ndescription: d\n---\nx\n")
    said = desk.say("add", str(folder), "--yes")
    assert said.code == 4
    assert "name-hazard" in said.err
    unapproved = desk.say("add", str(folder), "--unapproved")
    assert unapproved.code == 0, unapproved.err
    assert placed(desk) == ["odd/SKILL.md"]


def test_a_path_that_is_not_there_is_named_with_the_nearest(desk: Desk, bare: Path, certificate: Path):
    with serving(git_http(bare.parent), certificate) as server:
        said = desk.say("add", f"{server.url}/skills.git/-/tree/main/skills/pfd", "--yes", **server.env)
    assert said.code == 2
    assert "did you mean `skills/pdf`" in said.err


def test_a_repository_without_skills_is_refused(desk: Desk, tmp_path: Path):
    repo = Repo(tmp_path / "plain")
    repo.write("README.md", "hello\n")
    repo.commit()
    said = desk.say("add", str(repo.path), "--yes")
    assert said.code == 2
    assert f"No SKILL.md found in {repo.path}. Is this a valid skill repository?" in said.err


def test_progress_is_drawn_on_a_terminal_and_only_there(desk: Desk, repo: Repo):
    assert "%" in desk.at_terminal("add", str(repo.path), "--yes").out
    said = desk.say("add", str(repo.path), "--yes", "--force")
    assert "%" not in said.out + said.err


def test_modes_and_folders_are_the_owners_to_write(desk: Desk, repo: Repo):
    desk.say("add", str(repo.path), "--yes")
    for path in desk.skills.rglob("*"):
        assert not path.lstat().st_mode & (stat.S_IWOTH | stat.S_IWGRP), path


def test_a_folder_with_too_many_files_is_refused_clearly(desk: Desk, tmp_path: Path):
    folder = tmp_path / "many"
    folder.mkdir()
    (folder / "SKILL.md").write_text(skill_text("many"))
    for number in range(20_001):
        (folder / str(number)).touch()
    said = desk.say("add", str(folder), "--yes")
    assert said.code == 4
    assert "more than 20000 files" in said.err


@pytest.mark.parametrize(
    ("name", "why"),
    [("a/b", "it is a path"), ("a\\b", "it is a path"), ("..", "it is empty or a relative path"), ("", "it is empty or a relative path"), ("aux.md", "it is a reserved device name on some systems"), ("x" * 101, "it has more than 100 characters")],
)  # fmt: skip
def test_what_a_name_may_not_be_is_said(name: str, why: str):
    assert name_fault(name) == why
