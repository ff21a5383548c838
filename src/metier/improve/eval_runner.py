"""The eval runner: a folder for each arm, a clean context for each run, and a sealed baseline.

A comparison is worth nothing if the arm without the skill can reach the skill.  An agent with a shell can: it lists the
disk, finds SKILL.md, and follows it.  Not listing the skill in the prompt was refused as not enough.  So the runs of an
arm get a root of their own, and every other folder that holds the skill, or one of its name, is hidden by the sandbox:
the user's, the project's, the bundled copy, the other arms.  Before a trial starts, a command tries to read the skill
from the arm that must not have it, with the sandbox that the runs will have; if it can, the trial is refused rather
than reported with a footnote.

Each run starts in a new temporary folder with the files of its case and no history.  Its outputs are copied out and
graded there; commands of checks run in a sandbox too, since what a run wrote is not trusted.  A graded run is kept on
disk, so an interrupted trial continues where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from threading import Event as Flag
from typing import TYPE_CHECKING

from ..agent.agent import Agent
from ..agent.agent_files import configured_permission, parse_rules, resolve_bounds
from ..agent.models.registry import open_model
from ..agent.permissions import Permission
from ..host import archives, files, fs, paths, trees
from ..library.grants import machine_options, plain_environment, run_program, skill_sandbox_need
from ..library.open import OpenRequest, open_at
from ..record.journal import event_line
from ..sources.skill_files import LINK_MODE, SkillFile, SkillFiles
from ..types.activation import Call, InvokedBy, Message
from ..types.agent import TurnBounds, UnattendedRun
from ..types.errors import BadRequest, MetierError, Refused
from ..types.event import EventSteps, Heard, Waited, Wrote
from ..types.improvement import EvalArm, EvalCase, EvalOutput, EvalSample, EvalSuite
from ..types.model import ReplyRequest as Asked
from ..types.sandbox import ProcessResult, ProgramSpec, SandboxSpec
from ..types.skill import Skill
from . import report
from .grade import CheckJudge, grade_case
from .tasks import EvalTask, summarize_run

if TYPE_CHECKING:
    from ..agent.session import Session
    from ..library.library import Library
    from ..types.model import Model

_MOST_FILES, _MOST_BYTES = 2_000, 100 << 20
_MOST_INPUT_BYTES = 50 << 20
"""Largest input file of a case, in bytes."""
ARMS_FOLDER = "arms"
_RUN_SECONDS = 600.0
"""Time limit of a run, unless one is configured."""
_CHECK_SECONDS = 60.0
_WORKSPACE_TOOLS = ("write_file", "edit_file", "run_command")
"""What a run may do without approval: its folder was made for it."""
# By reading: under Landlock a file that can't be read looks as if it could.
_READABLE_SCRIPT = 'for path; do cat -- "$path" >/dev/null 2>&1 && echo "$path"; done; :'


@dataclass(frozen=True)
class EvalPlan:
    """What to run, and how."""

    arms: tuple[EvalArm, ...] = ("with_skill",)
    runs: int = 3
    model: Model | str = ""
    grader: Model | str | None = ""
    """The model that grades what no rule decides; empty is the same model, None is none."""
    out: str = ""
    """The folder for results; empty is metier's own."""
    new: SkillFiles | None = None
    """The skill with a change; None is the skill as it is."""
    old: SkillFiles | None = None
    """The skill as it was, for the arm `old_skill`."""
    stop: Flag = field(default_factory=Flag)

    def model_name(self, library: Library) -> str:
        return (open_model(self.model, library) if isinstance(self.model, str) else self.model).name


def read_case_inputs(skill: Skill, suite: EvalSuite) -> dict[str, dict[str, bytes]]:
    """The input files of each case, by their paths in the working folder."""
    return {case.id: dict(_case_inputs(skill, case)) for case in suite.cases}


def _case_inputs(skill: Skill, case: EvalCase) -> Iterator[tuple[str, bytes]]:
    for path in case.files:
        try:
            yield _input_path(path), files.read_skill_file(skill.directory, path, _MOST_INPUT_BYTES)[1]
        except (OSError, MetierError) as error:
            raise BadRequest(
                f"the case `{case.id}` needs the file `{path}`, which can't be read",
                "add it, or correct the path",
                f"{skill.directory}/{path}",
            ) from error


def _input_path(path: str) -> str:
    for above in ("evals/files/", "evals/", "files/"):
        if path.startswith(above):
            return path.removeprefix(above)
    return path


def read_skill_files(directory: str) -> SkillFiles:
    """Read the files of a skill; links and other special files are left out."""
    contents: dict[str, SkillFile] = {}
    room = _MOST_BYTES
    for path, status in paths.tree_of(directory, _MOST_FILES + 1):
        if status.st_mode & 0o170000 != 0o100000:
            continue
        room -= status.st_size
        if room < 0 or len(contents) >= _MOST_FILES:
            raise Refused(
                f"{directory} is too large to copy for every arm", "move files that don't belong to the skill"
            )
        contents[path] = SkillFile(status.st_mode & 0o777, files.read_skill_file(directory, path, _MOST_BYTES)[1])
    return SkillFiles(contents)


