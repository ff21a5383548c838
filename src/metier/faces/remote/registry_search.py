"""metier search --registry: skills that can be installed, from every configured registry."""

from __future__ import annotations

from ...host.facts import find_place
from ...install.fetch_settings import registries_of
from ...registries.protocol import RegistryHit
from ...types.errors import BadRequest, HostError, MetierError
from ..cli.options import CliContext
from ..cli.output import count_of, format_columns, hint_line, printable, say, say_json, warn_failure

EVERY_REGISTRY = "*"


def search_registries(context: CliContext, words: str, limit: int, wanted: str, as_json: bool) -> int:
    """Ask each registry; one that fails does not stop the others."""
    registries = registries_of(find_place(context.directory))
    names = list(registries.addresses) if wanted == EVERY_REGISTRY else [wanted]
    if not names:
        raise BadRequest("no registry is configured", "`registries` is empty in the configuration; remove it")
    hits: list[RegistryHit] = []
    faults: dict[str, MetierError] = {}
    for name in names:
        registry = registries.open(name)
        try:
            hits += registry.search(words, limit)
        except MetierError as error:
            faults[name] = error
    if as_json:
        say_json(
            {
                "query": words,
                "hits": [{**hit._asdict(), "source": hit.source} for hit in hits],
                "failed": [
                    {"registry": name, "error": fault.message, "hint": fault.hint} for name, fault in faults.items()
                ],
            }
        )
    else:
        _print_hits(hits, not faults)
        for name, fault in faults.items():
            warn_failure(name, fault)
    if faults and len(faults) == len(names):
        return HostError.exit_code
    return 0 if hits else 1


def _print_hits(hits: list[RegistryHit], complete: bool) -> None:
    rows = [(printable(hit.source), printable(_version_note(hit)), printable(hit.description)) for hit in hits]
    for line in format_columns(rows):
        say(line)
    if hits:
        say(hint_line(f"to look at one before it is installed, run `metier add {printable(hits[0].source)} --dry-run`"))
    elif complete:
        say("No matching skills.")
        say(hint_line("try other words"))


def _version_note(hit: RegistryHit) -> str:
    return hit.version or (count_of(hit.installs, "install") if hit.installs else "")
