"""A small synchronous JSON client of the API server, for tests and the demo; knows no objects of ours."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import requests

from sandbox.deadline import wait

T = TypeVar("T")
Json = Any
TIMEOUT_SECONDS = 15.0
PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


class ApiError(RuntimeError):
    """The API server refused a request.

    Attributes:
        status: The HTTP status.
        reason: The machine-readable reason of the Status object.
        message: Its sentence for people.
        reply: The whole reply.
    """

    def __init__(self, reply: Reply, request: str) -> None:
        body = reply.json if isinstance(reply.json, dict) else {}
        self.reply = reply
        self.status = reply.status
        self.reason = str(body.get("reason", ""))
        self.message = str(body.get("message", reply.text[:500]))
        super().__init__(f"{request}: {self.status} {self.reason}: {self.message}")


@dataclass(frozen=True)
class Reply:
    """An answer: status, parsed body (None if it is not JSON), raw text, warnings for people, and headers."""

    status: int
    json: Json
    text: str = ""
    warnings: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)


class Api:
    """Requests as one user. Paths start at the server's root, such as `/api/v1/namespaces/a/pods/p`."""

    def __init__(self, server: str, token: str, ca: Path, timeout: float = TIMEOUT_SECONDS) -> None:
        self.server = server
        self.timeout = timeout
        self._session = requests.Session()
        self._session.headers["Authorization"] = f"Bearer {token}"
        self._session.verify = str(ca)
        self._session.trust_env = False

    def close(self) -> None:
        """Closes the kept connections."""
        self._session.close()

    def raw(
        self,
        method: str,
        path: str,
        body: Json = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Reply:
        """Sends one request and gives whatever comes back; raises only if nothing does."""
        data = body if isinstance(body, (str, bytes)) or body is None else json.dumps(body)
        answer = self._session.request(
            method,
            self.server + path,
            data=data,
            headers={"Content-Type": "application/json", "Accept": "application/json", **(headers or {})},
            timeout=timeout or self.timeout,
        )
        return _reply(answer)

    def stream(self, path: str, idle_seconds: float) -> Iterator[bytes]:
        """Gives the lines of a watch as they come; requests' exceptions tell when it breaks."""
        with self._session.get(
            self.server + path, stream=True, timeout=(self.timeout, idle_seconds)
        ) as answer:
            answer.raise_for_status()
            yield from answer.iter_lines(chunk_size=None)

    def get(self, path: str) -> Json:
        """Reads an object."""
        return self._done("GET", path)

    def find(self, path: str) -> Json:
        """Reads an object; None if there is none."""
        reply = self.raw("GET", path)
        return None if reply.status == 404 else _checked(reply, f"GET {path}").json

    def list(self, path: str, label_selector: str = "", field_selector: str = "") -> list[Json]:
        """Gives the items of a collection."""
        wanted = {"labelSelector": label_selector, "fieldSelector": field_selector}
        query = urlencode({key: value for key, value in wanted.items() if value})
        items: list[Json] = self._done("GET", f"{path}?{query}")["items"]
        return items

    def create(self, path: str, body: Json) -> Json:
        """Posts an object to its collection and gives it as stored."""
        return self._done("POST", path, body)

    def replace(self, path: str, body: Json) -> Json:
        """Puts an object."""
        return self._done("PUT", path, body)

    def patch(self, path: str, body: Json, type: str = "merge") -> Json:  # noqa: A002 (kubectl's word)
        """Patches an object; type is merge, json, strategic, or apply (with `?fieldManager=` in the path)."""
        return self._done("PATCH", path, body, {"Content-Type": PATCH_TYPES[type]})

    def delete(self, path: str, body: Json = None) -> Json:
        """Deletes an object; one that is not there is no error."""
        reply = self.raw("DELETE", path, body)
        return reply.json if reply.status == 404 else _checked(reply, f"DELETE {path}").json

    def wait(self, predicate: Callable[[], T | None], timeout: float, what: str) -> T:
        """Gives the first true value of the predicate; TimeoutError names what did not happen."""
        return wait(predicate, timeout, what)

    def create_namespace(
        self, name: str, labels: Mapping[str, str] | None = None, annotations: Mapping[str, str] | None = None
    ) -> Json:
        """Makes a namespace in which pods can be created at once."""
        metadata = {"name": name, "labels": labels or {}, "annotations": annotations or {}}
        made = self.create("/api/v1/namespaces", {"metadata": metadata})
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        self.wait(lambda: self.find(account), 20, f"namespace {name} has its default service account")
        return made

    def delete_namespace(self, name: str, timeout: float = 30.0) -> None:
        """Deletes a namespace with all it holds and returns when it is gone."""
        path = f"/api/v1/namespaces/{name}"
        self.delete(path)
        self.wait(lambda: self.find(path) is None, timeout, f"namespace {name} is gone")

    def grant_edit(self, namespace: str, user: str) -> None:
        """Binds the built-in role `edit` in one namespace to a user."""
        body = {
            "metadata": {"name": f"edit-{user}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        }
        self.create(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings", body)

    def evict(self, namespace: str, pod: str, uid: str | None = None) -> Reply:
        """Asks for the eviction of a pod: 201 accepted, 409 another UID, 429 a disruption budget."""
        options = {"preconditions": {"uid": uid}} if uid else {}
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
            "deleteOptions": options,
        }
        return self.raw("POST", f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction", body)

    def wait_running(self, namespace: str, pod: str, timeout: float = 60.0) -> Json:
        """Gives a pod as soon as it runs."""
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}"

        def running() -> Json:
            found = self.find(path)
            return found if found and found.get("status", {}).get("phase") == "Running" else None

        return self.wait(running, timeout, f"pod {namespace}/{pod} runs")

    def _done(
        self, method: str, path: str, body: Json = None, headers: Mapping[str, str] | None = None
    ) -> Json:
        return _checked(self.raw(method, path, body, headers), f"{method} {path}").json


def _checked(reply: Reply, request: str) -> Reply:
    if reply.status >= 400:
        raise ApiError(reply, request)
    return reply


def _reply(answer: requests.Response) -> Reply:
    try:
        parsed = answer.json()
    except ValueError:
        parsed = None
    return Reply(answer.status_code, parsed, answer.text, warnings_of(answer.headers), dict(answer.headers))


def warnings_of(headers: Mapping[str, str]) -> tuple[str, ...]:
    """Takes the texts out of `Warning: 299 - "text"` headers, several of which arrive joined by commas."""
    found = re.findall(r'299 \S+ "((?:[^"\\]|\\.)*)"', headers.get("Warning", ""))
    return tuple(re.sub(r"\\(.)", r"\1", text) for text in found)
