"""Reads all pods and follows changes, as the reaper does or with kubernetes_asyncio's models; one JSON line.

A process of its own, so that its CPU and memory are those of reading alone.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.measures import cpu_seconds, peak_bytes
from bench.pods import DEVICE

POLL_SECONDS = 0.01
PAGE = 500


class Reading(msgspec.Struct, frozen=True, rename="camel"):
    """What reading took.

    Attributes:
        pods: Pods of the list.
        kept: Pods that were kept of it.
        list_seconds: CPU, user and system, from the first request to the last page kept.
        events: Changes that were told.
        event_seconds: CPU of all of them.
        peak_bytes: The largest resident memory so far, the interpreter and its modules included.
    """

    pods: int
    kept: int
    list_seconds: float
    events: int
    event_seconds: float
    peak_bytes: int


async def ours(kubeconfig: Path, pods: int, events: int) -> Reading:
    """Reads with the reaper's own cache."""
    from reaper.settings import ReaperSettings
    from reaper.world import World
    from runtime.clock import SystemClock
    from runtime.kube import KubeClient
    from runtime.kubeconfig import load_access

    access = dataclasses.replace(await load_access(kubeconfig), in_cluster=True)
    async with KubeClient(access) as client:
        settings = ReaperSettings.model_validate({"prometheus_url": "http://127.0.0.1:9"})
        cache = World(client, settings, SystemClock()).pods
        before = cpu_seconds()
        watching = asyncio.create_task(cache.run())
        await cache.wait_synced()
        listed = cpu_seconds()
        kept = len(cache)
        last = str(pods + 1 + events)
        await client.request("GET", "/go")
        while cache.resource_version != last:  # noqa: ASYNC110 - the cache tells nobody of its version
            await asyncio.sleep(POLL_SECONDS)
        told = cpu_seconds()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    return Reading(pods, kept, listed - before, events, told - listed, peak_bytes())


async def models(kubeconfig: Path, pods: int, events: int) -> Reading:
    """Reads with the models and the watch of the library, and keeps the models of GPU pods."""
    from kubernetes_asyncio import client as library
    from kubernetes_asyncio import config, watch

    await config.load_kube_config(config_file=str(kubeconfig))
    async with library.ApiClient() as api:
        core = library.CoreV1Api(api)
        before = cpu_seconds()
        kept: dict[str, object] = {}
        following = ""
        while True:
            found = await core.list_pod_for_all_namespaces(limit=PAGE, _continue=following)
            kept.update((pod.metadata.uid, pod) for pod in found.items if holds_gpu(pod))
            following = found.metadata._continue  # noqa: SLF001 - the library's name of the field
            if not following:
                break
        listed = cpu_seconds()
        count = len(kept)
        told = 0
        starting = asyncio.create_task(api.request("GET", f"{api.configuration.host}/go"))
        async with watch.Watch() as stream:
            version = found.metadata.resource_version
            async for event in stream.stream(core.list_pod_for_all_namespaces, resource_version=version):
                pod = event["object"]
                if holds_gpu(pod):
                    kept[pod.metadata.uid] = pod
                told += 1
                if told == events:
                    break
        await starting
    return Reading(pods, count, listed - before, events, cpu_seconds() - listed, peak_bytes())


def holds_gpu(pod: object) -> bool:
    """Whether a model of the library asks for devices."""
    containers = pod.spec.containers  # type: ignore[attr-defined]
    return any(DEVICE in (one.resources.limits or {}) for one in containers if one.resources)


def main(arguments: Sequence[str]) -> None:
    """Reads once and prints what it took."""
    parser = argparse.ArgumentParser(prog="bench.pod_reader", description=__doc__)
    parser.add_argument("way", choices=("ours", "models"))
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--pods", type=int, required=True)
    parser.add_argument("--events", type=int, required=True)
    options = parser.parse_args(arguments)
    way = {"ours": ours, "models": models}[options.way]
    found = asyncio.run(way(options.kubeconfig, options.pods, options.events))
    print(msgspec.json.encode(found).decode())


if __name__ == "__main__":
    main(sys.argv[1:])
