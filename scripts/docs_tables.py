"""The pages of problems and of configuration."""

import re
from pathlib import Path

from scripts.docs_text import code, page, table

from metier.dialects import DIALECTS, custom
from metier.parse import config
from metier.types.dialect import LibraryLimits
from metier.types.problem import CODE_FAMILIES, CODE_MEANINGS

SOURCE = Path(__file__).parent.parent / "src" / "metier"

_FAMILIES = {
    "reading": "What was found while a SKILL.md was read. One that stops a skill from loading is always an error.",
    "files": "What is wrong with the file itself, before a word of it is read.",
    "lint": "What `metier lint` notices in a skill that loads.",
    "eligibility": "Why a skill may not run on this machine. The names are those of the diagnostics in `--json`.",
    "limits": "What was left out because there was too much.",
    "standing": "How a skill stands in this place, whatever its file says.",
    "inspection": "What `metier add` and `metier update` notice before anything is placed; errors are refused.",
    "index": "The index is a convenience; none of these loses anything.",
    "configuration": "What a configuration file or a plugin's manifest says wrongly.",
}


PROBLEMS = """\
Every finding has one of these codes; there are no others. `{0}`, `{1}` stand for the details of one finding.
The severity is the usual one: where a dialect does not load a file for a reason, that reason is an error.
What the codes are for is in [Problems](../concepts/problems.md).
"""
CONFIGURATION = """\
Two files of TOML are read, and neither has to be there: `config.toml` in metier's own folder (`~/.metier`, or
`METIER_HOME`), then `.metier/config.toml` in the project, which is not read before you trust the project.
Where both speak of one thing, the project's counts. A key that is not in these tables is reported as
[`config-unknown-key`](problems.md#configuration) and changes nothing.
"""


def problems() -> str:
    parts = [PROBLEMS]
    for family, members in CODE_FAMILIES.items():
        parts += [f"## {family.capitalize()}", _FAMILIES[family]]
        rows = [(code(one), *_meaning(one)) for one in members]
        parts.append(table(("code", "severity", "message", "hint"), rows))
    return page("Problems", *parts)


def _meaning(one: str) -> tuple[str, str, str]:
    found = CODE_MEANINGS[one]  # type: ignore[index]
    return found.severity, found.message, found.hint


