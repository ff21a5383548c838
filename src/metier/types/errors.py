"""Errors: one tree.  The class decides the exit code, so a script can tell a bad skill from a bad request.

MetierError                 hint, exit_code
├─ SkillError               one skill is at fault; carries its path          exit 3
│  ├─ Unloadable            the file cannot be read as a skill
│  └─ Changed               the file has changed since it was checked
├─ UnknownSkill             nothing has that name; carries the nearest       exit 2
│  └─ NotInstalled          a skill may have that name, but metier did not install it
├─ BadRequest               the request is wrong or names nothing            exit 2
│  ├─ NoFile                a named file does not exist
│  └─ NoModel               no model is configured, or its key is missing
├─ Refused                  a policy refused it, before anything happened    exit 4
│  └─ OutsideSkill          a path leaves the skill's folder
└─ HostError                the machine failed                               exit 5
   ├─ MachineTrouble        files, disk or memory ran out; it may work later
   ├─ MissingExtra          an optional part is not installed
   └─ ModelError            a model's service failed; carries a reason
"""

from __future__ import annotations


class MetierError(Exception):
    """A failure: `message` says what, `path` where, `hint` what next; `reason` says what to a program."""

    exit_code = 1
    reason = "failed"

    def __init__(self, message: str, hint: str = "", path: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.path = path


class SkillError(MetierError):
    """One skill is at fault."""

    exit_code = 3
    reason = "bad-skill"


class Unloadable(SkillError):
    """A file that can't be read as a skill."""


class Changed(SkillError):
    """The file has changed since it was checked: reload."""


class UnknownSkill(MetierError):
    """Nothing has that name; `nearest` are the names that come close."""

    exit_code = 2
    reason = "unknown-skill"
    sentence = "no skill named `{}`"
    elsewhere = "run `metier list` for all skills"

    def __init__(self, name: str, nearest: tuple[str, ...] = ()) -> None:
        offer = "did you mean " + " or ".join(f"`{near_name}`" for near_name in nearest) + "?" if nearest else ""
        super().__init__(self.sentence.format(name), offer or self.elsewhere)
        self.name = name
        self.nearest = nearest


class NotInstalled(UnknownSkill):
    """No installed skill has that name."""

    # `metier list` may well show one: the user's own, or one of a project.
    sentence = "`{}` is not an installed skill"
    elsewhere = "run `metier remove` to list the installed skills"


class BadRequest(MetierError):
    """The request makes no sense, or names something that does not exist."""

    exit_code = 2
    reason = "bad-request"


class NoFile(BadRequest):
    """A named file does not exist."""

    reason = "missing-file"


class Refused(MetierError):
    """A policy refused it, before anything happened."""

    exit_code = 4
    reason = "refused"


class OutsideSkill(Refused):
    """A path that leaves the skill's folder."""


class HostError(MetierError):
    """The machine failed."""

    exit_code = 5
    reason = "machine"


class MachineTrouble(HostError):
    """Files, disk or memory ran out: it says nothing about what was asked for, which may work later."""

    reason = "out-of-resources"


class MissingExtra(HostError):
    """An optional part is not installed."""

    reason = "missing-extra"

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs the extra `{extra}`", f"run `pip install 'metier[{extra}]'`")


class NoModel(BadRequest):
    """No model is configured, or its key is missing."""

    reason = "missing-key"


class ModelError(HostError):
    """A model's service failed."""

    def __init__(self, message: str, hint: str = "", reason: str = "provider-down") -> None:
        super().__init__(message, hint)
        self.reason = reason
        self.after: float | None = None
        """Seconds to wait before the next request, if the service says so."""
