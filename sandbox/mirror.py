"""Keeps a copy of a collection of the API server by list and watch; does not interpret the objects."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import requests

from sandbox.api import Api

RETRY_SECONDS = 0.3
WATCH_SECONDS = 300


class Mirror:
    """A copy of a collection by UID. While the API server is away the last copy stays."""

    def __init__(self, api: Api, path: str, changed: Callable[[], None]) -> None:
        self._api = api
        self._path = path
        self._changed = changed
        self._objects: dict[str, dict[str, Any]] = {}
        self.synced = threading.Event()

    def run(self) -> None:
        """Follows the collection for ever."""
        pause = threading.Event()
        while True:
            try:
                self._watch(self._list())
            except (requests.RequestException, OSError, ValueError, KeyError):
                # Whatever the reason, a fresh list a moment later puts it right.
                pause.wait(RETRY_SECONDS)

    def objects(self) -> list[dict[str, Any]]:
        """Gives all objects as they are now."""
        return list(self._objects.values())

    def _list(self) -> str:
        reply = self._api.raw("GET", self._path)
        items = reply.json["items"]
        self._objects = {item["metadata"]["uid"]: item for item in items}
        self.synced.set()
        self._changed()
        return str(reply.json["metadata"]["resourceVersion"])

    def _watch(self, version: str) -> None:
        query = f"?watch=true&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}"
        for line in self._api.stream(self._path + query, WATCH_SECONDS + 10.0):
            event = json.loads(line)
            obj = event["object"]
            if event["type"] in ("ADDED", "MODIFIED"):
                self._objects = {**self._objects, obj["metadata"]["uid"]: obj}
            elif event["type"] == "DELETED":
                self._objects = {
                    uid: one for uid, one in self._objects.items() if uid != obj["metadata"]["uid"]
                }
            else:
                return
            self._changed()
