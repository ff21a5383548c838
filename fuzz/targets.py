"""What is fuzzed: each target takes bytes, and raises when something that must hold does not."""

from __future__ import annotations

from collections.abc import Callable

import atheris

with atheris.instrument_imports(include=["metier"]):
    from metier.activate.render import split_body
    from metier.activate.shell.hazards import check_hazards as check_command
    from metier.activate.shell.rewrite import read_command
    from metier.activate.shell.words import HOLE, PlaceholderValue, UnreadableCommand
    from metier.activate.template import PlaceholderForms
    from metier.catalog import commands
    from metier.catalog.commands import command_names, name_commands
    from metier.dialects import DIALECTS
    from metier.parse import frontmatter, plain_yaml
    from metier.parse.check import check_skill_file
    from metier.parse.fix import fix_text
    from metier.parse.jsonc import read_json5
    from metier.parse.lint import lint
    from metier.parse.markers import commands_to_trust, find_markers
    from metier.parse.reader import parse, parse_body
    from metier.sources.index import pack_findings, unpack_findings
    from metier.types.skill import BrokenSkill, Found, Origin, Skill, allowed_tools
    from metier.types.text import clean_line

_KEY = (1, 0, 0, 0)
_ORIGINS = [Origin("user", 1, "root", "/skills", dialect) for dialect in DIALECTS.values()]
_TEXT = ("parse", "check", "fix", "events")


def _made(data: bytes, origin: Origin, whole: bool = True) -> Skill | BrokenSkill:
    return parse(Found(origin, "s", "/skills/s/SKILL.md", _KEY, data, whole), DIALECTS)


def _parse(data: bytes) -> None:
    for origin in _ORIGINS:
        made = _made(data, origin, len(data) % 2 == 0)
        codes = [mark.code for mark in made.findings]
        assert [mark.code for mark in unpack_findings(pack_findings(made.findings))] == codes
        if isinstance(made, BrokenSkill):
            assert made.findings[-1].fatal, codes
        else:
            assert made.name, codes
            assert not any(mark.fatal for mark in made.findings), codes
            assert clean_line(made.description).isprintable() or not made.description.isascii()
            str(made.extra.plain()), made.allowed_tools, made.arguments, made.install, made.dispatch
        assert all(one.message for one in made.problems)
        parse_body(data, origin.dialect)


def _check(data: bytes) -> None:
    for mark in check_skill_file(data, "my-skill"):
        assert mark.fatal or mark.code == "bom-stripped", mark


def _fix(data: bytes) -> None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return
    if "\0" in text:
        return
    mended, what = fix_text(text, "s")
    assert what or mended == text
    assert fix_text(mended, "s") == (mended, ()), what
    for origin in _ORIGINS:
        if isinstance(_made(data, origin), Skill):
            after = _made(mended.encode(), origin)
            assert isinstance(after, Skill), (origin.dialect.name, what, after.findings)
    lint(text.replace("\r\n", "\n").replace("\r", "\n"), DIALECTS["standard"])


def _events(data: bytes) -> None:
    block = data.decode(errors="ignore").replace("\r", "\n").replace("\0", "")
    read_json5(block)
    plain = plain_yaml.read_plain(block)
    try:
        reading = frontmatter.read_yaml(block)
    except frontmatter.BadYaml as bad:
        line, reading = bad.line, frontmatter.FrontmatterReading({}, "bad")
        if plain is not None or not 0 <= line <= block.count("\n"):
            raise AssertionError((line, bad.reason, plain)) from bad
    if plain is not None:
        assert not reading.twice
        tree = {key: reading.sources[key] if key in plain_yaml.HINT_KEYS and plain[key] != value else value
                for key, value in reading.tree.items()}  # fmt: skip
        assert plain == tree


def _tools(data: bytes) -> None:
    text = data.decode(errors="ignore")
    found = allowed_tools(text)
    if found is not None:
        assert all(name and name.strip() for name in found)
        assert allowed_tools(" ".join(found)) == found
        assert allowed_tools(list(found)) == found
    else:
        assert "(" in text or ")" in text


