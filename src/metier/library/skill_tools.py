"""The tools through which a model uses skills, each built over a `SkillAccessPort`.

A tool never raises for what a model gets wrong: every refusal is an answer that says what to do instead
(`guard_errors`).  The names, parameters and answers of `skill_use`, `skill_read_file`, `skill_run_script`, `run_skill`
and `read` follow the products that they come from, so that skills written for those work unchanged.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, Protocol, cast, get_args

from ..activate.deliver import activated_note
from ..types.activation import Activation, Call, Message
from ..types.dialect import ToolName
from ..types.errors import BadRequest, HostError, MetierError, NoFile, Refused
from ..types.event import Activated, FailureReason
from ..types.model import Answer, Tool, ToolParameter
from ..types.sandbox import SCRIPT_SUFFIXES, ProcessResult
from ..types.skill import Skill
from ..types.text import bounded_field, clean_line, neutralize_frames, neutralize_tags, shorten_text, visible_text


class FilePage(NamedTuple):
    """Part of a file."""

    text: str
    size: int
    """Bytes in the whole file."""
    next: int | None
    """Where the next part begins; None at the end."""


class SkillAccessPort(Protocol):
    """The skills that a model may use, and what it may do with them.  Every refusal is a `MetierError`."""

    def offered(self) -> Sequence[Skill]:
        """The skills it may use."""

    def skill(self, name: str) -> Skill:
        """The skill of that name, or a refusal that lists the names there are."""

    def activate(self, skill: Skill, arguments: str | tuple[str, ...]) -> tuple[Activation, tuple[Message, ...]]:
        """A skill's instructions, and the messages that carry them if the tool's answer does not."""

    def result(self, activation: Activation) -> str:
        """The instructions as a tool's answer."""

    def page(self, skill: Skill, path: str, offset: int) -> FilePage:
        """Part of a file of a skill."""

    def locate(self, location: str) -> tuple[Skill, str]:
        """The skill that a location of the catalog lies in, and the path inside its folder."""

    def scripts(self, skill: Skill) -> tuple[str, ...] | None:
        """The paths in its `scripts/` folder; None if it has none."""

    def script_path_kind(self, skill: Skill, path: str) -> Literal["", "folder", "elsewhere"]:
        """What a path in its `scripts/` folder is, if it is not a script."""

    def run(self, skill: Skill, script: str, words: tuple[str, ...]) -> ProcessResult:
        """Run a script of a skill."""

    def search(self, query: str, limit: int) -> Sequence[Skill]:
        """The skills that match a request best."""


# --- Arguments and errors ---

ToolArguments = Mapping[str, object]


def activated_event(activation: Activation) -> Activated:
    """The event of a tool that activates a skill."""
    skill, call = activation.skill, activation.call
    return Activated(
        skill.name,
        skill.path,
        call.by,
        call.typed,
        activation.digest,
        activation.text,
        activation.tokens,
        skill.allowed_tools,
        skill.directory,
    )


def guard_errors(call: Callable[[ToolArguments], Answer]) -> Callable[[ToolArguments], Answer]:
    """Wrap a tool so that it answers with an error instead of raising."""

    def answer(arguments: ToolArguments) -> Answer:
        try:
            return call(arguments)
        except MetierError as error:
            text = error.message if not error.hint else f"{error.message}. {_as_sentence(error.hint)}"
            return Answer(text, error=True, reason=error_reason(error))
        except (OSError, ValueError) as error:
            return Answer(f"Error: {getattr(error, 'strerror', None) or error}", error=True, reason="machine")

    return answer


def error_reason(error: MetierError) -> FailureReason:
    """The reason that events record for a failure."""
    for reason in get_args(FailureReason):
        if reason == error.reason:
            return cast("FailureReason", reason)
    return "bad-request" if isinstance(error, BadRequest) else "machine" if isinstance(error, HostError) else "failed"


def _as_sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", "!")) else ".")


def text_argument(arguments: ToolArguments, name: str, default: str | None = None) -> str:
    """A parameter as text; models send numbers where text is wanted, so those are accepted."""
    value = arguments.get(name, default)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        if value is None:
            raise BadRequest(f"{name} is required", f"pass {name}")
        raise BadRequest(f"{name} must be text", f"pass {name} as a string")
    text = str(value)
    if "\0" in text:
        raise BadRequest(f"{name} contains a NUL character", "remove it")
    return text


def words_or_text_argument(arguments: ToolArguments, name: str) -> str | tuple[str, ...]:
    """An optional parameter as one text, or as separate words if a model sends a list."""
    value = arguments.get(name)
    if isinstance(value, list | tuple):
        return tuple(text_argument({name: word}, name) for word in value)
    return text_argument(arguments, name, "") if value is not None else ""


