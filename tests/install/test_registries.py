"""Registries: searched, resolved, fetched and checked against servers of ours that speak their shapes."""

import io
import json
import re
import shutil
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.console import Desk
from tests.install.registry_servers import ClawHub, skills_sh
from tests.install.servers import Repo, Server, files, git, git_http, serving, skill_text


@pytest.fixture
def hub(desk: Desk, certificate: Path) -> Iterator[tuple[ClawHub, Server]]:
    """A ClawHub with one skill in one version, and a desk that is configured for it."""
    claw = ClawHub()
    claw.add("acme", "weather", "1.0.0")
    with serving(claw, certificate) as server:
        desk.env |= server.env
        desk.configure(f'registries = [{{name = "clawhub", url = "{server.url}"}}]\n')
        yield claw, server


def locked(desk: Desk, name: str) -> dict[str, Any]:
    lock = json.loads((desk.state / "skills-lock.json").read_text())
    source: dict[str, Any] = lock["skills"][name]["source"]
    return source


def nothing_placed(desk: Desk) -> bool:
    placed = [path for path in desk.skills.rglob("*") if path.is_file() and ".metier" not in path.parts[-3:]]
    return (
        not [path for path in placed if not path.name.endswith(".lock")]
        and not (desk.state / "skills-lock.json").exists()
    )


# --- Search ---


def test_a_search_asks_every_registry_and_shows_what_add_takes(desk: Desk, hub: tuple[ClawHub, Server]):
    said = desk.say("search", "--registry", "weather")
    assert said.code == 0, said.err
    assert "clawhub:acme/weather" in said.out
    assert "1.0.0" in said.out


def test_a_search_of_one_registry_by_name_answers_in_json(desk: Desk, hub: tuple[ClawHub, Server]):
    said = desk.say("search", "--registry=clawhub", "--json", "weather")
    hit = json.loads(said.out)["hits"][0]
    assert (hit["source"], hit["version"]) == ("clawhub:acme/weather", "1.0.0")
    assert desk.say("search", "weather", "--registry=clawhb").code == 2


def test_a_search_sends_the_words_and_nothing_about_the_person(desk: Desk, hub: tuple[ClawHub, Server]):
    desk.say("search", "--registry", "weather")
    path, headers = hub[1].seen[0]
    assert path == "/api/v1/search?q=weather&limit=10&nonSuspiciousOnly=true"
    assert headers.keys() <= {"Host", "User-Agent", "Accept", "Accept-Encoding"}
    assert headers["User-Agent"] == "metier"


def test_no_registry_is_asked_when_the_list_is_empty(desk: Desk, hub: tuple[ClawHub, Server]):
    desk.configure("registries = []\n")
    assert desk.say("search", "--registry", "weather").code == 2
    said = desk.say("add", "clawhub:acme/weather", "--yes")
    assert (said.code, hub[1].seen) == (2, [])
    assert "`registries` is empty" in said.err


def test_a_registry_that_fails_does_not_stop_the_others(desk: Desk, hub: tuple[ClawHub, Server], tmp_path: Path):
    share = tmp_path / "share"
    desk.skill("weather-map", under=share, description="Draws the weather.")
    desk.configure(
        f'registries = [{{name = "clawhub", url = "{hub[1].url}"}}, '
        f'{{name = "share", kind = "folder", url = "{share}"}}]\n'
    )
    hub[0].fault = "not json"
    said = desk.say("search", "--registry", "weather")
    assert said.code == 0
    assert "share:weather-map" in said.out
    assert "clawhub did not answer with JSON" in said.err


# --- ClawHub ---


def test_a_skill_of_clawhub_is_installed_and_locked_with_its_version(desk: Desk, hub: tuple[ClawHub, Server]):
    said = desk.say("add", "clawhub:acme/weather", "--yes")
    assert said.code == 0, said.err
    source = locked(desk, "weather")
    assert (source["kind"], source["source"], source["version"]) == ("registry", "clawhub:acme/weather", "1.0.0")
    assert source["digest"].startswith("sha256:")
    assert not (desk.skills / "weather/_meta.json").exists()


