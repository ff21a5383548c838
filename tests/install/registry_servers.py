"""Servers that speak the shapes of public registries, with the faults that such servers have."""

from __future__ import annotations

import hashlib
import io
import json
import time
import zipfile
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.install.servers import skill_text


def zipped(files: dict[str, bytes]) -> bytes:
    """An archive as ClawHub makes it, with its own `_meta.json`."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            archive.writestr(path, data)
        archive.writestr("_meta.json", b'{"slug": "x"}')
    return made.getvalue()


@dataclass
class ClawHub:
    """ClawHub's API over some skills: `{(owner, slug): {version: files}}`."""

    skills: dict[tuple[str, str], dict[str, dict[str, bytes]]] = field(default_factory=dict)
    fault: str = ""
    moderation: dict[str, Any] = field(default_factory=dict)
    verdicts: dict[str, dict[str, Any]] = field(default_factory=dict)
    github: dict[str, str] = field(default_factory=dict)
    posted: list[dict[str, Any]] = field(default_factory=list)
    archive: bytes | None = None
    limited: int = 0
    """Answers 429 this many times, then none."""
    retry: str = "1"

    def add(self, owner: str, slug: str, version: str, **texts: str) -> None:
        files = {"SKILL.md": skill_text(slug, **texts).encode()}
        self.skills.setdefault((owner, slug), {})[version] = files

    def __call__(self, asked: BaseHTTPRequestHandler) -> None:
        url = urlsplit(asked.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        if self.limited:
            self.limited -= 1
            self._send(asked, 429, b"Rate limit exceeded", {"Retry-After": self.retry})
            return
        if self.fault == "slow":
            asked.send_response(200)
            asked.end_headers()
            for _ in range(100):
                asked.wfile.write(b" ")
                asked.wfile.flush()
                time.sleep(0.2)
            return
        if self.fault == "huge":
            self._send(asked, 200, b'{"results": "' + b"x" * 5_000_000 + b'"}')
            return
        if self.fault == "not json":
            self._send(asked, 200, b"<html>a captive portal</html>")
            return
        if self.fault.startswith("redirect "):
            self._send(asked, 302, b"", {"Location": self.fault.removeprefix("redirect ")})
            return
        answer = self._answer(asked, [unquote(part) for part in url.path.strip("/").split("/")][2:], query)
        if isinstance(answer, bytes):
            self._send(asked, 200, answer)
        elif answer is None:
            self._send(asked, 404, b"Skill not found")
        else:
            self._send(asked, 200, json.dumps(answer).encode())

    def _send(
        self, asked: BaseHTTPRequestHandler, status: int, data: bytes, headers: dict[str, str] | None = None
    ) -> None:
        asked.send_response(status)
        for key, value in (headers or {}).items():
            asked.send_header(key, value)
        asked.send_header("Content-Length", str(len(data)))
        asked.end_headers()
        asked.wfile.write(data)

    def _answer(self, asked: BaseHTTPRequestHandler, parts: list[str], query: dict[str, str]) -> Any:
        if parts == ["search"]:
            return {"results": [result for result in self._results() if query["q"] in json.dumps(result)]}
        if parts == ["skills", "-", "security-verdicts"]:
            body = json.loads(asked.rfile.read(int(asked.headers["Content-Length"])))
            self.posted.append(body)
            return {"schema": "clawhub.skill.security-verdicts.v1", "items": list(map(self._verdict, body["items"]))}
        slug = parts[1] if parts[0] == "skills" else query["slug"]
        owner = query.get("ownerHandle", "")
        found = next((key for key in self.skills if key[1] == slug and owner in ("", key[0])), None)
        if found is None:
            return None
        versions = self.skills[found]
        if parts[0] == "download":
            return self._download(versions.get(query["version"]))
        if parts[2:] == ["install"]:
            if self.github:
                return {"ok": True, "slug": slug, "installKind": "github", "github": self.github}
            archive = {"version": list(versions)[-1], "downloadUrl": "https://elsewhere.example/x.zip"}
            return {"ok": True, "slug": slug, "installKind": "archive", "archive": archive}
        if parts[2:3] == ["versions"]:
            files = versions.get(parts[3])
            return files and {"version": {"version": parts[3], "files": self._listed(files)}, "skill": {"slug": slug}}
        return {
            "skill": {"slug": slug},
            "owner": {"handle": found[0]},
            "latestVersion": {"version": list(versions)[-1]},
            "moderation": self.moderation or None,
        }

    def _results(self) -> list[dict[str, Any]]:
        return [
            {"slug": slug, "ownerHandle": owner, "version": list(versions)[-1], "summary": f"About {slug}", "score": 1}
            for (owner, slug), versions in self.skills.items()
        ]

    def _listed(self, files: dict[str, bytes]) -> list[dict[str, Any]] | None:
        if self.fault == "no digests":
            return None
        return [
            {"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for path, data in files.items()
        ]

    def _download(self, files: dict[str, bytes] | None) -> bytes | None:
        if files is None or self.archive is not None:
            return self.archive
        if self.fault == "wrong digest":
            files = {**files, "SKILL.md": files["SKILL.md"] + b"One more line.\n"}
        if self.fault == "one more file":
            files = {**files, "scripts/extra.sh": b"echo more\n"}
        return zipped(files)

    def _verdict(self, item: dict[str, str]) -> dict[str, Any]:
        asked = {"requestedSlug": item["slug"], "requestedVersion": item["version"]}
        if "ownerHandle" in item:
            asked["requestedOwnerHandle"] = item["ownerHandle"]
        return {**asked, **self.verdicts.get(item["slug"], {"ok": True, "decision": "pass", "reasons": []})}


def skills_sh(skills: list[dict[str, Any]]) -> Any:
    """The search of skills.sh."""

    def answer(asked: BaseHTTPRequestHandler) -> None:
        words = parse_qs(urlsplit(asked.path).query)["q"][0]
        found = [skill for skill in skills if words in skill["name"]]
        data = json.dumps({"query": words, "skills": found, "count": len(found)}).encode()
        asked.send_response(200)
        asked.send_header("Content-Length", str(len(data)))
        asked.end_headers()
        asked.wfile.write(data)

    return answer
