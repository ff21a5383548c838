"""The tools that read a skill's files."""

from __future__ import annotations

from dataclasses import replace

from ...types.activation import Activation, Call
from ...types.tool import Answer, Parameter, Tool
from .desk import Arguments, Desk, Page, activated, guarded, number_of, text_of


def skill_read_file(desk: Desk) -> Tool:
    def call(arguments: Arguments) -> Answer:
        skill = desk.skill(text_of(arguments, "skill_name").strip())
        path = text_of(arguments, "file_path")
        return replace(_answer(desk.page(skill, path, number_of(arguments, "offset", 0))), skill=skill.name)

    return Tool(
        "skill_read_file",
        "Read a supporting file from a skill's directory.",
        (
            Parameter("skill_name", "Name of the skill."),
            Parameter("file_path", "Relative path within the skill directory."),
            Parameter("offset", "Byte to begin at, to go on in a long file.", required=False, kind="integer"),
        ),
        guarded(call),
    )


def read(desk: Desk) -> Tool:
    """Takes a location as the catalog prints it."""

    def call(arguments: Arguments) -> Answer:
        skill, path = desk.located(text_of(arguments, "path"))
        page = desk.page(skill, path, number_of(arguments, "offset", 0))
        read = None
        if skill.path == f"{skill.directory}/{path}":  # to read its instructions is to activate it
            read = activated(Activation(skill, Call(skill.name, by="model"), page.text))
        return replace(_answer(page), activated=read, skill=skill.name)

    return Tool(
        "read",
        "Read a file of a skill, such as its SKILL.md at the <location> that is listed for it.",
        (
            Parameter("path", "The location of the file."),
            Parameter("offset", "Byte to begin at, to go on in a long file.", required=False, kind="integer"),
        ),
        guarded(call),
    )


def _answer(page: Page) -> Answer:
    if page.next is None:
        return Answer(page.text)
    return Answer(f"{page.text}\n[{page.size - page.next} of {page.size} bytes left: go on with offset {page.next}]")
