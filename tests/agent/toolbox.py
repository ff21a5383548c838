"""The tools of a library with one root, called by name."""

from __future__ import annotations

from collections.abc import Sequence

from tests.home import World, write_skill

from metier.host import process
from metier.library.access import SkillAccess
from metier.library.skill_tools import tools_of
from metier.types.dialect import ToolName
from metier.types.model import Answer
from metier.types.sandbox import ProcessResult, ProgramSpec, SandboxSpec

ALL_TOOLS: tuple[ToolName, ...] = (
    "skill_use",
    "skill_read_file",
    "skill_run_script",
    "run_skill",
    "skill_search",
    "read",
)


class Tools:
    def __init__(self, world: World, dialect: str = "agentmd", agent: Sequence[str] | None = None) -> None:
        self.root = world.project / "skills"
        self.root.mkdir(exist_ok=True)
        library = world.open(dialect, root=self.root, agent=agent)
        self.desk = SkillAccess(library, str(world.project), "model", runner=plainly)
        self.tools = {tool.name: tool for tool in tools_of(self.desk, ALL_TOOLS)}

    @classmethod
    def with_lint(cls, world: World) -> Tools:
        """A skill with scripts and references, one that is not enabled, and two that are not for the model."""
        skills = world.project / "skills"
        write_skill(skills / "lint", "Lints files.", "# Lint\n\nLint $ARGUMENTS.\n")
        write_skill(skills / "other", "Something else.", "Secret text.\n")
        write_skill(skills / "hidden", "Hidden.", "Hidden text.\n", "disable-model-invocation: true\n")
        write_skill(skills / "people", "People's.", "People's text.\n", "user-invocable: false\n")
        for folder in ("scripts", "references"):
            (skills / "lint" / folder).mkdir()
        (skills / "lint" / "references" / "rules.md").write_text("Be kind.\n")
        (skills / "lint" / "scripts" / "say.sh").write_text('printf "%s|" "$@"; echo oops >&2; exit 3\n')
        (skills / "lint" / "scripts" / "quiet.py").write_text("")
        (skills / "lint" / "scripts" / "notes.txt").write_text("no script\n")
        return cls(world, agent=["lint", "hidden", "people", "gone"])

    def __call__(self, tool: str, **arguments: object) -> Answer:
        return self.tools[tool].call(arguments)

    def file(self, path: str, offset: int = 0) -> Answer:
        """A file of the skill `lint`."""
        return self("skill_read_file", skill_name="lint", file_path=path, offset=offset)


def plainly(library: object, program: ProgramSpec, box: SandboxSpec) -> ProcessResult:
    """Without a boundary: what these tests are about is the tools."""
    return process.run_program(program)