@dataclass(frozen=True)
class EvalRunner:
    """Runs the evals of a skill."""

    library: Library
    skill: Skill
    plan: EvalPlan
    out: str
    """The folder of the trial: its results and, while it runs, the skills of each arm."""
    suite: EvalSuite
    inputs: Mapping[str, Mapping[str, bytes]]

    def open(self) -> tuple[str, ...]:
        """Write the skills of each arm, and refuse what can't be tried here; returns notes for the report."""
        self._require_sandbox()
        for arm in self.plan.arms:
            override = {"with_skill": self.plan.new, "old_skill": self.plan.old, "without_skill": SkillFiles()}[arm]
            contents = read_skill_files(self.skill.directory) if override is None else override
            included = {
                path: file
                for path, file in contents.items()
                # Without its evals, which hold the answers.
                if not path.startswith("evals/") and file.mode != LINK_MODE
            }
            # The trial was interrupted, and continues with the same files.
            if paths.exists(self.root(arm)):
                continue
            fs.make_folder(self.root(arm))
            packed = {path: archives.PackedFile(file.data, file.executable) for path, file in included.items()}
            archives.write_files(f"{self.root(arm)}/{self.skill.id}", packed)
        if "without_skill" not in self.plan.arms:
            return ()
        self._seal()
        return ("The arm without the skill was checked before the trial: it can't read the skill's files.",)

    def _require_sandbox(self) -> None:
        from ..sandbox import probe_sandbox

        if skill_sandbox_need(self.library, self.skill) == "require":
            sandbox = probe_sandbox(machine_options(self.library))
            if sandbox.tier == "none":
                raise Refused(
                    f"`{self.skill.name}` requires a sandbox, and none is available: {sandbox.reason}",
                    "install bubblewrap or metier[sandbox]; `metier doctor` shows what was tried",
                )

    def root(self, arm: EvalArm) -> str:
        """The root of an arm's skills; it ends like the skill's own root, so that the same dialect reads it."""
        return "/".join([self.out, ARMS_FOLDER, arm, *self.skill.origin.path.strip("/").split("/")[-3:]])

    def _seal(self) -> None:
        """Refuse the trial if the arm without the skill can reach it."""
        with trees.temporary_folder() as work:
            session = self.session("without_skill", work)
            reached = [skill.name for skill in session.library.skills]
            reached += self.within_reach(session)
        if reached:
            raise Refused(
                f"the arm without the skill could still reach {reached[0]}, so a comparison would be worthless",
                "install bubblewrap (see `metier doctor`), or move the skill out of system folders",
            )

    def within_reach(self, session: Session) -> list[str]:
        """Files of the skill that a command can read in a session."""
        from ..agent.tools.commands import run_in_session

        targets = [f"{place}/SKILL.md" for place in self.places()]
        result = run_in_session(session, ("sh", "-c", _READABLE_SCRIPT, "sh", *targets), 30.0)
        return result.stdout.splitlines()

    def places(self) -> tuple[str, ...]:
        """Every folder that holds this skill, or one of its name."""
        from ..sources.bundled import bundled_folder

        skill, library = self.skill, self.library
        # By identity and by name: a copy under another path would help the arm without the skill just as well.
        same = [
            other.directory for other in library.skills if skill.identity == other.identity or skill.name == other.name
        ]
        same += [broken.path.rpartition("/")[0] for broken in library.broken if skill.name in (broken.name, broken.id)]
        arms = [f"{self.root(arm)}/{skill.id}" for arm in ("with_skill", "old_skill")]
        folders = [skill.directory, *same, f"{bundled_folder()}/{skill.id}", *arms]
        return tuple(dict.fromkeys(real for folder in folders for real in (folder, paths.real_path(folder))))

    def session(self, arm: EvalArm, work: str) -> Session:
        """A session in an arm: its skills, its own folder, and no history."""
        library = self.library
        place = library.place._replace(cwd=work, project=work)
        allowed = () if arm == "without_skill" else None
        request = OpenRequest(library.request.dialect, allowed, self.root(arm), use_index=False)
        opened = open_at(place, request)
        own_dialect = self.skill.origin.dialect.name
        # The path of the root suggests another dialect than the skill was found with.
        if opened.skills and opened.skills[0].origin.dialect.name != own_dialect:
            opened = open_at(place, request._replace(dialect=own_dialect))
        bounds = resolve_bounds(library.settings, TurnBounds())
        agent = Agent(
            opened,
            self.plan.model,
            rules=_allow_workspace_tools(configured_permission(library.settings)),
            limits=replace(bounds, seconds=bounds.seconds or _RUN_SECONDS),
            # No subagents: a run is one context, with the skills of its arm.
            deepest=0,
            keep=False,
            private=True,
            hidden=self.places(),
            alone=UnattendedRun(network=library.settings.own("agent.network") is True),
        )
        session: Session = agent.start()
        session.stopping = self.plan.stop
        return session

    def kept(self, task: EvalTask) -> str:
        return report.run_folder(self.out, task, self.plan.runs)

    def sample(self, task: EvalTask) -> EvalSample:
        """Make, grade and store a run; one that is stored already is read."""
        folder = self.kept(task)
        before = report.read_run(folder)
        if before is not None:
            return before
        judge = CheckJudge(self.command, None if self.plan.grader is None else self.ask)
        eval_output = self.run(task)
        sample = EvalSample(task.case.id, task.arm, task.number, eval_output, grade_case(task.case, eval_output, judge))
        # A void one is made again when the trial continues.
        if not eval_output.void:
            report.write_run(folder, sample, self.suite.spelling)
        return sample

    def run(self, task: EvalTask) -> EvalOutput:
        """Make a run; only its outputs and its transcript remain."""
        outputs = f"{self.kept(task)}/outputs"
        trees.remove_tree(outputs)
        fs.make_folder(outputs)
        with trees.temporary_folder() as above:
            work = f"{above}/work"
            trees.fill_folder(work, self.inputs[task.case.id])
            with self.session(task.arm, work) as session:
                events = [event for event in self._said(session, task) if not isinstance(event, Wrote | Waited)]
            left_out = _copy_outputs(work, outputs)
        # Secrets of the environment may be in outputs of tools: they are masked as in journals.
        lines = "".join(session.agent.hide(event_line(event)) + "\n" for event in events)
        fs.write_text(f"{self.kept(task)}/transcript.jsonl", lines, sync=False)
        eval_output = summarize_run(events, self.skill.name, outputs)
        return eval_output._replace(note="; ".join(filter(None, (eval_output.note, left_out))))

    def _said(self, session: Session, task: EvalTask) -> EventSteps[None]:
        text = task.case.prompt
        if self.inputs[task.case.id]:
            text += "\n\nFiles in the working folder: " + ", ".join(self.inputs[task.case.id])
        # A prompt that starts with `/` calls the skill itself, and is how its author wants it called.
        begin = (
            None
            if task.arm == "without_skill" or text.startswith("/")
            else _begin_with_skill(session, self.skill.name, text)
        )
        return session.within(begin, text)

    def command(self, command: str, outputs: str) -> ProcessResult:
        """Run the command of a check on a copy of the outputs, in a required sandbox."""
        library = self.library
        with trees.temporary_folder() as above:
            work = f"{above}/work"
            fs.make_folder(work)
            _copy_outputs(outputs, work)
            argv = ("bash", "--noprofile", "--norc", "-c", command)
            program = ProgramSpec(argv, work, plain_environment(library), _CHECK_SECONDS)
            return run_program(library, program, SandboxSpec("require", work=work, hidden=(library.place.state,)))

    def ask(self, system: str, question: str) -> str:
        """Ask the grader one question, without tools."""
        grader = self.plan.grader or self.plan.model
        if not isinstance(grader, str):
            return self._answer_of(grader, system, question)
        with closing(open_model(grader, self.library)) as model:
            return self._answer_of(model, system, question)

    def _answer_of(self, model: Model, system: str, question: str) -> str:
        steps = model.reply(Asked(system, (), (Message("user", question),)), self.plan.stop)
        while True:
            try:
                next(steps)
            except StopIteration as done:
                return str(done.value.text)


def _allow_workspace_tools(permission: Permission) -> Permission:
    return replace(permission, allow=(*permission.allow, *parse_rules(_WORKSPACE_TOOLS)))


def _begin_with_skill(session: Session, name: str, text: str) -> EventSteps[bool]:
    """Start a turn with the skill activated, as if the user had called it: whether it triggers is another question."""
    from ..agent.turns import activate_skill, user_messages

    skill = session.library.find(name).skill
    by: InvokedBy = "user" if skill.user_may_invoke else "model"
    yield Heard(text, "user", user_messages(session, text))
    yield activate_skill(session, skill, Call(skill.name, text, by, session.agent.cwd), text)
    return True


def _copy_outputs(source: str, target: str) -> str:
    """Copy the outputs of a run; what was left out, in words."""
    from ..host.trees import copy_folder_into, open_folder_writer

    try:
        with open_folder_writer(target) as into:
            left_out = copy_folder_into(source, into, _MOST_FILES, _MOST_BYTES)
    except Refused as error:
        return error.message
    return f"{len(left_out)} links were not copied" if left_out else ""
