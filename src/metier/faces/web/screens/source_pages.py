"""Get: fetch skills, inspect them before anything is placed, then install exactly what was inspected."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256

from starlette.requests import Request
from starlette.responses import Response

from ....install import add as install_add
from ....install import remove
from ....install.add import AddRequest, InstallOffer
from ....install.fetch_settings import fetch_options_for
from ....install.managed import install_root_for
from ....install.operations import find_scanner, present_skills, taken_names, trust_placed_skills
from ....library import lockfile
from ....sources.skill_files import manifest_digest
from ....types.errors import MetierError, Refused
from ...skill_review import POWER_LABELS
from ..web_site import WebSite, form_of, go_to


def get_skills(site: WebSite, request: Request) -> Response:
    return _show(site, request)


def _show(site: WebSite, request: Request, status: int = 200, **values: object) -> Response:
    root = install_root_for(site.place, _root(site))
    entries = lockfile.read_lock(root).skills
    # One dictionary: a second `offer=` would be an error.
    empty: dict[str, object] = {"offer": None, "spec": "", "digest": "", "takes": [], "error": None, "with_options": []}
    shown = {**empty, "line": site.command("add", "SOURCE"), **values}
    return site.render(
        request,
        "get.html",
        status,
        current="get",
        installed=[(key, entry, site.command("update", key)) for key, entry in sorted(entries.items())],
        outdated_line=site.command("outdated"),
        labels=POWER_LABELS,
        root=root.root,
        **shown,
    )


def _root(site: WebSite) -> str:
    return site.options.root or f"{site.state}/skills"


@contextmanager
def _offered(site: WebSite, spec: str) -> Iterator[InstallOffer]:
    """What a source offers, fetched and inspected; deleted afterwards unless it was accepted."""
    place, library = site.place, site.library()
    root = install_root_for(place, _root(site))
    nearby = present_skills(place)
    request = AddRequest(spec, root, library.dialect, place.state, nearby=nearby, scan=find_scanner(place))
    with install_add.open_offer(request, fetch_options_for(place)) as offer:
        yield offer


def offer_digest(offer: InstallOffer) -> str:
    """Of every file that would be placed, and where."""
    parts = [f"{target.folder}\n{manifest_digest(target.files)}" for target in offer.targets]
    return sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def inspect_source(site: WebSite, request: Request) -> Response:
    """Fetch and show; nothing is placed.  A form, because it goes to the network for whoever sends it."""
    try:
        return _inspect(site, request)
    except MetierError as error:
        return _show_error(site, request, error)


def add_skills(site: WebSite, request: Request) -> Response:
    """Fetch again, and install only if that is what was shown."""
    try:
        return _add(site, request)
    except MetierError as error:
        return _show_error(site, request, error)


_OPTION_WORDS = {
    "--force": ["--force"],
    "--unapproved": ["--unapproved"],
    "--name": ["--name", "NAME"],
    "--skill": ["--skill", "NAME"],
}


def _show_error(site: WebSite, request: Request, error: MetierError) -> Response:
    """The page with the error and what was typed, to be corrected there."""
    spec = _spec(request)
    # An option is no help in a browser without the command that has it: one line for each, as they are alternatives.
    named = dict.fromkeys(re.findall(r"--[a-z]+", f"{error.message} {error.hint}"))
    lines = [site.command("add", spec, *_OPTION_WORDS[option]) for option in named if option in _OPTION_WORDS]
    line = site.command("add", spec or "SOURCE")
    return _show(site, request, site.failure_status(error), error=error, spec=spec, line=line, with_options=lines)


def _spec(request: Request) -> str:
    return form_of(request).text("spec").strip()[:2_000]


def _inspect(site: WebSite, request: Request) -> Response:
    spec = _spec(request)
    with _offered(site, spec) as offer:
        takes = taken_names(site.place, offer.request.install_root, offer.names)
        return _show(
            site,
            request,
            offer=offer,
            spec=spec,
            digest=offer_digest(offer),
            takes=takes,
            line=site.command("add", spec),
        )


def _add(site: WebSite, request: Request) -> Response:
    form = form_of(request)
    with _offered(site, _spec(request)) as offer:
        if offer_digest(offer) != form.text("digest"):
            return go_to("/get", "changed")
        folders = ", ".join(target.folder for target in offer.targets)
        # As with `metier add`: no click overrides a serious finding.
        if offer.dangers:
            hint = f"`{site.command('add', _spec(request), '--unapproved')}` installs it without enabling it"
            raise Refused(f"{folders} is refused: {offer.dangers[0].message}", hint)
        takes = taken_names(site.place, offer.request.install_root, offer.names)
        if takes and form.text("typed").strip() not in {name for name, _ in takes}:
            raise Refused(f"`{takes[0][0]}` would be used in place of {takes[0][1]}", "type its name to confirm")
        changes = install_add.accept_offer(offer, True)
    root = offer.request.install_root
    remove.empty_trash(root)
    trust_placed_skills(site.place, root, [key for change in changes for key in change.skills])
    return go_to("/get", "added")
