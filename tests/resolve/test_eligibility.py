"""May a skill run here: seven gates in their order, each with the hint its page gives."""

import pytest
from tests.builders import origin, read, skill

from metier.parse.config import parse_settings
from metier.resolve.eligibility import install_command, recipe_note, requirement_checks
from metier.resolve.resolver import AllowedSkills, ResolvePolicy, required_facts, resolve
from metier.types.problem import Finding
from metier.types.settings import Settings
from metier.types.skill import Skill
from metier.types.verdict import Facts, Verdict


def facts(*binaries: str, env: dict[str, str] | None = None, platform: str = "linux") -> Facts:
    given = env or {}
    return Facts(
        platform,
        frozenset(binaries),
        frozenset(name for name in given if given[name]),
        frozenset(name for name in given if not given[name]),
    )


def settings(toml: str = "") -> Settings:
    marks: list[Finding] = []
    found = parse_settings(toml, marks)
    assert not marks
    return found


def judged(one: Skill, here: Facts | None = None, toml: str = "", bundled: bool = False, **more) -> Verdict:
    paths = frozenset({one.path}) if bundled else frozenset[str]()
    [verdict] = resolve([one], here or facts(), ResolvePolicy(settings=settings(toml), bundled=paths, **more))
    return verdict


def asking(text: str, dialect: str = "multica") -> Skill:
    indented = "\n".join("    " + line for line in text.strip().split("\n"))
    head = "metadata:\n  requires:" if dialect == "multica" else "metadata:\n  openclaw:\n   requires:"
    return read(f"name: Test\ndescription: d\n{head}\n{indented}", dialect)


EVERYTHING = """
name: Test
description: d
metadata:
  requires:
    bins: [git, node]
    anyBins: [npm, pnpm, yarn]
    env: [OPENAI_API_KEY, OTHER]
    config: [browser.enabled, a.b]
    platforms: [darwin, linux]
"""


def test_everything_that_is_missing_is_told_at_once_in_order():
    assert judged(read(EVERYTHING)).diagnostics == ("binary", "any_binary", "env", "config")
    assert len(judged(read(EVERYTHING)).problems) == 4


def test_the_first_three_gates_end_the_check():
    text = EVERYTHING.replace("[darwin, linux]", "[win32]")
    off = "[skills.entries.test]\nenabled = false\n[skills.x]\n"
    allow = '[skills]\nallowBundled = ["other"]\n'
    assert judged(read(text)).diagnostics == ("platform",)
    assert judged(read(text), toml=allow, bundled=True).diagnostics == ("not_in_allowlist",)
    assert judged(read(text), toml=allow + "[skills.entries.test]\nenabled = false", bundled=True).diagnostics == (
        "disabled",
    )
    assert judged(read(text), toml=off).diagnostics == ("disabled",)


def test_always_ends_the_check_after_the_platform():
    always = EVERYTHING.replace("metadata:\n", "metadata:\n  always: true\n")
    assert judged(read(always)).eligible
    assert judged(read(always.replace("[darwin, linux]", "[win32]"))).diagnostics == ("platform",)


def test_each_kind_of_diagnosis_gives_the_hint_of_its_page():
    hints = {one.code: one.hint for one in judged(read(EVERYTHING), facts(platform="darwin")).problems}
    assert hints["binary"] == "brew install git node"
    assert hints["any_binary"] == "Install any of: npm, pnpm, yarn"
    assert hints["env"] == "export OPENAI_API_KEY=...; export OTHER=..."
    assert hints["config"] == "Set config path: browser.enabled, a.b"
    [platform] = judged(read(EVERYTHING), facts(platform="win32")).problems
    assert platform.hint == "Only works on: darwin, linux"
    [disabled] = judged(read(EVERYTHING), toml="[skills.test]\nenabled = false").problems
    assert disabled.hint == "Enable via skills.test.enabled: true"
    [bundled] = judged(read(EVERYTHING), toml='[skills]\nallowBundled = ["x"]', bundled=True).problems
    assert bundled.hint.startswith("Add to config.allowBundled array")


def test_on_linux_two_package_managers_are_offered():
    [one] = judged(asking("bins: [git]")).problems
    assert one.hint == "brew install git OR apt install git"


def test_the_authors_own_recipe_is_the_hint_and_only_where_it_runs():
    text = """
name: Test
description: d
metadata:
  requires: {bins: [jq]}
install:
  - {kind: brew, package: jq, platforms: [macos]}
  - {kind: npm, package: node-jq, platforms: [darwin, linux]}
"""
    [mac] = judged(read(text), facts(platform="darwin")).problems
    [linux] = judged(read(text)).problems
    assert mac.hint == "brew install jq OR npm install -g node-jq"
    assert linux.hint == "npm install -g node-jq"


def test_a_recipe_that_brings_another_binary_is_not_the_hint():
    text = """
name: Test
description: d
metadata: {requires: {bins: [jq, rg]}}
install:
  - {kind: brew, package: jq, bins: [jq]}
  - {kind: brew, package: ripgrep, bins: [rg]}
"""
    [one] = judged(read(text), facts("jq")).problems
    assert (one.message, one.hint) == ("Missing required binary: rg", "brew install ripgrep")