def _commands(data: bytes) -> None:
    names, _, line = data.decode(errors="ignore").partition("\n")
    pairs = [(name, name) for name in names.split("|") if name.strip()]
    for dialect in DIALECTS.values():
        rules = dialect.serving.commands
        table = command_names(pairs, rules.form, ("help", "exit"))
        assert len(table) == len(pairs)
        if rules.form in ("underscore", "hyphen"):
            assert len({one.lower() for one in table}) == len(table)
            assert all(0 < len(one) <= 32 and one.isascii() for one in table), table
        found = commands(line, name_commands(pairs, rules.form), rules.matching)
        assert found.name is None or found.name in names.split("|")
        assert found.name is not None or found.arguments == ""


def _bodies(data: bytes) -> None:
    """A body in parts is the body; a command with arguments is its own text around references, or is refused."""
    body = data.decode(errors="ignore")
    known = set(commands_to_trust(body))
    for dialect in DIALECTS.values():
        authoring = dialect.authoring
        found = split_body(body, PlaceholderForms(authoring.arguments, ("name",), authoring.variables), authoring.shell)
        assert "".join(one if isinstance(one, str) else one.source for one in found) == body
        for one in find_markers(body, authoring.shell) if authoring.shell else ():
            flat_ = _unindented(one.command)
            assert any(flat_ in _unindented(text) for text in known), one
    value = PlaceholderValue("a b", ("a", "b"))
    try:
        command = read_command([value if one == HOLE else one for one in body.replace("$1", HOLE)])
        check_command(command, True)
    except UnreadableCommand:
        return
    for name in command.env:
        assert f"${{{name}}}" in command.source
    assert "a b" not in command.source or "a b" in body


def _unindented(text: str) -> str:
    return "\n".join(line.strip(" \t") for line in text.split("\n")).strip()


TARGETS: dict[str, Callable[[bytes], None]] = {
    "parse": _parse,
    "check": _check,
    "fix": _fix,
    "events": _events,
    "allowed_tools": _tools,
    "commands": _commands,
    "bodies": _bodies,
}

_HEADS = [
    b"---\nname: s\ndescription: d\n---\nBody\n",
    b"---\nname: s\ndescription: Use when: x\nmetadata:\n  a: [b, {c: d}]\nallowed-tools: B(c *) D\n---\n# T\n",
    b"\xef\xbb\xbf---\r\nname: 's'\r\ndescription: >-\r\n  a\r\n  b\r\nargument-hint: [x]\r\n---\r\n",
    b'---\nname: s\ndescription: "a\\n"\nmetadata: {"openclaw": {"requires": {"bins": ["git"]}}}\n---\n',
    b"---\nname: s\nmetadata: {a:'b', // c\n d: 1}\nx: &a b\ny: *a\nz: !t c\n<<: d\n---\n",
    b"  ---\n  name: s\n  ---\n  Body\n",
    b"---\nname: s\ndesc: d\nlicence: MIT\n\n# Title\n",
    b"Just text.\n\nMore.\n",
]
SEEDS: dict[str, list[bytes]] = {
    **dict.fromkeys(_TEXT, _HEADS),
    "events": [head.split(b"---\n")[1] for head in _HEADS if head.count(b"---\n") > 1],
    "allowed_tools": [b"Read, Grep Bash(git add *)", b"A((b) c),D"],
    "bodies": [
        b'a !`echo $1` b\n```!\ngit log "$1" | head\n```\n<!-- !`x` -->\n',
        b"for f in $1; do echo '$1' && [ -n \"$f\" ]; done",
        b"case $1 in a) x;; esac\ncat <<EOF\n$1 $(date)\nEOF\n${x:-y} $((1+2)) 2>&1",
    ],
    "commands": [b"pdf-tool|PDF Tool|a_b\n/pdf_tool x", b"a b|A-B\n/skill a-b  rest ", b"x\n /x\ty"],
}
