"""How a place's configuration lets metier fetch: its registries, and the sources it allows."""

from __future__ import annotations

from ..host.archives import Progress
from ..library.settings import load_settings, require_whole_settings
from ..registries.configured import RegistrySet
from ..registries.protocol import RegistryAccess
from ..registries.source_policy import policy_from
from ..types.place import Place
from ..types.problem import Problem
from ..types.settings import Settings
from .fetch_access import FetchOptions


def settings_of(place: Place) -> Settings:
    """The user's settings, with those of a trusted project.

    A configuration that can't be read in full is an error: a source that it denies must not be fetched because of it.
    """
    problems: list[Problem] = []
    settings = load_settings(place, problems)[0]
    require_whole_settings(problems)
    return settings


def registries_of(place: Place, insecure: bool = False, settings: Settings | None = None) -> RegistrySet:
    access = RegistryAccess(place.env, place.cwd, place.home, insecure)
    return RegistrySet.from_settings(settings_of(place) if settings is None else settings, access)


def fetch_options_for(place: Place, insecure: bool = False, progress: Progress | None = None) -> FetchOptions:
    """The options for a place."""
    settings = settings_of(place)
    return FetchOptions(
        place.env,
        place.cwd,
        place.home,
        insecure,
        progress=progress,
        registries=registries_of(place, insecure, settings),
        policy=policy_from(settings),
    )
