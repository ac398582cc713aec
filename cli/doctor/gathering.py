"""Reads everything about the cluster that checks look at; decides nothing and writes nothing but dry runs."""

from __future__ import annotations

import asyncio
import importlib.metadata
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any, Final

import aiohttp
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from certs.ensuring import look_once
from certs.settings import ENV_PREFIX as CERTS_PREFIX
from certs.settings import CertsSettings
from cli.doctor.admission_objects import Binding, Configuration, EndpointSlice, Guard
from cli.doctor.facts import Facts, Seen
from cli.doctor.objects import Component, Definition, Lease, Named, Node, Secret
from cli.doctor.presence import is_absent
from cli.doctor.reading import ClusterReader, seen
from cli.doctor.rights_table import COMPONENTS, Options, needed
from policy.errors import InvalidError
from policy.keys import GROUP
from policy.objects import Namespace
from policy.resourcequota import ResourceQuota
from policy.resources import ResourceTable
from policy.selection import PolicySet
from reaper.pause import CONFIG_MAP as PAUSE_MAP
from reaper.pause import parse_pause
from reaper.settings import ENV_PREFIX, ReaperSettings
from reaper.switches import CONFIG_MAP, Switches, switches_of
from reaper.world import decode_pod
from runtime.catalog import POLICIES_PATH
from runtime.clock import SystemClock
from runtime.quotas import QUOTAS_PATH, read_stored
from runtime.settings import load
from runtime.versions import VersionInfo

ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
OURS: Final = {"labelSelector": "app.kubernetes.io/name=gpu-tenure"}
REACH_SECONDS: Final = 5.0
SECRET_VOLUMES: Final = ("alertmanager", "prometheus", "receiver")
Say = Callable[[str], None]


class Wanted(Struct, frozen=True):
    """What is to be looked at.

    Attributes:
        namespace: Where gpu-tenure is installed.
        canary_namespace: Where a GPU pod is tried.
    """

    namespace: str
    canary_namespace: str


class _ConfigMap(Struct, frozen=True):
    data: dict[str, str] | None = None


async def gather(reader: ClusterReader, wanted: Wanted, now: datetime, say: Say) -> Facts:
    """Reads all but what Prometheus knows; `say` is told what is going on.

    Raises:
        ApiError, ApiUnreachable: not even the version of the API server could be read.
    """
    version = await reader.client.get("/version", VersionInfo)
    say("reading the installation")
    facts = Facts(
        at=now,
        namespace=wanted.namespace,
        version=importlib.metadata.version("gpu-tenure"),
        git_version=version.git_version,
        settings=_defaults(Switches(), wanted.namespace),
        **await _all(_installation(reader, wanted.namespace, now)),
    )
    settings, problem = settings_of(facts.component("reaper"), facts.switches.value, wanted.namespace)
    facts = replace(facts, settings=settings, settings_problem=problem, sources=settings.judging().sources)
    say("reading policies, pods and nodes")
    facts = replace(facts, **await _all(_cluster(reader, facts.settings.table())))
    say("trying a GPU pod, and asking for rights")
    rights, canary, certificates, secrets, alertmanagers = await asyncio.gather(
        _rights(reader, facts),
        reader.canary(wanted.canary_namespace),
        _certificates(reader, facts),
        _secrets(reader, facts),
        reachability(facts.settings.alertmanager_urls),
    )
    return replace(
        facts,
        rights=rights,
        canary=canary,
        certificates=certificates,
        secrets=secrets,
        alertmanagers=alertmanagers,
    )


async def _all(reading: Mapping[str, Any]) -> dict[str, Any]:
    """Waits for everything at once."""
    values = await asyncio.gather(*reading.values())
    return dict(zip(reading, values, strict=True))


def _installation(reader: ClusterReader, namespace: str, now: datetime) -> dict[str, Any]:
    core, apps = f"/api/v1/namespaces/{namespace}", f"/apis/apps/v1/namespaces/{namespace}"
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    return {
        "accounts": reader.kinds(f"{core}/serviceaccounts", Named, OURS),
        "switches": reader.one(f"{core}/configmaps/{CONFIG_MAP}", _switches),
        "pause": reader.one(f"{core}/configmaps/{PAUSE_MAP}", lambda body: parse_pause(body, now)),
        "definitions": reader.listed(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", _our_definition
        ),
        "deployments": reader.kinds(f"{apps}/deployments", Component, OURS),
        "cron_jobs": reader.kinds(f"/apis/batch/v1/namespaces/{namespace}/cronjobs", Component, OURS),
        "leases": reader.kinds(leases, Lease),
        "mutating": reader.typed(f"{ADMISSION}/mutatingwebhookconfigurations/zz-gpu-tenure", Configuration),
        "validating": reader.typed(f"{ADMISSION}/validatingwebhookconfigurations/gpu-tenure", Configuration),
        "endpoints": reader.kinds(
            slices, EndpointSlice, {"labelSelector": "kubernetes.io/service-name=gpu-tenure-webhook"}
        ),
        "guards": reader.kinds(f"{ADMISSION}/validatingadmissionpolicies", Guard, OURS),
        "bindings": reader.kinds(f"{ADMISSION}/validatingadmissionpolicybindings", Binding, OURS),
    }


