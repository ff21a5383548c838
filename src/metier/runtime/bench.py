"""A bench to try a skill on: a folder for each arm, a clean context for each run, and a seal on the baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from threading import Event as Flag
from typing import TYPE_CHECKING, TypeAlias

from ..act.permission import Permission
from ..host import files, pack, paths, scratch, state, swap
from ..improve import results
from ..improve.grade import Judge, judged
from ..improve.trial import Task, made_of
from ..record.encode import line_of
from ..types.activation import By, Call, Message
from ..types.agent import Alone, Bounds
from ..types.errors import BadRequest, MetierError, Refused
from ..types.evals import Arm, Case, Made, Sample, Suite
from ..types.event import Heard, Steps, Wrote
from ..types.model import Request as Asked
from ..types.running import Box, Program, Ran
from ..types.skill import Skill
from .agent import Agent
from .agents import bounds_of, permission_of, rules_of
from .models import open_model
from .opening import Request, open_at
from .running import need_of, plain_environment, run_program

if TYPE_CHECKING:
    from ..types.model import Model
    from .library import Library
    from .session import Session

Contents: TypeAlias = Mapping[str, tuple[int, bytes]]
"""The files of a skill: the mode and the bytes of each, by its path."""
_MOST_FILES, _MOST_BYTES = 2_000, 100 << 20
_INPUT = 50 << 20
"""Bytes of a file that a case needs."""
_LINK = 0o120000
ARMS = "arms"
_SECONDS = 600.0
"""How long a run may take where nobody says."""
_CHECK_SECONDS = 60.0
_OWN = ("write_file", "edit_file", "run_command")
"""What a run may do in a folder that was made for it."""
_READABLE = 'for one; do [ -r "$one" ] && cat -- "$one" >/dev/null && echo "$one"; done; :'


@dataclass(frozen=True)
class Plan:
    """What is to be tried, and how."""

    arms: tuple[Arm, ...] = ("with_skill",)
    runs: int = 3
    model: Model | str = ""
    grader: Model | str | None = ""
    """Who judges what nothing else decides; empty is the same model, None is nobody."""
    out: str = ""
    """Where results go; empty is metier's own folder."""
    new: Contents | None = None
    """The skill as it would be; None is as it is."""
    old: Contents | None = None
    """The skill as it was, for the arm `old_skill`."""
    stop: Flag = field(default_factory=Flag)

    def model_name(self, library: Library) -> str:
        return (open_model(self.model, library) if isinstance(self.model, str) else self.model).name


def inputs_of(skill: Skill, suite: Suite) -> dict[str, dict[str, bytes]]:
    """The files that each case needs, by the paths that they get in the working folder."""
    return {case.id: dict(_inputs(skill, case)) for case in suite.cases}


def _inputs(skill: Skill, case: Case) -> Iterator[tuple[str, bytes]]:
    for path in case.files:
        try:
            yield _placed(path), files.read_skill_file(skill.directory, path, _INPUT)[1]
        except (OSError, MetierError) as error:
            raise BadRequest(
                f"the case `{case.id}` needs the file `{path}`, which can't be read", "put it there, or mend the path",
                f"{skill.directory}/{path}",
            ) from error  # fmt: skip


def _placed(path: str) -> str:
    for above in ("evals/files/", "evals/", "files/"):
        if path.startswith(above):
            return path.removeprefix(above)
    return path


def contents_of(directory: str) -> Contents:
    """The files of a skill as they are."""
    found: dict[str, tuple[int, bytes]] = {}
    room = _MOST_BYTES
    for path, status in paths.tree_of(directory, _MOST_FILES + 1):
        if status.st_mode & 0o170000 != 0o100000:
            continue
        room -= status.st_size
        if room < 0 or len(found) >= _MOST_FILES:
            raise Refused(
                f"{directory} holds too much to be copied for every arm", "move what is not of the skill away"
            )
        found[path] = (status.st_mode & 0o777, files.read_skill_file(directory, path, _MOST_BYTES)[1])
    return found


