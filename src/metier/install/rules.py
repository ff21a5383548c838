"""Rules for scanning a skill's text: what a person should see before approving it.

Each finding names its file and line.  A rule that is certain makes an error, which `--yes` does not override; one that
is not makes a warning.  What counts as certain depends on where a line stands: `curl … | sh` is an error in a command
that runs when a skill is rendered, and a warning in prose that explains how to install something.  An external scanner
adds findings; it never decides alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from ..host import paths
from ..sandbox.profile import SYSTEM
from ..types.problem import Finding, Problem, ProblemCode, problem_from
from ..types.sandbox import ProcessResult, ProgramSpec, SandboxPermissions, SandboxSpec
from ..types.text import clean_line, code_points_of, hidden_characters_in, shorten_text
from .chains import AnyPattern, PatternChain, SearchPattern

_MAX_LINE = 4_000
"""A longer line is scanned in parts of this length, which bounds the patterns."""
_OVERLAP = 1_000
"""What two parts of a line have in common: more than the longest match, so that none is cut in two."""
_SHELLS = r"(?:sudo\s+)?(?:(?:/usr)?/bin/)?(?:(?:ba|z|da|k|a)?sh|python[\d.]*|perl|ruby|node|php)\b"
_DOWNLOADERS = r"(?:curl|wget|fetch|iwr|Invoke-WebRequest)\b"


class ScannedLine(NamedTuple):
    """A line of a skill, and whether it runs: as a command in the body, or in a file that can run."""

    path: str
    number: int
    text: str
    runs: str
    """`render`, `script` or empty for prose."""


class ScanRule(NamedTuple):
    """A pattern and the finding it makes."""

    code: ProblemCode
    search: SearchPattern
    sure: tuple[str, ...] = ()
    """Where it makes an error instead of a warning: `render`, `script`, `` for prose."""
    only: tuple[str, ...] = ("render", "script", "")
    always: re.Pattern[str] | None = None
    """A narrower pattern that makes an error anywhere."""


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_KEY_PATHS = _compile_pattern(
    r"\.ssh/(?:id_|config|authorized|\*|known)|\bid_(?:rsa|ed25519|ecdsa|dsa)\b(?!\.pub)"
    r"|\.aws/credentials|\.git-credentials|\.config/gh/hosts|\.gnupg\b|wallet\.dat"
    r"|/etc/shadow|/proc/(?:\d+|self|\$\w+|\*)/environ|security\s+find-(?:generic|internet)-password"
    r"|(?:Chrome|Firefox|Brave|Edge)[^\n]{0,60}(?:Login Data|Cookies|logins\.json)|\.metier/(?:trust|skills-lock)"
)
"""Paths of keys that only their owner's programs should read; a script that reads one and sends data is refused."""
SCAN_RULES = (
    ScanRule(
        "encoded-shell",
        AnyPattern(
            PatternChain(r"base64\s+(?:-d\b|-D\b|--decode)|xxd\s+-r", (200, r"\|\s*" + _SHELLS)),
            PatternChain(r"openssl\s+(?:enc|base64)\s", (80, r"-d"), (200, r"\|\s*" + _SHELLS)),
            PatternChain(
                r"(?:eval|exec|sh\s+-c|bash\s+-c)\b", (40, r"\$\(|`|<\("), (200, r"base64\s+(?:-d|-D|--decode)")
            ),
            PatternChain(r"powershell", (80, r"-e(?:nc|c|ncodedcommand)?\s+[A-Za-z0-9+/=]{40}")),
            _compile_pattern(
                r"(?:exec|eval|compile)\s*\(\s*(?:[\w.]{1,40}\(){0,8}\s*(?:__import__\(['\"](?:base64|zlib|codecs)['\"]\)"
                r"|base64\.|zlib\.|codecs\.decode|bytes\.fromhex|atob\s*\(|Buffer\.from\()"
            ),
        ),
        ("render", "script", ""),
    ),
    ScanRule(
        "remote-shell",
        _compile_pattern(
            _DOWNLOADERS
            + r"[^\n|]{0,400}\|\s*"
            + _SHELLS
            + r"|"
            + _SHELLS
            + r"\s+<\(\s*"
            + _DOWNLOADERS
            + r"|(?:eval|sh\s+-c|bash\s+-c|exec)\s*[\"']?\s*(?:\$\(|`)\s*"
            + _DOWNLOADERS
            + r"|\biex\b[^\n]{0,40}"
            + _DOWNLOADERS
            + r"|"
            + _DOWNLOADERS
            + r"[^\n]{0,200}\|\s*iex\b"
        ),
        ("render",),
    ),
    ScanRule(
        "reverse-shell",
        _compile_pattern(
            r"/dev/(?:tcp|udp)/|\b(?:nc|ncat|netcat)\b[^\n]{0,60}\s-(?:e|c)\b|\bncat\b[^\n]{0,60}--(?:sh-)?exec"
            r"|\b(?:ba|z)?sh\s+-i\s*[>&|]|os\.dup2\s*\(\s*(?!\w*null)\w+\.fileno\(\)\s*,\s*(?:[012]\b|\w{1,2}\b)"
            r"|pty\.spawn\s*\(\s*[\[(]?\s*['\x22][^'\x22\n]*sh['\x22]|mkfifo[^\n]{0,120}\b(?:nc|sh)\b"
            r"|socat\b[^\n]{0,80}exec:"
        ),
        ("render", "script"),
        always=_compile_pattern(  # a shell connected to a socket: no documentation needs a working one
            r"\b(?:ba|z|da|k)?sh\s+-i\b[^\n]{0,40}/dev/(?:tcp|udp)/"
            r"|\b(?:nc|ncat|netcat)\b[^\n]{0,60}\s-\w*[ec]\s+\S*\b(?:(?:ba|z|da|k)?sh|cmd(?:\.exe)?|powershell)\b"
        ),
    ),
    ScanRule(
        "secret-upload",
        _compile_pattern(
            r"\b(?:env|printenv|set)\b\s*\|[^\n]{0,200}\b(?:curl|wget|nc|ncat|http)\b"
            r"|\b(?:curl|wget|http|nc)\b[^\n]{0,200}(?:\$\(|`)\s*(?:env|printenv|set)\b"
            r"|(?:data|json|params|body)\s*[=:]\s*(?:json\.dumps\(\s*)?(?:dict\(\s*)?(?:\*\*)?"
            r"(?:os\.environ|process\.env)\b(?![.\[])"
            r"|json\.dumps\(\s*(?:dict\(\s*)?os\.environ\b(?![.\[])|JSON\.stringify\(\s*process\.env\s*[,)]"
        ),
        ("render", "script"),
    ),
    ScanRule(
        "credential-path",
        _compile_pattern(_KEY_PATHS.pattern + r"|\.netrc\b|\.pypirc\b|\.npmrc\b|\.docker/config\.json|\.kube/config"),
        ("render",),
    ),
    ScanRule(
        "render-network", _compile_pattern(r"\b(?:curl|wget|nc|ncat|ssh|scp|rsync|ftp|telnet)\b"), only=("render",)
    ),
    ScanRule(
        "argument-hazard",
        _compile_pattern(r"\$ARGUMENTS\b|\$@|\$\{@[^}]*\}|(?<![\w\\])\$[0-9]\b|\{\{args\}\}"),
        only=("render",),
    ),
    ScanRule(
        "envelope-tag",
        _compile_pattern(r"</\s*(?:available_skills|skill-context|skill_content)\b|<\s*skill-context\b"),
        ("render", "script", ""),
        ("",),
    ),
    ScanRule(  # tags of other programs: pages about prompting mention them too, so a warning
        "envelope-tag",
        _compile_pattern(
            r"</\s*(?:system-reminder|function_results|tool_result)\b"
            r"|<\|(?:im_start|im_end|endoftext|system|assistant|user)\|>"
        ),
        (),
        ("",),
    ),
    ScanRule(
        "prompt-override",
        _compile_pattern(
            r"\bignore\s+(?:all\s+|any\s+)?(?:the\s+|your\s+)?(?:previous|prior|earlier|above)\s+(?:instruction|rule|prompt|direction)"
            r"|\b(?:do\s+not|don't|never)\s+(?:tell|inform|mention|reveal|show|notify|alert)\b[^\n.]{0,40}\b(?:user|human|person|anyone|anybody)\b"
            r"|\bwithout\s+(?:telling|informing|asking|notifying|alerting)\s+(?:the\s+)?(?:user|human|anyone)"
            r"|\b(?:disregard|override|bypass)\s+(?:the\s+|your\s+|all\s+|any\s+)*(?:safety|system|security|guardrail|polic)"
        ),
        (),
        ("",),
    ),
    ScanRule(
        "remote-instructions",
        PatternChain(
            r"\b(?:fetch|download|read|open|load|get|visit|retrieve|curl)\b",
            (120, r"https?://"),
            (200, r"\b(?:follow|obey|execute|carry\s+out|do\s+(?:what|as)|treat|apply|run)\b"),
            (80, r"\b(?:instruction|it\s+says|steps|command|directive|it\s+as|whatever)"),
        ),
        (),
        ("",),
    ),
    ScanRule(
        "memory-write",
        _compile_pattern(
            r"(?:>>?|\b(?:append|add|write|insert|echo|tee|save|put|copy|edit|update|modify|record)\b)[^\n]{0,120}"
            r"(?:\b(?:SOUL|MEMORY|USER|IDENTITY)\.md\b|\.claude/settings|\.(?:bash|zsh)rc\b|\.(?:bash_)?profile\b|\bcrontab\b"
            r"|authorized_keys|LaunchAgents|systemd/user|\.git/hooks|/etc/cron|\.metier/config|\.openclaw/openclaw\.json)"
            r"|\bcrontab\s+-"
        ),
        ("render",),
    ),
    ScanRule(
        "prerequisite-bait",
        _compile_pattern(
            r"\bxattr\s+-[a-z]*[cd]|spctl\s+--(?:master|global)-disable|Set-ExecutionPolicy\s+(?:Bypass|Unrestricted)"
            r"|https?://[^\s)\"'`]+\.(?:exe|dmg|pkg|msi|scr|bat|ps1)\b"
            r"|\.(?:zip|rar|7z)\b[^\n]{0,160}\bpass(?:word|code|phrase)\b|\bpass(?:word|code)\b[^\n]{0,160}\.(?:zip|rar|7z)\b"
            r"|\bpaste\b[^\n]{0,60}\b(?:in|into)\b[^\n]{0,20}\b(?:your\s+)?(?:terminal|shell|powershell|command\s+prompt)\b"
        ),
        (),
        ("",),
    ),
)
_ESCAPE = re.compile(r"[\x1b\x9b\x90\x9d]")
_WRITTEN_ESCAPE = re.compile(r"\\(?:x1b|033|e|u001b)\](?:52|8|0|2)?;", re.IGNORECASE)
_COMMENT = re.compile(r"<!--")
_BAD_WORDS = _compile_pattern(
    r"\b(?:ignore\b[^\n]{0,30}\b(?:previous|instruction)|(?:do\s+not|don't)\s+(?:tell|mention|reveal|show)|secretly|silently|exfiltrat"
    r"|without\s+(?:telling|asking|informing)|system\s+prompt|curl|wget|base64|you\s+must|assistant\s*:|send\b[^\n]{0,60}https?:)"
)
# From the first blank of a run on, and never back: a run without anything behind it is looked at once.
_FAR_RIGHT = re.compile(r"(?<![ \t\u00a0\u3000])[ \t\u00a0\u3000]{150,}+\S")
_OVERRIDES = re.compile("[\u202a\u202b\u202d\u202e\u2066-\u2068]")
_TAGS = re.compile("(?<!\U0001f3f4)(?<![\U000e0020-\U000e007e])[\U000e0000-\U000e007f]")
"""Tag characters, except after the black flag: there they draw the flags of regions."""
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2,}")
"""One selector chooses a glyph for the character before it; several in a row can encode hidden text."""


