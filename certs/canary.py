"""Has a GPU pod created as a dry run, as a user would, and looks whether it got terms; stores nothing.

Must not know how terms come about.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import structlog

from certs import metrics
from policy.keys import Label
from policy.objects import Pod
from runtime.clock import Clock, Sleep
from runtime.kube import ApiError, ApiUnreachable, KubePort

CANARY_SECONDS = 60.0
REQUEST_SECONDS = 30.0
log = structlog.get_logger(__name__)


class Tried(msgspec.Struct, frozen=True):
    """What came of one attempt: why it failed, and how many seconds the API server took."""

    error: str | None
    seconds: float


def canary_pod(resource: str) -> dict[str, Any]:
    """A pod that even the strictest pod security lets in, with one unit of a GPU resource."""
    security = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    resources = {"requests": {"cpu": "1m", "memory": "1Mi"}, "limits": {resource: "1", "memory": "1Mi"}}
    container = {"name": "canary", "image": "canary", "resources": resources, "securityContext": security}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "canary-", "labels": {"app.kubernetes.io/name": "gpu-tenure"}},
        "spec": {
            "automountServiceAccountToken": False,
            "containers": [container],
            "restartPolicy": "Never",
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
        },
    }


def lacking(labels: Mapping[str, str] | None) -> str | None:
    """A sentence if the labels of an admitted pod hold no terms."""
    if Label.IDLE_ACTION in (labels or {}):
        return None
    return "the pod came back without terms: the webhook was not reached, or leaves the namespace alone"


class Canary:
    """Tries the pod for ever and shows what came of it."""

    def __init__(self, client: KubePort, namespace: str, resource: str, clock: Clock, sleep: Sleep) -> None:
        self._client = client
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._pod = canary_pod(resource)
        self._clock = clock
        self._sleep = sleep
        self._problem: str | None = None

    async def run(self) -> None:
        """Tries it every minute."""
        while True:
            self._show(await self.attempt())
            await self._sleep(CANARY_SECONDS)

    async def attempt(self) -> Tried:
        """Tries it once; never raises for what an API server does."""
        began = self._clock.monotonic()
        error: str | None
        try:
            reply = await self._client.request(
                "POST", self._path, query={"dryRun": "All"}, body=self._pod, timeout=REQUEST_SECONDS
            )
            error = lacking(reply.decode(Pod).metadata.labels)
        except (ApiError, ApiUnreachable) as refusal:
            error = str(refusal)
        return Tried(error, self._clock.monotonic() - began)

    def _show(self, tried: Tried) -> None:
        metrics.CANARY_SUCCESS.set(tried.error is None)
        metrics.CANARY_SECONDS.set(tried.seconds)
        if tried.error is not None and tried.error != self._problem:
            log.warning("canary failed", error=tried.error)
        elif tried.error is None and self._problem is not None:
            log.info("canary succeeds again")
        self._problem = tried.error