def test_the_owner_that_clawhub_chose_is_the_one_in_the_lock(desk: Desk, hub: tuple[ClawHub, Server]):
    assert desk.say("add", "clawhub:weather", "--yes").code == 0
    assert locked(desk, "weather")["source"] == "clawhub:acme/weather"
    desk.say("remove", "weather")
    assert desk.say("add", "clawhub:@acme/weather@1.0.0", "--yes", "--force").code == 0
    assert locked(desk, "weather")["ref"] == "1.0.0"


def test_outdated_and_update_ask_the_registry_again(desk: Desk, hub: tuple[ClawHub, Server]):
    desk.say("add", "clawhub:acme/weather", "--yes")
    assert desk.say("outdated").code == 0
    hub[0].add("acme", "weather", "1.1.0", body="Do it better.\n")
    said = desk.say("outdated")
    assert said.code == 1
    assert "1.1.0" in said.out
    said = desk.say("update", "--yes")
    assert said.code == 0, said.err
    assert locked(desk, "weather")["version"] == "1.1.0"


def test_sync_fetches_the_locked_version_and_not_the_newest(desk: Desk, hub: tuple[ClawHub, Server]):
    desk.say("add", "clawhub:acme/weather", "--yes")
    hub[0].add("acme", "weather", "2.0.0", body="Another thing.\n")
    shutil.rmtree(desk.skills / "weather")
    said = desk.say("sync")
    assert said.code == 0, said.err
    assert "Do it." in (desk.skills / "weather/SKILL.md").read_text()


def test_a_version_whose_content_was_replaced_is_refused(desk: Desk, hub: tuple[ClawHub, Server]):
    desk.say("add", "clawhub:acme/weather", "--yes")
    before = (desk.skills / "weather/SKILL.md").read_text()
    hub[0].add("acme", "weather", "1.0.0", body="Something else.\n")
    said = desk.say("update", "--yes")
    assert said.code == 4
    assert "version 1.0.0 of clawhub:acme/weather has changed since it was installed" in said.err
    assert (desk.skills / "weather/SKILL.md").read_text() == before


@pytest.mark.parametrize(
    ("fault", "word"),
    [
        ("wrong digest", "`SKILL.md` differs"),
        ("one more file", "`scripts/extra.sh` was not promised"),
        ("no digests", "promises no digests"),
        ("huge", "more than 4194304"),
        ("not json", "did not answer with JSON"),
        ("redirect https://127.0.0.1:9/", "private address 127.0.0.1"),
        ("redirect http://example.com/", "is not https"),
    ],
)
def test_a_dishonest_or_broken_registry_places_nothing(desk: Desk, hub: tuple[ClawHub, Server], fault: str, word: str):
    hub[0].fault = fault
    said = desk.say("add", "clawhub:acme/weather", "--yes")
    assert said.code in (4, 5), said
    assert word in said.err
    assert nothing_placed(desk)


def test_a_server_that_drips_is_given_up(hub: tuple[ClawHub, Server]):
    from metier.registries.json_api import ask_registry
    from metier.registries.protocol import RegistryAccess, RegistryAddress
    from metier.types.errors import HostError

    hub[0].fault = "slow"
    with serving(hub[0]) as server:
        at = RegistryAddress("clawhub", "clawhub", server.url, named=True)
        with pytest.raises(HostError, match=r"took too long"):
            ask_registry(at, "/api/v1/search", {"q": "x"}, RegistryAccess(insecure=True, seconds=1.0))


def test_a_registry_that_asks_to_wait_a_moment_is_asked_once_more(desk: Desk, hub: tuple[ClawHub, Server]):
    hub[0].limited = 1
    assert desk.say("search", "--registry", "weather").code == 0
    hub[0].limited, hub[0].retry = 9, "34"
    said = desk.say("add", "clawhub:acme/weather", "--yes")
    assert said.code == 5
    assert "try again in 34 seconds" in said.err
    assert nothing_placed(desk)


def test_an_archive_that_leaves_its_folder_places_nothing(desk: Desk, hub: tuple[ClawHub, Server]):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("SKILL.md", skill_text("weather"))
        archive.writestr("../../evil", "x")
    hub[0].archive = made.getvalue()
    said = desk.say("add", "clawhub:acme/weather", "--yes")
    assert said.code in (2, 4)
    assert nothing_placed(desk)
    assert not list(desk.home.rglob("evil"))


