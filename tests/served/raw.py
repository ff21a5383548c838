"""A client that sends whatever it likes to a real server process, and reads lines back."""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from tests.served_files import Shop

METIER = [sys.executable, "-m", "metier"]
PATIENCE = 120.0
"""Seconds for an answer, on a machine that does other things as well."""


class Raw:
    def __init__(self, shop: Shop, errors: Path) -> None:
        self.errors = errors
        with errors.open("wb") as file:
            self.process = subprocess.Popen(
                [*METIER, "--root", str(shop.skills), "mcp"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                cwd=shop.world.project,
                env={**shop.world.variables, "PATH": os.environ["PATH"]},
                preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # a shell's background ignores it
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self.held = b""
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.stdout, selectors.EVENT_READ)

    def send(self, line: bytes) -> None:
        self.stdin.write(line + b"\n")
        self.stdin.flush()

    def say(self, **message: Any) -> None:
        self.send(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def hear(self) -> dict[str, Any]:
        """The next line, which must be a message."""
        until = time.monotonic() + PATIENCE
        while b"\n" not in self.held:
            assert self.selector.select(max(0.0, until - time.monotonic())), f"silence: {self.errors.read_text()}"
            part = os.read(self.stdout.fileno(), 65_536)
            assert part, f"the server is gone: {self.errors.read_text()}"
            self.held += part
        line, _, self.held = self.held.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def answer(self, number: int) -> dict[str, Any]:
        """The answer to a request; what comes before it is passed over."""
        while True:
            message = self.hear()
            if message.get("id") == number and "method" not in message:
                return message

    def ask(self, number: int, method: str, **params: Any) -> dict[str, Any]:
        self.say(id=number, method=method, params=params)
        return self.answer(number)

    def greet(self) -> None:
        version = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        assert "result" in self.ask(0, "initialize", **version)
        self.say(method="notifications/initialized")

    def lives(self) -> bool:
        return self.ask(999_999, "ping").get("result") == {}

    def peak(self) -> int:
        """The most memory the server ever had, in kilobytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])

    def close(self) -> int:
        self.stdin.close()
        try:
            return self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()
            self.stdout.close()
            self.selector.close()
