"""Who shadows whom, what trust decides, and what a skill's processes get."""

from hypothesis import given
from hypothesis import strategies as st
from tests.builders import origin, skill

from metier.resolve.capabilities import SkillCapabilities, TrustRecord, find_untrusted
from metier.resolve.environment import build_overlay
from metier.resolve.resolver import ResolvePolicy, resolve
from metier.types.problem import Finding
from metier.types.skill import Skill
from metier.types.verdict import Facts, Verdict

HERE = Facts("linux")
ROOTS = [origin(root=f"r{rank}", rank=rank, path=f"/r{rank}") for rank in (1, 2, 3)]
some = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from(ROOTS), st.sampled_from(["x", "x-y", "x/z", "y"])),
    max_size=8,
    unique=True,
)


def winners(verdicts: tuple[Verdict, ...]) -> dict[str, str]:
    return {one.skill.name: one.skill.path for one in verdicts if one.usable}


@given(some, st.randoms())
def test_the_winner_depends_on_rank_and_folder_and_on_no_order(triples, random):
    skills = [skill(name, at=root, id=folder, path=f"{root.path}/{folder}/SKILL.md") for name, root, folder in triples]
    shuffled = random.sample(skills, len(skills))
    found = winners(resolve(shuffled, HERE, ResolvePolicy()))
    assert found == winners(resolve(skills, HERE, ResolvePolicy()))
    for name, path in found.items():
        rivals = [one for one in skills if one.name == name]
        best = min(rivals, key=lambda one: (-one.origin.rank, one.directory.split("/")))
        assert path == best.path


@given(some)
def test_whoever_is_shadowed_says_by_whom_and_how_it_is_still_called(triples):
    skills = [skill(name, at=root, id=folder, path=f"{root.path}/{folder}/SKILL.md") for name, root, folder in triples]
    verdicts = resolve(skills, HERE, ResolvePolicy())
    assert len(verdicts) == len(skills), "nothing is dropped"
    for one in verdicts:
        if one.shadowed_by is not None:
            [problem] = one.problems
            assert one.shadowed_by.path in problem.message
            called = f"{one.skill.name}@{one.skill.origin.root}"
            taken = f"{one.shadowed_by.name}@{one.shadowed_by.origin.root}"
            assert f"`{called if called != taken else one.skill.id}`" in problem.hint


def test_the_same_bytes_twice_are_one_skill():
    two = [skill("a", at=ROOTS[2]), skill("a", at=ROOTS[0])]
    assert len(resolve(two, HERE, ResolvePolicy(same=lambda one, other: True))) == 1


def test_in_multica_and_claude_the_folder_is_what_shadows():
    for dialect in ("multica", "claude"):
        high, low = origin(dialect, "high", 2), origin(dialect, "low", 1)
        other_folder = resolve([skill("A", at=high, id="1"), skill("A", at=low, id="2")], HERE, ResolvePolicy())
        assert [one.usable for one in other_folder] == [True, True]
        same_folder = resolve([skill("A", at=high, id="1"), skill("B", at=low, id="1")], HERE, ResolvePolicy())
        assert [one.usable for one in same_folder] == [True, False]


def test_a_plugin_with_a_namespace_shadows_nothing():
    found = resolve([skill("a", at=origin(rank=2, namespace="tools")), skill("a", at=origin())], HERE, ResolvePolicy())
    assert [one.usable for one in found] == [True, True]


def test_what_is_not_trusted_shadows_nothing_and_is_not_shadowed():
    theirs, mine = skill("a", at=ROOTS[2]), skill("a", at=ROOTS[0])
    found = resolve([theirs, mine], HERE, ResolvePolicy(untrusted={theirs.path: Finding("untrusted", 0, ("/p",))}))
    assert [(one.usable, one.eligible, one.shadowed_by) for one in found] == [(False, True, None), (True, True, None)]


def test_an_ineligible_skill_still_shadows_so_that_a_project_can_turn_one_off():
    off = skill("a", at=ROOTS[2], enabled=False)
    assert [one.usable for one in resolve([off, skill("a", at=ROOTS[0])], HERE, ResolvePolicy())] == [False, False]


