#!/usr/bin/env python3
"""Describe a CSV file column by column: types, gaps, ranges, averages and frequent values.

The file is read as a stream and only a bounded part of each column is kept, so its size does not matter.
Exit codes: 0 the report was made, 1 the file cannot be reported on, 2 the command line is wrong.
"""

import argparse
import csv
import hashlib
import io
import json
import os
import random
import re
import statistics
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

HEAD = 64 * 1024  # looked at to judge the encoding and the delimiter
LONGEST = 8 * 1024 * 1024  # characters in one line or one cell
MOST_COLUMNS = 10_000
ALL_SAMPLES = 1_000_000  # numbers kept for medians, over all columns
ALL_VALUES = 300_000  # different values counted, over all columns
PLAUSIBLE = 1e200  # a greater "number" is a slip, and would overflow the sum
DELIMITERS = {"tab": "\t", "semicolon": ";", "pipe": "|", "comma": ","}  # rare in prose first: they win a tie
ONE_COLUMN = "\x1f"  # occurs nowhere, so that every line is one cell
END = "\x1eend\x1e"  # a last line of ours: if it lands inside a cell, a quote was left open
NAMES = {mark: name for name, mark in DELIMITERS.items()} | {ONE_COLUMN: "none"}
MISSING = frozenset({"", "-", "na", "n/a", "#n/a", "nan", "null", "none"})
NUMERIC = frozenset({"integer", "number"})
TEMPORAL = frozenset({"date", "datetime"})
INTEGER = re.compile(r"[+-]?(?:0|[1-9][0-9]{0,29})")  # a leading zero makes a code, not a quantity
NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?P<time>[T ][0-9]{2}:[0-9]{2}.*)?")


class ReportError(Exception):
    """The file cannot be reported on; the message says why."""


@lru_cache(maxsize=65_536)
def read_value(text: str, comma: bool) -> tuple[str, Any]:
    """What kind of value a cell holds, and a key to order it by if it has one."""
    if len(text) > 64:
        return "text", None
    number = text.replace(",", ".", 1) if comma and "." not in text else text
    if INTEGER.fullmatch(number):
        return "integer", int(number)
    if NUMBER.fullmatch(number) and abs(float(number)) < PLAUSIBLE:
        return "number", float(number)
    if text.lower() in {"true", "false", "yes", "no"}:
        return "boolean", None
    if found := MOMENT.fullmatch(text):
        try:
            moment = datetime.fromisoformat(text)
            moment = moment.replace(tzinfo=moment.tzinfo or timezone.utc).astimezone(timezone.utc)
        except (ValueError, OverflowError):
            return "text", None
        return "datetime" if found["time"] else "date", moment
    return "text", None


@dataclass
class Numbers:
    """The range of all numbers seen, and a uniform sample of them once there are too many to keep."""

    keep: int
    seen: int = 0
    total: float = 0
    low: float = float("inf")
    high: float = float("-inf")
    sample: list[float] = field(default_factory=list)
    dice: random.Random = field(default_factory=lambda: random.Random(0))

    def add(self, number: float) -> None:
        self.seen += 1
        self.total += number
        self.low, self.high = min(self.low, number), max(self.high, number)
        if len(self.sample) < self.keep:
            self.sample.append(number)
        elif (place := self.dice.randrange(self.seen)) < self.keep:
            self.sample[place] = number


