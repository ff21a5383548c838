"""Drawing events on a terminal: what the model says to standard output, all else to standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

from ...types.event import (
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
    Wrote,
    innermost,
)
from ...types.text import exact, exact_lines, seen, shortened
from .printing import clean, paint, warn

_LONGEST = 120
_DECISIONS = {
    "y": "once", "yes": "once", "o": "once", "once": "once", "a": "always", "always": "always", "n": "no", "no": "no",
}  # fmt: skip


class Lines:
    """Every event as one line of JSON."""

    def draw(self, event: Event) -> tuple[str, str] | None:
        from ...record.encode import line_of

        sys.stdout.write(line_of(event) + "\n")
        sys.stdout.flush()
        return None


class Drawing:
    """Events for a person to read; `asks` where somebody is there to answer."""

    def __init__(self, asks: bool = False, kept: bool = True) -> None:
        self.asks, self.kept = asks, kept
        self.writing = False
        self.replied = ""

    def draw(self, event: Event) -> tuple[str, str] | None:
        """Show an event; an answer where it was a question and somebody gave one."""
        if isinstance(event, Wrote):
            if not event.thinking and sys.stdout.isatty():  # into a pipe go whole replies: a retry begins one anew
                self._write(event.text)
            return None
        if isinstance(event, Replied) and event.text and not self.writing:
            self._write(event.text)
        if isinstance(event, Ended) and event.outcome == "finished" and event.text != self.replied:
            self._write(event.text)  # the answer of a tool that was called straight away
        self.replied = event.text if isinstance(event, Replied) else self.replied
        self._end_line()
        if isinstance(event, Started) and not self.kept:
            event = replace(event, run="")  # an id that nobody can look up
        for line in lines_of(event):
            warn(line)
        asked = innermost(event)
        return self._ask(asked) if isinstance(asked, Asked) and self.asks else None

    def _write(self, text: str) -> None:
        sys.stdout.write(seen(text) if sys.stdout.isatty() else text)
        sys.stdout.flush()
        self.writing = self.writing or bool(text)
        self.last = text[-1:] or getattr(self, "last", "")

    def _end_line(self) -> None:
        if self.writing and getattr(self, "last", "") != "\n":
            sys.stdout.write("\n")
            sys.stdout.flush()
        self.writing = False

    def _ask(self, asked: Asked) -> tuple[str, str] | None:
        approval = asked.kind == "approval"
        offer = "y: this once / a: always / n: no" if approval else " / ".join(asked.choices)
        while True:
            sys.stderr.write(f"{clean(offer)}> " if offer else "> ")
            sys.stderr.flush()
            line = sys.stdin.readline()
            if not line:
                return None
            said = _DECISIONS.get(line.strip().lower(), "") if approval else line.strip()
            if said or not approval:  # a slip is neither a yes nor a no
                return asked.id, said


def lines_of(event: Event) -> Iterator[str]:
    """What a person is told of an event, beside the reply itself."""
    match event:
        case Started(model=model, run=run):
            yield paint(f"{clean(model)} · {f'run {run}' if run else 'no journal'}", "dim")
            yield from _small(model)
        case Resumed(model=model, run=run, cwd=cwd, before=before):
            yield paint(f"{clean(model)} · going on with run {run}", "dim")
            if before:
                moved = f"it worked in {clean(before)} until now, and works in {clean(cwd)} from here on"
                yield f"{paint('note', 'yellow')} {moved}"
            yield from _small(model)
        case Activated(skill=skill, arguments=arguments, tokens=tokens):
            yield f"{paint('skill', 'cyan')} {clean(skill)} {_short(arguments)}".rstrip() + f"  (about {tokens} tokens)"
        case Used():
            yield from _used(event)
        case Asked(kind="approval"):
            yield from _approval(event)
        case Asked(text=text, why=why):
            yield f"{paint('asks', 'yellow')} {_short(text)}" + (f"  ({clean(why)})" if why else "")
        case Answered(answer=answer, by=by):
            yield paint(f"answered: {_short(answer)}" if by != "nobody" else "nobody is there to answer", "dim")
        case Offered(added=added, changed=changed, removed=removed):
            for word, names in (("new", added), ("changed", changed), ("gone", removed)):
                if names:
                    yield f"{paint('skills', 'cyan')} {word}: {_short(', '.join(names))}"
        case Restored(skills=skills) if skills:
            yield paint(f"put back: {clean(', '.join(skills))}", "dim")
        case Compacted(before=before, after=after):
            yield paint(f"cut short: about {before} tokens, now {after}", "dim")
        case Retried(reason=reason, seconds=seconds):
            yield paint(f"{clean(reason)}: asking again in {seconds:g} s", "yellow")
        case Nested(event=Ended(outcome="finished")):
            return  # whoever delegated it says what came of it
        case Nested(name=name, event=inner):
            yield from (f"  {clean(name)} │ {line}" for line in lines_of(inner))
        case Ended():
            yield from _ended(event)


def _small(model: str) -> Iterator[str]:
    if model.startswith("local:"):
        yield paint("A small model that runs here: it chooses from lists, and its words are worth little.", "dim")
        yield paint("A better one: --model anthropic:…, openai:…, google:… or ollama:…, or METIER_MODEL", "dim")


def _approval(asked: Asked) -> Iterator[str]:
    """What somebody is to allow, never cut: what is not shown would be allowed unseen."""
    first, *more = exact_lines(asked.text)
    why = f"  ({clean(asked.why)})" if asked.why else ""
    yield f"{paint('asks', 'yellow')} {first}" + ("" if more else why)
    yield from more
    yield from (f"  {exact(line)}" for line in asked.change.splitlines())
    if more and why:
        yield why


def _used(event: Used) -> Iterator[str]:
    if not event.text and not event.error:
        return
    told = " ".join(f"{key}={_short(value, 60)}" for key, value in event.call.arguments.items())
    mark = paint("failed", "red") if event.error else paint("tool", "cyan")
    status = f" → exit {event.status}" if event.status else ""
    yield f"{mark} {clean(event.call.name)} {told}{status}"
    if event.error:
        yield f"  {_short(event.text)}"
    if event.note:
        yield paint(f"  {clean(event.note)}", "dim")


def _ended(event: Ended) -> Iterator[str]:
    used = event.usage
    if event.outcome == "finished":
        cost = f", ${used.cost:.4f}" if used.cost else ""
        if used.requests:
            yield paint(
                f"{used.input} tokens sent ({used.cached} cached), {used.output} received{cost}, {event.seconds:.1f} s",
                "dim",
            )
        return
    why = event.text or event.reason
    yield paint(event.outcome, "red") + (f": {clean(why)}" if why and why != event.outcome else "")
    if event.hint:
        yield f"hint: {clean(event.hint)}"


def _short(value: object, most: int = _LONGEST) -> str:
    return shortened(clean(str(value)), most)
