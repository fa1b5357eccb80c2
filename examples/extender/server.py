"""An extender: a program that says over HTTP which nodes take pods, in the words of Volcano's plugin.

It keeps pods off nodes with a label ``example.org/sick``, and likes nodes the more the newer their firmware
is (label ``example.org/firmware``, a number). Run it, and name it in the scheduler's configuration::

    python server.py 8888

    - name: extender
      arguments:
        extender.urlPrefix: http://127.0.0.1:8888
        extender.predicateVerb: predicate
        extender.prioritizeVerb: prioritize
        extender.httpTimeout: 1s
        extender.ignorable: false
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SICK, FIRMWARE = "example.org/sick", "example.org/firmware"
Body = Mapping[str, Any]


def predicate(asked: Body) -> Body:
    """Return ``{"status": why not}``, empty where the node takes the pod; ``asked`` has a task and a node."""
    sick = _labels(asked["node"]).get(SICK)
    return {"status": f"the node is sick: {sick}" if sick else "", "code": 0}


def prioritize(asked: Body) -> Body:
    """Return points for each of the nodes by name; more is better."""
    return {"nodeScore": {node["Name"]: _number(_labels(node).get(FIRMWARE)) for node in asked["nodes"]}}


VERBS: Mapping[str, Callable[[Body], Body]] = {"/predicate": predicate, "/prioritize": prioritize}


def _labels(node: Body) -> Mapping[str, str]:
    labels: Mapping[str, str] = node["Node"]["metadata"].get("labels") or {}
    return labels


def _number(text: str | None) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0.0


class Handler(BaseHTTPRequestHandler):
    """Answers POSTs of JSON with JSON."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer one question."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer = VERBS.get(self.path)
        status = 404 if answer is None else 200
        data = b"" if answer is None else json.dumps(answer(json.loads(body))).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Say nothing: there is a request for each node."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
