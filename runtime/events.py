"""Writes Kubernetes Events (events.k8s.io/v1), best effort: no logic may depend on one. Knows not why."""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Literal, Protocol

import structlog
from msgspec import Struct, structs

from runtime import metrics
from runtime.clock import Clock
from runtime.kube import MERGE_PATCH, ApiError, ApiUnreachable, KubePort
from runtime.log import escape
from runtime.times import micro_time

NOTE_BYTES = 1024
WORD_CHARACTERS = 128
REMEMBERED = 4096
EVENT_SECONDS = 5.0
log = structlog.get_logger(__name__)


class Regarding(Struct, frozen=True):
    """The object that an Event is about; without a namespace the Event goes to `default`."""

    kind: str
    name: str
    uid: str
    namespace: str = ""
    api_version: str = "v1"


class EventsPort(Protocol):
    """Who sends Events; EventRecorder does, and so do fakes in tests. Never raises."""

    async def record(
        self,
        regarding: Regarding,
        reason: str,
        action: str,
        note: str,
        type: Literal["Normal", "Warning"] = "Normal",  # noqa: A002 - the field's name in the API
    ) -> bool:
        """Sends or repeats one Event; returns whether it arrived."""
        ...


class Sent(StrEnum):
    """What became of an Event that is to be sent once."""

    CREATED = "created"
    KNOWN = "known"
    FAILED = "failed"


class OncePort(Protocol):
    """Who sends Events that are not to be repeated; EventRecorder does, and so do fakes. Never raises."""

    async def once(
        self,
        key: str,
        regarding: Regarding,
        reason: str,
        action: str,
        note: str,
        type: Literal["Normal", "Warning"] = "Normal",  # noqa: A002 - the field's name in the API
    ) -> Sent:
        """Sends an Event unless one with this key about this object is there, whoever sent it."""
        ...


class NoOnce:
    """The OncePort that sends none, and says that all was sent before."""

    async def once(
        self,
        key: str,
        regarding: Regarding,
        reason: str,
        action: str,
        note: str,
        type: Literal["Normal", "Warning"] = "Normal",  # noqa: A002 - the field's name in the API
    ) -> Sent:
        """Sends nothing."""
        del key, regarding, reason, action, note, type
        return Sent.KNOWN


class EventRecorder:
    """Creates Events, and counts repeats in the series of the first: all else of an Event is immutable.

    `controller` is a qualified name such as `gpu-tenure.io/reaper`, `instance` names the process; `token`
    returns a fresh suffix for an Event's name.
    """

    def __init__(
        self,
        client: KubePort,
        *,
        clock: Clock,
        controller: str,
        instance: str,
        token: Callable[[], str] = lambda: secrets.token_hex(6),
    ) -> None:
        self._client = client
        self._clock = clock
        self._controller = controller
        self._instance = instance[:WORD_CHARACTERS]
        self._token = token
        self._recent: OrderedDict[_Same, _Written] = OrderedDict()

    async def record(
        self,
        regarding: Regarding,
        reason: str,
        action: str,
        note: str,
        type: Literal["Normal", "Warning"] = "Normal",  # noqa: A002 - the field's name in the API
    ) -> bool:
        """Creates the Event, or counts it if it is a repeat; returns whether the API server took it.

        A note longer than 1,024 bytes is cut between characters. Refusals and outages raise nothing.
        """
        same = _Same(regarding, reason[:WORD_CHARACTERS], action[:WORD_CHARACTERS], cut(escape(note)), type)
        try:
            result = await self._repeat(same) or await self._create(same)
        except (ApiError, ApiUnreachable) as error:
            metrics.EVENTS.labels("failed").inc()
            log.debug("event not written", reason=reason, name=regarding.name, error=str(error))
            return False
        metrics.EVENTS.labels(result).inc()
        return True

    async def once(
        self,
        key: str,
        regarding: Regarding,
        reason: str,
        action: str,
        note: str,
        type: Literal["Normal", "Warning"] = "Normal",  # noqa: A002 - the field's name in the API
    ) -> Sent:
        """Creates the Event under a name that follows from the object and the key.

        So another process that was told the same creates nothing, as long as the API server keeps Events.
        """
        same = _Same(regarding, reason[:WORD_CHARACTERS], action[:WORD_CHARACTERS], cut(escape(note)), type)
        token = hashlib.sha256(f"{regarding.uid}/{key}".encode()).hexdigest()[:16]
        sent = Sent.CREATED
        try:
            await self._create(same, token)
        except ApiError as error:
            sent = Sent.KNOWN if error.reason == "AlreadyExists" else Sent.FAILED
        except ApiUnreachable:
            sent = Sent.FAILED
        metrics.EVENTS.labels(sent.value).inc()
        return sent

    async def _repeat(self, same: _Same) -> str | None:
        written = self._recent.get(same)
        if written is None:
            return None
        count = written.count + 1
        series = {"count": count, "lastObservedTime": micro_time(self._clock.now())}
        path = f"{_collection(same.regarding)}/{written.name}"
        try:
            await self._send("PATCH", path, {"series": series}, MERGE_PATCH)
        except ApiError as error:
            if error.status != 404:
                raise
            del self._recent[same]  # the API server forgets Events after an hour
            return None
        self._remember(same, structs.replace(written, count=count))
        return "repeated"

    async def _create(self, same: _Same, token: str = "") -> str:
        name = f"{same.regarding.name[:230].rstrip('.-')}.{token or self._token()}"
        await self._send("POST", _collection(same.regarding), self._event(same, name), "application/json")
        self._remember(same, _Written(name))
        return "created"

    async def _send(self, method: str, path: str, body: dict[str, Any], content_type: str) -> None:
        await self._client.request(method, path, body=body, content_type=content_type, timeout=EVENT_SECONDS)

    def _remember(self, same: _Same, written: _Written) -> None:
        self._recent[same] = written
        self._recent.move_to_end(same)
        if len(self._recent) > REMEMBERED:
            self._recent.popitem(last=False)

    def _event(self, same: _Same, name: str) -> dict[str, Any]:
        about = same.regarding
        reference = {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "name": about.name,
            "uid": about.uid,
        }
        if about.namespace:
            reference["namespace"] = about.namespace
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": about.namespace or "default"},
            "eventTime": micro_time(self._clock.now()),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "regarding": reference,
            "reason": same.reason,
            "action": same.action,
            "note": same.note,
            "type": same.type,
        }


class _Same(Struct, frozen=True):
    """What makes two Events the same one."""

    regarding: Regarding
    reason: str
    action: str
    note: str
    type: str


class _Written(Struct, frozen=True):
    name: str
    count: int = 1


def cut(text: str, limit: int = NOTE_BYTES) -> str:
    """Returns the text in at most `limit` bytes of UTF-8; a cut is between characters and shown by `…`."""
    data = text.encode(errors="replace")
    if len(data) <= limit:
        return data.decode()
    mark = "…"
    return data[: limit - len(mark.encode())].decode(errors="ignore") + mark


def _collection(regarding: Regarding) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{regarding.namespace or 'default'}/events"