def decided(record: TrustRecord | None, runs: frozenset[str], place: str = ".metier/skills/a") -> str | None:
    one = skill("a")
    found = find_untrusted([(one, place, SkillCapabilities(runs))], record, "/p")
    return found[one.path].code if found else None


def test_trust_asks_again_only_when_more_can_run():
    record = TrustRecord({".metier/skills/a": SkillCapabilities(frozenset({"one", "two"}))})
    assert decided(None, frozenset()) == "untrusted"
    assert decided(record, frozenset({"one", "two"})) is None
    assert decided(record, frozenset({"one"})) is None
    assert decided(record, frozenset()) is None
    assert decided(record, frozenset({"one", "three"})) == "changed-since-trust"
    assert decided(record, frozenset(), "elsewhere") == "untrusted"


def test_the_hint_about_trust_names_the_project():
    one = skill("a")
    [mark] = find_untrusted([(one, "x", SkillCapabilities())], None, "/some/project").values()
    [problem] = Verdict(one, (mark,)).problems
    assert "metier trust /some/project" in problem.hint


NEVER = [
    "NODE_OPTIONS",
    "pythonpath",
    "Bash_Env",
    "LD_PRELOAD",
    "dyld_insert_libraries",
    "BASH_FUNC_x%%",
    "SHELL",
    "IFS",
]
SECRETS = [
    "OPENAI_API_KEY",
    "api_key",
    "GITHUB_TOKEN",
    "db_password",
    "TLS_PRIVATE_KEY",
    "APP_SECRET",
    "AWS_SECRET_ACCESS_KEY",
]


def test_what_could_take_over_a_process_is_blocked_even_when_declared():
    found = build_overlay(dict.fromkeys(NEVER, "x"), tuple(NEVER), {}, "", "")
    assert found.added == {}
    assert set(found.blocked) == set(NEVER)


def test_secrets_are_passed_only_to_skills_that_declare_them_in_any_case():
    wanted = dict.fromkeys(SECRETS, "x")
    assert set(build_overlay(wanted, (), {}, "", "").blocked) == set(SECRETS)
    assert build_overlay(wanted, tuple(name.swapcase() for name in SECRETS), {}, "", "").added == wanted
    assert build_overlay({"GITHUB_TOKEN": "x"}, (), {}, " github_token ", "").added == {"GITHUB_TOKEN": "x"}


def test_names_that_merely_hold_a_secret_word_are_ordinary():
    ordinary = {"TOKENIZER": "x", "PASSWORDLESS": "x", "SECRETARY": "x", "MY_LD_FLAGS": "x", "ENVIRONMENT": "x"}
    assert build_overlay(ordinary, (), {}, "", "").added == ordinary


def test_an_api_key_is_trimmed_and_gives_way_to_what_is_set():
    assert build_overlay({}, (), {}, " KEY ", "  k  ").added == {"KEY": "k"}
    assert build_overlay({}, (), {"KEY": "mine"}, "KEY", "k").added == {}
    assert build_overlay({"KEY": "theirs"}, (), {}, "KEY", "k").added == {"KEY": "theirs"}
    assert build_overlay({}, (), {"KEY": ""}, "KEY", "k").added == {"KEY": "k"}
    assert build_overlay({}, (), {}, "", "k") == ({}, ())
    assert build_overlay({}, (), {}, "KEY", "a\0b") == ({}, ("KEY",))


def test_what_is_set_already_is_left_alone_and_not_reported():
    assert build_overlay({"MY_TOKEN": "x", "SHELL": "y"}, (), {"MY_TOKEN": "1", "SHELL": "/bin/sh"}, "", "") == ({}, ())


@given(
    st.dictionaries(st.text(max_size=12), st.text(max_size=8), max_size=6), st.lists(st.text(max_size=8), max_size=3)
)
def test_whatever_is_wanted_every_pair_can_be_given_to_a_process(wanted, declared):
    found = build_overlay(wanted, tuple(declared), {}, "", "")
    for name, value in found.added.items():
        assert name == name.strip() != ""
        assert value
        assert "=" not in name
        assert "\0" not in name + value
    assert not set(found.added) & set(found.blocked)


def test_skills_are_values():
    assert isinstance(skill("a"), Skill)
    assert skill("a") == skill("a")
