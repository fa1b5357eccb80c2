"""A small gateway of our own on a real port: it keeps jobs, and breaks when told to."""

from __future__ import annotations

import json
import socket
import threading
from collections import deque
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

OVER = {"Completed", "Failed", "Terminated", "Rejected", "Deleted"}


class Gateway:
    """Jobs by (namespace, name), their events, and the faults that come next.

    A fault is a status to answer with, ``drop`` (hang up before the work) or ``drop-after`` (do the
    work, then hang up).
    """

    def __init__(self) -> None:
        self.jobs: dict[tuple[str, str], dict[str, Any]] = {}
        self.events: dict[tuple[str, str], list[tuple[str, dict[str, Any]]]] = {}
        self.queues: list[dict[str, Any]] = []
        self.nodes: list[dict[str, Any]] = []
        self.traces: dict[tuple[str, str], dict[str, Any]] = {}
        self.trial: dict[str, Any] = {}
        """What would become of any job; nothing: nobody answers."""
        self.keys: dict[str, tuple[str, str]] = {}
        self.submitted: list[dict[str, Any]] = []
        self.commands: list[tuple[str, str, str]] = []
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        self.faults: deque[int | str] = deque()
        self.violations: list[dict[str, str]] = []
        self.on_submit: dict[str, Any] = {"phase": "Pending"}
        self.events_per_connection: int | None = None
        self.page = 100
        self.obeys = True
        self.changed = threading.Condition()
        self.stopped = False

    def put(self, name: str, namespace: str = "default", **fields: Any) -> None:
        """Make a job or change it, and tell those who follow it."""
        with self.changed:
            key = (namespace, name)
            base = self.jobs.get(key, {"namespace": namespace, "name": name, "queue": "default"})
            before = base.get("phase")
            self.jobs[key] = {**base, **fields}
            if self.jobs[key].get("phase") != before:
                data = {
                    "phase": self.jobs[key].get("phase", ""),
                    "message": self.jobs[key].get("message", ""),
                }
                entry = {"kind": "phase", "time": "2026-01-02T03:04:05.500Z", "data": data}
                self.events.setdefault(key, []).append(("phase", entry))
            self.changed.notify_all()

    def remove(self, name: str, namespace: str = "default") -> None:
        with self.changed:
            self.jobs.pop((namespace, name), None)
            self.changed.notify_all()

    def stop(self) -> None:
        with self.changed:
            self.stopped = True
            self.changed.notify_all()