def test_a_link_in_an_archive_places_nothing(desk: Desk, hub: tuple[ClawHub, Server]):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("SKILL.md", skill_text("weather"))
        link = zipfile.ZipInfo("secrets")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    hub[0].archive = made.getvalue()
    assert desk.say("add", "clawhub:acme/weather", "--yes").code in (2, 4)
    assert nothing_placed(desk)


def test_what_a_registry_blocks_or_suspects_is_refused(desk: Desk, hub: tuple[ClawHub, Server]):
    hub[0].moderation = {"isMalwareBlocked": True}
    said = desk.say("add", "clawhub:acme/weather", "--yes")
    assert (said.code, nothing_placed(desk)) == (4, True)
    hub[0].moderation = {"isSuspicious": True, "summary": "Detected: dynamic code"}
    said = desk.say("add", "clawhub:acme/weather", "--yes")
    assert (said.code, nothing_placed(desk)) == (4, True)
    assert "registry-suspicious" in said.err


def test_a_skill_that_clawhub_has_from_a_repository_is_fetched_at_its_commit(
    desk: Desk, hub: tuple[ClawHub, Server], repo: Repo, certificate: Path
):
    commit = git("rev-parse", "HEAD", cwd=repo.path)
    bare = repo.path.parent / "acme" / "skills.git"
    git("clone", "-q", "--bare", str(repo.path), str(bare), cwd=repo.path)
    hub[0].github = {"repo": "acme/skills", "path": "skills/pdf", "commit": commit, "contentHash": "x", "sourceUrl": ""}
    hub[0].add("acme", "pdf", "1.0.0")
    with serving(git_http(repo.path.parent), certificate) as server:
        desk.configure(f'registries = [{{name = "clawhub", url = "{hub[1].url}", git = "{server.url}"}}]\n')
        said = desk.say("add", "clawhub:acme/pdf", "--yes")
    assert said.code == 0, said.err
    assert locked(desk, "pdf")["commit"] == commit
    assert (desk.skills / "pdf/scripts/fill.py").exists()


# --- skills.sh, taps, folders, sites ---


@pytest.fixture
def github(repo: Repo, certificate: Path) -> Iterator[tuple[Repo, Server, Path]]:
    """A server of repositories with `acme/skills` on it."""
    bare = repo.path.parent / "acme" / "skills.git"
    git("clone", "-q", "--bare", str(repo.path), str(bare), cwd=repo.path)
    git("config", "uploadpack.allowFilter", "true", cwd=bare)
    with serving(git_http(repo.path.parent), certificate) as server:
        yield repo, server, bare


def test_skills_sh_is_searched_and_its_skill_is_one_commit_of_a_repository(
    desk: Desk, github: tuple[Repo, Server, Path], certificate: Path
):
    repo, host, _ = github
    found = [{"id": "pdf", "name": "pdf", "source": "acme/skills", "installs": 1200}]
    with serving(skills_sh(found), certificate) as server:
        desk.env |= server.env
        desk.configure(f'registries = [{{name = "skills.sh", url = "{server.url}", git = "{host.url}"}}]\n')
        said = desk.say("search", "--registry=skills.sh", "pdf")
        assert "skills.sh:acme/skills/pdf" in said.out, said.err
        said = desk.say("add", "skills.sh:acme/skills/pdf", "--yes")
    assert said.code == 0, said.err
    assert locked(desk, "pdf")["commit"] == git("rev-parse", "HEAD", cwd=repo.path)
    assert locked(desk, "pdf")["origin"].endswith("/acme/skills/skills/pdf")


def test_a_tag_that_moved_is_refused(desk: Desk, github: tuple[Repo, Server, Path]):
    repo, host, bare = github
    desk.env |= host.env
    git("tag", "v1", cwd=bare)
    desk.configure(f'registries = [{{name = "team", kind = "tap", url = "{host.url}/acme/skills.git"}}]\n')
    said = desk.say("add", "team:docx@v1", "--yes")
    assert said.code == 0, said.err
    assert desk.say("outdated").code == 0
    repo.write("skills/docx/SKILL.md", skill_text("docx", body="Moved.\n"))
    repo.commit("moved")
    git("fetch", "-q", str(repo.path), "main", cwd=bare)
    git("tag", "-f", "v1", "FETCH_HEAD", cwd=bare)
    said = desk.say("update", "--yes")
    assert said.code == 4
    assert "version v1 of team:docx has changed" in said.err
    assert "Moved" not in (desk.skills / "docx/SKILL.md").read_text()


