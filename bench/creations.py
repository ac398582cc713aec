"""Measures pod creations on the real API server through each door, interleaved; judges nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from bench.creation_figures import PACE_PER_SECOND, Creation, Creations
from bench.doors import ADMISSION, CHART, DOORS, NO_WEBHOOK, PATHS, Door, configuration, pods
from bench.processes import pinned
from bench.rounds import WARM_UP_SECONDS, LoadError, Plan
from bench.servers import Bench
from policy.keys import Label
from sandbox.api import ApiError
from sandbox.deadline import wait

CLIENTS = 16
PACED_SECONDS = 2.0
READY_SECONDS = 30.0


def measure_creations(bench: Bench, plan: Plan, say: Callable[[str], None]) -> Mapping[str, Creations]:
    """Measures A B C D, B C D A, …: each door in every round, by the door's name.

    Raises:
        LoadError: a pod was not created, or not mutated.
    """
    folder = _prepare(bench)
    found = {door.name: Creations([], []) for door in DOORS}
    for number in range(plan.rounds):
        first = number % len(DOORS)
        for door in (*DOORS[first:], *DOORS[:first]):
            paced = [f"-rate={PACE_PER_SECOND}", f"-duration={PACED_SECONDS}s"]
            found[door.name].paced.append(_create(bench, door, folder, paced))
            closed = [f"-clients={CLIENTS}", f"-duration={plan.seconds}s"]
            found[door.name].closed.append(_create(bench, door, folder, closed))
        for door in DOORS:
            bench.sandbox.api().delete(_path(door), {"gracePeriodSeconds": 0})
        rates = ", ".join(f"{name} {one.closed[-1].per_second:,.0f}/s" for name, one in found.items())
        say(f"creations, round {number + 1} of {plan.rounds}: {rates}")
    return found


def _prepare(bench: Bench) -> Path:
    """Puts the doors in the place of the chart's configurations; gives the folder of the pods."""
    api = bench.sandbox.api()
    addresses = {server.name: server.address for server in bench.servers}
    charts = {resource: api.get(f"{ADMISSION}/{resource}/{name}") for resource, name in CHART.items()}
    for resource, name in CHART.items():
        api.delete(f"{ADMISSION}/{resource}/{name}")
    for door in DOORS:
        for resource, server in door.servers.items():
            made = configuration(charts[resource], door, PATHS[resource], addresses[server])
            api.create(f"{ADMISSION}/{resource}", made)
    folder = bench.sandbox.dir / "pods"
    folder.mkdir()
    for name, pod in pods().items():
        (folder / f"{name}.json").write_bytes(msgspec.json.encode(pod))
    for door in DOORS:
        wait(lambda door=door: _is_open(bench, door), READY_SECONDS, f"{door.name} is in force")  # type: ignore[misc]
    return folder


def _is_open(bench: Bench, door: Door) -> bool:
    """Whether the API server calls what it should; a new configuration takes a moment."""
    pod = next(iter(pods().values()))
    try:
        made = bench.sandbox.api().create(f"{_path(door)}?dryRun=All", pod)
    except ApiError:
        return False
    return (str(Label.POLICY) in (made["metadata"].get("labels") or {})) is (door is not NO_WEBHOOK)


def _path(door: Door) -> str:
    return f"/api/v1/namespaces/{door.namespace}/pods"


def _create(bench: Bench, door: Door, bodies: Path, flags: list[str]) -> Creation:
    sandbox = bench.sandbox
    argv = [
        bench.programs.path("create"),
        f"-url={sandbox.api_url}{_path(door)}",
        f"-token={sandbox.users['admin'].token}",
        f"-ca={sandbox.layout.ca}",
        f"-bodies={bodies}",
        f"-label={Label.POLICY if door.servers else ''}",
        f"-warm-up={WARM_UP_SECONDS}s",
        *flags,
    ]
    command = pinned(bench.cores.load, argv)
    ran = subprocess.run(command, env={}, capture_output=True, text=True, timeout=90, check=False)
    if ran.returncode != 0:
        msg = f"{door.name}: {ran.stderr.strip()[-1000:]}"
        raise LoadError(msg)
    return msgspec.json.decode(ran.stdout, type=Creation)
