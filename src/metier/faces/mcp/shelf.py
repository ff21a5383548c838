"""What is served as files: a URI for every file of every skill, and the entries of the Skills extension."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from ...host import files, paths
from ...parse.check import name_fault
from ...parse.fields import LONGEST_DESCRIPTION, LONGEST_NAME
from ...parse.verbatim import verbatim
from ...runtime.desk import LibraryDesk
from ...runtime.library import Library
from ...types.errors import BadRequest, MetierError
from ...types.skill import Skill, StatKey

SCHEME = "skill://"
FOLDER = "inode/directory"
MOST_FILES = 512
MOST_BYTES = 16_777_216
"""Of one skill, as the extension has it; no file that is served is larger."""
_KINDS = {"md": "text/markdown", "json": "application/json", "py": "text/x-python", "sh": "application/x-sh",
          "html": "text/html", "csv": "text/csv", "yaml": "application/yaml", "yml": "application/yaml",
          "png": "image/png", "jpg": "image/jpeg", "svg": "image/svg+xml", "pdf": "application/pdf"}  # fmt: skip
_MOST_REMEMBERED = 50_000


class File(NamedTuple):
    """A file of a skill, as it is served."""

    uri: str
    path: str
    size: int
    kind: str


@dataclass
class Shelf:
    """Digests of files that have not changed are remembered."""

    digests: dict[tuple[str, StatKey], str] = field(default_factory=dict)

    def entry(self, library: Library, root: str, skill: Skill) -> dict[str, Any] | None:
        """A skill as the extension lists it; None for one that breaks its rules or limits."""
        files_of = files_by(library, root, skill)
        if len(files_of) > MOST_FILES or sum(file.size for file in files_of) > MOST_BYTES:
            return None
        try:
            text = whole(library, skill, _name(skill)).decode("utf-8-sig")
            resources = [self._resource(library, skill, file) for file in files_of]
        except (MetierError, OSError, UnicodeDecodeError):
            return None
        frontmatter = verbatim(text.replace("\r\n", "\n").replace("\r", "\n"))
        if frontmatter is None or not _conforms(frontmatter, skill):
            return None
        return {"uri": f"{root}/SKILL.md", "frontmatter": frontmatter, "resources": resources}

    def _resource(self, library: Library, skill: Skill, file: File) -> dict[str, Any]:
        path = f"{skill.directory}/{file.path}"
        key = files.stat_key(path)
        known = self.digests.get((path, key)) if key is not None else None
        if key is not None and known is not None:
            return {"uri": file.uri, "digest": known, "size": key[3]}
        data = whole(library, skill, file.path)
        digest = "sha256:" + sha256(data).hexdigest()
        if key is not None and key == files.stat_key(path):
            if len(self.digests) >= _MOST_REMEMBERED:
                self.digests.clear()
            self.digests[path, key] = digest
        return {"uri": file.uri, "digest": digest, "size": len(data)}


def _conforms(frontmatter: Mapping[str, Any], skill: Skill) -> bool:
    name, description = frontmatter.get("name"), frontmatter.get("description")
    return (
        isinstance(name, str)
        and name == skill.name
        and len(name) <= LONGEST_NAME
        and not name_fault(name)
        and isinstance(description, str)
        and 0 < len(description.strip()) <= LONGEST_DESCRIPTION
    )


def roots_of(library: Library) -> dict[str, Skill]:
    """Every skill that somebody may use, by the URI of its folder: the last part is its name."""
    found: dict[str, Skill] = {}
    for verdict in library.in_order():
        skill = verdict.skill
        if not verdict.usable or not (skill.model_may_invoke or skill.user_may_invoke):
            continue
        name = quote(skill.name, safe="")
        root = SCHEME + (f"{quote(skill.origin.namespace, safe='')}/{name}" if skill.origin.namespace else name)
        if root in found:
            root = f"{SCHEME}{quote(skill.id, safe='')}/{name}"
        found.setdefault(root, skill)
    return found


def files_by(library: Library, root: str, skill: Skill) -> Sequence[File]:
    """The files of a skill with its SKILL.md first; what a link leads to outside its folder is none."""
    others = set(LibraryDesk(library, library.place.cwd).resources(skill))
    found: list[File] = []
    for path, status in paths.tree_of(skill.directory):
        if path == _name(skill):
            found.insert(0, File(f"{root}/SKILL.md", path, status.st_size, "text/markdown"))
        elif path in others and status.st_mode & 0o170000 == 0o100000:
            found.append(File(f"{root}/{quote(path)}", path, status.st_size, _kind(path)))
    return found


def folder(library: Library, uri: str) -> dict[str, File]:
    """What lies directly in a skill's folder, or in one beneath it, by URI."""
    for root, skill in roots_of(library).items():
        if uri == root or uri.startswith(f"{root}/"):
            found: dict[str, File] = {}
            for file in files_by(library, root, skill):
                name, deeper, _ = file.uri.removeprefix(f"{uri}/").partition("/")
                if file.uri.startswith(f"{uri}/"):
                    child = f"{uri}/{name}"
                    found[child] = File(child, unquote(name), 0, FOLDER) if deeper else file
            if found:
                return found
    raise BadRequest(f"'{uri[:200]}' is no folder of this server", "list the resources to see what there is")


def _kind(path: str) -> str:
    return _KINDS.get(path.rpartition(".")[2].lower(), "")


def _name(skill: Skill) -> str:
    return skill.path.rpartition("/")[2]


def whole(library: Library, skill: Skill, path: str) -> bytes:
    return LibraryDesk(library, library.place.cwd).whole(skill, path, MOST_BYTES)


def read(library: Library, uri: str) -> tuple[bytes, str]:
    """The bytes behind a URI, and what kind they are.  Every other URI is a refusal in words."""
    if not uri.startswith(SCHEME):
        raise BadRequest(f"'{uri[:200]}' is no resource of this server", "URIs here begin with skill://")
    roots = roots_of(library)
    lower = {root.lower(): root for root in roots}
    parts = uri[len(SCHEME) :].split("/")
    for cut in (2, 1):  # the longer root first
        root = SCHEME + "/".join(quote(unquote(part), safe="") for part in parts[:cut])
        known = root if root in roots else lower.get(root.lower(), "")  # some clients write the first part small
        if known and len(parts) > cut:
            path = unquote("/".join(parts[cut:]))
            skill = roots[known]
            name = _name(skill) if path == "SKILL.md" else path
            return whole(library, skill, name), _kind(name)
    raise BadRequest(f"No skill serves '{uri[:200]}'", "list the resources to see what there is")
