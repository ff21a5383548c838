"""The parts: what is compared with what, and what is asked of metier."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from corpus import LARGE, corpus, name_of
from measure import Command, Cost, Job, Sample, commands, race
from peers import PEERS, NotInstalled, Peer, install
from rendering import rendering
from report import Row, at_least, at_most, number, over
from spawn import spawn
from streaming import streaming

FLOOR_LIMIT = 2.5
WARM_LIMIT = 2.5
NAMES_LIMIT = 2.0
FLAT_LIMIT = 1.2
MEMORY_LIMIT = 60
BODY_LIMIT = 1.1
LIST_LIMITS = {100: 4.0, 1_000: 5.0}
READ_ONLY_LIMIT = 5.0
"""For the other commands that start without click."""
COMPLETE_LIMIT = 3.0
OTHERS_LIMIT = 15.0
IMPORT_LIMIT = 1.2
NAMED = 0.95
"""A skill that does not load may have no name to list; at least this share of them must."""

SIZES = (1_000, 10_000)
FLAT_SIZES = (100, 1_000, 10_000, 60_000)
FLAT_FROM = 1_000
MEMORY_SIZE = 10_000
COMPLETE_AT = 1_000
OTHERS_AT = 100

SCRIPT = Path(sys.executable).parent / "metier"
METIER = (str(SCRIPT),) if SCRIPT.exists() else (sys.executable, "-m", "metier")
ROOT = (*METIER, "--root", "{root}")
LIST = (*ROOT, "list")
READ_ONLY = ("status", "catalog", "commands", "roots", "show {name}", "why {name}")
OTHERS = ("doctor", "validate", "lint")
COMPLETE = Command(
    name="completion of a skill name",
    words=METIER,
    extra=(
        ("_METIER_COMPLETE", "bash_complete"),
        ("COMP_WORDS", "metier --root {root} show {prefix}"),
        ("COMP_CWORD", "4"),
    ),
    must_say="{name}",
)


@dataclass(frozen=True)
class Plan:
    """How much to measure."""

    sizes: tuple[int, ...] = ()
    """Empty: each part's own."""
    peers: tuple[Peer, ...] = PEERS
    rounds: int = 3
    repeats: int = 20
    budget: float = 4.0
    runs: int = 25
    quick: bool = False
    samples: list[Sample] = field(default_factory=list)
    """Everything heard from contenders, for the record."""

    def race(self, jobs: list[Job], times: int = 1) -> dict[tuple[str, int], Sample]:
        """Run them as this plan says, in so many times the rounds, and keep what they said."""
        found = race(jobs, rounds=self.rounds * times, repeats=self.repeats, budget=self.budget)
        self.samples.extend(found.values())
        return found


def cold(plan: Plan) -> list[Row]:
    """A: discover and write the catalog, against the floor and against every peer."""
    pythons: dict[Peer, Path] = {}
    missing: dict[Peer, str] = {}
    for peer in plan.peers:
        try:
            pythons[peer] = install(peer)
        except NotInstalled as reason:
            missing[peer] = str(reason)
    sizes = plan.sizes or SIZES
    jobs = [
        job
        for size in sizes
        for root in [corpus(size)]
        for job in (
            Job("floor", "floor.py", root, size),
            Job("metier cold", "metier_cold.py", root, size),
            *(Job(peer.name, peer.script, root, size, python) for peer, python in pythons.items()),
        )
    ]
    found = plan.race(jobs)
    rows = []
    for size in sizes:
        floor, metier = found["floor", size], found["metier cold", size]
        what = f"A discover + catalog, {size:,}"
        rows.append(at_most(what, _ms(metier), _ms(floor), FLOOR_LIMIT, note=_doubt(metier, floor)))
        for peer in plan.peers:
            sample = found.get((peer.name, size)) or Sample(peer.name, size, error=f"not installed: {missing[peer]}")
            rows.append(_against(what, metier, floor, peer, sample))
    return rows


