"""What can be measured about how a package is laid out: folders, names, import cycles, comments.

Each function takes a package's folder and reports what it finds, so that a test can hold the real package to a limit
and plant a violation in a small one to see that it is noticed.
"""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

Graph = Mapping[str, set[str]]

NOT_CODE = {"bundled"}
"""Skills that ship: files, not code of ours."""


def modules(package: Path) -> dict[str, Path]:
    """Every module by its dotted name."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        if parts[0] in NOT_CODE:
            continue
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        found[".".join((package.name, *parts))] = path
    return found


def package_of(module: str) -> str:
    """The package that a module counts for; each face is one."""
    parts = module.split(".")
    if len(parts) < 2:
        return parts[0]
    return ".".join(parts[1:3]) if parts[1] == "faces" and len(parts) > 2 else parts[1]


def modules_per_package(package: Path) -> Counter[str]:
    return Counter(map(package_of, modules(package)))


def class_places(package: Path) -> dict[str, list[str]]:
    """Where each class name is defined."""
    places: dict[str, list[str]] = defaultdict(list)
    for module, path in modules(package).items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{module}:{node.lineno}")
    return places


def function_names(package: Path) -> list[str]:
    return [
        node.name
        for path in modules(package).values()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("__")
    ]


def word_count(name: str) -> int:
    return len(re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*|[a-z0-9]+", name.strip("_")))


def one_word_share(names: list[str]) -> float:
    return sum(word_count(name) == 1 for name in names) / max(1, len(names))


def bound_names(package: Path) -> Counter[str]:
    """How often each local name, parameter or loop variable is bound."""
    names: Counter[str] = Counter()
    for path in modules(package).values():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names[node.id] += 1
            elif isinstance(node, ast.arg):
                names[node.arg] += 1
    return names


def module_stems(package: Path) -> Counter[str]:
    return Counter(path.stem for path in modules(package).values() if path.name != "__init__.py")


def comments_per_100_lines(package: Path) -> float:
    comments = code = 0
    for path in modules(package).values():
        for line in path.read_text(encoding="utf-8").splitlines():
            stripped = line.strip()
            if stripped.startswith("#"):
                comments += not re.match(r"# (fmt|type|noqa)", stripped)
            elif stripped:
                code += 1
    return 100 * comments / max(1, code)


def format_skips(package: Path) -> int:
    return sum(path.read_text(encoding="utf-8").count("# fmt: skip") for path in modules(package).values())


def imports_by_string(package: Path) -> list[str]:
    """Places where a module of ours is imported by its name as text."""
    places = []
    for module, path in modules(package).items():
        calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
        names = {ast.unparse(call.func).split(".")[-1] for call in calls}
        places += [module] if names & {"import_module", "__import__"} else []
    return places


def import_graph(package: Path, *, typing: bool) -> Graph:
    """Which module imports which, inside functions too; with `typing` also what only type checkers see."""
    known = modules(package)
    graph: dict[str, set[str]] = {}
    for module, path in known.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        nodes = _imports(tree, typing)
        graph[module] = {target for node in nodes for target in _targets(node, module, path, known) if target != module}
    return graph


def _imports(node: ast.AST, typing: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test) and not typing:
            for other in child.orelse:
                yield from _imports(other, typing)
        else:
            yield from _imports(child, typing)


def _targets(node: ast.Import | ast.ImportFrom, module: str, path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    else:
        base = node.module or ""
        if node.level:
            parts = module.split(".")
            keep = len(parts) - node.level + (path.name == "__init__.py")
            base = ".".join([*parts[:keep], *([base] if base else [])])
        names = [f"{base}.{alias.name}" for alias in node.names]
    for name in names:
        while name and name not in known:
            name = name.rpartition(".")[0]
        if name:
            yield name


def cycles(graph: Graph) -> list[list[str]]:
    """Groups of modules that all reach each other, by Tarjan's algorithm."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(graph.get(node, ())):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            at = stack.index(node)
            group = sorted(stack[at:])
            del stack[at:]
            if len(group) > 1:
                groups.append(group)

    for node in graph:
        if node not in index:
            visit(node)
    return groups


def package_graph(graph: Graph) -> Graph:
    """The same between packages."""
    packages: dict[str, set[str]] = defaultdict(set)
    for module, targets in graph.items():
        for target in targets:
            if package_of(target) != package_of(module):
                packages[package_of(module)].add(package_of(target))
    return packages