@dataclass(frozen=True)
class Bench:
    """Where a skill is tried."""

    library: Library
    skill: Skill
    plan: Plan
    out: str
    """The folder of the trial: what comes of it and, as long as it lasts, the skills of each arm."""
    suite: Suite
    inputs: Mapping[str, Mapping[str, bytes]]

    def open(self) -> tuple[str, ...]:
        """Lay out the arms; refuse what can't be tried here.  What there is to say is given back."""
        self._needs_boundary()
        for arm in self.plan.arms:
            given = {"with_skill": self.plan.new, "old_skill": self.plan.old, "without_skill": {}}[arm]
            contents = contents_of(self.skill.directory) if given is None else given
            kept = {path: one for path, one in contents.items() if not path.startswith("evals/") and one[0] < _LINK}
            if paths.exists(self.root(arm)):
                continue
            state.make_folder(self.root(arm))
            packed = {path: pack.Content(data, bool(mode & 0o100)) for path, (mode, data) in kept.items()}
            pack.write_all(f"{self.root(arm)}/{self.skill.id}", packed)
        if "without_skill" not in self.plan.arms:
            return ()
        self._seal()
        return ("The arm without the skill was tried before it began: it had no way to the skill's files.",)

    def _needs_boundary(self) -> None:
        from ..host import sandbox

        if need_of(self.library, self.skill) == "require":
            footing = sandbox.probe(sandbox.here(self.library.place.env, self.library.place.state))
            if footing.tier == "none":
                raise Refused(
                    f"`{self.skill.name}` runs only inside a boundary, and there is none: {footing.reason}",
                    "install bubblewrap; `metier doctor` says what was tried",
                )

    def root(self, arm: Arm) -> str:
        """The folder of an arm's skills; it lies as the skill's own root does, so that it is read the same way."""
        return "/".join([self.out, ARMS, arm, *self.skill.origin.path.strip("/").split("/")[-3:]])

    def _seal(self) -> None:
        """Try to reach the skill from the arm that must not have it."""
        with scratch.folder() as work:
            session = self.session("without_skill", work)
            reached = [one.name for one in session.library.skills]
            reached += self.within_reach(session)
        if reached:
            raise Refused(
                f"the arm without the skill could still reach {reached[0]}, so a comparison would mean nothing",
                "install bubblewrap (`metier doctor`), or move the skill out of the system's folders",
            )

    def within_reach(self, session: Session) -> list[str]:
        """Files of the skill that a command of a session can read."""
        from .tooling import run_for

        wanted = [f"{place}/SKILL.md" for place in self.places()]
        ran = run_for(session, ("sh", "-c", _READABLE, "sh", *wanted), 30.0)
        return ran.stdout.splitlines()

    def places(self) -> tuple[str, ...]:
        """Every folder that holds this skill, or one of its name."""
        from ..sources.bundled import bundle

        skill, library = self.skill, self.library
        same = [one.directory for one in library.skills if skill.identity == one.identity or skill.name == one.name]
        same += [one.path.rpartition("/")[0] for one in library.broken if skill.name in (one.name, one.id)]
        arms = [f"{self.root(arm)}/{skill.id}" for arm in ("with_skill", "old_skill")]
        found = [skill.directory, *same, f"{bundle()}/{skill.id}", *arms]
        return tuple(dict.fromkeys(real for one in found for real in (one, paths.real_path(one))))

    def session(self, arm: Arm, work: str) -> Session:
        """A conversation in an arm: its skills, a folder of its own, and nothing of the history."""

        library = self.library
        place = replace(library.place, cwd=work, project=work)
        allowed = () if arm == "without_skill" else None
        request = Request(library.request.dialect, allowed, self.root(arm), index=False)
        opened = open_at(place, request)
        own = self.skill.origin.dialect.name
        if opened.skills and opened.skills[0].origin.dialect.name != own:
            opened = open_at(place, replace(request, dialect=own))
        bounds = bounds_of(library.settings, Bounds())
        agent = Agent(
            opened, self.plan.model,
            rules=_allowing(permission_of(library.settings)),
            limits=replace(bounds, seconds=bounds.seconds or _SECONDS),
            deepest=0, keep=False, private=True, hidden=self.places(),
            alone=Alone(network=library.settings.at("agent.network") is True),
        )  # fmt: skip
        session: Session = agent.start()
        session.stopping = self.plan.stop
        return session

    def kept(self, task: Task) -> str:
        return results.run_folder(self.out, task, self.plan.runs)

    def sample(self, task: Task) -> Sample:
        """One run, judged and kept; one that was made before is read."""
        folder = self.kept(task)
        before = results.read_run(folder)
        if before is not None:
            return before
        judge = Judge(self.command, None if self.plan.grader is None else self.ask)
        made = self.run(task)
        sample = Sample(task.case.id, task.arm, task.number, made, judged(task.case, made, judge))
        if not made.void:
            results.keep_run(folder, sample, self.suite.spelling)
        return sample

    def run(self, task: Task) -> Made:
        """One run: nothing of it is left but what is kept."""
        outputs = f"{self.kept(task)}/outputs"
        swap.remove_tree(outputs)
        state.make_folder(outputs)
        with scratch.folder() as above:
            work = f"{above}/work"
            scratch.fill(work, self.inputs[task.case.id])
            session = self.session(task.arm, work)
            events = [one for one in self._said(session, task) if not isinstance(one, Wrote)]
            left_out = _copied(work, outputs)
        lines = "".join(session.agent.hide(line_of(one)) + "\n" for one in events)
        state.write_text(f"{self.kept(task)}/transcript.jsonl", lines, sync=False)
        made = made_of(events, self.skill.name, outputs)
        return made._replace(note="; ".join(filter(None, (made.note, left_out))))

    def _said(self, session: Session, task: Task) -> Steps[None]:
        text = task.case.prompt
        if self.inputs[task.case.id]:
            text += "\n\nFiles in the working folder: " + ", ".join(self.inputs[task.case.id])
        begin = None if task.arm == "without_skill" or text.startswith("/") else _called(session, self.skill.name, text)
        return session.within(begin, text)

    def command(self, command: str, outputs: str) -> Ran:
        """A check's command, in a copy of what a run made, inside a boundary that must be there."""
        library = self.library
        with scratch.folder() as above:
            work = f"{above}/work"
            state.make_folder(work)
            _copied(outputs, work)
            argv = ("bash", "--noprofile", "--norc", "-c", command)
            program = Program(argv, work, plain_environment(library), _CHECK_SECONDS)
            return run_program(library, program, Box("require", work=work, hidden=(library.place.state,)))

    def ask(self, system: str, question: str) -> str:
        """A model without tools, asked one thing."""
        wanted = self.plan.grader or self.plan.model
        model = open_model(wanted, self.library) if isinstance(wanted, str) else wanted
        steps = model.reply(Asked(system, (), (Message("user", question),)), self.plan.stop)
        while True:
            try:
                next(steps)
            except StopIteration as done:
                return str(done.value.text)


def _allowing(permission: Permission) -> Permission:
    return replace(permission, allow=(*permission.allow, *rules_of(_OWN)))


def _called(session: Session, name: str, text: str) -> Steps[bool]:
    """A turn that begins with the skill in view, as if a person had called it for this task."""
    from .entering import activated, beside

    skill = session.library.find(name).skill
    by: By = "user" if skill.user_may_invoke else "model"
    yield Heard(text, "user", beside(session, text))
    yield activated(session, skill, Call(skill.name, text, by, session.agent.cwd), text)
    return True


def _copied(source: str, target: str) -> str:
    """Copy what a run made; what is too much is named."""
    from ..host.writing import copy_in, filling

    try:
        with filling(target) as into:
            left_out = copy_in(source, into, _MOST_FILES, _MOST_BYTES)
    except Refused as error:
        return error.message
    return f"{len(left_out)} links were left out" if left_out else ""
