"""Whether the parts of an installation are there, run, lead and may act; pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cli.doctor.facts import Facts
from cli.doctor.findings import Finding, Level, fine, some
from cli.doctor.objects import VERSION_LABEL, Component, Definition, Lease
from policy.counting import counted
from policy.durations import readable_time
from policy.keys import GROUP, VERSION
from runtime.versions import Support, compatibility

KINDS: Final = ("gpupolicies", "gpureclaims")
OR_APPLY: Final = ", or apply install.yaml again"
# A Lease is renewed every few seconds; clocks may differ by a minute.
LATE_SECONDS: Final = 75
ABSENT: Final = {
    "webhook": "GPU pods are admitted without terms; under enforce they are refused",
    "reaper": "nothing is judged, warned about or given back",
    "quota": "ledgers are not counted: what ended is not given back to quotas",
    "certs": "certificates are not renewed, and the webhook cannot be reached when they end",
}
LED: Final = ("reaper", "quota", "certs")


def check(facts: Facts) -> Iterator[Finding]:
    """Goes through releases, definitions, components, Leases and switches."""
    yield release(facts)
    yield from _definitions(facts)
    for component in ("webhook", *LED):
        if facts.has(component):
            yield from _component(facts, component)
    yield from _leases(facts)
    yield from _switches(facts)


def release(facts: Facts) -> Finding:
    """Says whether the release of Kubernetes is one that is tested."""
    found = compatibility(facts.git_version)
    level = {
        Support.SUPPORTED: Level.OK,
        Support.UNTESTED: Level.INFO,
        Support.TOO_OLD: Level.ERROR,
        Support.UNKNOWN: Level.UNKNOWN,
    }[found.support]
    why = "" if level is Level.OK else "guards and webhooks use what releases before 1.30 do not have"
    return Finding(
        "installation.kubernetes", level, found.message, why, "" if level is Level.OK else "docs/install.md"
    )


def _definitions(facts: Facts) -> Iterator[Finding]:
    if facts.definitions.value is None:
        return
    known = {one.metadata.name or "": one for one in facts.definitions.value}
    wanted = [f"{kind}.{GROUP}" for kind in (*KINDS, *(["gpuquotas"] if facts.has("quota") else []))]
    missing = [name for name in wanted if name not in known or not _usable(known[name])]
    if missing:
        yield Finding(
            "installation.definitions",
            Level.ERROR,
            "definitions of our kinds are missing, or not established",
            "without GPUPolicies the built-in policy holds everywhere, which only observes",
            f"{facts.upgrade}{OR_APPLY}",
            some(missing),
        )
    else:
        yield fine("installation.definitions", f"{', '.join(wanted)} are established")
    others = {
        name: one.metadata.labels[VERSION_LABEL]
        for name, one in known.items()
        if one.metadata.labels and one.metadata.labels.get(VERSION_LABEL, facts.version) != facts.version
    }
    yield from _versions(facts, "installation.schemas", others)


def _usable(one: Definition) -> bool:
    served = any(version.name == VERSION and version.served for version in one.spec.versions)
    return one.established and served


def _versions(facts: Facts, check: str, others: dict[str, str]) -> Iterator[Finding]:
    if others:
        yield Finding(
            check,
            Level.WARNING,
            f"this program is {facts.version}, and {', '.join(sorted(set(others.values())))} is installed",
            "fields and settings of another version may be unknown to the one or the other",
            f"use the program of that version, or: {facts.upgrade}{OR_APPLY}",
            some(others),
        )


def _component(facts: Facts, name: str) -> Iterator[Finding]:
    check = f"installation.{name}"
    if facts.deployments.value is None or facts.cron_jobs.value is None:
        return
    found = facts.component(name)
    if found is None and not facts.by_service:
        what = f"no Deployment gpu-tenure-{name}: the API server calls a URL, so it seems to run elsewhere"
        yield Finding(check, Level.INFO, what, ABSENT[name], "make sure that it runs where you mean it to")
    elif found is None:
        what = f"there is no Deployment gpu-tenure-{name}"
        yield Finding(check, Level.ERROR, what, ABSENT[name], f"{facts.upgrade}{OR_APPLY}")
    elif found.spec.job_template is not None:
        yield from _cron_job(check, found)
    else:
        yield from _deployment(check, name, found)
        others = {found.name: found.version} if found.version not in {"", facts.version} else {}
        yield from _versions(facts, f"{check}-version", others)


def _cron_job(check: str, found: Component) -> Iterator[Finding]:
    if found.spec.suspend:
        what = f"the CronJob {found.name} is suspended"
        patch = '{"spec":{"suspend":false}}'
        todo = f"kubectl -n {found.metadata.namespace} patch cronjob {found.name} --type=merge -p '{patch}'"
        yield Finding(check, Level.WARNING, what, ABSENT["reaper"], todo)
    else:
        yield fine(check, f"the CronJob {found.name} runs by its schedule")


def _deployment(check: str, name: str, found: Component) -> Iterator[Finding]:
    wanted, ready = found.spec.replicas, found.status.ready_replicas
    told = f"{ready} of {counted(wanted, 'replica')} of {found.name} {'is' if ready == 1 else 'are'} ready"
    kubectl = f"kubectl -n {found.metadata.namespace}"
    logs = f"{kubectl} describe deployment {found.name}, and {kubectl} logs deployment/{found.name}"
    if ready == 0:
        yield Finding(check, Level.ERROR, told, ABSENT[name], logs)
    elif ready < wanted:
        yield Finding(check, Level.WARNING, told, "one failure more and it is away", logs)
    elif wanted == 1 and name in {"webhook", "reaper"}:
        why = "while its node is drained nothing does its work"
        yield Finding(check, Level.INFO, told, why, f"set {name}.replicas=2")
    else:
        yield fine(check, told)


def _leases(facts: Facts) -> Iterator[Finding]:
    if facts.leases.value is None:
        return
    known = {one.metadata.name or "": one for one in facts.leases.value}
    for name in LED:
        component = facts.component(name)
        once = component is not None and component.spec.job_template is not None
        if facts.has(name) and not once and not (name == "reaper" and facts.settings.dry_run):
            yield _lease(facts, name, known.get(f"gpu-tenure-{name}"))


def _lease(facts: Facts, name: str, lease: Lease | None) -> Finding:
    check = f"installation.{name}-lease"
    holder = lease.spec.holder_identity if lease is not None else None
    todo = (
        f"kubectl -n {facts.namespace} get lease gpu-tenure-{name}, and look at the logs of gpu-tenure-{name}"
    )
    if lease is None or not holder:
        return Finding(check, Level.WARNING, f"nobody holds the Lease gpu-tenure-{name}", ABSENT[name], todo)
    renewed = readable_time(lease.spec.renew_time)
    age = (facts.at - renewed).total_seconds() if renewed is not None else None
    if age is None or age > LATE_SECONDS + (lease.spec.lease_duration_seconds or 0):
        since = "at a time that cannot be read" if age is None else f"{age:.0f} s ago"
        what = f"the Lease gpu-tenure-{name} of {holder} was renewed {since}: nobody leads"
        return Finding(check, Level.ERROR, what, ABSENT[name], todo)
    return fine(check, f"{holder} leads as gpu-tenure-{name}")


def _switches(facts: Facts) -> Iterator[Finding]:
    switches = facts.switches.value
    if not facts.switches.hidden and switches is None:
        what = "the ConfigMap gpu-tenure-switches is missing"
        why = "status and doctor take profile and flags from it"
        yield Finding("installation.switches", Level.WARNING, what, why, f"{facts.upgrade}{OR_APPLY}")
    elif switches is not None:
        yield _profile(facts)
    if facts.settings_problem:
        what = f"the environment of the reaper is wrong: {facts.settings_problem}"
        yield Finding(
            "installation.settings", Level.ERROR, what, "it ends at its start", "correct reaper.env"
        )
    if not facts.pause.hidden:
        yield _pause(facts)
    if facts.metrics.brake is not None:
        yield _brake(facts.metrics.brake)


def _profile(facts: Facts) -> Finding:
    switches = facts.switches.value
    dry = switches is not None and switches.dry_run is True
    what = f"the profile is {facts.profile.value}"
    if dry:
        why = "the reaper judges and reports, but warns and evicts nobody"
        todo = f"when status shows what you expect: {facts.upgrade} --set reaper.dryRun=false"
        return Finding("installation.switches", Level.INFO, f"{what}, and the reaper runs dry", why, todo)
    return fine("installation.switches", what)


def _pause(facts: Facts) -> Finding:
    pause = facts.pause.value
    why = "nothing is warned about and nothing is taken back"
    if pause is None:
        what = "the pause switch is missing, which counts as paused"
        return Finding("installation.pause", Level.WARNING, what, why, "gpu-tenure unpause makes it")
    if pause.paused:
        until = f" until {pause.until:%Y-%m-%d %H:%MZ}" if pause.until else ""
        what = f"paused{until}: {pause.reason}"
        todo = "gpu-tenure unpause; every announced action gets its full grace again"
        return Finding("installation.pause", Level.WARNING, what, why, todo)
    return fine("installation.pause", "not paused")


def _brake(engaged: bool) -> Finding:
    if not engaged:
        return fine("installation.brake", "the brake is not engaged")
    return Finding(
        "installation.brake",
        Level.WARNING,
        "the brake holds every warning and action",
        "too many devices turned idle, Unknown or away at once, as a broken exporter would make it look",
        "look at the exporters; it goes 15 minutes after its cause, or by gpu-tenure unpause --brake",
    )