def test_a_tap_is_searched_by_what_its_skills_say(desk: Desk, github: tuple[Repo, Server, Path]):
    desk.env |= github[1].env
    desk.configure(
        f'registries = [{{name = "team", kind = "tap", url = "{github[1].url}/acme/skills.git", path = "skills"}}]\n'
    )
    assert "team:brand-guidelines" in desk.say("search", "--registry", "brand").out
    said = desk.say("add", "team:dox", "--yes")
    assert said.code == 2
    assert "did you mean `docx`?" in said.err


def test_a_source_may_bring_its_tap_with_it(desk: Desk, repo: Repo):
    said = desk.say("add", f"tap:{repo.path}#docx", "--yes")
    assert said.code == 0, said.err
    assert locked(desk, "docx")["source"] == f"tap:{repo.path}#docx"
    assert desk.say("outdated").code == 0


def test_a_folder_of_skills_is_a_registry(desk: Desk, tmp_path: Path):
    share = tmp_path / "share"
    file = desk.skill("greet", under=share, description="Greets people when they arrive.")
    desk.configure(f'registries = [{{name = "share", kind = "folder", url = "{share}"}}]\n')
    assert "share:greet" in desk.say("search", "--registry", "people").out
    assert desk.say("add", "share:greet", "--yes").code == 0
    assert desk.say("outdated").code == 0
    file.write_text(skill_text("greet", body="Say more.\n"))
    assert desk.say("outdated").code == 1
    assert desk.say("update", "--yes").code == 0
    assert "Say more" in (desk.skills / "greet/SKILL.md").read_text()


def test_one_skill_of_a_site_is_fetched_and_checked_by_its_digest(desk: Desk, certificate: Path):
    import hashlib

    data = skill_text("greet").encode()
    entries = [
        {
            "name": "greet",
            "type": "skill-md",
            "description": "Greets.",
            "url": "/greet.md",
            "digest": "sha256:" + hashlib.sha256(data).hexdigest(),
        },
        {"name": "bad", "type": "skill-md", "description": "Bad.", "url": "/greet.md", "digest": "sha256:0"},
    ]
    index = {"$schema": "https://schemas.agentskills.io/discovery/0.2.0/schema.json", "skills": entries}
    contents = {"/.well-known/agent-skills/index.json": json.dumps(index).encode(), "/greet.md": data}
    with serving(files(contents), certificate) as server:
        desk.env |= server.env
        desk.configure(f'registries = [{{name = "site", kind = "site", url = "{server.url}"}}]\n')
        assert "site:greet" in desk.say("search", "--registry", "greets").out
        said = desk.say("add", "site:greet", "--yes")
        assert said.code == 0, said.err
        said = desk.say("add", "site:bad", "--yes")
        assert said.code == 4
        assert "digest mismatch" in said.err


# --- Claude marketplaces ---


def marketplace(repo: Repo, plugins: list[dict[str, Any]]) -> None:
    repo.write(".claude-plugin/marketplace.json", json.dumps({"name": "team", "plugins": plugins}))
    repo.commit("marketplace")


def test_a_plugin_of_a_marketplace_is_installed_with_the_skills_it_lists(desk: Desk, repo: Repo):
    marketplace(
        repo,
        [
            {
                "name": "documents",
                "description": "Office files",
                "source": "./",
                "strict": False,
                "skills": ["./skills/pdf", "./skills/docx"],
            }
        ],
    )
    desk.configure(f'registries = [{{name = "office", kind = "marketplace", url = "{repo.path}"}}]\n')
    assert "office:documents" in desk.say("search", "--registry", "office").out
    said = desk.say("add", "office:documents", "--yes")
    assert said.code == 0, said.err
    placed = sorted(str(path.parent.relative_to(desk.skills)) for path in desk.skills.rglob("SKILL.md"))
    assert placed == ["documents/skills/docx", "documents/skills/pdf"]
    assert desk.say("outdated").code == 0
    assert desk.say("verify").code == 0