def _against(what: str, metier: Sample, floor: Sample, peer: Peer, sample: Sample) -> Row:
    if sample.error:
        note = f"{peer.name}: {sample.error}"
        return Row(
            what=what,
            metier=_ms(metier),
            floor=_ms(floor),
            peer=peer.name,
            target=f">= {peer.at_least:g}x faster",
            note=note,
        )
    times = number(over(sample.best, _ms(floor)), "x")
    said = f"{peer.name} {number(sample.best, 'ms')} ({times} floor, {sample.skills:,} loaded)"
    return at_least(what, _ms(metier), _ms(floor), said, sample.best, peer.at_least)


def _doubt(metier: Sample, floor: Sample, share: float = 1.0) -> str:
    """Why metier's time does not count, or nothing: it must see every skill and list what the floor lists."""
    if metier.error:
        return f"metier: {metier.error}"
    if metier.skills < metier.size * share:
        return f"metier: {metier.skills:,} of {metier.size:,} skills seen"
    if metier.chars < floor.chars / 2:
        return f"metier: a catalog of {metier.chars:,} characters, the floor's has {floor.chars:,}"
    return ""


def warm(plan: Plan) -> list[Row]:
    """B: opening with an index that is already written, against a walk that stats every SKILL.md."""
    sizes = plan.sizes or SIZES
    scripts = {
        "stat walk": "stat_walk.py",
        "metier verdicts": "metier_warm.py",
        "metier names": "metier_names.py",
    }
    jobs = [Job(name, script, corpus(size), size) for size in sizes for name, script in scripts.items()]
    found = plan.race(jobs, times=4)  # passes of a few milliseconds: what else the processor does weighs most here
    rows = []
    for size in sizes:
        walk = found["stat walk", size]
        for what, limit, share in (("verdicts", WARM_LIMIT, 1.0), ("names", NAMES_LIMIT, NAMED)):
            sample = found[f"metier {what}", size]
            note = _doubt(sample, walk, share)
            rows.append(at_most(f"B warm index, {what}, {size:,}", _ms(sample), _ms(walk), limit, note=note))
    return rows


def flat(plan: Plan) -> list[Row]:
    """C: the cost of one skill must not grow with their number, beyond what the file system itself adds."""
    sizes = plan.sizes or FLAT_SIZES
    pairs = (("floor", "floor.py"), ("metier cold", "metier_cold.py"))
    found = plan.race([Job(name, script, corpus(size), size) for size in sizes for name, script in pairs])
    rows = []
    for size in sizes:
        floor, metier = found["floor", size], found["metier cold", size]
        one, other = _per_skill(metier), _per_skill(floor)
        rows.append(Row(what=f"C per skill, {size:,}", metier=one, floor=other, ratio=over(one, other), unit="µs"))
    large = [place for place, size in enumerate(sizes) if size >= FLAT_FROM]
    ratio = _growth([rows[place].ratio for place in large])
    rows.append(
        Row(
            what="C from 1,000 up: spread, spread, growth of the ratio",
            metier=_spread([rows[place].metier for place in large]),
            floor=_spread([rows[place].floor for place in large]),
            ratio=ratio,
            unit="x",
            target=f"<= {FLAT_LIMIT:g}x growth",
            met=ratio is not None and ratio <= FLAT_LIMIT,
            note=next((f"metier: {sample.error}" for sample in found.values() if sample.error), ""),
        )
    )
    return rows


def _spread(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) / min(known) if known and len(known) == len(values) else None