def read_lines(texts: Mapping[str, str], scripts: Iterable[str], commands: Iterable[str]) -> Iterator[ScannedLine]:
    """Every line of a skill's files, each marked if it runs."""
    command_lines = {line.strip() for command in commands for line in command.split("\n") if line.strip()}
    script_paths = set(scripts)
    for path, text in texts.items():
        kind = "script" if path in script_paths else ""
        for number, line in enumerate(text.split("\n"), 1):
            render = path == "SKILL.md" and (
                line.strip() in command_lines or any(part in command_lines for part in line.split("`")[1:-1])
            )
            for at in range(0, max(1, len(line) - _OVERLAP), _MAX_LINE - _OVERLAP):
                yield ScannedLine(path, number, line[at : at + _MAX_LINE], "render" if render else kind)


def apply_rules(lines: Iterable[ScannedLine]) -> Iterator[tuple[str, Finding]]:
    """The findings of all rules, each with its file; one per rule and line."""
    sends_data: set[str] = set()
    reads_keys: list[tuple[str, Finding]] = []
    for line in lines:
        yield from _find_invisible(line)
        for rule in SCAN_RULES:
            if line.runs not in rule.only or rule.search.search(line.text) is None:
                continue
            finding = (line.path, _rule_finding(rule, line))
            yield finding
            if rule.code == "credential-path" and line.runs == "script" and _KEY_PATHS.search(line.text):
                reads_keys.append(finding)
        if line.runs == "script" and _SENDS_DATA.search(line.text):
            sends_data.add(line.path)
    # Reading a key is a warning and sending data is ordinary; a script that does both is an error.
    for path, key_finding in reads_keys:
        if path in sends_data:
            yield path, Finding("secret-upload", key_finding.line, key_finding.details, fatal=True)