@dataclass
class Tally:
    """Counts of different values; past too many, the rarest are let go and counts become lower bounds."""

    keep: int
    counts: Counter[str] = field(default_factory=Counter)
    exact: bool = True

    def add(self, text: str) -> None:
        if len(text) > 160:
            digest = hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
            text = f"{text[:120]}… ({len(text)} characters, {digest})"
        self.counts[text] += 1
        if len(self.counts) > self.keep:
            self.exact = False
            self.counts = Counter(dict(self.counts.most_common(self.keep // 2)))


@dataclass
class Column:
    """What was gathered about one column."""

    name: str
    comma: bool
    numbers: Numbers
    tally: Tally
    missing: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    first: dict[str, tuple[int, str]] = field(default_factory=dict)
    moments: tuple[tuple[datetime, str], ...] = ()

    def add(self, cell: str, line: int) -> None:
        text = cell.strip()
        if len(text) < 5 and text.lower() in MISSING:
            self.missing[text.lower()] += 1
            return
        kind, key = read_value(text[:65], self.comma)  # cut, so that the cache stays small
        self.kinds[kind] += 1
        self.first.setdefault(kind, (line, text[:60]))
        self.tally.add(text)
        if kind in NUMERIC:
            self.numbers.add(key)
        elif kind in TEMPORAL:
            seen = (*self.moments, (key, text))
            self.moments = (min(seen), max(seen))

    def mostly(self, group: frozenset[str]) -> bool:
        return 2 * sum(self.kinds[kind] for kind in group) > self.kinds.total()

    def type(self) -> str:
        kinds = set(self.kinds)
        if len(kinds) < 2:
            return kinds.pop() if kinds else "empty"
        if kinds in (NUMERIC, TEMPORAL):
            return "number" if kinds == NUMERIC else "datetime"
        return "text" if 2 * self.kinds["text"] >= self.kinds.total() else "mixed"

    def describe(self, top: int) -> dict[str, Any]:
        numbers, exact = self.numbers, self.numbers.seen <= self.numbers.keep
        ends: tuple[Any, ...] = (None, None)
        mean: float | None = None
        median: float | None = None
        if self.mostly(NUMERIC):
            ends = (numbers.low, numbers.high)
            mean = statistics.fmean(numbers.sample) if exact else numbers.total / numbers.seen
            median = statistics.median(numbers.sample)
        elif self.mostly(TEMPORAL):
            ends = tuple(text for _, text in self.moments)
        # Ties in alphabetical order: the same report on every run.
        ranked = sorted(self.tally.counts.items(), key=lambda item: (-item[1], item[0]))
        return {
            "name": self.name,
            "type": self.type(),
            "kinds": dict(self.kinds.most_common()),
            "missing": self.missing.total(),
            "missing_as": dict(self.missing.most_common()),
            "min": ends[0],
            "max": ends[1],
            "mean": mean,
            "median": median,
            "median_exact": exact or median is None,
            "distinct": len(self.tally.counts) if self.tally.exact else self.tally.keep + 1,
            "distinct_exact": self.tally.exact,
            "top": [{"value": value, "count": count} for value, count in ranked[:top]],
        }

    def odd_ones(self) -> Iterator[str]:
        """In a column of several kinds, the kinds that do not fit the rest."""
        if self.type() == "mixed":
            group = next((group for group in (NUMERIC, TEMPORAL) if self.mostly(group)), frozenset())
            for kind, count in self.kinds.most_common():
                if kind not in group:
                    line, text = self.first[kind]
                    share = f"{count} of {self.kinds.total()} values are {kind}"
                    yield f"{shown(self.name)}: {share}, first {shown(text)} in line {line}"


@dataclass
class Table:
    """What one pass over the file has gathered."""

    delimiter: str
    columns: list[Column] = field(default_factory=list)
    rows: int = 0
    limited: bool = False
    ragged: Counter[str] = field(default_factory=Counter)
    first: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, cells: list[str], line: int) -> None:
        self.rows += 1
        width = len(self.columns)
        if len(cells) != width:
            kind = "short" if len(cells) < width else "long"
            self.ragged[kind] += 1
            self.first.setdefault(kind, line)
            cells = cells[:width] + [""] * (width - len(cells))
        for column, cell in zip(self.columns, cells, strict=True):
            column.add(cell, line)

    def remarks(self) -> Iterator[str]:
        """The notes in reading order: about the file, its rows, its columns."""
        yield from self.notes
        if not self.rows:
            yield "there is a header but no rows"
        for kind, line in self.first.items():
            effect = "the rest counts as missing" if kind == "short" else "extra cells are left out"
            share = f"{self.ragged[kind]} of {self.rows} rows"
            yield f"{share} are too {kind}, the first in line {line}; {effect}"
        if 2 * self.ragged["long"] > self.rows:
            yield "most rows are longer than the first line; if a title stands above the header, use --skip"
        for column in self.columns:
            yield from column.odd_ones()


def bounded(file: TextIO) -> Iterator[str]:
    """The lines of a file, none of them endless, and a mark at the end."""
    while line := file.readline(LONGEST):
        if len(line) == LONGEST and not line.endswith(("\n", "\r")):
            raise ReportError(f"there is a line of over {LONGEST:,} characters; this is hardly a CSV file")
        yield line
    yield END


def records(lines: Iterator[str], above: int, table: Table) -> Iterator[tuple[int, list[str]]]:
    """Each record that is not blank, with the line it begins on."""
    reader = csv.reader(lines, delimiter=table.delimiter, skipinitialspace=True)
    begin = above + 1
    try:
        for cells in reader:
            if cells and cells != [END] and cells[-1].endswith(END):
                cells[-1] = cells[-1].removesuffix(END)
                table.notes.append(f"a quote in line {begin} is never closed; all that follows is one cell")
            if len(cells) > 1 or (cells != [END] and any(map(str.strip, cells))):
                yield begin, cells
            begin = above + reader.line_num + 1
    except csv.Error as error:
        raise ReportError(f"line {begin}: {error}; the usual cause is a quote never closed") from error


def guess_delimiter(sample: str) -> str:
    """The delimiter that cuts most rows into as many cells as the first row has."""
    scores: dict[str, float] = {}
    for delimiter in DELIMITERS.values():
        reader = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter, skipinitialspace=True)
        widths = [len(row) for row in islice(reader, 200) if row]
        widths = widths[:-1] if len(widths) > 1 and len(sample) == HEAD else widths  # the last may be cut off
        usual, hits = Counter(widths).most_common(1)[0] if widths else (0, 0)
        if usual and widths[0] > 1:
            scores[delimiter] = widths.count(widths[0]) / len(widths)
        elif usual > 2:  # a title above the table
            scores[delimiter] = hits / len(widths) / 2
    return max(scores, key=lambda delimiter: scores[delimiter]) if scores else ONE_COLUMN


def encodings(path: Path) -> tuple[str, ...]:
    """The encodings to try, judged by the first bytes; or the reason why there is nothing to report on."""
    if path.is_dir():
        raise ReportError("this is a folder; name one file in it")
    if path.exists() and not path.is_file():
        raise ReportError("this is not an ordinary file")
    with path.open("rb") as file:
        head = file.read(HEAD)
    if not head.strip(b"\xef\xbb\xbf\xff\xfe \t\r\n"):
        raise ReportError("the file is empty")
    if head.startswith(b"PK\x03\x04"):
        raise ReportError("this is a zip archive or a spreadsheet; save the sheet as CSV first")
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return ("utf-16",)
    control = sum(byte < 9 or 13 < byte < 32 for byte in head)
    if b"\0" in head or control > max(8, len(head) // 50) or head.startswith((b"\x1f\x8b", b"%PDF-")):
        raise ReportError("this looks like a binary file, not text")
    return ("utf-8-sig" if head.startswith(b"\xef\xbb\xbf") else "utf-8", "latin-1")


def name_columns(cells: list[str], table: Table) -> list[str]:
    """Names that are all there and all different."""
    names: dict[str, None] = {}
    for place, cell in enumerate(cells, start=1):
        name = cell.strip()[:200] or f"column_{place}"
        while name in names:
            name = f"{name}_{place}"
        if cell.strip() and name != cell.strip():
            table.notes.append(f"column {place}, {shown(cell.strip())} in the header, is {shown(name)} here")
        names[name] = None
    return list(names)


def read_table(path: Path, encoding: str, asked: argparse.Namespace) -> Table:
    """One pass over the file. Raises UnicodeError if the encoding is wrong."""
    with path.open(encoding=encoding, newline="") as file:
        skip = sum(1 for _ in islice(bounded(file), asked.skip))
        sample = file.read(HEAD)
    if told := re.match(r"sep=([,;|\t])\r?\n", sample):  # some spreadsheets write this
        skip, sample = skip + 1, sample[told.end() :]
    table = Table(DELIMITERS.get(asked.delimiter) or (told[1] if told else guess_delimiter(sample)))
    with path.open(encoding=encoding, newline="") as file:
        rows = records(islice(bounded(file), skip, None), skip, table)
        line, header = next(rows, (0, []))
        if not header:
            raise ReportError("there is nothing to report on in it")
        if len(header) > MOST_COLUMNS:
            raise ReportError(f"there are over {MOST_COLUMNS:,} columns; is the delimiter right?")
        names = name_columns([""] * len(header) if asked.no_header else header, table)
        keep, values = (max(20, everything // len(names)) for everything in (ALL_SAMPLES, ALL_VALUES))
        comma = table.delimiter == ";"  # where semicolons part the cells, commas are decimal marks
        table.columns = [Column(name, comma, Numbers(keep), Tally(values)) for name in names]
        if asked.no_header:
            table.add(header, line)
        elif all(read_value(cell.strip()[:65], comma)[0] in NUMERIC | TEMPORAL for cell in header):
            table.notes.append("the first line looks like values; if it is not a header, use --no-header")
        for line, cells in rows:
            if table.rows == asked.limit:
                table.limited = True
                break
            table.add(cells, line)
    return table


def shown(text: str, most: int = 60) -> str:
    """Quoted, on one line, without control characters, and not too long."""
    safe = "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text)
    return f'"{safe}"' if len(safe) <= most else f'"{safe[: most - 1]}…"'


def plain(value: float | str | None) -> str:
    return "-" if value is None else f"{value:.10g}" if isinstance(value, float) else str(value)


def as_text(report: dict[str, Any]) -> str:
    rows = [["column", "type", "missing", "distinct", "min", "max", "mean", "median"]]
    for column in report["columns"]:
        cells = [plain(column[name]) for name in rows[0][1:]]
        cells[2] += "" if column["distinct_exact"] else "+"
        cells[6] = cells[6] if column["median_exact"] else f"~{cells[6]}"
        rows.append([shown(column["name"])[1:-1], *cells])
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    more = " (more follow)" if report["limited"] else ""
    size = f"rows: {report['rows']}{more}, columns: {len(report['columns'])}"
    form = f"encoding: {report['encoding']}, delimiter: {report['delimiter']}"
    lines = [f"file: {shown(report['file'])}, {size}, {form}", ""]
    lines += ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows] + ["", "most frequent values"]
    for column in report["columns"]:
        top = ", ".join(f"{shown(entry['value'])} {entry['count']}" for entry in column["top"])
        lines.append(f"  {shown(column['name'])[1:-1]}: {top or 'none'}")
    notes = [f"  - {note}" for note in report["notes"]]
    return "\n".join([*lines, "", "notes", *notes] if notes else lines)


def make_report(path: Path, asked: argparse.Namespace) -> dict[str, Any]:
    for encoding in (tried := encodings(path)):
        try:
            table = read_table(path, encoding, asked)
        except UnicodeError:
            continue
        if encoding == "latin-1":
            table.notes.insert(0, "the file is not UTF-8 and was read as Latin-1; check letters with accents")
        return {
            "file": path.name,
            "encoding": encoding,
            "delimiter": NAMES.get(table.delimiter, table.delimiter),
            "rows": table.rows,
            "limited": table.limited,
            "short_rows": table.ragged["short"],
            "long_rows": table.ragged["long"],
            "columns": [column.describe(asked.top) for column in table.columns],
            "notes": list(table.remarks()),
        }
    raise ReportError(f"the text cannot be decoded as {' or '.join(tried)}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Describe a CSV file column by column.")
    parser.add_argument("file", type=Path, help="the CSV file")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("--limit", type=int, metavar="N", help="read only the first N rows")
    parser.add_argument("--skip", type=int, default=0, metavar="N", help="leave out N lines above the header")
    parser.add_argument("--top", type=int, default=5, metavar="N", help="give N frequent values (5)")
    parser.add_argument("--no-header", action="store_true", help="the first line is a row, not names")
    parser.add_argument("--delimiter", choices=DELIMITERS, help="do not guess the delimiter")
    asked = parser.parse_args()
    if asked.limit == 0 or not all(0 <= n < 10**12 for n in (asked.skip, asked.top, asked.limit or 0)):
        parser.error("--limit takes a number from 1 up, --skip and --top from 0 up")
    csv.field_size_limit(LONGEST)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        report = make_report(asked.file, asked)
        print(json.dumps(report, ensure_ascii=False, indent=2) if asked.json else as_text(report))
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, `head` perhaps, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ReportError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        print(f"report.py: {shown(str(asked.file), 4096)}: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