def test_a_marketplace_in_a_folder_and_at_an_address_is_read(desk: Desk, tmp_path: Path, certificate: Path):
    folder = tmp_path / "market"
    desk.skill("greet", under=folder / "plugins/hello/skills")
    (folder / ".claude-plugin").mkdir()
    (folder / ".claude-plugin/marketplace.json").write_text(
        json.dumps({"metadata": {"pluginRoot": "./plugins"}, "plugins": [{"name": "hello", "source": "./hello"}]})
    )
    said = desk.say("add", f"marketplace:{folder}#hello", "--yes")
    assert said.code == 0, said.err
    assert (desk.skills / "hello/skills/greet/SKILL.md").exists()
    listed = {"plugins": [{"name": "beside", "source": "./x"}]}
    with serving(files({"/marketplace.json": json.dumps(listed).encode()}), certificate) as server:
        said = desk.say("add", f"marketplace:{server.url}/marketplace.json#beside", "--yes", **server.env)
    assert said.code == 2
    assert "only a file" in said.err


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("../../etc", "leaves the marketplace"),
        ({"source": "url", "url": "https://127.0.0.1/x/y.git"}, "private address"),
        ({"source": "url", "url": "file:///etc"}, "only GitHub and https"),
        ({"source": "url", "url": "ext::sh -c id"}, "only GitHub and https"),
        ({"source": "npm", "package": "left-pad"}, "only GitHub and https"),
        ({"source": "github", "repo": "a/b", "sha": "--upload-pack=x"}, "is not a commit"),
        ({"source": "github", "repo": "a/b", "ref": "--upload-pack=x"}, "not a branch, tag or commit"),
        ({"source": "git-subdir", "url": "https://127.0.0.1/x", "path": "../.."}, "leaves the marketplace"),
    ],
)
def test_a_marketplace_leads_nowhere_but_to_public_repositories(desk: Desk, repo: Repo, source: Any, word: str):
    marketplace(repo, [{"name": "bad", "source": source}])
    said = desk.say("add", f"marketplace:{repo.path}#bad", "--yes")
    assert said.code in (2, 4), said
    assert word in said.err
    assert nothing_placed(desk)


# --- Prefixes ---


def test_an_unknown_prefix_lists_the_known_ones(desk: Desk):
    said = desk.say("add", "clawhb:acme/weather", "--yes")
    assert said.code == 2
    assert "no registry named `clawhb`" in said.err
    assert "did you mean `clawhub`? known: clawhub, skills.sh, marketplace, tap, folder, site" in said.err
    assert "for a git server, write ssh://npm/path" in desk.say("add", "npm:left-pad", "--yes").err
    assert "did you mean `skills.sh`" in desk.say("add", "skill.sh:a/b/c", "--yes").err


def test_a_project_does_not_choose_registries(desk: Desk, hub: tuple[ClawHub, Server]):
    folder = desk.project / ".metier"
    folder.mkdir()
    (folder / "config.toml").write_text('registries = [{name = "clawhub", url = "https://evil.example"}]\n')
    desk.say("trust", "--yes")
    assert desk.say("add", "clawhub:acme/weather", "--yes").code == 0


# --- Allowed sources, and the audit ---


@pytest.mark.parametrize(
    ("rules", "source", "allowed"),
    [
        ('allow = ["github.com/acme"]', "https://github.com/acme-evil/x", False),
        ('allow = ["github.com/acme"]', "https://github.com/acme/../evil/x", False),
        ('allow = ["github.com/acme"]', "https://github.com/acme/%2e%2e/evil/x", False),
        ('deny = ["github.com/evil"]', "git@GitHub.com:evil/x.git", False),
        ('deny = ["github.com/evil"]', "https://user@github.com:443/evil/x.git", False),
        ('deny = ["github.com/evil"]', "ssh://git@github.com/evil/x", False),
        ('deny = ["*.example/*"]', "https://bad.example/skills.zip", False),
        ("allow = []", "acme/skills", False),
        ('allow = ["https://github.com/acme/"]', "acme/skills/pdf", True),
        ('allow = ["github.com/*/skills"]\ndeny = ["github.com/evil"]', "acme/skills", True),
    ],
)
def test_a_source_is_compared_under_its_plain_name(desk: Desk, rules: str, source: str, allowed: bool):
    from metier.parse.config import parse_settings
    from metier.registries.reference import parse_reference
    from metier.registries.source_policy import policy_from, source_names

    policy = policy_from(parse_settings(f"[sources]\n{rules}\n", []))
    assert (policy.fault(source_names(parse_reference(source))) == "") is allowed


