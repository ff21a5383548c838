"""The tools that activate a skill, and the one that looks for it."""

from __future__ import annotations

from ...types.errors import MetierError
from ...types.tool import Answer, Parameter, Tool
from .desk import Arguments, Desk, activated, guarded, listed, number_of, text_of, words_or_text


def skill_use(desk: Desk) -> Tool:
    """Answers with a confirmation; the instructions follow as a message."""

    def call(arguments: Arguments) -> Answer:
        skill = desk.skill(text_of(arguments, "skill_name").strip())
        activation, messages = desk.activate(skill, words_or_text(arguments, "arguments"))
        told = f"Skill '{skill.name}' activated successfully. Instructions will follow."
        return Answer(told, messages=messages, activated=activated(activation), skill=skill.name)

    return Tool(
        "skill_use",
        "Activate a skill to receive its full instructions.",
        (
            Parameter("skill_name", "Name of the skill, as the list of available skills has it."),
            Parameter("arguments", "Arguments for the skill, as one string.", required=False),
        ),
        guarded(call),
    )


def run_skill(desk: Desk) -> Tool:
    """Answers with the instructions themselves; a name that nobody has is answered with the names there are."""

    def call(arguments: Arguments) -> Answer:
        name = text_of(arguments, "skill", "").strip()
        if not name:
            return Answer("skill is required", error=True, reason="bad-request")
        offered = desk.offered()
        try:
            skill = desk.skill(name)
        except MetierError:
            if not offered:
                return Answer("skill not found\nno skills available")
            return Answer(f"skill not found\navailable skills:\n{listed(offered)}")
        activation, _ = desk.activate(skill, "")
        return Answer(desk.result(activation), activated=activated(activation), skill=skill.name)

    return Tool(
        "run_skill",
        "Load a skill's instructions and follow them.",
        (Parameter("skill", "Name of the skill."),),
        guarded(call),
    )


def skill_search(desk: Desk) -> Tool:
    def call(arguments: Arguments) -> Answer:
        query = text_of(arguments, "query").strip()
        found = desk.search(query, min(number_of(arguments, "limit", 10), 50))
        if not found:
            return Answer("No skill fits that. Try other words, or go on without one.")
        return Answer(f"Skills that may fit, best first:\n{listed(found)}")

    return Tool(
        "skill_search",
        "Search all skills for one that fits a task. Use it when no listed skill fits.",
        (
            Parameter("query", "What the task is about, in a few words."),
            Parameter("limit", "How many skills to name at most.", required=False, kind="integer"),
        ),
        guarded(call),
    )
