"""A redirect moves a repository, and nothing else: no password goes along, and no other server is reached by it."""

import os
import subprocess
from pathlib import Path

import pytest
from tests.install.servers import Repo, Server, anthropic_like, files, git_http, make_certificate, serving

from metier.host import git as host
from metier.host.git import GitAccess
from metier.host.http import FetchLimits, download_file, follow_redirects, same_origin
from metier.install.fetch import fetch_git, latest_commit
from metier.install.fetch_access import FetchOptions
from metier.registries.reference import parse_reference
from metier.types.errors import Refused

ASKED = "/info/refs?service=git-upload-pack"


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    return make_certificate(tmp_path)


def moved(folder: Path, targets: dict[str, str], token: str = ""):
    """A git server on which some repositories have moved."""
    serve, redirect = git_http(folder, token), files({}, targets)

    def answer(asked) -> None:
        (redirect if asked.path in targets else serve)(asked)

    return answer


def options(server: Server) -> FetchOptions:
    return FetchOptions({**os.environ, **server.env}, insecure=True)


def authorized(server: Server) -> list[str]:
    return [path for path, headers in server.seen if "Authorization" in headers]


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return anthropic_like(tmp_path / "served" / "new.git")


def test_a_repository_that_moved_on_its_server_is_fetched_from_there(repo: Repo, tmp_path: Path):
    with serving(moved(repo.path.parent, {f"/old.git{ASKED}": f"/new.git{ASKED}"}, "pw")) as server:
        reference = parse_reference(f"{server.url}/old.git".replace("://", "://me:pw@"), insecure=True)
        numbers = iter(range(10))

        def new_folder() -> str:
            folder = tmp_path / f"into-{next(numbers)}"
            folder.mkdir()
            return str(folder)

        fetched = fetch_git(reference, new_folder, options(server))
        assert fetched.provenance.source == f"{server.url}/old.git"
        assert (Path(fetched.path) / "skills/pdf/SKILL.md").exists()
        assert latest_commit(reference, options(server)) == fetched.provenance.commit


def test_no_other_server_is_asked_and_none_gets_the_password(repo: Repo, tmp_path: Path):
    with serving(git_http(repo.path.parent)) as other:
        targets = {f"/old.git{ASKED}": f"{other.url}/new.git{ASKED}"}
        with serving(moved(repo.path.parent, targets)) as server:
            url = f"{server.url}/old.git"
            access = GitAccess(dict(os.environ), ("http",), url, "me:pw")
            with pytest.raises(host.GitRedirected):
                host.resolve_ref(url, "main", access)
            with pytest.raises(Refused, match="private address"):
                host.follow_redirect(url, access)
            assert other.seen == []
            assert authorized(server)


def test_a_redirect_to_another_port_of_a_private_host_is_refused(tmp_path: Path, monkeypatch, certificate: Path):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with serving(files({"/x": b"inner"}), certificate) as inner:
        with serving(files({}, {"/x": f"{inner.url}/x", f"/r{ASKED}": f"{inner.url}/r{ASKED}"}), certificate) as server:
            limits = FetchLimits(private=True, secret="me:pw")
            with pytest.raises(Refused, match="private address"):
                download_file(f"{server.url}/x", str(tmp_path / "a"), limits)
            with pytest.raises(Refused, match="private address"):
                follow_redirects(f"{server.url}/x", limits)
            with pytest.raises(Refused, match="private address"):
                host.follow_redirect(f"{server.url}/r", GitAccess(os.environ, ("https",)))
        assert inner.seen == []


def test_a_redirect_to_what_is_no_repository_is_refused(monkeypatch, certificate: Path):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with (
        serving(files({"/login": b"sign in"}, {f"/r{ASKED}": "/login"}), certificate) as server,
        pytest.raises(Refused, match="redirects to"),
    ):
        host.follow_redirect(f"{server.url}/r", GitAccess(os.environ, ("https",)))


def test_the_users_own_settings_turn_no_redirect_on_again(repo: Repo, tmp_path: Path):
    home = tmp_path / "home"
    home.mkdir()
    with serving(git_http(repo.path.parent)) as other:
        targets = {f"/old.git{ASKED}": f"{other.url}/new.git{ASKED}"}
        with serving(moved(repo.path.parent, targets)) as server:
            for key in ("http.followRedirects", f"http.{server.url}/.followRedirects"):
                subprocess.run(["git", "config", "--file", home / ".gitconfig", key, "true"], check=True)
            env = {"PATH": os.environ["PATH"], "HOME": str(home)}
            with pytest.raises(host.GitRedirected):
                host.resolve_ref(f"{server.url}/old.git", "main", GitAccess(env, ("http",)))
            assert other.seen == []