def test_a_source_that_is_not_allowed_is_not_asked(desk: Desk, hub: tuple[ClawHub, Server]):
    config = (desk.state / "config.toml").read_text()
    desk.configure(f'{config}[sources]\ndeny = ["clawhub:acme"]\n')
    said = desk.say("add", "clawhub:acme/weather", "--yes")
    assert (said.code, hub[1].seen) == (4, [])
    assert "`sources.deny` has `clawhub:acme`" in said.err
    desk.configure(f'{config}[sources]\nallow = ["clawhub:other/*"]\n')
    assert desk.say("add", "clawhub:acme/weather", "--yes").code == 4
    assert nothing_placed(desk)


@pytest.mark.parametrize(
    "source",
    [
        "https://ｇithub.com/evil/x",
        "https://github。com/evil/x",
        "https://%67ithub.com/evil/x",
        "https://git\u00adhub.com/evil/x",
        "ssh://git@%67ithub.com/evil/x",
        "https://2130706433/evil/x.git",
        "https://0x7f.1/evil/x.zip",
    ],
)
def test_a_host_that_is_not_written_plainly_is_refused(desk: Desk, source: str):
    desk.configure('[sources]\ndeny = ["github.com", "127.0.0.1"]\n')
    said = desk.say("add", source, "--yes")
    assert said.code in (2, 4)
    assert re.search(r"is not written plainly|is not a plain address", said.err)
    assert nothing_placed(desk)


@pytest.mark.parametrize("url", ["https://github.com\\@good.example/evil/x", "git@ｇithub.com:evil/x.git"])
def test_nor_may_a_server_or_a_lock_name_one(url: str):
    from metier.registries.source_policy import check_host_spelling
    from metier.types.errors import Refused

    with pytest.raises(Refused, match="is not written plainly"):
        check_host_spelling(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com./a",
        "https://xn--bcher-kva.example/a",
        "https://[::1]:8/a",
        "https://192.0.2.1/a",
        "git@a.b:c",
    ],
)
def test_a_host_that_is_written_plainly_is_not(url: str):
    from metier.registries.source_policy import check_host_spelling

    check_host_spelling(url)


def test_a_rule_may_be_written_as_people_write_it():
    from metier.registries.source_policy import SourcePolicy, SourceRules, plain_name

    def denied(pattern: str, url: str) -> bool:
        return bool(SourcePolicy((SourceRules(None, (pattern,)),)).fault((plain_name(url),)))

    assert denied("bücher.example", "https://xn--bcher-kva.example/skills")
    assert denied("github.com/evil/x.git", "https://github.com/evil/x")
    assert denied("github.com/evil/x", "https://github.com/evil/x.git/archive/main.zip")
    assert denied("127.0.0.1", "https://[::ffff:7f00:1]/x")
    assert not denied("github.com/evil/x", "https://github.com/evil/x2.git")


def test_an_owner_that_the_registry_chose_is_compared_too(desk: Desk, hub: tuple[ClawHub, Server]):
    config = (desk.state / "config.toml").read_text()
    desk.configure(f'{config}[sources]\ndeny = ["clawhub:acme"]\n')
    said = desk.say("add", "clawhub:weather", "--yes")
    assert said.code == 4
    assert "`sources.deny` has `clawhub:acme`" in said.err
    assert nothing_placed(desk)
    assert not [path for path, _ in hub[1].seen if "/download" in path]
    desk.configure(f'{config}[sources]\nallow = ["clawhub:acme/*"]\n')
    assert desk.say("add", "clawhub:weather", "--yes").code == 0