@pytest.mark.parametrize(
    ("recipe", "command"),
    [
        ("{kind: brew, package: jq}", "brew install jq"),
        ("{kind: brew, formula: jq}", "brew install jq"),
        ("{kind: brew, cask: firefox}", "brew install --cask firefox"),
        ("{kind: brew, package: firefox, cask: true}", "brew install --cask firefox"),
        ("{kind: brew, package: jq, cask: false}", "brew install jq"),
        ("{kind: brew, package: jq, cask: other}", "brew install jq"),
        ("{kind: node, package: typescript}", "npm install -g typescript"),
        ("{kind: uv, package: requests}", "uv tool install requests"),
        ("{kind: go, module: example.com/x@latest}", "go install example.com/x@latest"),
        ("{kind: download, url: https://example.com/x}", "download https://example.com/x"),
        ("{type: brew, package: '{0} {}'}", "brew install {0} {}"),
    ],
)
def test_a_recipe_is_a_command_that_can_be_typed(recipe, command):
    [found] = read(f"name: T\ndescription: d\ninstall:\n  - {recipe}").install
    assert install_command(found) == command


def test_a_recipe_says_whether_it_can_be_followed_here():
    [brew] = read("name: T\ninstall: [{kind: brew, package: x, platforms: [darwin]}]").install
    assert recipe_note(brew, frozenset({"brew"}), "linux") == "not for linux"
    assert recipe_note(brew, frozenset({"brew"}), "darwin") == "available"
    assert recipe_note(brew, frozenset(), "darwin") == "needs brew"
    [npm] = read("name: T\ninstall: [{kind: npm, package: x}]").install
    assert recipe_note(npm, frozenset({"yarn"}), "linux") == "available"


@pytest.mark.parametrize(
    "where", ["requires: {platforms: [darwin]}", "platforms: [darwin]", "os: [darwin]", "os: macOS"]
)
def test_a_platform_may_be_asked_for_in_several_places(where):
    one = read(f"name: Test\ndescription: d\nmetadata:\n  {where}")
    assert judged(one).diagnostics == ("platform",)
    assert judged(one, facts(platform="darwin")).eligible


@pytest.mark.parametrize("vendor", ["openclaw", "clawdbot", "moltbot", "clawdis"])
@pytest.mark.parametrize("dialect", ["openclaw", "standard", "umbra", "claude", "agentmd", "agenvoy", "multica"])
def test_requirements_under_a_vendors_name_count_in_every_dialect(vendor, dialect):
    one = read(f"name: test\ndescription: d\nmetadata:\n  {vendor}:\n    requires: {{bins: [nope]}}", dialect)
    assert judged(one).diagnostics == ("binary",)


def test_in_multica_what_metadata_itself_asks_comes_before_a_vendors_block():
    one = read("name: T\nmetadata:\n  requires: {bins: [mine]}\n  openclaw: {requires: {bins: [theirs]}}")
    assert one.requires.binaries == ("mine",)


def test_the_older_spellings_of_multica_are_read():
    one = read("name: T\ndescription: d\nmetadata: {requiresBinaries: [x], requiresEnv: [Y]}")
    assert judged(one).diagnostics == ("binary", "env")


def test_empty_lists_ask_for_nothing():
    one = asking("bins: []\nanyBins: []\nenv: []\nconfig: []\nplatforms: []")
    assert judged(one).eligible
    assert requirement_checks(one, facts(), settings()) == ()


def test_an_empty_variable_counts_in_multica_and_not_in_openclaw():
    here = facts(env={"X": ""})
    assert judged(asking("env: [X]"), here).eligible
    assert judged(asking("env: [X]", "openclaw"), here).diagnostics == ("env",)


@pytest.mark.parametrize("dialect", ["multica", "openclaw"])
@pytest.mark.parametrize(
    ("toml", "there"),
    [
        ('[skills.entries.test.env]\nX = "v"', True),
        ("[skills.entries.test.env]\nX = 8080", True),
        ("[skills.entries.test.env]\nX = true", True),
        ('[skills.entries.test.env]\nX = ""', False),
        ("[skills.entries.test.env]\nX = false", False),
        ('[skills.entries.test.env]\nY = "v"', False),
        ('[skills.entries.other.env]\nX = "v"', False),
        ('[skills.entries.test]\napiKey = "k"', False),
    ],
)
def test_a_variable_may_come_from_the_skills_settings(dialect, toml, there):
    assert judged(asking("env: [X]", dialect), toml=toml).eligible is there


def test_an_api_key_fills_the_primary_variable_and_no_other():
    one = read("name: T\ndescription: d\nmetadata:\n  primaryEnv: X\n  requires: {env: [X, Y]}")
    [problem] = judged(one, toml='[skills.entries.test]\napiKey = "k"').problems
    assert problem.message == "Missing environment variable: Y"
    assert len(judged(one, toml='[skills.entries.test]\napiKey = "  "').problems[0].message.split(",")) == 2