_TOP = {
    "dialect": "the dialect that serves, where none is named; `standard` otherwise",
    "roots": "more folders of skills: a path, or a table (below)",
    "plugins": "folders of plugins, each with a manifest",
    "skills": "what is said about single skills (below)",
    "limits": "how much is looked at and listed (below)",
    "catalog": "what becomes of a catalog that does not fit (below)",
    "search": "how skills are searched (below)",
    "agents": "agents by name (below)",
    "dialects": "dialects of your own (below)",
    "model": "the model that is asked where none is named, such as `anthropic:NAME`",
    "models": "models by a name of your own (below)",
    "agent": "what agents may do (below)",
    "mcp": "MCP servers whose tools agents get (below)",
    "sandbox": "how programs of skills are kept apart from the machine (below)",
    "improve": "what becomes of skills that fail (below)",
    "record": "how long the journals of runs are kept (below)",
    "config": "settings that skills ask for in `config.requiresConfig`, as you like",
}
_ROOT = {
    "path": "the folder; `~` is your home, anything else is relative to the working folder",
    "dialect": "how its skills are read; where it is not given, the folder's place decides",
    "label": "what stands behind the `@` of `name@label`; `configured-1` and so on otherwise",
}
_SKILLS = {
    "entries": "a table for each skill (below)",
    "allowBundled": "where it is not empty, the only bundled skills that may be used",
    "install": "`preferBrew` (true or false) and `nodeManager` (`npm`, `pnpm`, `yarn`, `bun`), for `metier install`",
    "shell": "`off`: commands in bodies do not run; a project can't switch them on again",
}
_ENTRY = {
    "enabled": "`false` switches the skill off",
    "apiKey": "counts as the variable that the skill names in `primaryEnv`",
    "env": "a table of variables; each that has a value counts as set",
    "config": "a table of settings, found by `skills.KEY.config.…`",
    "permissions": "what its programs may reach (below)",
}
_PERMISSIONS = {
    "network": "`true` lets its programs reach the network",
    "hosts": "the only hosts they may reach; refused where they can't be told apart",
    "read": "files and folders they may read, beside their own folder, the working folder and the project",
    "write": "files and folders they may write",
    "env": "names of your environment that they get",
}
_SANDBOX = {
    "need": "`require`, `prefer` or `off`; otherwise `require` for skills of others, `prefer` for your own",
}
_IMPROVE = {
    "mode": "`auto` (what passes its checks lands by itself), `review` (it waits for you) or `off`; otherwise `auto` in"
    " the roots of Agenvoy and `review` elsewhere",
}
_MODEL = {
    "provider": "`anthropic`, `openai`, `openai-responses`, `google`, `ollama`, `llamacpp` or `compatible`",
    "model": "what the service calls it; your own name for it otherwise",
    "url": "where it is asked, where that is not the service's own place",
    "key": "the variable that holds the key; the service's own otherwise, and none for another `url`",
    "window": "how many tokens it can be given",
    "reply": "how many tokens one reply may have",
    "input_price": "US dollars for a million tokens sent",
    "output_price": "US dollars for a million tokens received",
}
_AGENT_RULES = {
    "allow": "calls that need no yes, such as `run_command(git status*)`",
    "ask": "calls that need a yes each, also where a skill was granted them",
    "deny": "calls that are never made",
    "network": "`true` lets commands reach the network",
    "turns": "requests to the model in one turn; 50 otherwise",
    "tokens": "tokens in one turn",
    "seconds": "seconds that one turn may take",
    "cost": "US dollars that one turn may cost, where prices are known",
}
_RECORD = {
    "days": "days that the journal of a run is kept; 180 otherwise, 0 for no end",
    "runs": "runs that are kept, the newest; 5000 otherwise, 0 for no end",
}
_SERVER = {
    "command": "the program that is the server",
    "args": "its arguments",
    "env": "variables that it gets; names in a list are taken from your environment",
    "url": "where it is, for a server that runs already",
    "headers": "what is sent with every request to it; `$NAME` stands for a variable",
}
_LIMITS = {
    "candidates": "skill folders taken from one root",
    "skills": "skills loaded from one source",
    "directories": "folders that are no skills, searched in one root",
    "file_bytes": "bytes of a SKILL.md",
    "listed": "skills in the catalog",
    "characters": "characters of the catalog",
}
_CATALOG = {
    "policy": "`ranked` or `prefix`, whatever the dialect says",
    "pinned": "names that always stand in the stable block, in this order",
}
_SEARCH = {"dense": "`true` searches by meaning too; needs the extra `dense`, and only your own file may say so"}
_AGENT = {"skills": "the skills it may use, in its own order; `[]` is none, and without the key it is all"}
_DIALECT = {
    "like": "the dialect it begins as; `standard` where it is not given",
    "fields": "more frontmatter keys that it knows",
    "format": "how its catalog is written",
    "description_cut": "the longest description in its catalog",
    "command_form": "`name`, `directory`, `underscore` or `hyphen`: what slash commands are made from",
    "name_rule": "`kebab`, `word`, `standard` or `free`",
    "description": "`required`, `optional`, `first-line` or `first-paragraph`",
    "identity": "`name` or `directory`: what shadowing compares",
    "name_required": "a skill without a name does not load",
    "frontmatter_required": "a skill without frontmatter does not load",
    "unclosed_is_body": "frontmatter that is never closed is taken as body",
    "broken_yaml_is_empty": "frontmatter beyond repair is taken as empty",
    "indented": "the whole file may be evenly indented",
    "json_metadata": "`metadata` may be a text of JSON",
    "empty_env_counts": "a variable that is set to nothing counts as set",
    "user_invocable_hides": "`user-invocable: false` hides a skill from the model too",
}
_VARIABLES = {
    "HOME": "where `~` is",
    "METIER_HOME": "where metier keeps its own files; `~/.metier` otherwise",
    "METIER_PATH": "folders of skills, separated by `:`, that shadow all others",
    "METIER_DATABASE_URL": "`postgresql://…`: where a fleet's schedules are; SQLite in metier's folder otherwise",
    "TZ": "the zone of a schedule that names none; the machine's otherwise",
    "NOTIFY_SOCKET": "set by systemd: the daemon says that it is ready and alive",
    "OPENCLAW_BUNDLED_SKILLS_DIR": "the folder of the skills that come with OpenClaw",
    "METIER_MODEL": "the model that is asked where none is named",
    "NO_COLOR": "no colours, where it is set to anything",
    "TERM": "no colours, where it is `dumb`",
    "PATH": "where the binaries that skills require are looked up; none of them is run",
    "METIER_SANDBOX": "the one [tier](../concepts/sandbox.md) to try: `bubblewrap`, `landlock`, `none`; else the best",
    "METIER_DEBUG": "a fault of metier's own ends with a traceback",
    "_METIER_COMPLETE": "set by the completion script",
}