def _cluster(reader: ClusterReader, table: ResourceTable) -> dict[str, Any]:
    return {
        "policies": _policies(reader),
        "namespaces": reader.kinds("/api/v1/namespaces", Namespace),
        "pods": reader.listed("/api/v1/pods", lambda raw: decode_pod(raw, table)),
        "nodes": reader.kinds("/api/v1/nodes", Node),
        "priority_classes": reader.kinds("/apis/scheduling.k8s.io/v1/priorityclasses", Named),
        "resource_quotas": reader.kinds("/api/v1/resourcequotas", ResourceQuota),
        "quotas": reader.listed(QUOTAS_PATH, read_stored),
    }


async def _policies(reader: ClusterReader) -> Seen[PolicySet]:
    found = await reader.kinds(POLICIES_PATH, dict)
    return Seen(PolicySet.of(found.value)) if found.value is not None else Seen(hidden=found.hidden)


def _our_definition(raw: msgspec.Raw) -> Definition | None:
    found = msgspec.json.decode(raw, type=Definition)
    return found if found.spec.group == GROUP else None


def _switches(body: bytes) -> Switches:
    return switches_of(msgspec.json.decode(body, type=_ConfigMap).data or {})


def settings_of(
    component: Component | None, switches: Switches | None, namespace: str
) -> tuple[ReaperSettings, str]:
    """Gives the reaper's settings, and why its environment cannot be read; the switches help out."""
    if component is None:
        return _defaults(switches or Switches(), namespace), ""
    try:
        return load(ReaperSettings, {}, None, ENV_PREFIX, component.environment), ""
    except InvalidError as error:
        return _defaults(switches or Switches(), namespace), str(error)


def _defaults(switches: Switches, namespace: str) -> ReaperSettings:
    known = {
        "prometheus_url": "http://unknown.invalid",
        "profile": switches.profile,
        "dry_run": switches.dry_run,
        "lease_namespace": namespace,
    }
    return load(ReaperSettings, known, None, ENV_PREFIX, {})


async def _rights(reader: ClusterReader, facts: Facts) -> dict[str, Any]:
    """Asks for each component; whoever may not ask is refused once."""
    if is_absent(facts):
        return {}
    options = _options(facts)
    found: dict[str, Any] = {}
    for component in COMPONENTS:
        if not facts.has(component):
            continue
        user = f"system:serviceaccount:{facts.namespace}:gpu-tenure-{component}"
        found[component] = await reader.lacking(user, facts.namespace, needed(component, options))
        if found[component].hidden:
            break
    return found


def _options(facts: Facts) -> Options:
    flags = {
        name: one.environment.get(f"GPU_TENURE_{name.upper()}_PROTECT_METRICS") == "true"
        for name in COMPONENTS
        if (one := facts.component(name)) is not None
    }
    return Options(
        facts.namespace,
        facts.settings,
        facts.has("quota"),
        frozenset(name for name, yes in flags.items() if yes),
        _certs_settings(facts).canary_namespace,
        _certs_settings(facts).serving_secret,
    )


def _certs_settings(facts: Facts) -> CertsSettings:
    """The settings of the component that keeps certificates; the defaults where they cannot be read."""
    known = {"namespace": facts.namespace}
    component = facts.component("certs")
    try:
        return load(CertsSettings, known, None, CERTS_PREFIX, component.environment if component else {})
    except InvalidError:
        return load(CertsSettings, known, None, CERTS_PREFIX, {})


async def _certificates(reader: ClusterReader, facts: Facts) -> Seen[Any]:
    """Looks at certificates that we made; those of others are only seen by what the API server says."""
    if not facts.has("certs"):
        return Seen()
    settings = _certs_settings(facts)
    return await seen(look_once(reader.client, settings, SystemClock()))


async def _secrets(reader: ClusterReader, facts: Facts) -> dict[str, Seen[frozenset[str]]]:
    component = facts.component("reaper")
    names = {component.secret(volume) for volume in SECRET_VOLUMES} if component is not None else set()
    path = f"/api/v1/namespaces/{facts.namespace}/secrets"
    return {name: await reader.one(f"{path}/{name}", _keys) for name in sorted(names - {""})}


def _keys(body: bytes) -> frozenset[str]:
    return frozenset(msgspec.json.decode(body, type=Secret).data or ())


async def reachability(urls: Collection[str]) -> dict[str, str]:
    """Knocks at Alertmanagers without credentials; gives why one is not there, by address."""
    limit = aiohttp.ClientTimeout(total=REACH_SECONDS)
    async with aiohttp.ClientSession(timeout=limit, trust_env=False) as session:
        problems = await asyncio.gather(*(_knock(session, url) for url in urls))
    return dict(zip(urls, problems, strict=True))


async def _knock(session: aiohttp.ClientSession, url: str) -> str:
    try:
        path = f"{url.rstrip('/')}/-/ready"
        # Its certificate is not checked, because nothing is sent that anybody could take.
        async with session.get(path, allow_redirects=False, ssl=False) as answer:
            return "" if answer.status < 500 else f"answered {answer.status}"
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return str(error) or type(error).__name__