def test_a_checked_address_is_pinned(monkeypatch, certificate: Path):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with serving(files({f"/b{ASKED}": b""}, {f"/a{ASKED}": f"/b{ASKED}"}), certificate) as server:
        url, access = host.follow_redirect(f"{server.url}/a", GitAccess(os.environ, ("https",), secret="me:pw"))

    assert url == f"{server.url}/b"
    assert access.secret == "me:pw"
    assert access.pinned == f"127.0.0.1:{server.url.rpartition(':')[2]}:127.0.0.1"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://a/x", "https://a:443/y", True),
        ("https://a/x", "https://A/y", True),
        ("https://a/x", "https://a:8443/x", False),
        ("http://a/x", "https://a/x", False),
        ("https://a/x", "https://b/x", False),
        ("https://a/x", "https://a.b/x", False),
    ],
)
def test_a_server_is_its_scheme_host_and_port(one: str, other: str, same: bool):
    assert same_origin(one, other) is same


def ruled(server: Server, rules: str) -> FetchOptions:
    from dataclasses import replace

    from metier.parse.config import parse_settings
    from metier.registries.source_policy import policy_from

    return replace(options(server), policy=policy_from(parse_settings(f"[sources]\n{rules}\n", [])))


@pytest.mark.parametrize("how", ["deny", "allow"])
def test_a_repository_may_not_move_to_where_the_rules_forbid(repo: Repo, tmp_path: Path, how: str):
    with serving(moved(repo.path.parent, {f"/old.git{ASKED}": f"/new.git{ASKED}"})) as server:
        host_name = server.url.partition("://")[2]
        rules = f'deny = ["{host_name}/new"]' if how == "deny" else f'allow = ["{host_name}/old"]'
        reference = parse_reference(f"{server.url}/old.git", insecure=True)
        with pytest.raises(Refused, match="is not an allowed source"):
            fetch_git(reference, lambda: str(tmp_path), ruled(server, rules))
        with pytest.raises(Refused, match="is not an allowed source"):
            latest_commit(reference, ruled(server, rules))
        assert not [path for path, _ in server.seen if path.startswith("/new")]
        assert latest_commit(reference, ruled(server, f'allow = ["{host_name}"]'))


@pytest.mark.parametrize("how", ["deny", "allow"])
def test_an_archive_may_not_move_to_where_the_rules_forbid(tmp_path: Path, how: str):
    from metier.install.fetch import fetch_reference

    targets = {"/good/a.zip": "/middle/a.zip", "/middle/a.zip": "/evil/a.zip"}
    with serving(files({"/evil/a.zip": b"never read"}, targets)) as server:
        host_name = server.url.partition("://")[2]
        rules = f'deny = ["{host_name}/evil"]' if how == "deny" else f'allow = ["{host_name}/good", "*/middle/*"]'
        reference = parse_reference(f"{server.url}/good/a.zip", insecure=True)
        with pytest.raises(Refused, match=r"/evil/a.zip is not an allowed source"):
            fetch_reference(reference, lambda: str(tmp_path), ruled(server, rules))
        assert not [path for path, _ in server.seen if path.startswith("/evil")]


def test_an_index_may_not_list_what_the_rules_forbid(tmp_path: Path):
    import json

    from metier.install.fetch import INDEX_SCHEMA, fetch_reference

    entry = {"name": "x", "type": "archive", "url": "/evil/x.zip", "digest": "sha256:0", "description": "X."}
    index = json.dumps({"$schema": INDEX_SCHEMA, "skills": [entry]}).encode()
    with serving(files({"/.well-known/agent-skills/index.json": index, "/evil/x.zip": b"x"})) as server:
        host_name = server.url.partition("://")[2]
        reference = parse_reference(f"{server.url}/.well-known/agent-skills/index.json", insecure=True)
        with pytest.raises(Refused, match=r"/evil/x.zip is not an allowed source"):
            fetch_reference(reference, lambda: str(tmp_path), ruled(server, f'deny = ["{host_name}/evil"]'))
        assert not [path for path, _ in server.seen if path.startswith("/evil")]
