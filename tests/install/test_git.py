"""git is asked for one commit, and can be made to run nothing."""

import os
from pathlib import Path

import pytest
from tests.install.servers import Repo, git

from metier.host import git as host
from metier.host.archives import ArchiveBounds
from metier.host.git import GitAccess
from metier.install.fetch import fetch_git
from metier.install.fetch_access import FetchOptions
from metier.registries.reference import parse_github, parse_reference
from metier.types.errors import BadRequest, HostError, MetierError, Refused

HERE = GitAccess(os.environ, ("file",))


def test_a_branch_that_moves_between_looking_and_fetching_changes_nothing(repo: Repo, tmp_path: Path):
    first = host.resolve_ref(str(repo.path), "main", HERE)
    repo.write("evil.md", "later\n")
    later = repo.commit()
    host.fetch_commit(str(tmp_path / "g"), str(repo.path), first, "main", HERE)
    assert "evil.md" not in [blob.path for blob in host.list_tree(str(tmp_path / "g"), first, HERE)]
    assert later != first


def test_a_commit_that_is_not_there_any_more_is_an_error_and_no_other_one_comes(repo: Repo, tmp_path: Path):
    gone = host.resolve_ref(str(repo.path), "main", HERE)
    git("checkout", "-q", "--orphan", "fresh", cwd=repo.path)
    repo.commit("other")
    git("branch", "-D", "-q", "main", cwd=repo.path)
    git("branch", "-m", "main", cwd=repo.path)
    git("reflog", "expire", "--expire=now", "--all", cwd=repo.path)
    git("gc", "-q", "--prune=now", cwd=repo.path)
    with pytest.raises(MetierError):
        host.fetch_commit(str(tmp_path / "g"), str(repo.path), gone, "main", HERE)


def test_a_tag_is_followed_to_its_commit_and_a_branch_comes_before_it(repo: Repo):
    first = git("rev-parse", "HEAD", cwd=repo.path)
    git("tag", "-a", "v1", "-m", "x", cwd=repo.path)
    assert host.resolve_ref(str(repo.path), "v1", HERE) == first
    repo.write("x", "y")
    second = repo.commit()
    git("branch", "v1", cwd=repo.path)
    assert host.resolve_ref(str(repo.path), "v1", HERE) == second


@pytest.mark.parametrize("ref", ["nothing", "v9", "HEAD~1"])
def test_a_ref_that_is_not_there_is_said_so(repo: Repo, ref: str):
    with pytest.raises(MetierError):
        host.resolve_ref(str(repo.path), ref, HERE)


def test_protocols_that_were_not_allowed_are_not_spoken(repo: Repo):
    with pytest.raises(HostError, match="not allowed"):
        host.resolve_ref(str(repo.path), "", GitAccess(os.environ))


def test_a_repository_that_never_answers_is_given_up(tmp_path: Path):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/x.git"
        with pytest.raises(HostError, match="took longer"):
            host._run_git(("ls-remote", "--", url), None, GitAccess(os.environ, ("http",)), seconds=0.5)


def test_git_gets_a_clean_environment(tmp_path: Path):
    env = host._git_environment(GitAccess({"PATH": "/bin", "GIT_DIR": "/x", "GIT_CONFIG_COUNT": "1", "LD_PRELOAD": "/x", "SECRET": "s", "HOME": str(tmp_path)}))  # fmt: skip
    assert "GIT_DIR" not in env
    assert "LD_PRELOAD" not in env
    assert "SECRET" not in env
    assert env["GIT_CONFIG_GLOBAL"] == "/dev/null"
    values = {env[f"GIT_CONFIG_KEY_{n}"]: env[f"GIT_CONFIG_VALUE_{n}"] for n in range(int(env["GIT_CONFIG_COUNT"]))}
    assert values["core.hooksPath"] == "/dev/null"
    assert values["protocol.allow"] == "never"


def test_of_the_users_own_configuration_only_the_way_to_repositories_is_taken(tmp_path: Path):
    (tmp_path / ".gitconfig").write_text(
        "[credential]\n\thelper = store\n[core]\n\tfsmonitor = touch /tmp/x\n\thooksPath = /evil\n[alias]\n\tx = !sh\n[http]\n\tproxy = p:1\n"
    )
    own = host._user_git_config({"HOME": str(tmp_path), "PATH": os.environ["PATH"]})
    assert ("credential.helper", "store") in own
    assert ("http.proxy", "p:1") in own
    assert not [key for key, _ in own if key.startswith(("core.fsmonitor", "core.hookspath", "alias"))]


