"""Switch skills off and on, for all projects or for one.

The choice is the user's own, so it is kept in metier's folder and not in a project: nobody's files change, and no
project has to be trusted again.
"""

from __future__ import annotations

from json import dumps

from ..host import fs, paths
from ..library.settings import SWITCHES_FILE, read_switches


def switch_off(state: str, key: str, project: str = "") -> bool:
    """Switch a skill off, everywhere or in one project; False if it was off already."""
    return _change(state, key, project, True)


def switch_on(state: str, key: str, project: str = "") -> bool:
    """Take back what `switch_off` did for everywhere, or for one project; False if there was nothing to take back."""
    return _change(state, key, project, False)


def _change(state: str, key: str, project: str, off: bool) -> bool:
    place = paths.real_path(project) if project else ""
    fs.make_folder(state)
    with fs.hold_lock(f"{state}/.{SWITCHES_FILE}.lock"):
        switches = read_switches(state)
        names = set(switches.get(place, ()))
        if (key in names) == off:
            return False
        names ^= {key}
        switches[place] = sorted(names)
        kept = {where: listed for where, listed in switches.items() if listed}
        fs.write_text(f"{state}/{SWITCHES_FILE}", dumps({"version": 1, "off": kept}, indent=1, sort_keys=True) + "\n")
    return True
