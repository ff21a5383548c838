"""Recipes become exact plans, or refusals that say why."""

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path

import pytest
from tests.builders import read
from tests.cli.console import Desk
from tests.install.servers import files, serving

from metier.install.recipes import (
    InstallEnvironment,
    InstallPlan,
    InvalidRecipe,
    OtherMachine,
    list_options,
    plan_recipe,
    preferred_option,
)

ALL = frozenset({"brew", "npm", "pnpm", "yarn", "bun", "uv", "go"})
HERE = InstallEnvironment("linux", ALL, "/t")
SHA = "ab" * 32


def recipe(text: str):
    lines = "\n".join(f"    {line}" for line in text.strip().splitlines())
    return read(f"name: x\ninstall:\n  -\n{lines}").install[0]


ARGV = [
    ("kind: brew\npackage: jq", HERE, ("brew", "install", "--", "jq")),
    ("kind: brew\nformula: user/tap/jq@1.6", HERE, ("brew", "install", "--", "user/tap/jq@1.6")),
    ("kind: brew\npackage: docker\ncask: true", HERE, ("brew", "install", "--cask", "--", "docker")),
    ("kind: brew\ncask: docker", HERE, ("brew", "install", "--cask", "--", "docker")),
    ("kind: uv\npackage: requests", HERE, ("uv", "tool", "install", "--", "requests")),
    ("kind: uv\npackage: ruff[all]>=0.3,<1", HERE, ("uv", "tool", "install", "--", "ruff[all]>=0.3,<1")),
    ("kind: go\npackage: github.com/example/tool@latest", HERE, ("go", "install", "--", "github.com/example/tool@latest")),
    ("kind: go\nmodule: github.com/example/tool", HERE, ("go", "install", "--", "github.com/example/tool@latest")),
    (
        "kind: npm\npackage: typescript\nglobal: true",
        HERE,
        ("npm", "install", "--global", "--ignore-scripts", "--no-audit", "--no-fund", "--", "typescript"),
    ),
    (
        "kind: node\npackage: '@scope/tool@1.2.3'",
        HERE,
        ("npm", "install", "--global", "--prefix", "/t", "--ignore-scripts", "--no-audit", "--no-fund", "--", "@scope/tool@1.2.3"),
    ),
    (
        "type: npm\npackage: typescript\nglobal: true",
        InstallEnvironment("linux", ALL, "/t", superuser=True),
        ("npm", "install", "--global", "--prefix", "/t", "--ignore-scripts", "--no-audit", "--no-fund", "--", "typescript"),
    ),
    (
        "kind: npm\npackage: x",
        InstallEnvironment("linux", ALL, "/t", node="pnpm"),
        ("pnpm", "add", "--global", "--global-dir", "/t/pnpm", "--global-bin-dir", "/t/bin", "--ignore-scripts", "--", "x"),
    ),
    (
        "kind: npm\npackage: x\nglobal: yes",
        InstallEnvironment("linux", ALL, "/t", node="yarn"),
        ("yarn", "global", "add", "--ignore-scripts", "--non-interactive", "x"),
    ),
    (
        "kind: npm\npackage: x",
        InstallEnvironment("linux", ALL, "/t", node="bun"),
        ("bun", "add", "--global", "--ignore-scripts", "x"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "means", "argv"), ARGV, ids=[" ".join(row[2][:3]) + f" {at}" for at, row in enumerate(ARGV)]
)
def test_a_recipe_becomes_exactly_this_command(text, means, argv):
    plan = plan_recipe(recipe(text), means, "x")
    assert isinstance(plan, InstallPlan), plan
    assert plan.argv == argv


def test_go_uv_and_bun_install_into_metiers_own_folder():
    env = {}
    for one, name in (("uv", "a"), ("go", "a.b/c")):
        plan = plan_recipe(recipe(f"kind: {one}\npackage: {name}"), HERE, "x")
        assert isinstance(plan, InstallPlan)
        env[one] = plan.env
    assert env["uv"]["UV_TOOL_BIN_DIR"] == env["go"]["GOBIN"] == "/t/bin"
    bun = plan_recipe(recipe("kind: npm\npackage: x"), InstallEnvironment("linux", ALL, "/t", node="bun"), "x")
    assert isinstance(bun, InstallPlan)
    assert bun.env["BUN_INSTALL_BIN"] == "/t/bin"


REFUSED = [
    ("kind: npm\npackage: --registry=https://evil.example.com", "not a package"),
    ("kind: npm\npackage: 'x;id'", "not a package"),
    ("kind: npm\npackage: git+ssh://git@x/y", "not a package"),
    ("kind: npm\npackage: file:../x", "not a package"),
    ("kind: npm\npackage: https://x.example.com/x.tgz", "not a package"),
    ("kind: npm\npackage: user/repo", "not a package"),
    ("kind: npm\npackage: 'x y'", "not a package"),
    ('kind: npm\npackage: "x\\ny"', "not a package"),
    ("kind: uv\npackage: --index-url=https://evil.example.com", "not a package"),
    ("kind: uv\npackage: 'x @ https://evil.example.com/x.whl'", "not a package"),
    ("kind: uv\npackage: git+https://x/y", "not a package"),
    ("kind: go\npackage: -toolexec=/bin/sh", "not the path"),
    ("kind: go\npackage: https://x.example.com/y", "not the path"),
    ("kind: go\npackage: ../x", "not the path"),
    ("kind: go\npackage: tool", "not the path"),
    ("kind: brew\npackage: https://evil.example.com/f.rb", "not the name"),
    ("kind: brew\npackage: -x", "not the name"),
    ("kind: brew\npackage: ../x", "not the name"),
    ("kind: brew", "no package"),
    ("kind: apt\npackage: jq", "not a recipe kind"),
    ("kind: download\nurl: http://x.example.com/a.zip", "not https"),
    ("kind: download\nurl: file:///etc/passwd", "not a URL"),
    ("kind: download\nurl: https://me:pw@x.example.com/a", "not a URL"),
    ("kind: download\nurl: https://x.example.com/a.zip\nsha256: abc", "its sha256 is not valid"),
    ("kind: download\nurl: https://x.example.com/a\narchiveType: rar", "not a supported archive type"),
    ("kind: download\nurl: https://x.example.com/a.zip\nstripComponents: -1", "not a number up to 20"),
    ("kind: download\nurl: https://x.example.com/a.zip\ntargetDir: /usr/local/bin", "outside"),
    ("kind: download\nurl: https://x.example.com/a.zip\ntargetDir: ../../x", "outside"),
    ("kind: download\nurl: https://x.example.com/a.zip\ntargetDir: ~/bin", "outside"),
    ("kind: brew\npackage: jq\nplatforms: [darwin]", "it is for darwin"),
    ("kind: brew\npackage: jq\nos: [macos]", "it is for macos"),
    ("kind: uv\npackage: x\nwhen: darwin", "it is for darwin"),
    ("kind: uv\npackage: x\nwhen: lacks:uv", "without uv"),
    ("kind: uv\npackage: x\nwhen: tomorrow", "not a known condition"),
    ("kind: uv\npackage: x\nbins: [npm, uv]\nwhen: missing", "npm, uv is already installed"),
]


@pytest.mark.parametrize(("text", "why"), REFUSED, ids=[f"{at}" for at in range(len(REFUSED))])
def test_a_recipe_that_could_be_an_order_or_is_for_elsewhere_is_refused_with_the_reason(text, why):
    assert why in str(plan_recipe(recipe(text), HERE, "x"))


@pytest.mark.parametrize("program", ["brew", "npm", "uv", "go"])
def test_what_the_machine_lacks_is_named(program):
    package = "a.b/c" if program == "go" else "x"
    assert f"{program} is not installed" in str(
        plan_recipe(recipe(f"kind: {program}\npackage: {package}"), InstallEnvironment("linux"), "x")
    )


def test_a_download_goes_to_the_skills_own_folder_of_tools():
    plan = plan_recipe(
        recipe(
            f"kind: download\nurl: https://x.example.com/t.tar.gz\narchive: tar.gz\nstripComponents: 1\nsha256: {SHA}"
        ),
        HERE,
        "key",
    )
    assert isinstance(plan, InstallPlan)
    assert (plan.target, plan.archive, plan.strip, plan.sha256) == ("/t/key", "tar", 1, SHA)
    inner = plan_recipe(recipe("kind: download\nurl: https://x.example.com/t.zip\ntargetDir: a/b"), HERE, "key")
    assert isinstance(inner, InstallPlan)
    assert (inner.target, inner.archive) == ("/t/key/a/b", "zip")
    assert "sha256" in inner.note
    odd = plan_recipe(recipe("kind: download\nurl: https://x.example.com/t"), HERE, "../../etc")
    assert isinstance(odd, InstallPlan)
    assert odd.target.startswith("/t/")
    assert ".." not in odd.target


def test_ids_default_to_the_kind_and_its_number_and_one_is_recommended():
    skill = read(
        "name: x\ninstall:\n  - kind: go\n    package: a.b/c\n  - kind: npm\n    package: c\n  - id: mine\n    kind: uv\n    package: d\n"
        "  - kind: brew\n    package: e\n    platforms: [darwin]\n"
    )
    found = list_options(skill.install, HERE, "x")
    assert [option.recipe.id for option in found] == ["go-0", "npm-1", "mine", "brew-3"]
    best = preferred_option(found, HERE)
    assert best is not None
    assert best.recipe.id == "mine"
    assert preferred_option([], HERE) is None
    mac = InstallEnvironment("darwin", ALL, "/t")
    choice = preferred_option(list_options(skill.install, mac, "x"), mac)
    assert choice is not None
    assert choice.recipe.id == "brew-3"


TWO = "metadata:\n  requires:\n    bins: [mytool]\ninstall:\n  - kind: npm\n    package: mytool\n  - kind: uv\n    package: mytool\n    label: By uv\n"


def fake(desk: Desk, name: str) -> Path:
    """A program that notes how it was called, and puts `mytool` where it was told to."""
    log = desk.home / f"{name}.log"
    file = desk.bin / name
    file.write_text(
        f'#!/bin/sh\nmkdir -p "$PWD/bin"\nprintf "%s\\n" "$@" > "$PWD/{name}.log"\nenv >> "$PWD/{name}.log"\n'
        'printf "#!/bin/sh\\n" > "$PWD/bin/mytool"; chmod +x "$PWD/bin/mytool"\necho installed\n'
    )
    file.chmod(0o755)
    return log


def test_several_ways_are_listed_when_none_is_chosen(desk: Desk):
    desk.skill("needy", TWO)
    fake(desk, "npm")
    fake(desk, "uv")
    said = desk.say("install", "needy")
    assert said.code == 2
    assert "npm-0" in said.out
    assert "uv tool install -- mytool (By uv)" in said.out
    assert "recommended" in said.out
    assert "metier install needy ID" in said.err
    found = json.loads(desk.say("install", "needy", "--dry-run", "--json").out)
    assert (found["choice"], found["preferred"]) == (None, "uv-1")
    assert found["options"][1]["argv"] == ["uv", "tool", "install", "--", "mytool"]
    one = json.loads(desk.say("install", "needy", "npm-0", "--dry-run", "--json").out)
    assert one["choice"] == "npm-0"
    wrong = desk.say("install", "needy", "npm-9")
    assert wrong.code == 2
    assert "did you mean `npm-0`" in wrong.err


def test_a_recipe_may_depend_on_any_program_of_this_machine(desk: Desk):
    recipe = "  - kind: uv\n    package: x\n    bins: [mytool]\n    when: {}\n"
    words = ("has:mytool", "lacks:mytool", "missing", "missing lacks:mytool")
    desk.skill("needy", "install:\n" + "".join(recipe.format(word) for word in words))
    fake(desk, "uv")

    def refusals() -> list[str]:
        said = json.loads(desk.say("install", "needy", "--dry-run", "--json").out)
        return [option["refusal"] or "" for option in said["options"]]

    assert refusals() == ["it is for machines with mytool", "", "", ""]
    fake(desk, "mytool")
    already = "mytool is already installed"
    assert refusals() == ["", "it is for machines without mytool", already, already]


def test_the_command_is_shown_and_runs_with_a_clean_environment_and_the_skill_is_ready_at_once(desk: Desk):
    desk.skill("needy", TWO)
    fake(desk, "npm")
    assert "needs binary" in desk.say("list").out
    unasked = desk.say("install", "needy", "npm-0")
    assert unasked.code == 4
    assert "npm install --global" in unasked.out
    said = desk.say("install", "needy", "npm-0", "--yes", SECRET_TOKEN="hush")
    assert said.code == 0, said.err + said.out
    assert "needy is ready now" in said.out
    assert "1 ready" in desk.say("list").out
    log = (desk.state / "tools/npm.log").read_text()
    assert "--ignore-scripts" in log.splitlines()
    assert "hush" not in log


def test_a_program_that_fails_or_never_ends_is_reported_as_such(desk: Desk):
    desk.skill("needy", TWO)
    (desk.bin / "npm").write_text("#!/bin/sh\necho it broke >&2\nexit 3\n")
    (desk.bin / "npm").chmod(0o755)
    said = desk.say("install", "needy", "npm-0", "--yes")
    assert said.code == 5
    assert "failed with exit code 3" in said.err
    assert "it broke" in said.err
    (desk.bin / "npm").write_text("#!/bin/sh\nsleep 60\n")
    slow = desk.say("install", "needy", "npm-0", "--yes", "--timeout", "1")
    assert slow.code == 5
    assert "timed out" in slow.err


def test_a_skill_without_recipes_and_one_that_is_not_trusted_install_nothing(desk: Desk):
    desk.skill("plain")
    said = desk.say("install", "plain")
    assert said.code == 2
    assert "Skill 'plain' has no install specifications" in said.err
    desk.skill(
        "theirs",
        TWO.replace("  - kind: uv\n    package: mytool\n    label: By uv\n", ""),
        under=desk.project / ".agents/skills",
    )
    fake(desk, "npm")
    refused = desk.say("install", "theirs", "--yes")
    assert refused.code == 4
    assert "untrusted" in refused.err
    assert not (desk.state / "tools").exists()


def packed(**contents: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in contents.items():
            info = tarfile.TarInfo(name.replace("__", "/"))
            info.size, info.mode = len(data), 0o755
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def download(desk: Desk, url: str, more: str) -> None:
    desk.skill(
        "needy",
        f"metadata:\n  requires:\n    bins: [mytool]\ninstall:\n  - kind: download\n    url: {url}\n"
        + "".join(f"    {line}\n" for line in more.splitlines()),
    )


def test_a_download_is_checked_taken_apart_and_found_at_once(desk: Desk, certificate: Path):
    data = packed(wrap__bin__mytool=b"#!/bin/sh\necho hi\n", wrap__README=b"x")
    with serving(files({"/t.tar.gz": data}), certificate) as server:
        download(desk, f"{server.url}/t.tar.gz", f"sha256: {hashlib.sha256(data).hexdigest()}\nstripComponents: 1")
        private = desk.say("install", "needy", "--yes", **server.env)
        assert private.code == 4
        assert "private address" in private.err
        said = desk.say("install", "needy", "--yes", "--allow-insecure", **server.env)
    assert said.code == 0, said.err
    assert f"Downloaded and extracted to {desk.state}/tools/needy" in said.out
    assert "needy is ready now" in said.out
    assert os.access(desk.state / "tools/needy/bin/mytool", os.X_OK)
    assert (desk.state / "tools/bin/mytool").resolve() == desk.state / "tools/needy/bin/mytool"
    assert "1 ready" in desk.say("list").out


def test_a_download_without_a_digest_is_refused_unattended_and_a_wrong_one_always(desk: Desk, certificate: Path):
    data = packed(mytool=b"#!/bin/sh\n")
    with serving(files({"/t.tar.gz": data}), certificate) as server:
        download(desk, f"{server.url}/t.tar.gz", "")
        said = desk.say("install", "needy", "--yes", "--allow-insecure", **server.env)
        assert said.code == 4
        assert "no sha256" in said.err
        assert server.seen == []
        download(desk, f"{server.url}/t.tar.gz", f"sha256: {SHA}")
        wrong = desk.say("install", "needy", "--yes", "--allow-insecure", **server.env)
        assert wrong.code == 4
        assert "digest mismatch for" in wrong.err
    assert not (desk.state / "tools/needy").exists()


def test_a_download_that_leads_out_is_refused_whole(desk: Desk, certificate: Path):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        link = tarfile.TarInfo("mytool")
        link.type, link.linkname = tarfile.SYMTYPE, "/bin/sh"
        archive.addfile(link)
    data = out.getvalue()
    with serving(files({"/t.tar.gz": data}), certificate) as server:
        download(desk, f"{server.url}/t.tar.gz", f"sha256: {hashlib.sha256(data).hexdigest()}")
        said = desk.say("install", "needy", "--yes", "--allow-insecure", **server.env)
    assert said.code == 4
    assert "a link" in said.err
    assert not (desk.state / "tools/needy").exists()


def test_a_refusal_says_by_its_type_whether_the_recipe_or_the_machine_is_wrong():
    forged = plan_recipe(recipe("kind: npm\npackage: --registry=http://x"), HERE, "x")
    elsewhere = plan_recipe(recipe("kind: npm\npackage: x\nwhen: darwin"), HERE, "x")
    lacking = plan_recipe(recipe("kind: npm\npackage: x"), InstallEnvironment("linux"), "x")

    assert isinstance(forged, InvalidRecipe)
    assert isinstance(elsewhere, OtherMachine)
    assert "is not installed" in str(lacking)
    assert not isinstance(lacking, InvalidRecipe | OtherMachine | InstallPlan)
