"""Synthetic skills in the shape of real ones: seeded, so the same skills on every machine.

Skill `i` is the same in every corpus of the same body size: a small corpus is the start of a larger one.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from random import Random

SEED = 20_260
VERSION = 1
"""Raise it when what is written changes, and every corpus is made anew."""

CORPORA = (Path(__file__).resolve().parents[1] / ".bench" / "corpora").resolve()
SMALL = (5_000, 10_000)
LARGE = (100_000, 100_000)

_VERBS = "build check clean compare convert deploy draft extract format index merge plan review sort test trace"
_NOUNS = "api archive audio budget chart commit database email form image invoice log pdf release report schema"
_WORDS = (
    "the user asks for a change in files that hold tables, drafts or notes and wants it done step by step "
    "with a clear summary at the end; covers setup, checks (before and after), common mistakes, "
    "limits/quotas and hand-over to other tools when the project already has a configured pipeline "
    "or the team's own conventions"
)
VERBS, NOUNS, WORDS = _VERBS.split(), _NOUNS.split(), _WORDS.split()
TOOLS = (
    "Read, Write, Bash(git:*)",
    "Read Grep Glob",
    "Bash(npm run:*), Read",
    "Read, Edit",
    "WebFetch, Read",
)
LICENSES = ("MIT", "Apache-2.0", "Complete terms in LICENSE.txt", "BSD-3-Clause")
ODD = ("accents", "comment", "quoted over lines", "dashes", "no name", "no description", "empty description")


def corpus(size: int, body: tuple[int, int] = SMALL) -> Path:
    """The folder of `size` skills with bodies of `body[0]` to `body[1]` bytes; written on first use."""
    name = str(size) if body == SMALL else f"{size}-{body[1] // 1000}kb"
    folder, stamp = CORPORA / name, CORPORA / f"{name}.json"
    wanted = {"version": VERSION, "seed": SEED, "size": size, "body": list(body)}
    if stamp.exists() and json.loads(stamp.read_text()) == wanted:
        return folder
    stamp.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"writing {size:,} skills to .bench/corpora/{name}", file=sys.stderr)
    pool = _pool(body[1])
    for number in range(size):
        _write(folder, number, body, pool)
    stamp.write_text(json.dumps(wanted))
    return folder


def name_of(number: int) -> str:
    """The name, and folder, of skill `number`."""
    verb, noun = VERBS[number % len(VERBS)], NOUNS[number // len(VERBS) % len(NOUNS)]
    return f"{verb}-{noun}-{number:05d}"


def frontmatter(number: int, rng: Random) -> str:
    """The head of skill `number`, fences included.  Skill 0 is plain, so that it can be asked for by name."""
    name = name_of(number)
    kind = _description_kind(rng) if number else "plain"
    lines = [] if kind == "no name" else [f"name: {name}"]
    lines += _description(kind, _sentence(rng), rng)
    if rng.random() < 0.30:
        lines.append(f"license: {rng.choice(LICENSES)}")
    if rng.random() < 0.28:
        lines.append(rng.choice(("version: 1.2.0", 'version: "1.0.0"', "version: 0.3.1", "version: 1.0")))
    if rng.random() < 0.27:
        lines.append(rng.choice(("author: example-team", 'author: "Example Team"', "author: tools@example.com")))
    if rng.random() < 0.22:
        lines.append(f"allowed-tools: {rng.choice(TOOLS)}")
    lines += _metadata(rng)
    lines += _tags(rng)
    return "\n".join(["---", *lines, "---", ""])


def _write(folder: Path, number: int, body: tuple[int, int], pool: str) -> None:
    rng = Random(f"{SEED}:{number}")
    head = frontmatter(number, rng)
    size, start = rng.randint(*body), rng.randrange(10_000)
    text = f"{head}\n# {name_of(number)}\n\n{pool[start : start + size]}\n"
    crlf, bom, scripts, references = (rng.random() < share for share in (0.004, 0.001, 0.30, 0.40))
    if crlf:
        text = text.replace("\n", "\r\n")
    skill = folder / name_of(number)
    skill.mkdir()
    (skill / "SKILL.md").write_bytes((b"\xef\xbb\xbf" if bom else b"") + text.encode())
    if scripts:
        (skill / "scripts").mkdir()
        (skill / "scripts" / "run.py").write_text(f'print("{name_of(number)}")\n' * 10)
    if references:
        (skill / "references").mkdir()
        (skill / "references" / "guide.md").write_text(pool[start : start + 2_000])


def _pool(longest: int) -> str:
    """Markdown to cut bodies from."""
    rng, parts, length = Random(SEED), [], 0
    while length < longest + 10_000:
        paragraph = " ".join(_sentence(rng) for _ in range(3))
        part = rng.choice(
            (f"## {_sentence(rng)[:40]}\n\n{paragraph}", paragraph, f"```sh\nls -l\n```\n\n- {paragraph}")
        )
        parts.append(part)
        length += len(part) + 2
    return "\n\n".join(parts)


def _sentence(rng: Random) -> str:
    """A description of 60 to 700 characters, valid as a plain scalar; a third are over 250 characters."""
    length = min(700, max(60, int(rng.lognormvariate(5.247, 0.585))))
    words = [rng.choice(VERBS).capitalize(), rng.choice(NOUNS), "files."]
    used = sum(map(len, words)) + 2
    while used < length:
        word = rng.choice(WORDS)
        words.append(word)
        used += len(word) + 1
    return " ".join(words)[: length - 1].rstrip(" ,;(") + "."


def _description_kind(rng: Random) -> str:
    share = rng.random()
    for kind, below in (
        ("plain", 0.75),
        ("double", 0.78),
        ("single", 0.81),
        ("block", 0.93),
        ("continued", 0.98),
        ("colon", 0.99),
    ):
        if share < below:
            return kind
    return rng.choice(ODD)


def _description(kind: str, text: str, rng: Random) -> list[str]:
    words = text.split(" ")
    wrapped = [" ".join(words[start : start + 12]) for start in range(0, len(words), 12)]
    indented = [f"  {line}" for line in wrapped]
    match kind:
        case "double":
            return [f'description: "{text} Say \\"go\\" to start."']
        case "single":
            return [f"description: '{text.replace(chr(39), chr(39) * 2)}'"]
        case "block":
            return [f"description: {rng.choice(('>', '>-', '|', '|-'))}", *indented]
        case "continued":
            return [f"description: {wrapped[0]}", *indented[1:]]
        case "colon":
            return [f"description: Use when: {text}"]
        case "accents":
            return [f"description: Déjà vu, naïve façade, 技能. {text}"]
        case "comment":
            return [f"description: {text} # keep short"]
        case "quoted over lines":
            return [f'description: "{wrapped[0]}', *indented[1:-1], f'  {wrapped[-1]}"']
        case "dashes":
            return [f"description: Plan --- then act. {text}"]
        case "no description":
            return []
        case "empty description":
            return ["description:"]
        case _:
            return [f"description: {text}"]


def _metadata(rng: Random) -> list[str]:
    share = rng.random()
    if share < 0.11:
        return ["metadata:", "  author: example-team", '  version: "1.0"', f"  category: {rng.choice(NOUNS)}"]
    if share < 0.14:
        requires = {"bins": [rng.choice(("git", "sh", "jq"))]}
        value = {"openclaw": {"emoji": "📦", "requires": requires}}
        return [f"metadata: {json.dumps(value, ensure_ascii=False)}"]
    return []


def _tags(rng: Random) -> list[str]:
    if rng.random() >= 0.07:
        return []
    tags = rng.sample(NOUNS, 3)
    return [f"tags: [{', '.join(tags)}]"] if rng.random() < 0.5 else ["tags:", *(f"  - {tag}" for tag in tags)]
