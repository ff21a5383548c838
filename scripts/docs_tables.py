"""Write the reference pages for problems and configuration."""

import re
from pathlib import Path

from scripts.docs_text import code, page, table

from metier.dialects import DIALECTS, custom
from metier.parse import config
from metier.types.dialect import LibraryLimits
from metier.types.problem import CODE_FAMILIES, CODE_MEANINGS

SOURCE = Path(__file__).parent.parent / "src" / "metier"

_FAMILIES = {
    "reading": "Found while parsing a SKILL.md. One that stops a skill from loading is always an error.",
    "files": "Problems of the file itself, before it is parsed.",
    "lint": "Reported by `metier lint` for a skill that loads.",
    "eligibility": "Why a skill is not eligible on this machine. `--json` uses the same names as diagnostics.",
    "limits": "Skills left out because of a limit.",
    "standing": "The state of a skill in this place, independent of its file.",
    "inspection": "Reported by `metier add` and `metier update` before anything is installed; errors are refused.",
    "index": "The index is a cache; none of these loses anything.",
    "configuration": "Errors in a configuration file or a plugin's manifest.",
}


PROBLEMS = """\
Every problem has one of these codes; there are no others. `{0}`, `{1}` stand for the details.
The severity is the default: if a problem stops a skill from loading in a dialect, it is an error.
[Problems](../concepts/problems.md) explains how codes are used.
"""
CONFIGURATION = """\
metier reads two optional TOML files: `config.toml` in metier's own folder (`~/.metier`, or `METIER_HOME`), and
`.metier/config.toml` in the project, which is ignored until you trust the project. The project's values override
yours, but a project can't turn on a skill that you turned off, allow more bundled skills than you, or change
permissions that you set for a skill. A key that is not in these tables is reported as
[`config-unknown-key`](problems.md#configuration) and ignored; where it may have been a rule or a limit, commands that
act end with an error instead.
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
    "dialect": "the serving dialect; default `standard`",
    "roots": "additional folders of skills: a path, or a table (below)",
    "plugins": "plugin folders, each with a manifest",
    "skills": "settings of single skills (below)",
    "limits": "how much is scanned and listed (below)",
    "catalog": "what to do with a catalog that does not fit (below)",
    "search": "search (below)",
    "agents": "agents by name (below)",
    "kits": "[kits](../guides/switches-and-kits.md) of skills by name, each with `skills`: a list",
    "dialects": "dialects of your own (below)",
    "model": "the default model, such as `anthropic:NAME`",
    "models": "models under your own names (below)",
    "agent": "what agents may do (below)",
    "mcp": "MCP servers whose tools agents get (below)",
    "sandbox": "the sandbox for programs of skills (below)",
    "improve": "what to do with skills that fail (below)",
    "record": "how long journals of runs are kept (below)",
    "registries": "registries to install from, by name or as tables (below); default `clawhub` and `skills.sh`; `[]` is"
    " none",
    "sources": "which sources skills may be installed from (below)",
    "instructions": 'names of a project\'s [instructions](../guides/project-instructions.md); default `["AGENTS.md"]`,'
    " and `[]` for none; only in your own file",
    "notify": "whom to [notify](../guides/notifications.md) (below)",
    "config": "settings that skills require with `config.requiresConfig`",
}
_ROOT = {
    "path": "the folder; a relative path starts at `~/.metier`, in a project's configuration at the project",
    "dialect": "how its skills are read; by default it follows from the folder's location",
    "label": "the part after `@` in `name@label`; default `configured-1` and so on",
}
_SKILLS = {
    "entries": "one table per skill (below)",
    "allowBundled": "if not empty, the only bundled skills that may be used",
    "install": "`preferBrew` (true or false) and `nodeManager` (`npm`, `pnpm`, `yarn`, `bun`), for `metier install`",
    "packages": "`off`: skills that [installed packages](../guides/packages.md) bring are not looked for",
    "shell": "`off`: commands in bodies do not run; a project can't turn them on again",
}
_ENTRY = {
    "enabled": "`false` disables the skill",
    "apiKey": "sets the variable that the skill names in `primaryEnv`",
    "env": "a table of variables; each with a value counts as set",
    "config": "a table of settings, available as `skills.KEY.config.…`",
    "permissions": "what its programs may access (below)",
}
_PERMISSIONS = {
    "network": "`true` allows network access",
    "hosts": "restricts network access to these hosts; refused, since no sandbox supports it yet",
    "read": "files and folders they may read, in addition to their own folder, the working folder and the project",
    "write": "files and folders they may write",
    "env": "names of environment variables they receive",
}
_SANDBOX = {
    "need": "`require`, `prefer` or `off`; default `require` for skills of others, `prefer` for your own",
    "tier": "the [tier](../concepts/sandbox.md) to use: `bubblewrap`, `landlock`, `seatbelt`, `docker`, `podman` or"
    " `gvisor`; default the best that needs no image",
    "image": "the image of a container tier, by its digest: `NAME@sha256:…`, or `sha256:…` for one you built",
    "allow": "names of [files that other programs obey](../concepts/sandbox.md#what-is-moved-away), such as `.git` or"
    " `Makefile`, that may stay where a sandboxed program makes them; default none",
}
_IMPROVE = {
    "mode": "`auto` (a change that passes its gates lands), `review` (it waits for you) or `off`; default `review`",
    "budget": "what improvement may spend in a day without being asked: `requests` (default 60), `tokens` (500,000) and"
    " `cost` in US dollars (no limit)",
}
_MODEL = {
    "provider": "`anthropic`, `openai`, `openai-responses`, `google`, `ollama`, `llamacpp` or `compatible`",
    "model": "the service's name for it; default your own name",
    "url": "the URL, if it is not the service's default",
    "key": "the variable that holds the key; default the service's own, and none for another `url`",
    "connect_seconds": "how long to try to reach the service; default 10",
    "first_seconds": "how long to wait for the first sign of a reply; default 300",
    "between_seconds": "how long a reply may pause; default 120",
    "window": "the context window in tokens",
    "reply": "the most tokens of one reply",
    "input_price": "US dollars per million input tokens",
    "output_price": "US dollars per million output tokens",
}
_AGENT_RULES = {
    "allow": "calls that need no approval, such as `run_command(git status*)`",
    "ask": "calls that always need approval, even if granted to a skill",
    "deny": "calls that are refused",
    "network": "`true` allows commands network access",
    "git": "`true` lets every allowed command write the repository, not only lines of plain git commands",
    "env": "names of your environment variables that commands get; unattended runs get none of them",
    "turns": "requests to the model in one turn; default 50",
    "tokens": "tokens in one turn",
    "seconds": "seconds for one turn",
    "cost": "US dollars for one turn, if prices are known",
}
_RECORD = {
    "days": "days to keep the journal of a run; default 180, 0 for no limit",
    "runs": "number of newest runs to keep; default 5000, 0 for no limit",
}
_NOTIFY = {
    "to": "`webhook:URL`, `ntfy:URL`, `slack:URL`, `discord:URL`, `matrix:SERVER/ROOM`, `smtp:HOST:PORT` or `desktop`;"
    " `$NAME` in place of the address takes it from a variable",
    "level": "the least that is told: `info`, `attention` or `failure`; default `attention`",
    "schedules": "patterns of schedules, such as `nightly-*`; default all",
    "secret": "the variable with the key that signs, the token or the password",
    "user": "the user at the mail server",
    "sender": "the address that mail comes from",
    "recipient": "the address that mail goes to",
    "local": "`true` allows plain http and private addresses, for a server of your own network",
}
_SERVER = {
    "command": "the server's program",
    "args": "its arguments",
    "env": "variables for it; names in a list are taken from your environment",
    "url": "the URL of a running server",
    "headers": "headers of every request; `$NAME` stands for a variable",
}
_REGISTRY = {
    "name": "the prefix that `metier add` takes, as in `NAME:skill`",
    "kind": "`clawhub`, `skills.sh`, `marketplace`, `tap`, `site` or `folder`; a known name has its own",
    "url": "its address: a URL, `owner/repo` or a path; a known kind has its own",
    "path": "the folder of a repository that its skills are in",
    "git": "the server of the repositories it names by owner and name; default `https://github.com`",
}
_SOURCES = {
    "allow": "patterns of the only sources that are allowed, such as `github.com/acme` or `clawhub:acme/*`",
    "deny": "patterns of sources that are refused, whatever `allow` says",
}
_LIMITS = {
    "candidates": "skill folders taken from one root",
    "skills": "skills loaded from one source",
    "directories": "folders without a skill searched in one root",
    "file_bytes": "bytes of a SKILL.md",
    "listed": "skills in the catalog",
    "characters": "characters of the catalog",
}
_CATALOG = {
    "policy": "`ranked`, `stable` or `prefix`; overrides the dialect",
    "pinned": "names that are always in the stable block, in this order",
}
_SEARCH = {"dense": "`true` also searches by meaning; needs the extra `dense`; your own file only"}
_AGENT = {"skills": "the skills it may use, in this order; `[]` for none, all if absent"}
_DIALECT = {
    "like": "the dialect to start from; default `standard`",
    "fields": "additional known frontmatter keys",
    "format": "its catalog format",
    "description_cut": "the maximum length of a description in its catalog",
    "command_form": "`name`, `directory`, `underscore` or `hyphen`: the form of slash commands",
    "name_rule": "`kebab`, `word`, `standard` or `free`",
    "description": "`required`, `optional`, `first-line` or `first-paragraph`",
    "identity": "`name` or `directory`: what shadowing compares",
    "name_required": "a skill without a name does not load",
    "frontmatter_required": "a skill without frontmatter does not load",
    "unclosed_is_body": "unclosed frontmatter is read as body",
    "broken_yaml_is_empty": "invalid frontmatter is read as empty",
    "indented": "the whole file may be indented",
    "starred": "the fences may be `***`",
    "json_metadata": "`metadata` may be JSON text",
    "empty_env_counts": "an empty variable counts as set",
    "user_invocable_hides": "`user-invocable: false` hides a skill from the model too",
}
_VARIABLES = {
    "HOME": "the folder that `~` stands for",
    "METIER_HOME": "metier's own folder; default `~/.metier`",
    "METIER_PATH": "folders of skills, separated by `:`, with the highest precedence",
    "METIER_DATABASE_URL": "`postgresql://…`: the schedule database of a fleet; default SQLite in metier's folder",
    "XDG_CONFIG_HOME": "where `metier agents` looks for agents that keep their things there; default `~/.config`",
    "TZ": "the default time zone of a schedule; default the machine's",
    "NOTIFY_SOCKET": "set by systemd: the daemon reports readiness and heartbeats",
    "DISPLAY": "without it and `WAYLAND_DISPLAY`, `metier web` prints its address and opens no browser (Linux)",
    "WAYLAND_DISPLAY": "the same",
    **{
        root.path[1:].partition("/")[0]: f"the folder of {dialect.title}'s bundled skills"
        for dialect in DIALECTS.values()
        for root in dialect.serving.roots
        if root.path.startswith("$") and root.dialect == dialect.name
    },
    "METIER_MODEL": "the default model",
    "NO_COLOR": "if set, no colours",
    "TERM": "if `dumb`, no colours",
    "VIRTUAL_ENV": "the active Python environment, whose packages may [bring skills](../guides/packages.md)",
    "PATH": "where required programs are looked up; none of them is run",
    "METIER_SANDBOX": "the [tier](../concepts/sandbox.md) to use: `bubblewrap`, `landlock`, `seatbelt`, `none`; default"
    " the best",
    "VISUAL": "the editor that `metier chat` opens with Ctrl+G",
    "EDITOR": "the same, where `VISUAL` is not set",
    "COLORFGBG": "set by some terminals: `metier chat` is light on a light background",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "where [traces and metrics](../guides/traces.md) go",
    "OTEL_EXPORTER_OTLP_PROTOCOL": "`http/protobuf`, which is the only one",
    "OTEL_SERVICE_NAME": "the name of this service in traces [default: metier]",
    "OTEL_RESOURCE_ATTRIBUTES": "more about this service, `name=value,name=value`",
    "OTEL_SDK_DISABLED": "`true` switches traces and metrics off",
    "TRACEPARENT": "the trace that turns continue; scripts get that of the call that runs them",
    "USER": "the name that `metier doctor --report` leaves out of paths",
    "LOGNAME": "the same, where `USER` is not set",
    "METIER_LOG": "a file, or `stderr`, for a structured log of commands and runs, without what was said",
    "METIER_DEBUG": "if set, an internal error prints a traceback",
    "_METIER_COMPLETE": "set by the completion script",
    "COMP_WORDS": "set by the shell: the line to complete",
    "COMP_CWORD": "set by the shell: the position of the word to complete",
}


def configuration() -> str:
    return page(
        "Configuration",
        CONFIGURATION,
        "## Top level",
        _keys("", config.TOP_LEVEL_KEYS, _TOP),
        "## roots",
        '`roots = ["~/more", { path = "/srv/skills", dialect = "claude", label = "team" }]`',
        _keys("", config._ROOT_KEYS, _ROOT),
        "## skills",
        _keys("skills.", config._SKILLS_KEYS, _SKILLS),
        "### skills.entries.KEY",
        "`KEY` is the name of the skill's folder, or its `skillKey`. `skills.KEY` is short for the same table.",
        _keys("", config._ENTRY_KEYS, _ENTRY),
        "### skills.entries.KEY.permissions",
        "A key set here overrides the same key in the skill's own `metadata.metier.permissions`.",
        _keys("", tuple(config._PERMISSIONS), _PERMISSIONS),
        "## sandbox",
        "Read from your own configuration only, never from a project's.",
        _keys("sandbox.", config.SANDBOX_KEYS, _SANDBOX),
        "## improve",
        "Read from your own configuration only. [Improvement and its gates](../concepts/improvement.md) explains the"
        " modes.",
        _keys("improve.", config.IMPROVE_KEYS, _IMPROVE),
        "## models.NAME",
        "Read from your own configuration only. Select the model by this name: `metier run --model NAME`.",
        _keys("", config.MODEL_KEYS, _MODEL),
        "## agent",
        "Read from your own configuration only.",
        _keys("agent.", config.AGENT_KEYS, _AGENT_RULES),
        "## mcp.NAME",
        "Read from your own configuration only. Its tools are named `mcp__NAME__…`.",
        _keys("", config.SERVER_KEYS, _SERVER),
        "## record",
        "Read from your own configuration only. Older journals are deleted when the next run starts.",
        _keys("record.", config.RECORD_KEYS, _RECORD),
        "## registries",
        "Read from your own configuration only: "
        '`registries = ["clawhub", { name = "team", kind = "tap", url = "acme/skills" }]`. '
        "[Find skills in registries](../guides/registries.md) explains them.",
        _keys("", config.REGISTRY_KEYS, _REGISTRY),
        "## sources",
        "A project's rules are added to yours: a source must pass both.",
        _keys("sources.", config.SOURCE_KEYS, _SOURCES),
        "## notify.NAME",
        "Read from your own configuration only. [Be notified](../guides/notifications.md) has an example of each.",
        _keys("", config.NOTIFY_KEYS, _NOTIFY),
        "## limits",
        _limits(),
        "## catalog",
        "[The catalog and its limits](../concepts/catalog.md) explains them.",
        _keys("catalog.", config.CATALOG_KEYS, _CATALOG),
        "## search",
        _keys("search.", config.SEARCH_KEYS, _SEARCH),
        "## agents.NAME",
        _keys("", ("skills",), _AGENT),
        "## dialects.NAME",
        "A dialect of your own starts from an existing one and changes some of its rules: "
        "[Add a dialect](../guides/add-a-dialect.md).",
        _keys("", custom._KEYS, _DIALECT),
        "## Environment",
        _keys("", _variables(), _VARIABLES, "variable"),
    )


def _keys(prefix: str, known: tuple[str, ...], words: dict[str, str], head: str = "key") -> str:
    """A row for each key that the code knows; a key without a description, or the reverse, stops the build."""
    missing, left = set(known) - set(words), set(words) - set(known)
    if missing or left:
        raise SystemExit(f"scripts/docs_tables.py: describe {missing or 'nothing'}; remove {left or 'nothing'}")
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
    """Every variable that the source reads by name, described ones first and in their order."""
    asked = re.compile(r"(?:env(?:iron)?(?:\.get\(|\[)\"|RootSpec\([^()]*\"\$)([A-Z_]+)[\"/]")
    found = {name for file in SOURCE.rglob("*.py") if "bundled/" not in file.as_posix() or file.name == "bundled.py"
             for name in asked.findall(file.read_text(encoding="utf-8"))}  # fmt: skip
    return (*(name for name in _VARIABLES if name in found), *sorted(found - set(_VARIABLES)))