def test_the_skill_key_names_its_settings():
    one = read("name: T\ndescription: d\nmetadata:\n  skillKey: other\n  requires: {env: [X]}")
    assert judged(one, toml='[skills.entries.other.env]\nX = "v"').eligible
    assert not judged(one, toml='[skills.entries.test.env]\nX = "v"').eligible
    [problem] = judged(one, toml="[skills.entries.other]\nenabled = false").problems
    assert problem.hint == "Enable via skills.other.enabled: true"


@pytest.mark.parametrize(
    ("value", "there"),
    [
        ("true", True), ("1", True), ("0.5", True), ('"x"', True), ("{}", True), ("[]", True), ('"false"', True),
        ("false", False), ("0", False), ("0.0", False), ('""', False), ('"  "', False),
    ],
)  # fmt: skip
def test_a_config_path_counts_when_its_value_is_true(value, there):
    one = asking("config: [a.b.c]")
    assert judged(one, toml=f"[config.a.b]\nc = {value}").eligible is there


def test_a_config_path_leads_through_tables_only():
    one = asking("config: [a.b.c]")
    assert not judged(one).eligible
    assert not judged(one, toml='[config.a]\nb = "text"').eligible
    assert not judged(one, toml="[config]\n'a.b.c' = true").eligible


def test_the_browser_is_on_in_openclaw_until_it_is_turned_off():
    one = asking("config: [browser.enabled, browser.evaluateEnabled]", "openclaw")
    assert judged(one).eligible
    assert judged(one, toml="[config.browser]\nenabled = false").diagnostics == ("config",)
    assert not judged(asking("config: [browser.enabled]")).eligible
    null = Settings(tree={"browser": {"enabled": None}})
    [verdict] = resolve([asking("config: [browser.enabled]", "openclaw")], facts(), ResolvePolicy(settings=null))
    assert not verdict.eligible


def test_the_documented_config_key_of_multica_is_found_in_the_skills_entry():
    one = read("name: T\ndescription: d\nconfig:\n  requiresConfig: [skills.myskill.apiKey]")
    assert judged(one).diagnostics == ("config",)
    assert judged(one, toml='[skills.entries.myskill]\napiKey = "k"').eligible
    assert judged(one, toml='[skills.myskill]\napiKey = "k"').eligible


def test_frontmatter_can_disable_a_skill_and_says_how_to_enable_it():
    [off] = judged(read("name: T\ndescription: d\nconfig: {enabled: false}")).problems
    assert (off.code, off.hint) == ("disabled", "set `config.enabled: true` in its frontmatter")
    [both] = judged(read("name: T\ndescription: d\nuser-invocable: false\ndisable-model-invocation: true")).problems
    assert both.code == "disabled"


def test_the_list_of_bundled_skills_binds_bundled_skills_only():
    one = read("name: Test\ndescription: d")
    assert judged(one, toml='[skills]\nallowBundled = ["x"]').eligible
    assert judged(one, toml="[skills]\nallowBundled = []", bundled=True).eligible
    assert judged(one, toml='[skills]\nallowBundled = ["test"]', bundled=True).eligible
    assert judged(one, toml='[skills]\nallowBundled = ["Test"]', bundled=True).eligible


def test_the_checklist_tells_of_every_requirement_met_or_not():
    found = requirement_checks(read(EVERYTHING), facts("git", "npm", env={"OTHER": "x"}), settings("[config.a]\nb = 1"))
    assert [(check.kind, check.name, check.met) for check in found] == [
        ("platform", "darwin, linux", True),
        ("binary", "git", True),
        ("binary", "node", False),
        ("any_binary", "npm", True),
        ("any_binary", "pnpm", False),
        ("any_binary", "yarn", False),
        ("env", "OPENAI_API_KEY", False),
        ("env", "OTHER", True),
        ("config", "browser.enabled", False),
        ("config", "a.b", True),
    ]


def test_facts_are_asked_for_nothing_that_no_skill_wants():
    assert required_facts([read(EVERYTHING), skill("x")]) == (
        {"git", "node", "npm", "pnpm", "yarn"},
        {"OPENAI_API_KEY", "OTHER"},
    )


@pytest.mark.parametrize(
    ("names", "usable"),
    [(None, True), ((), False), (("test",), True), (("Test",), True), (("Test@root",), False), (("x",), False)],
)
def test_an_agents_list_is_absent_empty_or_names_its_skills(names, usable):
    verdict = judged(read("name: Test\ndescription: d"), allowed=AllowedSkills(names))
    assert verdict.usable is usable
    assert verdict.eligible, "what an agent may use says nothing of the machine"


def test_the_list_takes_a_shadowed_skill_by_its_full_name():
    one = skill("x", at=origin(root="there"))
    assert judged(one, allowed=AllowedSkills(("x@there",))).usable