def test_a_project_adds_rules_for_sources_and_lifts_none(desk: Desk, tmp_path: Path):
    desk.skill("greet", under=tmp_path / "team")
    desk.configure(f'[sources]\nallow = ["{tmp_path}/team"]\n')
    folder = desk.project / ".metier"
    folder.mkdir()
    (folder / "config.toml").write_text('[sources]\nallow = ["/"]\n')
    desk.say("trust", "--yes")
    desk.skill("wave", under=tmp_path / "others")
    said = desk.say("add", f"{tmp_path}/others/wave", "--yes")
    assert (said.code, "it is not in `sources.allow`" in said.err) == (4, True)
    assert desk.say("add", f"{tmp_path}/team/greet", "--yes").code == 0
    (folder / "config.toml").write_text(f'[sources]\ndeny = ["{tmp_path}/team"]\n')
    desk.say("trust", "--yes")
    assert desk.say("add", f"{tmp_path}/team/greet", "--yes", "--force").code == 4


def test_a_rule_that_can_not_be_read_stops_what_acts(desk: Desk, tmp_path: Path):
    desk.skill("greet", under=tmp_path / "team")
    desk.configure('[sources]\nallow = "github.com/acme"\n')
    said = desk.say("add", f"{tmp_path}/team/greet", "--yes")
    assert said.code == 2
    assert "sources.allow" in said.err


def test_an_audit_reports_what_failed_was_withdrawn_or_is_denied(desk: Desk, hub: tuple[ClawHub, Server]):
    claw, _ = hub
    for slug in ("notes", "mail"):
        claw.add("acme", slug, "1.0.0")
    for slug in ("weather", "notes", "mail"):
        assert desk.say("add", f"clawhub:acme/{slug}", "--yes").code == 0
    assert desk.say("audit").code == 0
    claw.verdicts = {
        "notes": {"ok": False, "decision": "fail", "reasons": ["malware.stealer"]},
        "mail": {
            "ok": False,
            "decision": "fail",
            "reasons": ["version.not_found"],
            "error": {"code": "version_not_found", "message": "Version not found"},
        },
    }
    said = desk.say("audit", "--json")
    assert said.code == 1
    states = {row["folder"]: (row["state"], row["reasons"]) for row in json.loads(said.out)}
    assert states["weather"] == ("passed", [])
    assert states["notes"] == ("failed", ["malware.stealer"])
    assert states["mail"][0] == "withdrawn"
    assert claw.posted[-1]["items"][0] == {"slug": "mail", "version": "1.0.0", "ownerHandle": "acme"}
    config = (desk.state / "config.toml").read_text()
    desk.configure(f'{config}[sources]\nallow = ["github.com/acme"]\n')
    said = desk.say("audit", "--offline")
    assert said.code == 1
    assert "3 of 3 folders should not be used" in said.out


def test_an_audit_that_gets_no_answer_says_so(desk: Desk, hub: tuple[ClawHub, Server]):
    desk.say("add", "clawhub:acme/weather", "--yes")
    hub[0].fault = "not json"
    said = desk.say("audit")
    assert said.code == 5
    assert "1 could not be checked" in said.out


def test_an_audit_asks_for_a_hundred_verdicts_at_a_time(hub: tuple[ClawHub, Server]):
    from metier.registries.clawhub import ClawHubRegistry
    from metier.registries.protocol import HeldSkill, RegistryAccess, RegistryAddress

    with serving(hub[0]) as server:
        at = RegistryAddress("clawhub", "clawhub", server.url, named=True)
        registry = ClawHubRegistry(at, RegistryAccess(insecure=True))
        held = [HeldSkill(f"acme/skill-{number}", "1.0.0") for number in range(150)]
        assert {verdict.state for verdict in registry.verdicts(held)} == {"passed"}
    assert [len(body["items"]) for body in hub[0].posted] == [100, 50]


def test_a_registry_that_is_not_reached_is_named_once_and_without_numbers(desk: Desk):
    desk.configure('registries = [{ name = "clawhub", url = "https://clawhub.invalid" }]\n')
    said = desk.say("search", "--registry=clawhub", "weather")
    assert said.err.startswith("error: clawhub: clawhub.invalid can't be resolved: ")
    assert "[Errno" not in said.err


def test_an_audit_offline_says_that_nobody_was_asked(desk: Desk, hub: tuple[ClawHub, Server]):
    assert desk.say("add", "clawhub:acme/weather", "--yes").code == 0
    said = desk.say("audit", "--offline")
    assert "no registry was asked" in said.out
    assert "no registry knows it" not in said.out