_SENDS_DATA = _compile_pattern(
    r"https?://|\bsocket\.|requests\.(?:post|put|get)|urllib|urlopen|\bfetch\s*\(|\bcurl\b|\bwget\b|smtplib|\bnc\b|axios"
)


def _rule_finding(rule: ScanRule, line: ScannedLine) -> Finding:
    match = rule.search.search(line.text)
    start = max(0, match.start() - 20) if match else 0
    cut = "…" if line.text[:start].strip() else ""
    sure = line.runs in rule.sure or (rule.always is not None and rule.always.search(line.text) is not None)
    return Finding(rule.code, line.number, (cut + shorten_text(line.text[start:].strip(), 120),), sure)


def _find_invisible(line: ScannedLine) -> Iterator[tuple[str, Finding]]:
    """What a person reading the page does not see."""
    text = line.text
    if _FAR_RIGHT.search(text):
        yield line.path, Finding("hidden-words", line.number, ("text far to the right of an empty line",))
    if _WRITTEN_ESCAPE.search(text):
        yield (
            line.path,
            Finding(
                "terminal-escape", line.number, ("an escape sequence for the terminal's clipboard, title or links",)
            ),
        )
    # The fast way out for nearly every line.
    if text.isascii() and text.isprintable():
        return
    if _ESCAPE.search(text):
        yield line.path, Finding("terminal-escape", line.number, ("escape characters",), fatal=True)
    hidden = hidden_characters_in(text.replace("\t", "").replace("\r", ""))
    if not hidden and (run := _SELECTORS.search(text)):
        hidden = tuple(code_points_of(run[0]).split())
    if hidden and line.number == 1 and hidden == ("U+FEFF",) and text.startswith("\ufeff"):
        return  # a byte order mark
    if hidden:
        sure = bool(_TAGS.search(text) or _OVERRIDES.search(text) or _SELECTORS.search(text))
        yield line.path, Finding("hidden-text", line.number, (", ".join(hidden[:8]),), fatal=sure)