FORMS = [
    ("owner/repo", "github", "https://github.com/owner/repo.git", "", ""),
    ("owner/repo/a/b@v1", "github", "https://github.com/owner/repo.git", "a/b", "v1"),
    ("owner/repo@pkg@1.0", "github", "https://github.com/owner/repo.git", "", "pkg@1.0"),
    ("https://gitlab.com/a/b", "git", "https://gitlab.com/a/b", "", ""),
    ("https://gitlab.com/g/sub/b/-/tree/main/x/y", "git", "https://gitlab.com/g/sub/b", "x/y", "main"),
    ("https://example.com/b.git@v2", "git", "https://example.com/b.git", "", "v2"),
    ("git@github.com:a/b.git", "git", "git@github.com:a/b.git", "", ""),
    ("ssh://git@example.com/a/b.git", "git", "ssh://git@example.com/a/b.git", "", ""),
    ("https://example.com/x.zip", "archive", "https://example.com/x.zip", "", ""),
    ("https://example.com/x.tar.gz?a=b", "archive", "https://example.com/x.tar.gz?a=b", "", ""),
    ("https://example.com", "index", "https://example.com", "", ""),
    ("https://example.com/.well-known/agent-skills/index.json", "index", "https://example.com/.well-known/agent-skills/index.json", "", ""),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "kind", "url", "path", "ref"), FORMS, ids=[row[0] for row in FORMS])
def test_each_form_of_a_source_is_understood(spec, kind, url, path, ref):
    found = parse_reference(spec)
    assert (found.kind, found.url, found.path, found.ref) == (kind, url, path, ref)


@pytest.mark.parametrize("spec", ["a/b@", "a/b@@", "a/b@-x", "a/b@x@{1}", "a/b@x@..y", "git@github.com:a/b", "a@b/c"])
def test_what_git_would_read_otherwise_is_no_ref(spec):
    with pytest.raises(BadRequest):
        parse_github(spec)


def test_what_lies_at_a_path_decides_what_a_path_is():
    assert parse_reference("./x", "folder").kind == "folder"
    assert parse_reference("./x", "repository").kind == "git"
    assert parse_reference("./x@v1", "", "repository").ref == "v1"
    assert parse_reference("x.skill", "file").kind == "archive"
    assert parse_reference("dist/x.zip", "file").kind == "archive"
    assert parse_reference("a/b", "folder").kind == "github"
    for spec, local in (("./x", ""), ("./x", "file"), ("x", "folder")):
        with pytest.raises(BadRequest):
            parse_reference(spec, local)  # type: ignore[arg-type]


def test_a_password_is_kept_apart_from_what_is_shown():
    found = parse_reference("https://me:secret@example.com/a/b.git")
    assert found.secret == "me:secret"
    assert "secret" not in repr(found)
    assert found.url == "https://example.com/a/b.git"
    for odd in ("https://me:secret@exa mple.com/x", "https://me:secret@github.com/onlyowner"):
        with pytest.raises(BadRequest) as told:
            parse_reference(odd) if " " in odd else parse_github(odd)
        assert "secret" not in told.value.message


def count_of(folder: Path, commit: str) -> int:
    return int(git(f"--git-dir={folder}", "rev-list", "--count", commit, cwd=folder))


def test_no_history_comes_along(repo: Repo, tmp_path: Path):
    for number in range(3):
        repo.write("x.md", f"{number}\n")
        last = repo.commit()
    assert count_of(repo.path / ".git", last) > 3
    host.fetch_commit(str(tmp_path / "g"), f"file://{repo.path}", last, "main", HERE)
    assert count_of(tmp_path / "g", last) == 1


@pytest.mark.parametrize(
    ("bounds", "why"),
    [
        (ArchiveBounds(entries=5), "more than 5 files"),
        (ArchiveBounds(one=10), "more than 10 bytes"),
        (ArchiveBounds(total=200), "a file of the repository has more than"),
    ],
    ids=["many", "one large", "all together"],
)
def test_a_repository_that_is_too_large_is_refused_before_anything_is_placed(
    repo: Repo, tmp_path: Path, bounds: ArchiveBounds, why: str
):
    for number in range(10):
        repo.write(f"{number}.md", "words " * 10)
    repo.commit()
    rooms = iter(range(10))

    def room() -> str:
        folder = tmp_path / f"room-{next(rooms)}"
        folder.mkdir()
        return str(folder)

    wanted = parse_reference(str(repo.path), "repository")
    with pytest.raises(Refused, match=why):
        fetch_git(wanted, room, FetchOptions(os.environ, str(tmp_path), str(tmp_path), bounds=bounds))
