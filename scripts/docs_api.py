"""The page of the Python API: the public names, then the types they lead to, from the code and its docstrings."""

import ast
import inspect
from collections.abc import Iterator
from textwrap import dedent
from typing import NamedTuple

from scripts.docs_text import code, page, prose, table

import metier
from metier.library.watch import Change
from metier.types import errors
from metier.types.catalog import CommandMatch, LeftOut
from metier.types.dialect import AuthoringRules, LibraryLimits, ServingRules
from metier.types.skill import InstallRecipe, Requirements
from metier.types.verdict import Facts, RequirementCheck

REACHED = (
    Change,
    CommandMatch,
    LeftOut,
    RequirementCheck,
    Facts,
    Requirements,
    InstallRecipe,
    LibraryLimits,
    AuthoringRules,
    ServingRules,
)
"""Types that public names lead to, without being public names themselves."""


INTRODUCTION = """\
`import metier` costs next to nothing: each name is fetched when it is used.
All of these but `Session` are immutable values, and only an `Agent` and its sessions run anything of a skill's.
"""
INNER = frozenset({"request", "settings", "allowed", "bundled", "untrusted", "guards", "leaned_on", "database", "kept"})
"""What a library keeps for itself."""


class Attribute(NamedTuple):
    name: str
    type: str
    means: str


def api() -> str:
    names = [name for name in metier.__all__ if name != "open"]
    parts = [
        INTRODUCTION,
        "## metier.open",
        *function("metier.open", metier.open),
    ]
    for name in names:
        parts += [f"## metier.{name}", *klass(getattr(metier, name))]
    parts += [
        "## Types you meet on the way",
        "They are what some attributes and methods give; there is no need to name them.",
    ]
    for one in REACHED:
        parts += [f"### {one.__name__}", *klass(one)]
    parts += ["## Errors", "All are `MetierError`: `message`, `hint`, `path` and `exit_code`.", tree()]
    return page("Python API", *parts)


def function(name: str, value: object) -> list[str]:
    return [fenced(name + signature(value)), prose(inspect.getdoc(value) or "")]


def signature(value: object) -> str:
    """As it is written, without `self`; long ones with a line for each parameter."""
    found = inspect.signature(value)  # type: ignore[arg-type]
    kept = [one for one in found.parameters.values() if one.name != "self"]
    text = str(found.replace(parameters=kept)).replace("'", "").replace('"', "")
    for one in kept:
        if isinstance(one.default, str):
            plain = f"{one.name}: {one.annotation} = "
            text = text.replace(plain + one.default, f'{plain}"{one.default}"')
    if len(text) < 90:
        return text
    inside, _, result = text.rpartition(") -> ")
    return "(\n    " + inside[1:].replace(", ", ",\n    ") + f",\n) -> {result}"


def klass(one: type) -> list[str]:
    """What a class is, what it holds, and what it can do."""
    written = inspect.cleandoc(vars(one).get("__doc__") or "")
    if written.startswith(f"{one.__name__}("):
        written = ""  # made up by dataclass
    parts = [prose(written)]
    held = [found for found in (*attributes(one), *properties(one)) if found.name not in INNER]
    if held:
        parts.append(table(("attribute", "type", "means"), [(code(a.name), code(a.type), a.means) for a in held]))
    for name, method in vars(one).items():
        if inspect.isfunction(method) and not name.startswith("_"):
            parts += [f"**{one.__name__}.{name}**", *function(name, method)]
    return parts


def attributes(one: type) -> Iterator[Attribute]:
    """The fields, each with the text that stands below it."""
    [node] = ast.parse(dedent(inspect.getsource(one))).body
    assert isinstance(node, ast.ClassDef)
    for field, after in zip(node.body, [*node.body[1:], ast.Pass()], strict=True):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            means = ""
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                means = str(after.value.value)
            yield Attribute(field.target.id, ast.unparse(field.annotation), means)


def properties(one: type) -> Iterator[Attribute]:
    for name, value in vars(one).items():
        getter = getattr(value, "fget", None) or getattr(value, "func", None)
        if getter is not None and not name.startswith("_"):
            returned = str(inspect.signature(getter).return_annotation)
            yield Attribute(name, returned, prose(inspect.getdoc(getter) or ""))


def fenced(text: str) -> str:
    return f"```text\n{text}\n```"


def tree() -> str:
    """The drawing that stands where the errors are defined."""
    _, _, drawn = (errors.__doc__ or "").partition("\n\n")
    return fenced(drawn.strip("\n"))
