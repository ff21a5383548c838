"""A place with skills that every face to another program is shown: for all, for people only, for the model only."""

from dataclasses import dataclass
from pathlib import Path

from tests.home import World, make_world, write_skill

from metier.library.library import Library


@dataclass(frozen=True)
class Shop:
    world: World
    skills: Path

    def open(self) -> Library:
        return self.world.open(root=self.skills)

    def add(self, name: str, description: str = "Comes late.", body: str = "Late instructions.\n") -> None:
        write_skill(self.skills / name, description, body)

    def remove(self, name: str) -> None:
        for file in sorted((self.skills / name).rglob("*"), reverse=True):
            file.unlink() if file.is_file() else file.rmdir()
        (self.skills / name).rmdir()


def make_shop(folder: Path) -> Shop:
    world = make_world(folder)
    skills = folder / "skills"
    write_skill(skills / "greet", "Greets people.", "Say hello to $0.\n")
    (skills / "greet" / "reference.md").write_text("Hello is the usual word.\n")
    (skills / "greet" / "scripts").mkdir()
    (skills / "greet" / "scripts" / "hello.sh").write_text('echo "hello $1"\n')
    write_skill(skills / "launch", "Launches.", "Launch it.\n", "disable-model-invocation: true\n")
    write_skill(skills / "quiet", "Known to the model alone.", "Quietly.\n", "user-invocable: false\n")
    return Shop(world, skills)