def hidden_comments(path: str, text: str) -> Iterator[tuple[str, Finding]]:
    """Instructions in HTML comments: a rendered page hides them, and a model reads them."""
    start = text.find("<!--")
    counted, number = 0, 1
    while start >= 0:
        end = text.find("-->", start)
        inside = text[start + 4 : end if end >= 0 else len(text)][:20_000]
        if _BAD_WORDS.search(inside):
            # From the last one on: counting from the top each time would make many comments slow.
            number, counted = number + text.count("\n", counted, start), start
            yield path, Finding("hidden-words", number, (shorten_text(" ".join(inside.split()), 100),), fatal=True)
        if end < 0:
            return
        start = text.find("<!--", end)


# --- An external scanner ---

SCANNER_PROGRAM = "skill-scanner"
SCAN_SECONDS = 180.0
_SERIOUS_SEVERITIES = ("CRITICAL", "HIGH")

SandboxRunner: TypeAlias = Callable[[ProgramSpec, SandboxSpec], ProcessResult]


def make_scanner(program: str, env: Mapping[str, str], run: SandboxRunner) -> Callable[[str], tuple[Problem, ...]]:
    """A function that scans a folder with an external program, without network and with a time limit."""

    def scan(folder: str) -> tuple[Problem, ...]:
        prefix = readable_prefix(program, folder)
        scan_program = ProgramSpec(
            (program, "scan", folder, "--format", "json"),
            folder,
            {name: env[name] for name in ("PATH", "LANG") if name in env} | {"HOME": "/tmp"},
            SCAN_SECONDS,
            4_000_000,
        )
        return parse_report(
            run(scan_program, SandboxSpec("prefer", skill=folder, permissions=SandboxPermissions(read=(prefix,))))
        )

    return scan