def number_argument(arguments: ToolArguments, name: str, default: int) -> int:
    """An optional parameter as a number; digits in a string are accepted."""
    value = arguments.get(name, default)
    if isinstance(value, str) and value.strip().isdigit():
        value = int(value.strip()[:12])
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadRequest(f"{name} must be a whole number from 0 up", f"leave {name} out, or pass a number")
    return value


def render_skill_list(skills: Sequence[Skill]) -> str:
    """A line per skill; nothing in a name or description can close the frame around the list."""
    lines = []
    for skill in skills:
        name, description = (
            neutralize_tags(bounded_field(skill.name)),
            neutralize_tags(shorten_text(clean_line(skill.description), 512)),
        )
        lines.append(f"- {name}: {description}" if description else f"- {name}")
    return "\n".join(lines)


# --- Reading files ---


def skill_read_file(access: SkillAccessPort) -> Tool:
    def call(arguments: ToolArguments) -> Answer:
        skill = access.skill(text_argument(arguments, "skill_name").strip())
        path = text_argument(arguments, "file_path")
        return replace(
            _page_answer(access.page(skill, path, number_argument(arguments, "offset", 0))), skill=skill.name
        )

    return Tool(
        "skill_read_file",
        "Read a supporting file from a skill's directory.",
        (
            ToolParameter("skill_name", "Name of the skill."),
            ToolParameter("file_path", "Relative path within the skill directory."),
            ToolParameter("offset", "Byte to start at, to continue a long file.", required=False, kind="integer"),
        ),
        guard_errors(call),
    )


def read(access: SkillAccessPort) -> Tool:
    """Takes a location as printed in the catalog."""

    def call(arguments: ToolArguments) -> Answer:
        skill, path = access.locate(text_argument(arguments, "path"))
        page = access.page(skill, path, number_argument(arguments, "offset", 0))
        event = None
        if skill.path == f"{skill.directory}/{path}":  # reading its instructions activates it
            event = activated_event(Activation(skill, Call(skill.name, by="model"), page.text))
        return replace(_page_answer(page), activated=event, skill=skill.name)

    return Tool(
        "read",
        "Read a file of a skill, such as its SKILL.md at the <location> that is listed for it.",
        (
            ToolParameter("path", "The location of the file."),
            ToolParameter("offset", "Byte to start at, to continue a long file.", required=False, kind="integer"),
        ),
        guard_errors(call),
    )


def _page_answer(page: FilePage) -> Answer:
    text = neutralize_frames(page.text)
    if page.next is None:
        return Answer(text)
    return Answer(f"{text}\n[{page.size - page.next} of {page.size} bytes left: continue with offset {page.next}]")


# --- Running scripts ---

SCRIPT_SECONDS = 30.0
_MAX_BYTES = 100_000
"""Of all arguments together; the kernel allows 128 KiB for one."""


def skill_run_script(access: SkillAccessPort) -> Tool:
    def call(arguments: ToolArguments) -> Answer:
        skill = access.skill(text_argument(arguments, "skill_name").strip())
        script = resolve_script(access, skill, text_argument(arguments, "script_name"))
        argv = split_arguments(words_or_text_argument(arguments, "script_args"))
        return replace(script_answer(script, access.run(skill, script, argv)), skill=skill.name)

    return Tool(
        "skill_run_script",
        "Execute a script from a skill's scripts/ directory.",
        (
            ToolParameter("skill_name", "Name of the skill."),
            ToolParameter("script_name", "Script filename in scripts/."),
            ToolParameter("script_args", "Arguments to pass to the script, as on a command line.", required=False),
        ),
        guard_errors(call),
    )


def resolve_script(access: SkillAccessPort, skill: Skill, name: str) -> str:
    """The script that a model names, as its path in `scripts/`; any other path is refused."""
    available = access.scripts(skill)
    if available is None:
        raise BadRequest(f"Skill '{skill.name}' has no scripts/ directory", "its instructions say how to go on")
    inner_path = posixpath.normpath(f"scripts/{name}")
    if not name or name.startswith(("/", "~")) or "\\" in name or not f"{inner_path}/".startswith("scripts/"):
        raise _outside_scripts(name)
    requested, name = name, inner_path.removeprefix("scripts").lstrip("/")
    # Models often repeat the folder: `scripts/run.py` means `run.py`, unless there is a folder of that name inside.
    if name not in available and name.startswith("scripts/") and name.removeprefix("scripts/") in available:
        name = name.removeprefix("scripts/")
    if name not in available:
        match access.script_path_kind(skill, name):
            case "elsewhere":
                raise _outside_scripts(requested)
            case "folder":
                raise BadRequest(f"Not a file: '{requested}' is a folder")
        raise NoFile(f"Script not found: '{requested}'. Available: {', '.join(available) or 'none'}")
    if not name.endswith(SCRIPT_SUFFIXES):
        raise BadRequest(f"'{name}' is of a type that can't be run. Supported: {', '.join(SCRIPT_SUFFIXES)}")
    return name


