"""metier daemon."""

from __future__ import annotations

import sys
from json import loads

import click

from ...host import daemon as machine
from ...host import fs, paths
from ...host.facts import find_place
from ...types.errors import BadRequest, HostError
from ...types.place import Place
from .app import CliContext
from .output import clean_path, hint_line, printable, say, say_json, warn

UNIT_TEMPLATE = """\
[Unit]
Description=metier: skills on a schedule
After=network-online.target

[Service]
Type=notify
ExecStart={command}
Restart=on-failure
RestartSec=2
StartLimitIntervalSec=300
StartLimitBurst=5
WatchdogSec=30
KillMode=mixed
TimeoutStopSec=45
NoNewPrivileges=yes
ProtectSystem=strict
ReadWritePaths={state}
PrivateTmp=yes
RestrictSUIDSGID=yes
Environment=METIER_HOME={state}
# Keys of models, such as ANTHROPIC_API_KEY=…, a line each; the file is the owner's alone (chmod 600).
EnvironmentFile=-{keys}

[Install]
WantedBy=default.target
"""


@click.group("daemon", invoke_without_command=True)
@click.option(
    "--worker", "name", default="daemon", metavar="NAME", help="Its name; workers of one home have different ones."
)
@click.option("--concurrency", type=click.IntRange(1, 1_000), default=8, show_default=True, help="Runs at a time.")
@click.option("--grace", type=click.FloatRange(0), default=30.0, show_default=True, help="Seconds to wait on leaving.")
@click.pass_context
def daemon(context: click.Context, name: str, concurrency: int, grace: float) -> None:
    """Fire schedules, in the foreground, until SIGTERM or SIGINT; a second one means at once.

    With METIER_DATABASE_URL=postgresql://… any number of daemons share the work.
    """
    if "/" in name or name.startswith("."):
        raise BadRequest(f"`{name}` can't be the name of a worker", "use letters and digits")
    context.meta["worker"] = name
    if context.invoked_subcommand is not None:
        return
    from ...schedule.worker import ScheduleWorker, WorkerSettings
    from ..agents import fire, run_task

    service = ScheduleWorker(
        find_place(context.obj.project), fire, name, WorkerSettings(concurrency=concurrency, grace=grace)
    )
    service.do = run_task
    service.say = lambda line: warn(printable(line))
    code = service.serve()
    sys.stdout.flush()
    machine.exit_now(code)


@daemon.command("status")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def status(context: click.Context, as_json: bool) -> None:
    """Say whether the daemon of this home runs, and how it is; exit code 1 if it does not."""
    from ...schedule.worker import health_path, lock_path

    place, name = find_place(context.obj.project), context.meta["worker"]
    holder = machine.current_holder(lock_path(place, name))
    health = _read_health(health_path(place, name)) if holder else {}
    if as_json:
        say_json({"running": holder is not None, "pid": holder.pid if holder else None, "health": health})
    elif holder is None:
        say("No daemon runs here.")
        say(hint_line("`metier daemon` starts one; `metier daemon unit` prints a systemd unit"))
    else:
        say(f"Running: process {holder.pid}")
        for key, value in health.items():
            if value != "":
                say(f"  {printable(str(key)) + ':':<10}{printable(str(value))}")
    context.exit(0 if holder else 1)


def _read_health(path: str) -> dict[str, object]:
    try:
        health = loads(paths.read_text_file(path) or "{}")
    except (ValueError, HostError):
        return {}
    return health if isinstance(health, dict) else {}


@daemon.command("stop")
@click.option("--wait", type=click.FloatRange(0), default=45.0, show_default=True, help="Seconds.")
@click.pass_context
def stop(context: click.Context, wait: float) -> None:
    """Ask the daemon of this home to leave, and wait until it is gone."""
    from ...schedule.worker import lock_path

    place = find_place(context.obj.project)
    holder = machine.current_holder(lock_path(place, context.meta["worker"]))
    if holder is None:
        say("No daemon runs here.")
        return
    if not machine.stop_lock_holder(holder, wait):
        raise HostError(
            f"process {holder.pid} has not left yet", "it waits for what is at work; ask again to end it now"
        )
    say(f"Stopped: process {holder.pid}")


@daemon.command("unit")
@click.option("--write", is_flag=True, help="Write it to ~/.config/systemd/user/metier.service.")
@click.pass_obj
def unit(context: CliContext, write: bool) -> None:
    """Print a systemd unit for this daemon, or write it."""
    place = find_place(context.project)
    text = UNIT_TEMPLATE.format(
        command=_quote_unit_value(f"{sys.executable}") + " -P -m metier.faces.cli.fastlist daemon",
        state=_quote_unit_value(place.state),
        keys=_keys_path(place).replace("%", "%%"),
    )
    if not write:
        say(text.rstrip("\n"))
        return
    path = _unit_path(place)
    fs.make_folder(path.rpartition("/")[0])
    fs.write_text(path, text, 0o644)
    say(f"Written: {clean_path(path)}")
    say(
        hint_line(
            f"a service does not see your shell's variables: write keys of models to {clean_path(_keys_path(place))}"
        )
    )
    say(hint_line("systemctl --user daemon-reload && systemctl --user enable --now metier"))


def _keys_path(place: Place) -> str:
    return f"{place.state}/daemon.env"


def _unit_path(place: Place) -> str:
    return f"{place.home.rstrip('/')}/.config/systemd/user/metier.service"


def _quote_unit_value(text: str) -> str:
    """A path as a unit file has it: `%` and blanks would mean something."""
    if any(character < " " or character == "\x7f" for character in text):
        raise BadRequest(
            f"{clean_path(text)} has a line break or another control character, which no unit file can name",
            "set METIER_HOME to a path without one",
        )
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"' if escaped != text or " " in text else text