def readable_prefix(program: str, writable: str) -> str:
    """The folder that the sandbox must show for a program to run: the parent of its `bin`, with its libraries.

    Only `bin` itself if the parent also contains the writable folder; nothing for a program of the machine's own,
    which every sandbox shows.
    """
    bin_folder = paths.real_path(program.rpartition("/")[0])
    outer = bin_folder.rpartition("/")[0] or "/"
    if outer == "/" or any(paths.is_inside(outer, folder) for folder in SYSTEM):
        return ""
    return bin_folder if paths.is_inside(writable, outer) else outer


def parse_report(result: ProcessResult) -> tuple[Problem, ...]:
    """The scanner's findings as problems.  A scan that did not finish is an error: nothing was scanned then."""
    if result.timed_out:
        return (_scan_failure("it timed out"),)
    if result.status is None:
        return (_scan_failure(result.note or "it could not start"),)
    try:
        # The scanner may print a banner before its report.
        tree = json.loads(result.stdout[result.stdout.index("{") :])
        findings = tree["findings"]
        return tuple(_parse_finding(finding) for finding in findings)
    except (ValueError, KeyError, TypeError, AttributeError):
        return (_scan_failure(f"it exited with {result.status} and no report: {clean_line(result.stderr)[-200:]}"),)


def _scan_failure(why: str) -> Problem:
    return problem_from(Finding("scan-failed", 0, (why,), fatal=True))


def _parse_finding(entry: Mapping[str, Any]) -> Problem:
    severity = str(entry.get("severity", "")).upper()
    if severity not in ("CRITICAL", "HIGH", "MEDIUM", "LOW", "INFO", "SAFE"):
        return _scan_failure(f"it reported an unknown severity `{severity[:20]}`")
    title = clean_line(str(entry.get("title") or entry.get("rule_id") or entry.get("description") or ""))[:200]
    line = entry.get("line_number")
    finding = Finding(
        "scan-finding", line if isinstance(line, int) else 0, (f"{severity}: {title}",), severity in _SERIOUS_SEVERITIES
    )
    return problem_from(finding, str(entry.get("file_path") or ""))