def _outside_scripts(name: str) -> Refused:
    return Refused(f"Access denied: '{name}' is outside scripts/ directory")


def split_arguments(arguments: str | tuple[str, ...]) -> tuple[str, ...]:
    """Split arguments as a shell does, without expanding anything."""
    try:
        words = tuple(shlex.split(arguments) if isinstance(arguments, str) else arguments)
    except ValueError as error:
        raise BadRequest(f"script_args can't be split: {error}", "balance the quotes") from error
    if any("\0" in word for word in words):
        raise BadRequest("script_args contains a NUL character", "remove it")
    if sum(len(word.encode("utf-8", "surrogateescape")) + 1 for word in words) > _MAX_BYTES:
        raise BadRequest(f"script_args has more than {_MAX_BYTES:,} bytes", "put long input into a file")
    return words


def script_answer(script: str, result: ProcessResult) -> Answer:
    """A script's output with its stderr and exit status."""
    parts = [neutralize_frames(visible_text(result.stdout))]
    if stderr := neutralize_frames(visible_text(result.stderr)).strip("\n"):
        parts.append(f"[stderr]\n{stderr}")
    output = "\n".join(part.rstrip("\n") for part in parts if part.strip())
    if result.timed_out:
        text = f"Script timed out after {SCRIPT_SECONDS:.0f}s: {script}"
        return Answer(f"{text}\n{output}".strip(), error=True, note=result.note, reason="timeout", cause="timeout")
    if result.status is None:
        why = result.note or "it could not be started"
        return Answer(f"Cannot execute '{script}': {why}", error=True, note=result.note, reason="machine")
    if result.swept:
        output += "".join(f"\n[sandbox: {visible_text(line)}]" for line in result.swept)
    if result.status:
        output += f"\n[exit code: {result.status}]"
    reason: FailureReason = "exit-status" if result.status else ""
    return Answer(
        output.strip() or "[no output]", note=result.note, status=result.status, reason=reason, cause=result.cause
    )


# --- Activating and finding skills ---


def skill_use(access: SkillAccessPort) -> Tool:
    """Answers with a confirmation; the instructions follow as a message."""

    def call(arguments: ToolArguments) -> Answer:
        skill = access.skill(text_argument(arguments, "skill_name").strip())
        activation, messages = access.activate(skill, words_or_text_argument(arguments, "arguments"))
        text = activated_note(skill.name)
        return Answer(text, messages=messages, activated=activated_event(activation), skill=skill.name)

    return Tool(
        "skill_use",
        "Activate a skill to receive its full instructions.",
        (
            ToolParameter("skill_name", "Name of the skill, as the list of available skills has it."),
            ToolParameter("arguments", "Arguments for the skill, as one string.", required=False),
        ),
        guard_errors(call),
    )


def run_skill(access: SkillAccessPort) -> Tool:
    """Answers with the instructions themselves; an unknown name is answered with the names available."""

    def call(arguments: ToolArguments) -> Answer:
        name = text_argument(arguments, "skill", "").strip()
        if not name:
            return Answer("skill is required", error=True, reason="bad-request")
        offered = access.offered()
        try:
            skill = access.skill(name)
        # An unknown name is no error here: the format of this tool answers with the list.
        except MetierError:
            if not offered:
                return Answer("skill not found\nno skills available")
            return Answer(f"skill not found\navailable skills:\n{render_skill_list(offered)}")
        activation, _ = access.activate(skill, "")
        return Answer(access.result(activation), activated=activated_event(activation), skill=skill.name)

    return Tool(
        "run_skill",
        "Load a skill's instructions and follow them.",
        (ToolParameter("skill", "Name of the skill."),),
        guard_errors(call),
    )


def skill_search(access: SkillAccessPort) -> Tool:
    def call(arguments: ToolArguments) -> Answer:
        query = text_argument(arguments, "query").strip()
        matches = access.search(query, min(number_argument(arguments, "limit", 10), 50))
        if not matches:
            return Answer("No skill matches. Try other words, or continue without one.")
        return Answer(f"Matching skills, best first:\n{render_skill_list(matches)}")

    return Tool(
        "skill_search",
        "Search all skills for one that fits a task. Use it when no listed skill fits.",
        (
            ToolParameter("query", "What the task is about, in a few words."),
            ToolParameter("limit", "How many skills to name at most.", required=False, kind="integer"),
        ),
        guard_errors(call),
    )


TOOL_FACTORIES = {
    "skill_use": skill_use,
    "skill_read_file": skill_read_file,
    "skill_run_script": skill_run_script,
    "run_skill": run_skill,
    "skill_search": skill_search,
    "read": read,
}


def tools_of(access: SkillAccessPort, names: Sequence[ToolName]) -> tuple[Tool, ...]:
    """The tools with these names, over one access."""
    return tuple(TOOL_FACTORIES[name](access) for name in names)
