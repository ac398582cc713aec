"""The ResourceClaimTemplates of the cluster, watched. Knows nothing of which device classes are GPUs."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace

import msgspec

from policy.claims import ClaimTemplate
from runtime.clock import Clock
from runtime.kube import KubePort
from runtime.watch import Change, WatchCache, WatchOptions

TEMPLATES_PATH = "/apis/resource.k8s.io/v1/resourceclaimtemplates"
RETRY_SECONDS = 300.0


class ClaimTemplates:
    """Finds templates by namespace and name. Where the API server does not serve them, none is ever known."""

    def __init__(self, client: KubePort, *, clock: Clock, options: WatchOptions | None = None) -> None:
        options = replace(options or WatchOptions(), longest_pause=RETRY_SECONDS)
        self._cache = WatchCache(client, TEMPLATES_PATH, _read, clock=clock, options=options)
        self._cache.subscribe(self._on_change)
        self._waiting: dict[tuple[str, str], asyncio.Event] = {}

    def template(self, namespace: str, name: str) -> ClaimTemplate | None:
        """Returns the template, or None if it is not known."""
        return self._cache.get(namespace, name)

    async def wait(self, namespace: str, names: Collection[str], timeout: float) -> bool:  # noqa: ASYNC109 - a limit is the point
        """Waits at most `timeout` seconds for templates that the watch may not have brought yet.

        Returns whether all are known, at once if they are, or if none are served.
        """
        missing = [(namespace, name) for name in names if self.template(namespace, name) is None]
        if not missing or not self._cache.synced:
            return not missing
        events = [self._waiting.setdefault(key, asyncio.Event()) for key in missing]
        try:
            async with asyncio.timeout(timeout):
                for event in events:
                    await event.wait()
        except TimeoutError:
            for key, event in zip(missing, events, strict=True):
                if self._waiting.get(key) is event:
                    del self._waiting[key]
        return all(self.template(*key) is not None for key in missing)

    async def run(self) -> None:
        """Watches for ever."""
        await self._cache.run()

    def _on_change(self, _: Change, __: ClaimTemplate | None, new: ClaimTemplate | None) -> None:
        if new is not None and self._waiting:
            event = self._waiting.pop((new.metadata.namespace or "", new.metadata.name or ""), None)
            if event is not None:
                event.set()


def _read(raw: msgspec.Raw) -> ClaimTemplate:
    return msgspec.json.decode(raw, type=ClaimTemplate)
