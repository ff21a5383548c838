"""metier daemon."""

from __future__ import annotations

import sys
from json import loads

import click

from ...host import daemon as machine
from ...host import paths, state
from ...host.place import here
from ...types.errors import BadRequest, HostError
from ...types.place import Place
from .app import Context
from .printing import arrow, clean, clean_path, say, say_json, warn

UNIT = """\
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
    from ...runtime.batching import do
    from ...runtime.scheduling import fire
    from ...schedule.worker import Pace, Service

    service = Service(here(context.obj.project), fire, name, Pace(concurrency=concurrency, grace=grace))
    service.do = do
    service.say = lambda line: warn(clean(line))
    code = service.serve()
    sys.stdout.flush()
    machine.leave(code)


@daemon.command("status")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def status(context: click.Context, as_json: bool) -> None:
    """Say whether the daemon of this home runs, and how it is; exit code 1 if it does not."""
    from ...schedule.worker import health_path, lock_path

    place, name = here(context.obj.project), context.meta["worker"]
    holder = machine.holder(lock_path(place, name))
    health = _health(health_path(place, name)) if holder else {}
    if as_json:
        say_json({"running": holder is not None, "pid": holder.pid if holder else None, "health": health})
    elif holder is None:
        say("No daemon runs here.")
        say(arrow("`metier daemon` starts one; `metier daemon unit` prints a systemd unit"))
    else:
        say(f"Running: process {holder.pid}")
        for key, value in health.items():
            if value != "":
                say(f"  {clean(str(key)) + ':':<10}{clean(str(value))}")
    context.exit(0 if holder else 1)


def _health(path: str) -> dict[str, object]:
    try:
        found = loads(paths.read_text_file(path) or "{}")
    except (ValueError, HostError):
        return {}
    return found if isinstance(found, dict) else {}


@daemon.command("stop")
@click.option("--wait", type=click.FloatRange(0), default=45.0, show_default=True, help="Seconds.")
@click.pass_context
def stop(context: click.Context, wait: float) -> None:
    """Ask the daemon of this home to leave, and wait until it is gone."""
    from ...schedule.worker import lock_path

    place = here(context.obj.project)
    holder = machine.holder(lock_path(place, context.meta["worker"]))
    if holder is None:
        say("No daemon runs here.")
        return
    if not machine.ask_to_stop(holder, wait):
        raise HostError(
            f"process {holder.pid} has not left yet", "it waits for what is at work; ask again to end it now"
        )
    say(f"Stopped: process {holder.pid}")


@daemon.command("unit")
@click.option("--write", is_flag=True, help="Write it to ~/.config/systemd/user/metier.service.")
@click.pass_obj
def unit(context: Context, write: bool) -> None:
    """Print a systemd unit for this daemon, or write it."""
    place = here(context.project)
    text = UNIT.format(
        command=_quoted(f"{sys.executable}") + " -P -m metier.faces.cli.door daemon",
        state=_quoted(place.state),
        keys=_keys_path(place).replace("%", "%%"),
    )
    if not write:
        say(text.rstrip("\n"))
        return
    path = _unit_path(place)
    state.make_folder(path.rpartition("/")[0])
    state.write_text(path, text, 0o644)
    say(f"Written: {clean_path(path)}")
    say(
        arrow(f"a service does not see your shell's variables: write keys of models to {clean_path(_keys_path(place))}")
    )
    say(arrow("systemctl --user daemon-reload && systemctl --user enable --now metier"))


def _keys_path(place: Place) -> str:
    return f"{place.state}/daemon.env"


def _unit_path(place: Place) -> str:
    return f"{place.home.rstrip('/')}/.config/systemd/user/metier.service"


def _quoted(text: str) -> str:
    """A path as a unit file has it: `%` and blanks would mean something."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"' if escaped != text or " " in text else text
