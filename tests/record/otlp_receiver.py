"""An OTLP/HTTP receiver: a process of its own that writes each span and each metric it gets as a line of JSON.

It decodes with the protobuf messages of the protocol, so whatever it understands a collector understands.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return [plain(item) for item in value.array_value.values] if kind == "array_value" else getattr(value, kind)


def table(attributes: Any) -> dict[str, Any]:
    return {pair.key: plain(pair.value) for pair in attributes}


def spans(body: bytes) -> Iterator[dict[str, Any]]:
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield {
                    "kind": "span",
                    "service": table(resource.resource.attributes)["service.name"],
                    "name": span.name,
                    "trace": span.trace_id.hex(),
                    "id": span.span_id.hex(),
                    "parent": span.parent_span_id.hex(),
                    "from": span.start_time_unix_nano,
                    "to": span.end_time_unix_nano,
                    "error": span.status.code == 2,
                    "about": table(span.attributes),
                    "events": {event.name: table(event.attributes) for event in span.events},
                }


def measured(body: bytes) -> Iterator[dict[str, Any]]:
    for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                data = getattr(metric, metric.WhichOneof("data"))
                for point in data.data_points:
                    value = point.sum if hasattr(point, "sum") else point.as_int or point.as_double
                    yield {"kind": "metric", "name": metric.name, "value": value, "about": table(point.attributes)}


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        decode = spans if self.path == "/v1/traces" else measured
        with open(sys.argv[1], "a") as file:
            for entry in decode(body):
                file.write(json.dumps(entry | {"sent_with": self.headers.get("x-team", "")}) + "\n")
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class Received:
    def __init__(self, file: Path, port: int) -> None:
        self.file, self.address = file, f"http://127.0.0.1:{port}"

    def all(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []

    def spans(self, start: str = "") -> list[dict[str, Any]]:
        return [entry for entry in self.all() if entry["kind"] == "span" and entry["name"].startswith(start)]

    def metric(self, name: str) -> list[dict[str, Any]]:
        return [entry for entry in self.all() if entry["kind"] == "metric" and entry["name"] == name]


@contextmanager
def receiving(folder: Path) -> Iterator[Received]:
    file = folder / "received.jsonl"
    with subprocess.Popen([sys.executable, __file__, str(file)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Received(file, int(process.stdout.readline()))
        finally:
            process.kill()


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    os.write(1, f"{server.server_port}\n".encode())
    server.serve_forever()
