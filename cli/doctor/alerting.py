"""Whether warnings reach Alertmanager, alerts of its the reaper, and the reaper has its Secrets; pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cli.doctor.facts import Facts
from cli.doctor.findings import Finding, Level, fine

TOKEN: Final = "token"  # noqa: S105 - the name of a key
FAILED_ALERTS: Final = 'gpu_tenure_reaper_alerts_total{result="failed"}'
UNTOLD: Final = "users hear of warnings by Events alone"


def check(facts: Facts) -> Iterator[Finding]:
    """Looks at addresses, and at the Secrets that the reaper mounts."""
    component = facts.component("reaper")
    if component is None:
        return
    for url, problem in facts.alertmanagers.items():
        if problem:
            what = f"Alertmanager at {url} is not reachable from here: {problem}"
            why = f"it may be for the reaper; if it is not, {UNTOLD}"
            todo = f"look at {FAILED_ALERTS} and at the reaper's log; docs/alerts.md"
            yield Finding("alerting.alertmanager", Level.UNKNOWN, what, why, todo)
        else:
            yield fine("alerting.alertmanager", f"Alertmanager answers at {url}")
    if not facts.alertmanagers:
        todo = "reaper.alertmanager.urls sends them to Slack or mail, too (docs/alerts.md)"
        yield Finding("alerting.alertmanager", Level.INFO, "no Alertmanager is configured", UNTOLD, todo)
    for volume, effect in (
        ("receiver", "alerts that should make the reaper look at once are refused"),
        ("alertmanager", "Alertmanager refuses the reaper's alerts"),
        ("prometheus", "Prometheus refuses the reaper's queries, and nothing is judged"),
    ):
        secret = component.secret(volume)
        if secret:
            yield from _secret(facts, secret, volume, effect)


def _secret(facts: Facts, name: str, volume: str, effect: str) -> Iterator[Finding]:
    check, seen = f"alerting.{volume}-secret", facts.secrets.get(name)
    if seen is None or seen.hidden:
        return
    if seen.value is None:
        why = f"{effect}; pods of the reaper that are new do not start"
        keys = "--from-literal=token=…" if volume == "receiver" else f"--from-file=… (reaper.{volume}.keys)"
        todo = f"kubectl -n {facts.namespace} create secret generic {name} {keys}"
        yield Finding(check, Level.ERROR, f"the Secret {name} does not exist", why, todo, (name,))
    elif volume == "receiver" and TOKEN not in seen.value:
        todo = "add the key `token` with what Alertmanager sends"
        yield Finding(check, Level.ERROR, f"the Secret {name} has no key `token`", effect, todo, (name,))
    else:
        yield fine(check, f"the Secret {name} exists")
