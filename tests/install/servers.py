"""Real servers on this machine: git over http and https, and files over https with redirects."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

GIT = {
    "PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.com",
}  # fmt: skip


def git(*words: str, cwd: Path, date: int | None = None) -> str:
    env = GIT | ({"GIT_COMMITTER_DATE": f"{date} +0000", "GIT_AUTHOR_DATE": f"{date} +0000"} if date else {})
    done = subprocess.run(["git", *words], cwd=cwd, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def skill_text(name: str, description: str = "", body: str = "Do it.\n", more: str = "") -> str:
    said = description or f"Handles {name} when somebody asks for {name}."
    return f"---\nname: {name}\ndescription: {said}\n{more}---\n{body}"


class Repo:
    """A repository to install from."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        git("init", "-q", "-b", "main", cwd=path)
        git("config", "uploadpack.allowFilter", "true", cwd=path)

    def write(self, inner: str, text: str | bytes, executable: bool = False) -> None:
        file = self.path / inner
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        file.chmod(0o755 if executable else 0o644)

    def skill(self, inner: str, **more: str) -> None:
        self.write(f"{inner}/SKILL.md", skill_text(inner.rpartition("/")[2], **more))

    def commit(self, message: str = "change", date: int | None = None) -> str:
        git("add", "-A", cwd=self.path)
        git("commit", "-q", "--allow-empty", "-m", message, cwd=self.path, date=date)
        return git("rev-parse", "HEAD", cwd=self.path)


def anthropic_like(path: Path) -> Repo:
    """A repository laid out like anthropics/skills: a `skills/` folder and a marketplace file."""
    repo = Repo(path)
    for name in ("pdf", "docx", "brand-guidelines"):
        repo.skill(f"skills/{name}")
    repo.write("skills/pdf/scripts/fill.py", "print('filled')\n", executable=True)
    repo.write("skills/pdf/reference.md", "More about PDF.\n")
    repo.write(".claude-plugin/marketplace.json", '{"name": "anthropic-agent-skills", "plugins": []}\n')
    repo.write("README.md", "# Skills\n")
    repo.commit("first")
    return repo


class Server(NamedTuple):
    url: str
    seen: list[tuple[str, dict[str, str]]]
    certificate: str = ""

    @property
    def env(self) -> dict[str, Any]:
        return {"SSL_CERT_FILE": self.certificate, "GIT_SSL_CAINFO": self.certificate} if self.certificate else {}


Answer = Callable[[BaseHTTPRequestHandler], None]


@contextlib.contextmanager
def serving(answer: Answer, certificate: Path | None = None) -> Iterator[Server]:
    """Answer requests on loopback until the test is over."""
    seen: list[tuple[str, dict[str, str]]] = []

    class Asked(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"

        def do_GET(self) -> None:
            seen.append((self.path, dict(self.headers)))
            with contextlib.suppress(OSError):
                answer(self)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Asked)
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    scheme = "https" if certificate else "http"
    try:
        yield Server(f"{scheme}://127.0.0.1:{server.server_port}", seen, str(certificate or ""))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def proxying() -> Iterator[tuple[str, list[tuple[str, dict[str, str]]]]]:
    """A proxy on loopback that leads any name to 127.0.0.1: its address, and what it was asked."""
    seen: list[tuple[str, dict[str, str]]] = []

    class Asked(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            seen.append((f"CONNECT {self.path}", dict(self.headers)))
            with socket.create_connection(("127.0.0.1", int(self.path.rpartition(":")[2]))) as far:
                self.send_response(200)
                self.end_headers()
                back = threading.Thread(target=_pour, args=(far, self.connection))
                back.start()
                _pour(self.connection, far)
                back.join()

        def do_GET(self) -> None:
            seen.append((f"GET {self.path}", dict(self.headers)))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"by proxy")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Asked)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _pour(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def make_certificate(folder: Path) -> Path:
    """A certificate of our own making for 127.0.0.1, key and all in one file."""
    key, cert, both = folder / "key.pem", folder / "cert.pem", folder / "both.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    both.write_bytes(key.read_bytes() + cert.read_bytes())
    return both


def files(contents: dict[str, bytes], redirects: dict[str, str] | None = None, pause: float = 0.0) -> Answer:
    def answer(asked: BaseHTTPRequestHandler) -> None:
        if redirects and asked.path in redirects:
            asked.send_response(302)
            asked.send_header("Location", redirects[asked.path])
            asked.end_headers()
            return
        data = contents.get(asked.path)
        if data is None:
            asked.send_error(404)
            return
        asked.send_response(200)
        if not pause:
            asked.send_header("Content-Length", str(len(data)))
        asked.end_headers()
        if not pause:
            asked.wfile.write(data)
            return
        for at in range(len(data)):
            asked.wfile.write(data[at : at + 1])
            asked.wfile.flush()
            time.sleep(pause)

    return answer


def git_http(folder: Path, token: str = "") -> Answer:
    """git's own http-backend; with a token only those who bring it are let in."""
    backend = (
        subprocess.run(["git", "--exec-path"], capture_output=True, text=True).stdout.strip() + "/git-http-backend"
    )

    def answer(asked: BaseHTTPRequestHandler) -> None:
        from base64 import b64decode

        given = asked.headers.get("Authorization", "").removeprefix("Basic ")
        if token and token not in b64decode(given + "==").decode("utf-8", "replace"):
            asked.send_response(401)
            asked.send_header("WWW-Authenticate", 'Basic realm="x"')
            asked.send_header("Content-Length", "0")
            asked.end_headers()
            return
        path, _, query = asked.path.partition("?")
        body = asked.rfile.read(int(asked.headers.get("Content-Length") or 0))
        env = GIT | {
            "GIT_PROJECT_ROOT": str(folder), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path, "QUERY_STRING": query,
            "REQUEST_METHOD": asked.command, "CONTENT_TYPE": asked.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": asked.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": asked.headers.get("Git-Protocol", ""), "REMOTE_USER": "x", "REMOTE_ADDR": "127.0.0.1",
        }  # fmt: skip
        said = subprocess.run([backend], input=body, env=env, capture_output=True, timeout=60).stdout
        head, _, content = said.partition(b"\r\n\r\n")
        lines = [line.partition(": ") for line in head.decode().split("\r\n")]
        status = next((int(value.split()[0]) for key, _, value in lines if key == "Status"), 200)
        asked.send_response(status)
        for key, _, value in lines:
            if key not in ("Status", ""):
                asked.send_header(key, value)
        asked.send_header("Content-Length", str(len(content)))
        asked.end_headers()
        asked.wfile.write(content)

    return answer
