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


def test_lint_names_files_that_the_instructions_name_and_that_are_missing(desk):
    text = "Run `scripts/make.py`, then `scripts/gone.py`.\nSee [how](references/how.md).\n"
    folder = desk.skill("report", f"---\nname: report\ndescription: Reports.\n---\n{text}").parent
    (folder / "scripts").mkdir()
    (folder / "scripts/make.py").write_text("print(1)\n")

    said = desk.say("lint", str(folder))

    assert said.code == 1
    assert "name `scripts/gone.py`" in said.out
    assert "name `references/how.md`" in said.out
    assert "make.py" not in said.out


def test_lint_takes_a_bare_path_for_the_projects_where_the_skill_has_no_such_folder(desk):
    text = "Run `scripts/build.sh` of the project, see https://x.example/scripts/a.sh.\n"
    folder = desk.skill("release", f"---\nname: release\ndescription: Releases.\n---\n{text}").parent
    assert desk.say("lint", str(folder)).code == 0


def test_lint_reminds_of_what_the_template_left(desk):
    desk.say("new", "mine")
    said = desk.say("lint")
    assert said.code == 0
    assert said.out.count("template-text") == 1
