"""metier audit: what registries and the configuration say about the installed skills."""

from __future__ import annotations

import click

from ...install.audit_lock import BAD_STATES, AuditResult, audit_root
from ...types.errors import HostError
from ..cli.options import CliContext
from ..cli.output import ProgressBar, clean_path, count_of, format_columns, paint, printable, say, say_json
from ..cli.scopes import fetch_options, install_scopes, scope_options

_COLORS = {"failed": "red", "withdrawn": "red", "denied": "red", "unchecked": "yellow", "passed": "green"}


@click.command("audit")
@click.option("--offline", is_flag=True, help="Compare sources with the configuration only; ask no registry")
@click.option("--json", "as_json", is_flag=True, help="Print JSON")
@scope_options
@click.pass_context
def audit(context: click.Context, offline: bool, as_json: bool, user: bool, in_project: bool, profile: str) -> None:
    """Check installed skills: ask their registries for verdicts, and compare their sources with `sources`.

    Exits with 1 if a skill failed, was withdrawn or has a source that is not allowed, and with 5 if there is none, but
    some could not be checked. Nothing is changed.
    """
    obj: CliContext = context.obj
    results: list[AuditResult] = []
    for scope in install_scopes(obj, user, in_project, profile):
        with ProgressBar("checking") as bar:
            results += audit_root(scope.install_root, fetch_options(scope.place, bar), offline)
    if as_json:
        say_json([{**result._asdict(), "reasons": list(result.reasons)} for result in results])
    else:
        _print_results(results)
    bad = any(result.state in BAD_STATES for result in results)
    unchecked = any(result.state == "unchecked" for result in results)
    context.exit(1 if bad else HostError.exit_code if unchecked else 0)


def _print_results(results: list[AuditResult]) -> None:
    rows = [
        (
            printable(result.folder),
            result.state,
            printable(result.version[:12] or "-"),
            clean_path(result.source),
            printable("; ".join(result.reasons)),
        )
        for result in results
    ]
    table = [("FOLDER", "STATE", "VERSION", "FROM", "WHY"), *rows] if rows else []
    for line, state in zip(format_columns(table), ["", *(result.state for result in results)], strict=False):
        say(paint(line, _COLORS[state]) if state in _COLORS else line)
    bad = sum(result.state in BAD_STATES for result in results)
    unchecked = sum(result.state == "unchecked" for result in results)
    note = f"; {unchecked} could not be checked" if unchecked else ""
    say(f"{bad} of {count_of(len(results), 'folder')} should not be used{note}")
