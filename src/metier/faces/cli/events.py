"""Print the events of a run: the model's output to standard output, everything else to standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

from ...types.event import (
    APPROVAL_CHOICES,
    Activated,
    Answered,
    Asked,
    Compacted,
    Ended,
    Event,
    Nested,
    Offered,
    Replied,
    Restored,
    Resumed,
    Retried,
    Started,
    Used,
    Waited,
    Wrote,
    innermost_event,
)
from ...types.text import escaped_line, escaped_lines, shorten_text, visible_text
from .output import paint, printable, warn

_MAX_TEXT = 120
_WAIT_STEP = 5
"""Seconds between two notes of a silent service; a log gets every sixth."""
_MORE_KEYS = {"yes": "once", "o": "once"}
"""What people also type to approve."""


class JsonEventPrinter:
    """Every event as one line of JSON."""

    def draw(self, event: Event, asks: bool = True) -> tuple[str, str] | None:
        from ...record.journal import event_line

        sys.stdout.write(event_line(event) + "\n")
        sys.stdout.flush()
        return None


class TerminalEventPrinter:
    """Prints events for a person; with `interactive`, questions are read from the terminal."""

    def __init__(self, interactive: bool = False, recorded: bool = True) -> None:
        self.interactive, self.recorded = interactive, recorded
        self.writing = False
        self.waiting = False
        self.replied = ""

    def draw(self, event: Event, asks: bool = True) -> tuple[str, str] | None:
        """Print an event; returns the answer if it was a question and one was given.  Without `asks` none is."""
        if isinstance(event, Wrote):
            # A pipe gets whole replies only: a retry writes the reply again from its start.
            if not event.thinking and sys.stdout.isatty():
                self._clear_wait()
                self._write(event.text)
            return None
        if isinstance(innermost_event(event), Waited):
            self._show_wait(event)
            return None
        self._clear_wait()
        if isinstance(event, Replied) and event.text and not self.writing:
            self._write(event.text)
        if isinstance(event, Ended) and event.outcome == "finished" and event.text != self.replied:
            # The result of a tool that a skill's command calls directly, without a model.
            self._write(event.text)
        self.replied = event.text if isinstance(event, Replied) else self.replied
        self._end_line()
        if isinstance(event, Started) and not self.recorded:
            # Without a journal the id is of no use.
            event = replace(event, run="")
        for line in event_lines(event):
            warn(line)
        question = innermost_event(event)
        return self._ask(question) if isinstance(question, Asked) and self.interactive and asks else None

    def _show_wait(self, event: Event) -> None:
        """Say that the service is silent: on a terminal in one line that changes, else now and then."""
        waited = innermost_event(event)
        if not isinstance(waited, Waited):
            return
        text = f"waiting for the model: {waited.seconds:.0f} s, at most {waited.limit:g} s"
        if sys.stderr.isatty():
            self._end_line()
            sys.stderr.write(f"\r\x1b[2K{text}")
            sys.stderr.flush()
            self.waiting = True
        elif round(waited.seconds) % 30 < _WAIT_STEP:
            warn(text)

    def _clear_wait(self) -> None:
        if self.waiting:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
            self.waiting = False

    def _write(self, text: str) -> None:
        # On a terminal, escape sequences in a reply would act on the screen; a file gets the exact text.
        sys.stdout.write(visible_text(text) if sys.stdout.isatty() else text)
        sys.stdout.flush()
        self.writing = self.writing or bool(text)
        self.last = text[-1:] or getattr(self, "last", "")

    def _end_line(self) -> None:
        if self.writing and getattr(self, "last", "") != "\n":
            sys.stdout.write("\n")
            sys.stdout.flush()
        self.writing = False

    def _ask(self, question: Asked) -> tuple[str, str] | None:
        approval = question.kind == "approval"
        offered = {name: APPROVAL_CHOICES[name] for name in question.choices} if approval else {}
        choices = " / ".join(f"{choice.key}: {choice.label}" for choice in offered.values())
        choices = choices or " / ".join(question.choices)
        decisions = {key: name for name, choice in offered.items() for key in (choice.key, name)} | _MORE_KEYS
        while True:
            sys.stderr.write(f"{printable(choices)}> " if choices else "> ")
            sys.stderr.flush()
            line = sys.stdin.readline()
            # End of input: nobody is there to answer.
            if not line:
                return None
            answer = decisions.get(line.strip().lower(), "") if approval else line.strip()
            # A typo is neither yes nor no: ask again.
            if answer or not approval:
                return question.id, answer


def event_lines(event: Event) -> Iterator[str]:
    """What is printed for an event, other than the reply itself."""
    match event:
        case Started(model=model, run=run, instructions=instructions):
            yield paint(f"{printable(model)} · {f'run {run}' if run else 'no journal'}", "dim")
            if instructions:
                yield paint(f"instructions: {printable(', '.join(instructions))}", "dim")
            yield from _small_model_lines(model)
        case Resumed(model=model, run=run, cwd=cwd, before=before):
            yield paint(f"{printable(model)} · continuing run {run}", "dim")
            if before:
                moved = f"the working folder changes from {printable(before)} to {printable(cwd)}"
                yield f"{paint('note', 'yellow')} {moved}"
            yield from _small_model_lines(model)
        case Activated(skill=skill, arguments=arguments, tokens=tokens):
            yield (
                f"{paint('skill', 'cyan')} {printable(skill)} {_short_text(arguments)}".rstrip()
                + f"  (about {tokens} tokens)"
            )
        case Used():
            yield from _tool_lines(event)
        case Asked(kind="approval"):
            yield from _approval_lines(event)
        case Asked(text=text, why=why):
            yield f"{paint('asks', 'yellow')} {_short_text(text)}" + (f"  ({printable(why)})" if why else "")
        case Answered(answer=answer, by=by):
            yield paint(f"answered: {_short_text(answer)}" if by != "nobody" else "not interactive: no answer", "dim")
        case Offered(added=added, changed=changed, removed=removed):
            for label, names in (("new", added), ("changed", changed), ("removed", removed)):
                if names:
                    yield f"{paint('skills', 'cyan')} {label}: {_short_text(', '.join(names))}"
        case Restored(skills=skills) if skills:
            yield paint(f"restored: {printable(', '.join(skills))}", "dim")
        case Compacted(before=before, after=after):
            yield paint(f"compacted: from about {before} to {after} tokens", "dim")
        case Retried(reason=reason, seconds=seconds):
            yield paint(f"{printable(reason)}: retrying in {seconds:g} s", "yellow")
        case Nested(event=Ended(outcome="finished")):
            # The delegating run reports the result.
            return
        case Nested(name=name, event=inner):
            yield from (f"  {printable(name)} │ {line}" for line in event_lines(inner))
        case Ended():
            yield from _ending_lines(event)


def _small_model_lines(model: str) -> Iterator[str]:
    if model.startswith("local:"):
        yield paint("This is a small local model: it can pick from lists, but its answers are unreliable.", "dim")
        yield paint(
            "For a better one, pass --model anthropic:…, openai:…, google:… or ollama:…, or set METIER_MODEL", "dim"
        )


def _approval_lines(question: Asked) -> Iterator[str]:
    """What a person is asked to allow, never shortened: what is not shown would be allowed unseen."""
    first, *more_lines = escaped_lines(question.text)
    why = f"  ({printable(question.why)})" if question.why else ""
    yield f"{paint('asks', 'yellow')} {first}" + ("" if more_lines else why)
    yield from more_lines
    yield from (f"  {escaped_line(line)}" for line in question.change.splitlines())
    if more_lines and why:
        yield why


def _tool_lines(event: Used) -> Iterator[str]:
    if not event.text and not event.error:
        return
    arguments = " ".join(f"{key}={_short_text(value, 60)}" for key, value in event.call.arguments.items())
    mark = paint("failed", "red") if event.error else paint("tool", "cyan")
    status = f" → exit {event.status}" if event.status else ""
    yield f"{mark} {printable(event.call.name)} {arguments}{status}"
    if event.error:
        yield f"  {_short_text(event.text)}"
    if event.note:
        yield paint(f"  {printable(event.note)}", "dim")


def _ending_lines(event: Ended) -> Iterator[str]:
    usage = event.usage
    if event.outcome == "finished":
        cost = f", ${usage.cost:.4f}" if usage.cost else ""
        if usage.requests:
            yield paint(
                f"{usage.input} tokens sent ({usage.cached} cached), "
                f"{usage.output} received{cost}, {event.seconds:.1f} s",
                "dim",
            )
        return
    why = event.text or event.reason
    yield paint(event.outcome, "red") + (f": {printable(why)}" if why and why != event.outcome else "")
    if event.hint:
        yield f"hint: {printable(event.hint)}"


def _short_text(value: object, max_length: int = _MAX_TEXT) -> str:
    return shorten_text(printable(str(value)), max_length)
