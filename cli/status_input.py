"""Reads what `gpu-tenure status` shows, as far as a person may; what they may not is noted, not guessed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec import Struct

from cli.cluster import Cluster
from policy.durations import duration_of, readable_time
from policy.keys import OWN_NAMESPACE
from policy.objects import Namespace
from policy.resources import ResourceTable
from reaper.brakes import Brake
from reaper.clocks import believed
from reaper.criteria import JudgeSettings
from reaper.glance import Readable, exempt_until, glanced, with_verdict
from reaper.judge import judge
from reaper.limits import Limits
from reaper.observation import Observation, observe_terms
from reaper.overview import Look, Row, Told, rows_of
from reaper.owners import OwnerResolver, OwnersUnreadableError, root_of_pod
from reaper.pause import CONFIG_MAP as PAUSE_MAP
from reaper.pause import Pause, parse_pause
from reaper.pods import GpuPod
from reaper.pressure import Wanted, wanted_by
from reaper.prometheus import HttpPrometheus, PrometheusError
from reaper.published import Planning, planning_of
from reaper.records import ALL, collection, parse_record
from reaper.situation import Situation
from reaper.standing import remarks
from reaper.subjects import Subject
from reaper.survey import is_judged
from reaper.switches import CONFIG_MAP, Switches, switches_of
from reaper.world import CONTROLLER, decode_pod

LEASE = "gpu-tenure-reaper"
BRAKE_QUERY = "max(gpu_tenure_reaper_brake_engaged)"


class Judging(Struct, frozen=True):
    """How verdicts are found: the adapter, the numbers, and how old a container may claim to be."""

    prometheus: HttpPrometheus
    settings: JudgeSettings
    early_seconds: float


class Status(Struct, frozen=True, kw_only=True):
    """What is shown.

    Attributes:
        at: When it was read.
        rows: The pods.
        pause: The switch; None if it was not readable.
        brake: Whether the brake holds; None if nobody could tell.
        switches: What the installation is set to.
        planning: How its reaper plans.
        remarks: What administrators should think about again.
        missing: What could not be read, with why.
        problem: Why Prometheus' answer was of no use; empty if it was.
        judged: Whether Prometheus was asked.
    """

    at: datetime
    rows: Sequence[Row]
    pause: Pause | None
    brake: bool | None
    switches: Switches
    remarks: Sequence[str]
    missing: dict[str, str]
    problem: str = ""
    judged: bool = False
    planning: Planning = Planning()


class _ConfigMap(Struct, frozen=True):
    data: dict[str, str] | None = None


class _LeaseSpec(Struct, frozen=True, rename="camel"):
    acquire_time: str | None = None


class _Lease(Struct, frozen=True):
    spec: _LeaseSpec = _LeaseSpec()


class _Regarding(Struct, frozen=True):
    uid: str = ""


class _Series(Struct, frozen=True, rename="camel"):
    last_observed_time: str | None = None


class _Event(Struct, frozen=True, rename="camel"):
    regarding: _Regarding = _Regarding()
    reason: str = ""
    note: str = ""
    event_time: str | None = None
    reporting_controller: str = ""
    series: _Series | None = None


async def look(
    cluster: Cluster,
    namespace: str | None,
    table: ResourceTable,
    judging: Judging | None,
    installed_in: str = OWN_NAMESPACE,
) -> Status | None:
    """Looks once; None if not even pods may be read."""
    now = cluster.now
    path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
    pods = await cluster.listed("pods", path, lambda raw: decode_pod(raw, table))
    if pods is None:
        return None
    switches, planning = await _installation(cluster, installed_in)
    limits = planning.limits
    readable = Readable(
        policies=await cluster.policies(),
        namespaces=await _namespaces(cluster, namespace),
        switches=switches,
        snooze_seconds=limits.snooze_seconds,
    )
    roots = await _roots(cluster, pods, now)
    subjects = [glanced(pod, roots.get(pod.uid) or root_of_pod(pod), readable, now) for pod in pods]
    found, problem = await _judged(subjects, judging, limits, now)
    switch = _config_map(installed_in, PAUSE_MAP)
    pause = await cluster.one("the pause switch", switch, lambda body: parse_pause(body, now))
    brake = await _brake(cluster, judging, now)
    records = await cluster.listed("GPUReclaims", collection(namespace) if namespace else ALL, parse_record)
    around = Look(
        records=records or (),
        situation=Situation(
            pause=pause or Pause(paused=False),
            brake=Brake(engaged_at=now, sentence="too much changed at once") if brake else Brake(),
            judged_devices=sum(one.devices for one in found if one.verdict is not None),
            quiet_until=await _quiet_until(cluster, switches, planning, installed_in),
            ways=planning.ways,
            wanted=_wanted(cluster, planning, namespace, pods, switches),
        ),
        switches=readable.switches,
        namespaces=readable.namespaces,
        exempt_until={pod.uid: end for pod in pods if (end := exempt_until(pod, readable.policies))},
        events=await _events(cluster, namespace) if namespace else {},
    )
    said = [f"policy {one.name}: {text}" for one in _valid(readable) for text in remarks(one)]
    return Status(
        at=now,
        rows=rows_of(found, around, limits, now),
        pause=pause,
        brake=brake,
        switches=readable.switches,
        remarks=said,
        missing=dict(cluster.missing),
        problem=problem,
        judged=judging is not None,
        planning=planning,
    )


def _valid(readable: Readable) -> Sequence[Any]:
    return readable.policies.valid if readable.policies else ()


async def _namespaces(cluster: Cluster, namespace: str | None) -> dict[str, Namespace]:
    def read(raw: msgspec.Raw | bytes) -> Namespace:
        return msgspec.json.decode(raw, type=Namespace)

    if namespace:
        one = await cluster.one(f"namespace {namespace}", f"/api/v1/namespaces/{namespace}", read)
        return {namespace: one} if one else {}
    listed = await cluster.listed("namespaces", "/api/v1/namespaces", read)
    return {one.metadata.name or "": one for one in listed or ()}


def _config_map(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps/{name}"


async def _installation(cluster: Cluster, installed_in: str) -> tuple[Switches, Planning]:
    """Reads what the chart publishes; where it is not to be read, defaults are assumed, which is said."""
    what = "profile and flags of the installation"
    found = await cluster.one(
        what, _config_map(installed_in, CONFIG_MAP), lambda body: msgspec.json.decode(body, type=_ConfigMap)
    )
    data = found.data or {} if found else None
    planning = Planning(problem=cluster.missing.get(what, "")) if data is None else planning_of(data)
    if planning.problem:
        cluster.missing["settings of the reaper"] = f"{planning.problem}; the defaults are assumed"
    return switches_of(data or {}), planning


async def _quiet_until(
    cluster: Cluster, switches: Switches, planning: Planning, installed_in: str
) -> datetime | None:
    """Gives until when the reaper does nothing new after its start; a dry run leads without a Lease."""
    if switches.dry_run or not planning.quiet_seconds:
        return None
    path = f"/apis/coordination.k8s.io/v1/namespaces/{installed_in}/leases/{LEASE}"
    what = "the start of the reaper"
    began = await cluster.one(what, path, _acquired)
    if began is None and what in cluster.missing:
        quiet = duration_of(planning.quiet_seconds).text
        cluster.missing[what] += f"; it warns and takes nothing for {quiet} after one"
    return began + timedelta(seconds=planning.quiet_seconds) if began is not None else None


def _acquired(body: bytes) -> datetime | None:
    return readable_time(msgspec.json.decode(body, type=_Lease).spec.acquire_time)


def _wanted(
    cluster: Cluster, planning: Planning, namespace: str | None, pods: Sequence[GpuPod], switches: Switches
) -> Wanted | None:
    """Gives what pods wait for, if actions depend on it; of one namespace alone nobody can tell."""
    if not planning.on_pressure:
        return None
    if namespace:
        cluster.missing["waiting pods"] = "only those of one namespace are looked at; times are the earliest"
        return None
    return wanted_by(pods, switches.excluded_namespaces or ())


async def _roots(cluster: Cluster, pods: Sequence[GpuPod], now: datetime) -> dict[str, Any]:
    try:
        return dict(await OwnerResolver(cluster.client).roots(pods, now))
    except OwnersUnreadableError as error:
        cluster.missing["owners"] = str(error)
        return {}


async def _judged(
    subjects: Sequence[Subject], judging: Judging | None, limits: Limits, now: datetime
) -> tuple[list[Subject], str]:
    """Gives the subjects with verdicts, and why there are none."""
    terms = [one.terms for one in subjects if is_judged(one) and one.terms is not None]
    if judging is None or not terms:
        return [with_verdict(one, None, limits) for one in subjects], ""
    observation = await observe_terms(judging.prometheus, terms, now, judging.settings)
    if not observation.complete:
        why = "; ".join(observation.problems) or str(observation.problem)
        return [with_verdict(one, None, limits) for one in subjects], why
    return [_with_own_verdict(one, observation, judging, limits, now) for one in subjects], ""


def _with_own_verdict(
    subject: Subject, observation: Observation, judging: Judging, limits: Limits, now: datetime
) -> Subject:
    if not is_judged(subject) or subject.terms is None:
        return subject
    found = judge(subject.pod, subject.terms, observation, now, judging.settings)
    return with_verdict(subject, believed(found, subject.pod, judging.early_seconds), limits)


async def _brake(cluster: Cluster, judging: Judging | None, now: datetime) -> bool | None:
    what = "the brake"
    if judging is None:
        cluster.missing[what] = "only Prometheus knows; give --prometheus-url"
        return None
    try:
        found = await judging.prometheus.query(BRAKE_QUERY, now)
    except PrometheusError as error:
        cluster.missing[what] = str(error)
        return None
    if not found:
        cluster.missing[what] = "Prometheus has no metrics of the reaper"
        return None
    return found[0].value > 0


async def _events(cluster: Cluster, namespace: str) -> dict[str, Told]:
    path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
    listed = await cluster.listed("Events", path, _event)
    latest: dict[str, Told] = {}
    for uid, told in listed or ():
        if uid not in latest or latest[uid].at < told.at:
            latest[uid] = told
    return latest


def _event(raw: msgspec.Raw) -> tuple[str, Told] | None:
    found = msgspec.json.decode(raw, type=_Event)
    at = readable_time((found.series.last_observed_time if found.series else None) or found.event_time)
    if found.reporting_controller != CONTROLLER or at is None or not found.regarding.uid:
        return None
    return found.regarding.uid, Told(found.reason, found.note, at)
