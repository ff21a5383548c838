"""Lint as an author uses it: on everything, and with dialects of one's own."""


def test_lint_without_a_path_reads_every_skill_that_list_shows(desk):
    desk.skill("one")
    desk.say("new", "mine", "Does it. Use when asked.")
    said = desk.say("lint")
    assert said.code == 0
    assert "2 checked, 2 clean" in said.out


def test_lint_reads_a_configured_root_in_its_own_dialect(desk):
    desk.configure(
        'roots = [{path = "~/house", dialect = "house"}]\n[dialects.house]\nlike = "agentmd"\nfields = ["owner"]\n'
    )
    desk.skill("on_call", "---\nname: on_call\nowner: us\n---\nBody\n", under=desk.home / "house")
    assert desk.say("lint").code == 0
    assert desk.say("lint", str(desk.home / "house")).code == 0
    assert desk.say("lint", "--dialect", "house", str(desk.home / "house")).code == 0


def test_status_names_what_the_catalog_leaves_out(desk):
    desk.configure("[limits]\nlisted = 1\n")
    for name in ("one", "two", "three"):
        desk.skill(name)
    said = desk.say("status")
    assert "left out of the catalog (2)" in said.out
    assert "1 of 3 are listed" in said.out
