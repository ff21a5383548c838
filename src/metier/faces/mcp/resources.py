"""Skills as MCP resources: a `skill://` URI for every file, and the entries of the Skills extension."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import quote, unquote

from ...host import files, paths
from ...library.access import SkillAccess
from ...library.library import Library
from ...parse.check import name_fault
from ...parse.fields import LONGEST_DESCRIPTION, LONGEST_NAME
from ...parse.frontmatter import read_typed_frontmatter
from ...types.errors import BadRequest, MetierError
from ...types.skill import Skill, StatKey

SCHEME = "skill://"
FOLDER_MIME_TYPE = "inode/directory"
MOST_FILES = 512
MOST_BYTES = 16_777_216
"""The extension's limit for one skill, and here for each file."""
_MIME_TYPES = {
    "md": "text/markdown",
    "json": "application/json",
    "py": "text/x-python",
    "sh": "application/x-sh",
    "html": "text/html",
    "csv": "text/csv",
    "yaml": "application/yaml",
    "yml": "application/yaml",
    "png": "image/png",
    "jpg": "image/jpeg",
    "svg": "image/svg+xml",
    "pdf": "application/pdf",
}
# Some ten megabytes at most; then the cache starts again.
_MOST_DIGESTS = 50_000


class ServedFile(NamedTuple):
    """A file of a skill as a resource."""

    uri: str
    path: str
    size: int
    kind: str


@dataclass
class SkillEntryBuilder:
    """Builds the entries of the Skills extension; digests of unchanged files are cached."""

    digests: dict[tuple[str, StatKey], str] = field(default_factory=dict)

    def entry(self, library: Library, root: str, skill: Skill) -> dict[str, object] | None:
        """A skill as the extension lists it; None for one that breaks its rules or limits."""
        skill_files = list_skill_files(library, root, skill)
        if len(skill_files) > MOST_FILES or sum(file.size for file in skill_files) > MOST_BYTES:
            return None
        try:
            text = read_skill_bytes(library, skill, _skill_file_name(skill)).decode("utf-8-sig")
            resources = [self._resource(library, skill, file) for file in skill_files]
        except (MetierError, OSError, UnicodeDecodeError):
            return None
        frontmatter = read_typed_frontmatter(text.replace("\r\n", "\n").replace("\r", "\n"))
        if frontmatter is None or not _meets_extension_rules(frontmatter, skill):
            return None
        return {"uri": f"{root}/SKILL.md", "frontmatter": frontmatter, "resources": resources}

    def _resource(self, library: Library, skill: Skill, file: ServedFile) -> dict[str, object]:
        path = f"{skill.directory}/{file.path}"
        key = files.stat_key(path)
        cached_digest = self.digests.get((path, key)) if key is not None else None
        if key is not None and cached_digest is not None:
            return {"uri": file.uri, "digest": cached_digest, "size": key[3]}
        data = read_skill_bytes(library, skill, file.path)
        digest = "sha256:" + sha256(data).hexdigest()
        # Only if it did not change while it was read.
        if key is not None and key == files.stat_key(path):
            if len(self.digests) >= _MOST_DIGESTS:
                self.digests.clear()
            self.digests[path, key] = digest
        return {"uri": file.uri, "digest": digest, "size": len(data)}


def _meets_extension_rules(frontmatter: Mapping[str, object], skill: Skill) -> bool:
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
    """Every usable skill by the URI of its folder, whose last part is the skill's name."""
    roots: dict[str, Skill] = {}
    for verdict in library.in_order():
        skill = verdict.skill
        if not verdict.usable or not (skill.model_may_invoke or skill.user_may_invoke):
            continue
        name = quote(skill.name, safe="")
        root = SCHEME + (f"{quote(skill.origin.namespace, safe='')}/{name}" if skill.origin.namespace else name)
        # Two usable skills may have one name, in dialects that compare folders: the folder tells them apart.
        if root in roots:
            root = f"{SCHEME}{quote(skill.id, safe='')}/{name}"
        roots.setdefault(root, skill)
    return roots


def list_skill_files(library: Library, root: str, skill: Skill) -> Sequence[ServedFile]:
    """The files of a skill, SKILL.md first; links that leave its folder are not listed."""
    others = set(SkillAccess(library, library.place.cwd).resources(skill))
    served_files: list[ServedFile] = []
    for path, status in paths.tree_of(skill.directory):
        if path == _skill_file_name(skill):
            served_files.insert(0, ServedFile(f"{root}/SKILL.md", path, status.st_size, "text/markdown"))
        # Regular files only: reading a pipe would block.
        elif path in others and status.st_mode & 0o170000 == 0o100000:
            served_files.append(ServedFile(f"{root}/{quote(path)}", path, status.st_size, _mime_type(path)))
    return served_files


def list_folder(library: Library, uri: str) -> dict[str, ServedFile]:
    """The direct children of a skill's folder, or of a folder beneath it, by URI."""
    for root, skill in roots_of(library).items():
        if uri == root or uri.startswith(f"{root}/"):
            children: dict[str, ServedFile] = {}
            for file in list_skill_files(library, root, skill):
                name, deeper, _ = file.uri.removeprefix(f"{uri}/").partition("/")
                if file.uri.startswith(f"{uri}/"):
                    child = f"{uri}/{name}"
                    children[child] = ServedFile(child, unquote(name), 0, FOLDER_MIME_TYPE) if deeper else file
            if children:
                return children
    raise BadRequest(f"'{uri[:200]}' is not a folder of this server", "list the resources to find one")


def _mime_type(path: str) -> str:
    return _MIME_TYPES.get(path.rpartition(".")[2].lower(), "")


def _skill_file_name(skill: Skill) -> str:
    return skill.path.rpartition("/")[2]


def read_skill_bytes(library: Library, skill: Skill, path: str) -> bytes:
    # Not by path: the access refuses whatever leads out of the skill's folder.
    return SkillAccess(library, library.place.cwd).read_whole(skill, path, MOST_BYTES)


def read_resource(library: Library, uri: str) -> tuple[bytes, str]:
    """The bytes and the MIME type of a URI; any other URI is a `BadRequest`."""
    if not uri.startswith(SCHEME):
        raise BadRequest(f"'{uri[:200]}' is not a resource of this server", "URIs of this server begin with skill://")
    roots = roots_of(library)
    lower = {root.lower(): root for root in roots}
    parts = uri[len(SCHEME) :].split("/")
    # The longer root first: `plugin/skill` before a skill that is named like the plugin.
    for cut in (2, 1):
        root = SCHEME + "/".join(quote(unquote(part), safe="") for part in parts[:cut])
        # Some clients lowercase what looks like the host of a URI.
        matched_root = root if root in roots else lower.get(root.lower(), "")
        if matched_root and len(parts) > cut:
            path = unquote("/".join(parts[cut:]))
            skill = roots[matched_root]
            name = _skill_file_name(skill) if path == "SKILL.md" else path
            return read_skill_bytes(library, skill, name), _mime_type(name)
    raise BadRequest(f"Unknown resource '{uri[:200]}'", "list the resources to find one")
