"""The file that a product keeps beside a SKILL.md: what it says of the skill is honoured, or reported.

Codex reads `agents/openai.yaml`.  Its `policy.allow_implicit_invocation: false` is what `disable-model-invocation` is
elsewhere, so it is obeyed; the tools it depends on and how it is shown are not, and each is named in a finding.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ..host import files, paths
from ..parse.frontmatter import BadYaml, read_yaml
from ..types.errors import MetierError
from ..types.problem import Finding
from ..types.skill import Skill
from ..types.tree import RawValue

COMPANION_FILE = "agents/openai.yaml"
MAX_COMPANION_BYTES = 65_536
_SHOWN_KEYS = ("display_name", "short_description", "icon_small", "icon_large", "brand_color", "default_prompt")
_EFFECTS = {
    "dependencies": "connect the servers under [mcp] in the configuration, and check the programs yourself",
    **{f"interface.{key}": "the name and description of SKILL.md are shown" for key in _SHOWN_KEYS},
}
"""What metier does instead, for each part that it does not act on."""
_NOT_READ = "the file is read in `.agents/skills` and in the folders of other agents only"


def with_companions(skills: Sequence[Skill], roots: Collection[str]) -> tuple[Skill, ...]:
    """The skills, those in these roots as their companion files say."""
    return tuple(
        _with_companion(skill)
        if skill.origin.path in roots and paths.exists(f"{skill.directory}/{COMPANION_FILE}")
        else skill
        for skill in skills
    )


def _with_companion(skill: Skill) -> Skill:
    explicit_only, findings = read_companion(skill.directory)
    return skill._replace(
        model_may_invoke=skill.model_may_invoke and not explicit_only, findings=(*skill.findings, *findings)
    )


def read_companion(folder: str) -> tuple[bool, tuple[Finding, ...]]:
    """Whether only a person may call the skill, and what of the file has no effect here."""
    try:
        _, data = files.read_skill_file(folder, COMPANION_FILE, MAX_COMPANION_BYTES)
        tree = read_yaml(data.decode()).tree
    except BadYaml as fault:
        return _unread(fault.reason)
    except (OSError, MetierError, UnicodeDecodeError):
        return _unread("it can't be read")
    policy = tree.get("policy")
    implicit = policy.get("allow_implicit_invocation", "") if isinstance(policy, dict) else ""
    explicit_only = isinstance(implicit, str) and implicit.strip().lower() in ("false", "no", "off")
    return explicit_only, tuple(_unsupported_parts(tree))


def _unread(reason: str) -> tuple[bool, tuple[Finding, ...]]:
    # It may be what forbids the model to use the skill, so the model does not.
    return True, (
        Finding("not-supported", 0, (COMPANION_FILE, f"{reason}; until then only people may call the skill")),
    )


def _unsupported_parts(tree: dict[str, RawValue]) -> Iterator[Finding]:
    for key, value in tree.items():
        inner = (
            [f"{key}.{name}" for name in value] if isinstance(value, dict) and key in ("interface", "policy") else [key]
        )
        for name in inner:
            if name != "policy.allow_implicit_invocation":
                effect = _EFFECTS.get(name, "metier does not know it")
                yield Finding("not-supported", 0, (f"{COMPANION_FILE}: {name}", effect))


def companion_findings(folder: str, read: bool) -> tuple[Finding, ...]:
    """What is to be said of a skill's companion file, where its root has it read, and where not."""
    if not paths.exists(f"{folder}/{COMPANION_FILE}"):
        return ()
    return read_companion(folder)[1] if read else (Finding("not-supported", 0, (COMPANION_FILE, _NOT_READ)),)