def configuration() -> str:
    return page(
        "Configuration",
        CONFIGURATION,
        "## The top",
        _keys("", config.TOP_LEVEL_KEYS, _TOP),
        "## roots",
        '`roots = ["~/more", { path = "/srv/skills", dialect = "claude", label = "team" }]`',
        _keys("", config._ROOT_KEYS, _ROOT),
        "## skills",
        _keys("skills.", config._SKILLS_KEYS, _SKILLS),
        "### skills.entries.KEY",
        "`KEY` is the name of the skill's folder, or its own `skillKey`. `skills.KEY` is short for the same table.",
        _keys("", config._ENTRY_KEYS, _ENTRY),
        "### skills.entries.KEY.permissions",
        "Where a key is given here, it counts in place of what the skill's own `metadata.metier.permissions` asks for.",
        _keys("", tuple(config._PERMISSIONS), _PERMISSIONS),
        "## sandbox",
        "Only your own configuration is asked, never a project's.",
        _keys("sandbox.", ("need",), _SANDBOX),
        "## improve",
        "Only your own configuration is asked. [Improvement and its gates](../concepts/improvement.md) says what holds"
        " in each.",
        _keys("improve.", config.IMPROVE_KEYS, _IMPROVE),
        "## models.NAME",
        "Only your own configuration is asked. A model is then called by this name: `metier run --model NAME`.",
        _keys("", config.MODEL_KEYS, _MODEL),
        "## agent",
        "Only your own configuration is asked.",
        _keys("agent.", config.AGENT_KEYS, _AGENT_RULES),
        "## mcp.NAME",
        "Only your own configuration is asked. Its tools are called `mcp__NAME__…`.",
        _keys("", config.SERVER_KEYS, _SERVER),
        "## record",
        "Only your own configuration is asked. Older journals go when the next run begins.",
        _keys("record.", config.RECORD_KEYS, _RECORD),
        "## limits",
        _limits(),
        "## catalog",
        "[The catalog and its limits](../concepts/catalog.md) says what these do.",
        _keys("catalog.", config.CATALOG_KEYS, _CATALOG),
        "## search",
        _keys("search.", config.SEARCH_KEYS, _SEARCH),
        "## agents.NAME",
        _keys("", ("skills",), _AGENT),
        "## dialects.NAME",
        "A dialect of your own begins as one of metier's and changes some of its answers; "
        "[the guide](../guides/add-a-dialect.md) makes one.",
        _keys("", custom._KEYS, _DIALECT),
        "## Environment",
        _keys("", _variables(), _VARIABLES, "variable"),
    )


def _keys(prefix: str, known: tuple[str, ...], words: dict[str, str], head: str = "key") -> str:
    """A row for each key the code knows; one without words here, or words without a key, stops the build."""
    missing, left = set(known) - set(words), set(words) - set(known)
    if missing or left:
        raise SystemExit(f"scripts/docs_tables.py: say what {missing or 'nothing'} means; take out {left or 'nothing'}")
    return table((head, "means"), [(code(prefix + key), words[key]) for key in known])


def _limits() -> str:
    _keys("", config.LIMIT_KEYS, _LIMITS)
    plain, special = (
        LibraryLimits(),
        {name: one.serving.limits for name, one in DIALECTS.items() if one.serving.limits != LibraryLimits()},
    )
    head = ("key", "at most this many", "default", *(f"in {name}" for name in special))
    rows = []
    for name in LibraryLimits._fields:
        numbers = [getattr(limits, name) for limits in (plain, *special.values())]
        rows.append((code(f"limits.{name}"), _LIMITS[name], *(_number(number) for number in numbers)))
    return table(head, rows)


def _number(value: int | None) -> str:
    return "no limit" if value is None else f"{value:,}"


def _variables() -> tuple[str, ...]:
    """Every variable that the source asks for by name, the ones with words first and in their order."""
    asked = re.compile(r"env(?:iron)?(?:\.get\(|\[)\"([A-Z_]+)\"")
    found = {name for file in SOURCE.rglob("*.py") if "bundled/" not in file.as_posix() or file.name == "bundled.py"
             for name in asked.findall(file.read_text(encoding="utf-8"))}  # fmt: skip
    return (*(name for name in _VARIABLES if name in found), *sorted(found - set(_VARIABLES)))
