"""Packages that bring skills: which of those installed in an environment have an `.agents/skills` folder.

Nothing is imported.  A Python package names its files in its RECORD, a Node package is its folder.  Reading the
records of some hundred packages takes longer than listing skills, so what was found is kept in a small file with the
times of the folders that change when a package is installed; while those hold, only that file is read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence

from ..light_typing import NamedTuple
from ..types.errors import HostError
from .paths import read_text_file

_HEADER = "metier packages 1"
_SKILLS = ".agents/skills"
_MAX_RECORD_BYTES = 33_554_432
_MAX_PACKAGES = 20_000
_INSTALL_MARKS = ("", "/.package-lock.json", "/.modules.yaml", "/.yarn-state.yml", "/.yarn-integrity")
"""What npm, pnpm and yarn rewrite when they change anything in `node_modules`."""


class PackageSkills(NamedTuple):
    """A folder of skills that a package brings."""

    package: str
    version: str
    folder: str


def packages_with_skills(environments: Sequence[str], modules: Sequence[str], cache: str) -> list[PackageSkills]:
    """The packages with skills of virtual environments and of `node_modules` folders, without those that are gone."""
    places: list[tuple[str, str, Callable[[str], Iterator[PackageSkills]]]] = []
    for environment in environments:
        places += [(site, _times_of(site, ("",)), _read_site) for site in _sites_of(environment)]
    places += [(folder, times, _read_modules) for folder in modules if (times := _times_of(folder, _INSTALL_MARKS))]
    if not places:
        return []
    known = _read_cache(cache)
    found: list[PackageSkills] = []
    changed = False
    for folder, times, read in places:
        kept = known.get(folder)
        if kept is None or kept[0] != times:
            changed = True
            kept = known[folder] = (times, list(read(folder)))
        found += kept[1]
    if changed:
        _write_cache(cache, known)
    return [skills for skills in found if os.path.isdir(skills.folder)]


def _times_of(folder: str, names: Sequence[str]) -> str:
    """When a folder and files in it changed; empty if it is not there."""
    times = []
    for name in names:
        try:
            times.append(str(os.stat(folder + name).st_mtime_ns))
        except OSError:
            times.append("-")
    return "" if times[0] == "-" else ",".join(times)


def _sites_of(environment: str) -> list[str]:
    """The folders of packages of a virtual environment."""
    if not os.path.isfile(f"{environment}/pyvenv.cfg"):
        return []
    try:
        versions = sorted(entry.name for entry in os.scandir(f"{environment}/lib") if entry.name.startswith("python"))
    except OSError:
        return []
    sites = [f"{environment}/lib/{version}/site-packages" for version in versions]
    return [site for site in sites if os.path.isdir(site)]


# --- Python packages ---


def _read_site(site: str) -> Iterator[PackageSkills]:
    try:
        names = sorted(entry.name for entry in os.scandir(site) if entry.name.endswith(".dist-info"))
    except OSError:
        return
    for name in names[:_MAX_PACKAGES]:
        package, _, version = name.removesuffix(".dist-info").partition("-")
        package = package.replace("_", "-").lower()
        folders = {f"{site}/{inside}" for inside in _recorded_folders(f"{site}/{name}/RECORD")}
        folders |= set(_editable_folders(f"{site}/{name}/direct_url.json"))
        for folder in sorted(folders):
            yield PackageSkills(package, version, folder)


def _recorded_folders(path: str) -> set[str]:
    """The folders of skills that a RECORD lists; a path that leaves the site folder is none."""
    try:
        text = read_text_file(path, _MAX_RECORD_BYTES) or ""
    except HostError:
        return set()
    # A file of 10,000 lines is searched as one text: hardly any has such a line.
    if f"/{_SKILLS}/" not in text:
        return set()
    found = re.findall(rf"^\"?([^,\n\"]*/{re.escape(_SKILLS)})/", text, re.MULTILINE)
    return {inside for inside in found if not inside.startswith("/") and ".." not in inside.split("/")}


def _editable_folders(path: str) -> Iterator[str]:
    """The folders of skills of a package that is installed from its sources, which its RECORD does not list."""
    try:
        text = read_text_file(path) or ""
    except HostError:
        return
    if '"editable"' not in text:
        return
    from json import loads
    from urllib.parse import unquote, urlsplit

    try:
        tree = loads(text)
        url, editable = str(tree["url"]), tree["dir_info"]["editable"] is True
    except (ValueError, KeyError, TypeError, RecursionError):
        return
    source = unquote(urlsplit(url).path) if editable and url.startswith("file://") else ""
    for above in (source, f"{source}/src") if source else ():
        try:
            names = sorted(entry.name for entry in os.scandir(above) if entry.is_dir() and entry.name[0] != ".")
        except OSError:
            continue
        yield from (f"{above}/{name}/{_SKILLS}" for name in names if os.path.isdir(f"{above}/{name}/{_SKILLS}"))


# --- Node packages ---


def _read_modules(folder: str) -> Iterator[PackageSkills]:
    """The packages directly in `node_modules`, and those of a scope."""
    for name in _folder_names(folder):
        inner = [f"{name}/{inside}" for inside in _folder_names(f"{folder}/{name}")] if name[0] == "@" else [name]
        for package in inner:
            if os.path.isdir(f"{folder}/{package}/{_SKILLS}"):
                yield PackageSkills(package, _node_version(f"{folder}/{package}"), f"{folder}/{package}/{_SKILLS}")


def _folder_names(folder: str) -> list[str]:
    try:
        return sorted(entry.name for entry in os.scandir(folder) if entry.name[0] != ".")[:_MAX_PACKAGES]
    except OSError:
        return []


def _node_version(folder: str) -> str:
    from json import loads

    try:
        return str(loads(read_text_file(f"{folder}/package.json") or "{}").get("version", ""))[:80]
    except (HostError, ValueError, AttributeError, RecursionError):
        return ""


# --- What was found before ---


def _read_cache(path: str) -> dict[str, tuple[str, list[PackageSkills]]]:
    """What was found in each folder.  A line that does not fit ends the file: the rest is looked up again."""
    try:
        lines = (read_text_file(path) or "").split("\n")
    except HostError:
        return {}
    known: dict[str, tuple[str, list[PackageSkills]]] = {}
    if lines[0] != _HEADER:
        return known
    current: list[PackageSkills] = []
    for line in lines[1:]:
        parts = line.split("\t")
        if len(parts) == 3 and not parts[0]:
            current = []
            known[parts[2]] = (parts[1], current)
        elif len(parts) == 3:
            current.append(PackageSkills(*parts))
        else:
            break
    return known


def _write_cache(path: str, known: dict[str, tuple[str, list[PackageSkills]]]) -> None:
    """Keep what was found, if there is a place for it: without it everything works, only slower."""
    if not os.path.isdir(os.path.dirname(path)):
        return
    from .fs import write_text

    lines = [_HEADER]
    for folder, (times, found) in known.items():
        texts = [f"\t{times}\t{folder}", *("\t".join(skills) for skills in found)]
        if os.path.isdir(folder) and not any("\n" in text or text.count("\t") != 2 for text in texts):
            lines += texts
    try:
        write_text(path, "\n".join(lines) + "\n", sync=False)
    except (OSError, HostError):
        return