class Handler(BaseHTTPRequestHandler):
    """Serves one self.gateway."""

    gateway: Gateway
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def do_DELETE(self) -> None:
        self._serve("DELETE")

    def _serve(self, method: str) -> None:
        parts = urlsplit(self.path)
        self.query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        self.body = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.gateway.seen.append(
            (method, self.path, {key.lower(): value for key, value in self.headers.items()})
        )
        fault = self.gateway.faults.popleft() if self.gateway.faults else None
        if fault == "drop":
            self._hang_up()
            return
        if isinstance(fault, int):
            self._problem(fault, "broken on purpose")
            return
        self.lost = fault == "drop-after"
        self._route(method, [unquote(part) for part in parts.path.strip("/").split("/")])

    def _route(self, method: str, path: list[str]) -> None:  # noqa: C901, PLR0912 - a case for each path
        match method, path:
            case "POST", ["v1", "jobs"]:
                self._submit()
            case "POST", ["v1", "trials"]:
                self._try_out()
            case "GET", ["v1", "jobs"]:
                self._list()
            case "GET", ["v1", ("queues" | "nodes") as kind]:
                self._answer(200, {"items": getattr(self.gateway, kind)})
            case "POST", ["v1", "queues", command]:
                name, _, verb = command.partition(":")
                self._command_queue(name, verb)
            case "POST", ["v1", "pools", command]:
                self._command_pool(*command.split(":"))
            case "POST", ["v1", "jobs", namespace, command]:
                name, _, verb = command.partition(":")
                self._known(namespace, name) and self._command(namespace, name, verb)
            case "GET", ["v1", "jobs", namespace, name]:
                self._known(namespace, name) and self._answer(200, self.gateway.jobs[namespace, name])
            case "DELETE", ["v1", "jobs", namespace, name]:
                if self._known(namespace, name):
                    self.gateway.remove(name, namespace)
                    self._commanded("delete", namespace, name, "Deleted")
            case "GET", ["v1", "jobs", namespace, name, "events"]:
                self._known(namespace, name) and self._events((namespace, name))
            case "GET", ["v1", "jobs", namespace, name, "trace"]:
                self._known(namespace, name) and self._answer(200, self.gateway.traces[namespace, name])
            case _:
                self._problem(404, "no such path")

    def _submit(self) -> None:
        job = json.loads(self.body)
        metadata = job.get("metadata", job)
        key = (metadata.get("namespace", "default"), metadata["name"])
        again = self.gateway.keys.get(self.headers.get("idempotency-key", ""))
        if again is None:
            self.gateway.submitted.append(job)
            if self.gateway.violations:
                self._problem(422, "rejected", violations=self.gateway.violations)
                return
            if key in self.gateway.jobs:
                self._problem(409, f"job {key[0]}/{key[1]} exists")
                return
            self.gateway.keys[self.headers["idempotency-key"]] = key
            self.gateway.put(key[1], key[0], **self.gateway.on_submit)
        self._answer(202, self.gateway.jobs[again or key])

    def _try_out(self) -> None:
        if self.gateway.violations:
            self._problem(422, "would be rejected", violations=self.gateway.violations)
        elif not self.gateway.trial:
            self._problem(504, "the scheduler did not answer within 10 s: does it run?", code="no-answer")
        else:
            self._answer(200, self.gateway.trial)

    def _list(self) -> None:
        namespace, queue = self.query.get("namespace"), self.query.get("queue")
        found = [
            job
            for (where, _), job in sorted(self.gateway.jobs.items())
            if namespace in {None, where} and queue in {None, job["queue"]}
        ]
        start = int(self.query.get("continue", 0))
        end = start + self.gateway.page
        more = str(end) if end < len(found) else None
        self._answer(200, {"items": found[start:end], "continue": more, "total": len(found)})

    def _command(self, namespace: str, name: str, verb: str) -> None:
        self.gateway.commands.append((verb, namespace, name))
        if "wait" in self.query and self.gateway.obeys:
            self.gateway.put(name, namespace, phase="Aborted" if verb == "suspend" else "Pending")
        self._commanded(verb, namespace, name, self.gateway.jobs[namespace, name]["phase"])

    def _command_queue(self, name: str, verb: str) -> None:
        self.gateway.commands.append((verb, "", name))
        queue = next((one for one in self.gateway.queues if one["name"] == name), None)
        if queue is None:
            self._problem(404, f"there is no queue {name}")
            return
        done = self.gateway.obeys and "wait" in self.query
        if done:
            queue["state"] = {"open": "Open", "close": "Closing"}[verb]
        view = {"id": "c1", "name": name, "action": verb, "state": queue["state"], "done": done}
        self._answer(200 if done else 202, view)

    def _command_pool(self, name: str, verb: str) -> None:
        if name != "default":
            self._problem(404, f"there is no node pool {name}")
            return
        self.gateway.commands.append((verb, "", name))
        self._answer(202, {"id": "c1", "pool": name, "action": verb})

    def _commanded(self, action: str, namespace: str, name: str, phase: str) -> None:
        done = self.gateway.obeys and "wait" in self.query
        view = {
            "id": "c1",
            "namespace": namespace,
            "name": name,
            "action": action,
            "phase": phase,
            "done": done,
        }
        self._answer(200 if done else 202, view)

    def _events(self, key: tuple[str, str]) -> None:
        sent = int(self.headers.get("last-event-id") or 0)
        if sent >= len(self.gateway.events.get(key, [])) > 0 and self._over(key):
            self.send_response(204)
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        self.wfile.write(b"retry: 2000\n\n")
        budget = self.gateway.events_per_connection
        while budget is None or budget > 0:
            with self.gateway.changed:
                entries = self.gateway.events.get(key, [])
                if sent >= len(entries) and not self._over(key) and not self.gateway.stopped:
                    self.gateway.changed.wait(5)
                    continue
            if sent >= len(entries):
                self.wfile.write(f"id: {sent}\nevent: end\ndata: {{}}\n\n".encode())
                return
            kind, entry = entries[sent]
            sent += 1
            budget = None if budget is None else budget - 1
            self.wfile.write(f"id: {sent}\nevent: {kind}\ndata: {json.dumps(entry)}\n\n".encode())

    def _known(self, namespace: str, name: str) -> bool:
        if (namespace, name) in self.gateway.jobs:
            return True
        self._problem(404, f"job {namespace}/{name} not found")
        return False

    def _problem(self, status: int, detail: str, **more: Any) -> None:
        self._answer(
            status, {"type": "about:blank", "title": "no", "status": status, "detail": detail, **more}
        )

    def _answer(self, status: int, value: Any) -> None:
        if getattr(self, "lost", False):
            self._hang_up()
            return
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _hang_up(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    def _over(self, key: tuple[str, str]) -> bool:
        return self.gateway.jobs.get(key, {"phase": "Deleted"}).get("phase") in OVER


class QuietServer(ThreadingHTTPServer):
    """A client that goes away in the middle is no error here."""

    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        pass


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    double = Gateway()
    server = QuietServer(("127.0.0.1", 0), type("Bound", (Handler,), {"gateway": double}))
    double.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield double
    double.stop()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nobody's configuration file or environment takes part."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
    for name in ("PUMICE_SERVER", "PUMICE_NAMESPACE", "PUMICE_CLIENT_CONFIG", "PUMICE_DEBUG"):
        monkeypatch.delenv(name, raising=False)
