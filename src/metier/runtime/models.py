"""Which model is meant: by its name, by the configuration, or the one that runs here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

from ..host import paths
from ..types.errors import BadRequest, MetierError, NoModel
from ..types.provider import SERVICES, Address, Service

if TYPE_CHECKING:
    from ..act.guide import View
    from ..types.model import Model
    from .library import Library

LOCAL = "local"
_HOW = (
    "name one with --model or METIER_MODEL (anthropic:…, openai:…, google:…, ollama:…), or under `model` in the"
    " configuration; or get a small one that runs here: `pip install 'metier[local]'`, then"
    " `metier models get smollm2-135m`"
)


def folder_of(library: Library) -> str:
    """Where models that run here are kept."""
    return f"{library.place.state}/models"


def local_models(library: Library) -> dict[str, str]:
    """The models that are kept here, by name, each with its file."""
    folder = folder_of(library)
    if not paths.is_folder(folder):
        return {}
    listed = paths.list_names(folder)
    names = sorted(name for name in (*listed.files, *listed.links) if name.endswith(".gguf"))
    return {name.removesuffix(".gguf"): f"{folder}/{name}" for name in names}


def model_name(name: str, library: Library) -> str:
    """The model that is meant: the one that was named, the one that is configured, or one that runs here."""
    configured = library.settings.at("model")
    wanted = name or library.place.env.get("METIER_MODEL", "") or (configured if isinstance(configured, str) else "")
    if not wanted and local_models(library):
        return f"{LOCAL}:{next(iter(local_models(library)))}"
    return wanted


def open_model(name: str, library: Library) -> Model:
    """A model, ready to be asked; nothing is imported and nothing is sent yet."""
    wanted = model_name(name, library)
    if not wanted:
        raise _no_model()
    if wanted.partition(":")[0] == LOCAL:
        return _local(wanted.partition(":")[2], library)
    from ..act.engine import Engine

    return Engine(address_of(wanted, library))


def unasked(name: str, library: Library) -> Model:
    """A model whose request can be shown, though it can't be asked: it needs no key, nor to be there at all."""
    wanted = model_name(name, library)
    if not wanted or wanted.partition(":")[0] == LOCAL:
        from ..act.plain import Unset

        return Unset()
    from ..act.engine import Engine

    return Engine(address_of(wanted, library, keyless=True))


def _no_model() -> NoModel:
    error = NoModel("there is no model to ask", _HOW)
    error.reason = "no-model"
    return error


def is_known(name: str, library: Library) -> bool:
    """Whether a name says which model is meant; agents' files written for other products may have others."""
    return name in _tables(library) or name.partition(":")[0] in (*SERVICES, LOCAL)


def model_names(library: Library) -> list[str]:
    """What a model may be called here: those that are configured, then services, whose models are named after them."""
    return [*_tables(library), *(f"{one}:" for one in (*SERVICES, LOCAL))]


def _tables(library: Library) -> Mapping[str, object]:
    tables = library.settings.at("models")
    return tables if isinstance(tables, Mapping) else {}


def address_of(name: str, library: Library, keyless: bool = False) -> Address:
    """Where a model is asked, and with which key."""
    find: Keys = (lambda service, names, library: "none") if keyless else _key
    table = _tables(library).get(name)
    if isinstance(table, Mapping):
        return _configured(name, table, library, find)
    provider, colon, model = name.partition(":")
    service = SERVICES.get(provider)
    if service is None or not model:
        known = [*_tables(library), *(f"{one}:…" for one in (*SERVICES, LOCAL))]
        near = get_close_matches(name if not colon else f"{provider}:…", known, 1, 0.5)
        hint = f"did you mean `{near[0]}`?" if near else "one of: " + ", ".join(known)
        raise _unknown(f"`{name}` is not a model", hint)
    if service.name == "compatible":
        raise _unknown(f"`{name}` needs an address", f"configure it: [models.{model}] provider, model and url")
    return Address(service, model, service.url, find(service, service.keys, library))


def _unknown(message: str, hint: str) -> BadRequest:
    error = BadRequest(message, hint)
    error.reason = "unknown-model"
    return error


Keys = Callable[[Service, tuple[str, ...], "Library"], str]


def _configured(name: str, table: Mapping[str, object], library: Library, find: Keys) -> Address:
    provider = str(table.get("provider", "compatible"))
    service = SERVICES.get(provider)
    if service is None:
        raise _unknown(f"models.{name}.provider is `{provider}`", "one of: " + ", ".join(SERVICES))
    url = str(table.get("url", "") or service.url)
    if service.name == "compatible" and not url:
        raise _unknown(f"models.{name} has no url", 'say where it is asked: url = "http://…/v1"')
    said = table.get("key")
    keys = (said,) if isinstance(said, str) else () if url != service.url else service.keys
    window, most = table.get("window"), table.get("reply")
    sent, received = table.get("input_price"), table.get("output_price")
    priced = isinstance(sent, int | float) and isinstance(received, int | float)
    return Address(
        service,
        str(table.get("model", name)),
        url,
        find(service, keys, library),
        window if isinstance(window, int) else 0,
        (float(sent), float(received)) if priced else None,  # type: ignore[arg-type]  # both are numbers
        most if isinstance(most, int) else None,
    )


def _key(service: Service, names: tuple[str, ...], library: Library) -> str:
    """The key, from the first variable that has one."""
    for name in names:
        if library.place.env.get(name):
            return library.place.env[name]
    if not names:
        return ""
    raise NoModel(f"{service.name} needs a key, and {' or '.join(names)} is not set", f"export {names[0]}=…")


def _local(name: str, library: Library) -> Model:
    from ..act.local import LocalModel

    found = local_models(library)
    if name not in found:
        near = get_close_matches(name, found, 1, 0.5)
        hint = f"did you mean `local:{near[0]}`?" if near else "run `metier models list` to see what there is"
        raise _unknown(f"no model called `{name}` is kept here", hint)
    return LocalModel(name, found[name], _view(library))


def _view(library: Library) -> View:
    """What the guide of a small model must know of these skills."""
    from ..act.guide import View
    from ..types.running import SCRIPTS

    desk = library.desk()

    def fitting(task: str) -> list[tuple[str, str]]:
        hits = library.search(task, limit=3)
        return [(hit.skill.name, hit.skill.description) for hit in hits] if any(hit.clear for hit in hits) else []

    def scripts(name: str) -> tuple[str, ...]:
        try:
            found = desk.scripts(library.find(name).skill) or ()
        except MetierError:
            return ()
        return tuple(one for one in found if one.endswith(SCRIPTS))

    def location(name: str) -> str:
        return library.find(name).skill.path

    def files(word: str) -> str:
        path = paths.absolute(word, library.place.cwd, library.place.home)
        return path if paths.is_file(path) and paths.is_inside(path, library.place.project) else ""

    return View(fitting, scripts, location, files)