def _growth(values: list[float | None]) -> float | None:
    """The most that one is above any before it."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return max(value / min(known[: place + 1]) for place, value in enumerate(known))


def process(plan: Plan) -> list[Row]:
    """D: whole processes, index warm and bytecode compiled, against an interpreter that does nothing."""
    name = name_of(0)
    bare = Command("python -c pass", (sys.executable, "-c", "pass"))
    node = Command("node -e 0", ("node", "-e", "0"))
    asked = [(Command("import metier", (sys.executable, "-c", "import metier")), IMPORT_LIMIT)]
    for size, limit in LIST_LIMITS.items():
        words = tuple(word.format(root=corpus(size)) for word in LIST)
        asked.append((Command(f"list, {size:,}", words, must_say=name), limit))
    asked.append((_filled(COMPLETE, corpus(COMPLETE_AT), name, COMPLETE_AT), COMPLETE_LIMIT))
    limits = dict.fromkeys(READ_ONLY, READ_ONLY_LIMIT) | dict.fromkeys(OTHERS, OTHERS_LIMIT)
    for line, limit in () if plan.quick else limits.items():
        words = tuple(word.format(root=corpus(OTHERS_AT), name=name) for word in (*ROOT, *line.split()))
        asked.append((Command(f"{line.split()[0]}, {OTHERS_AT:,}", words), limit))
    costs = commands([bare, node, *(command for command, _ in asked)], plan.runs)
    rows = []
    for command, limit in asked:
        cost = costs[command.name]
        note = f"metier {command.name}: {cost.error}" if cost.error else ""
        row = at_most(f"D {command.name}", _cost(cost), _cost(costs[bare.name]), limit, note=note)
        rows.append(_beside(row, node.name, costs[node.name]))
    return rows


def _filled(command: Command, root: Path, name: str, size: int) -> Command:
    words = {"root": root, "name": name, "prefix": name[:4]}
    extra = tuple((key, value.format(**words)) for key, value in command.extra)
    return Command(f"{command.name}, {size:,}", command.words, extra, command.must_say.format(**words))


def _beside(row: Row, name: str, cost: Cost) -> Row:
    """The same row, with another process shown for comparison; nothing is asked of that."""
    value = _cost(cost)
    said = f"{name} {number(value, 'ms')}" if value is not None else f"{name}: {cost.error}"
    return Row(**{**vars(row), "peer": said, "peer_ratio": over(value, row.metier)})


def memory(plan: Plan) -> list[Row]:
    """E: peak memory of a fresh process that holds library, verdicts and catalog; bodies must not matter."""
    peaks: list[float | None] = []
    rows = []
    for what, body in (("5-10 KB bodies", None), ("100 KB bodies", LARGE)):
        root = corpus(MEMORY_SIZE, body) if body else corpus(MEMORY_SIZE)
        pairs = (("floor", "floor.py"), ("metier cold", "metier_cold.py"))
        jobs = [Job(name, script, root, MEMORY_SIZE) for name, script in pairs]
        found = race(jobs, rounds=1, repeats=1, budget=1.0)
        plan.samples.extend(found.values())
        floor, metier = found["floor", MEMORY_SIZE], found["metier cold", MEMORY_SIZE]
        peak = None if metier.error else metier.peak_mb
        peaks.append(peak)
        rows.append(
            Row(
                what=f"E peak memory, {MEMORY_SIZE:,}, {what}",
                metier=peak,
                floor=floor.peak_mb,
                ratio=over(peak, floor.peak_mb),
                unit="MB",
                target=f"<= {MEMORY_LIMIT} MB",
                met=peak is not None and peak <= MEMORY_LIMIT,
                note=_doubt(metier, floor),
            )
        )
    spread = _spread(peaks)
    met = spread is not None and spread <= BODY_LIMIT
    rows.append(Row(what="E the two above", ratio=spread, target=f"<= {BODY_LIMIT:g}x apart", met=met))
    return rows


def start(plan: Plan) -> list[Row]:
    """F: a program started inside the boundary, against bubblewrap that bounds nothing."""
    return spawn(plan.runs)


def _ms(sample: Sample) -> float | None:
    return None if sample.error else sample.best


def _per_skill(sample: Sample) -> float | None:
    return None if sample.error else sample.per_skill


def _cost(cost: Cost) -> float | None:
    return None if cost.error else cost.best


PARTS: dict[str, Callable[[Plan], list[Row]]] = {
    "A": cold,
    "B": warm,
    "C": flat,
    "D": process,
    "E": memory,
    "F": start,
    "R": rendering,
    "S": streaming,
}
