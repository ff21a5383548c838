"""However often skills are looked at again: files, threads and memory stay as they are."""

import json
import os

from tests.home import make_world, python, write_skill

ROUNDS = 10_000 if os.environ.get("METIER_SOAK") else 200

CODE = f"""
import json, os, pathlib, threading
import metier

def now():
    status = dict(line.split(":", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines())
    return len(os.listdir("/proc/self/fd")), threading.active_count(), int(status["VmRSS"].split()[0])

def rounds(number):
    global library
    for at in range(number):
        if at % 5 == 0:
            skill = pathlib.Path(library.skills[at % len(library.skills)].path)
            skill.write_text(skill.read_text() + "More.\\n" if at % 500 else skill.read_text()[:200])
        library = library.reload()
        library.catalog()
        library.commands()

library = metier.open(".")
rounds({ROUNDS} // 4)
first = now()
rounds({ROUNDS})
print(json.dumps([first, now()]))
"""


def test_however_often_it_is_reloaded_nothing_grows(tmp_path):
    world = make_world(tmp_path)
    for number in range(20):
        write_skill(world.state / "skills" / f"s{number}")
    done = python(CODE, env=world.variables, cwd=world.project, timeout=600)
    assert done.returncode == 0, done.stderr
    first, last = json.loads(done.stdout)

    assert last[:2] == first[:2]
    assert last[2] <= first[2] * 1.05
