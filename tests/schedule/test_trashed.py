"""A scheduler skill that goes to the bin is kept in its history too."""

from pathlib import Path

from tests.home import make_world, write_skill

from metier.record import history
from metier.schedule import pins


def test_a_scheduler_skill_is_in_the_history_as_it_was_and_as_gone(tmp_path: Path):
    world = make_world(tmp_path)
    file = write_skill(world.state / "scheduler/report-0123abcd")
    text = file.read_bytes()
    lies = pins.trash_skill(world.place(), str(file.parent))
    kept = history.repository_path(str(world.state), f"{world.state}/scheduler")
    gone, there = history.list_versions(kept, "report-0123abcd")
    assert (gone.act, there.act) == ("trash", "add")
    assert gone.subject.startswith("trash_report-0123abcd_")
    assert history.read_files(kept, "report-0123abcd", there.rev) == {"SKILL.md": (0o644, text)}
    assert Path(lies, "SKILL.md").read_bytes() == text
