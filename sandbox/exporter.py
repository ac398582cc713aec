"""The exporter simulator: serves /metrics as real exporters would; knows neither terms nor verdicts.

Paths: `/<source>/metrics`, `/state` (assignments, activities), `/healthz`.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from sandbox.api import Api
from sandbox.census import Census
from sandbox.deadline import wall_clock
from sandbox.devices import GpuPod, read_node, read_pod
from sandbox.mirror import Mirror
from sandbox.ports import LOOPBACK
from sandbox.shapes import SHAPES, dcgm_free, exposition
from sandbox.sources import SOURCES


class Exporter:
    """Follows nodes and pods and answers scrapes."""

    def __init__(self, api: Api, state: Path, interval: float) -> None:
        self.interval = interval
        self.census = Census(state)
        self.nodes = Mirror(api, "/api/v1/nodes", self._changed)
        self.pods = Mirror(api, "/api/v1/pods", self._changed)

    def start(self) -> None:
        """Begins to follow the API server."""
        for mirror in (self.nodes, self.pods):
            threading.Thread(target=mirror.run, daemon=True).start()

    @property
    def synced(self) -> bool:
        """Says whether nodes and pods are known."""
        return self.nodes.synced.is_set() and self.pods.synced.is_set()

    def metrics(self, name: str, at: float) -> str:
        """Writes what the exporter of this name prints; free devices are the business of `dcgm` alone."""
        source = SOURCES[name]
        series = SHAPES[source.shape](self.census.view(at, self.interval, name))
        free = dcgm_free(self.census.view(at, self.interval)) if name == "dcgm" else iter(())
        return exposition(chain(series, free))

    def _changed(self) -> None:
        if not self.synced:
            # Half a picture would make it forget who holds what.
            return
        nodes = [read_node(obj) for obj in self.nodes.objects()]
        pods = [pod for obj in self.pods.objects() if (pod := _readable(obj)) is not None]
        self.census.update(nodes, pods, wall_clock())


def _readable(obj: dict[str, Any]) -> GpuPod | None:
    """Reads a pod; one with annotations that nobody can read is reported once per change and left out."""
    try:
        return read_pod(obj)
    except ValueError as error:
        metadata = obj["metadata"]
        sys.stderr.write(f"{metadata['namespace']}/{metadata['name']}: {error}\n")
        return None


def handler(exporter: Exporter) -> type[BaseHTTPRequestHandler]:
    """Makes the request handler for an exporter."""

    class Handler(BaseHTTPRequestHandler):
        """Answers GET."""

        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            """Answers the three kinds of path."""
            name = self.path.removeprefix("/").removesuffix("/metrics")
            if self.path == "/healthz":
                self._send(200 if exporter.synced else 503, "ok\n")
            elif self.path == "/state":
                self._send(200, exporter.census.dump(), "application/json")
            elif name in SOURCES and self.path.endswith("/metrics"):
                self._send(200, exporter.metrics(name, wall_clock()))
            else:
                self._send(404, "no such exporter\n")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class's name)
            """Says nothing about requests."""

        def _send(
            self, status: int, text: str, kind: str = "text/plain; version=0.0.4; charset=utf-8"
        ) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


def main(arguments: Sequence[str]) -> None:
    """Serves until the process is ended."""
    parser = argparse.ArgumentParser(prog="sandbox.exporter", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--interval", type=float, default=1.0)
    options = parser.parse_args(arguments)
    config = yaml.safe_load(options.kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    api = Api(cluster["server"], user["token"], Path(cluster["certificate-authority"]))
    exporter = Exporter(api, options.state, options.interval)
    exporter.start()
    ThreadingHTTPServer((LOOPBACK, options.port), handler(exporter)).serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
