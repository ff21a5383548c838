"""Where the results of unattended runs go: a file, a command, or a web address."""

from __future__ import annotations

import os
import shlex
import subprocess
from urllib.error import URLError
from urllib.request import Request, urlopen

from ..types.errors import BadRequest, HostError

_SECONDS = 30
KINDS = ("file", "command", "webhook")


def checked(sink: str) -> str:
    """A sink as it is kept; one that makes no sense is refused."""
    kind, _, target = sink.partition(":")
    if sink and (kind not in KINDS or not target.strip()):
        raise BadRequest(f"`{sink}` is no place for results", "file:PATH, command:WORDS or webhook:URL")
    if kind == "webhook" and not target.startswith(("http://", "https://")):
        raise BadRequest(f"`{target}` is no web address", "webhook:https://…")
    if kind == "command":
        _words(target)
    if kind == "file" and not target.startswith("/"):
        raise BadRequest(f"`{target}` may lie anywhere", "give the whole path: file:/home/…")
    return sink


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise BadRequest(f"`{command}` is no command: {error}", "close its quotes") from None


def deliver(sink: str, document: str) -> None:
    """Hand a line of JSON over.  A command gets it on standard input, and never as words of a shell."""
    kind, _, target = sink.partition(":")
    try:
        if kind == "file":
            opened = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(opened, "ab") as file:
                file.write(document.encode() + b"\n")
        elif kind == "command":
            subprocess.run(_words(target), input=document.encode(), timeout=_SECONDS, check=True, capture_output=True)
        elif kind == "webhook":
            asked = Request(target, document.encode(), {"Content-Type": "application/json"})
            with urlopen(asked, timeout=_SECONDS):
                pass
    except (OSError, URLError, subprocess.SubprocessError) as error:
        raise HostError(f"{sink} did not take the result: {error}", "check that it is there") from error
