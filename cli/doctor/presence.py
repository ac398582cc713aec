"""Whether there is an installation at all, so that a cluster without one is told so once; pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cli.doctor.facts import Facts
from cli.doctor.findings import Finding, Level, some
from cli.doctor.installation import release

CHECK: Final = "installation.present"
LEFT_OUT: Final = "the checks that look at an installation were left out"
WITHOUT: Final = f"GPU pods get no terms, and no idle GPU is given back; {LEFT_OUT}"
LOOK: Final = "gpu-tenure judge says what is idle without it"


def is_absent(facts: Facts) -> bool:
    """Whether nothing of ours is in the namespace, and in the cluster at most what belongs to another one.

    Definitions, Leases and the pause switch do not count, because they outlive an installation. What may not
    be read does not count either, as long as Deployments may.
    """
    here = (facts.accounts, facts.switches, facts.deployments, facts.cron_jobs)
    if facts.deployments.hidden or any(one.value for one in here):
        return False
    around = (facts.mutating, facts.validating, facts.guards)
    return bool(_elsewhere(facts)) or not any(one.value for one in around)


def check(facts: Facts) -> Iterator[Finding]:
    """Says that there is none, how to get one, and whether the release of Kubernetes is one for it."""
    yield release(facts)
    elsewhere = _elsewhere(facts)
    left = [one.metadata.name or "" for one in facts.definitions.value or ()]
    if elsewhere:
        what = f"gpu-tenure is installed in {', '.join(elsewhere)}, and not in {facts.namespace}"
        yield Finding(CHECK, Level.ERROR, what, LEFT_OUT, f"--namespace {elsewhere[0]}")
        return
    what = "gpu-tenure is not installed"
    if facts.mutating.hidden:
        what = f"nothing of gpu-tenure is in {facts.namespace}, and more cannot be seen with your rights"
    elif left:
        what += ", and definitions of our kinds are left from before"
    todo = (
        f"helm upgrade --install gpu-tenure manifests/chart -n {facts.namespace} --create-namespace,"
        f" with the values that docs/install.md has; until then {LOOK}"
    )
    yield Finding(CHECK, Level.ERROR, what, WITHOUT, todo, some(left))


def _elsewhere(facts: Facts) -> list[str]:
    """Other namespaces whose webhook the API server calls."""
    known = (facts.mutating.value, facts.validating.value)
    services = (hook.client_config.service for one in known if one for hook in one.webhooks or ())
    return sorted({one.namespace for one in services if one and one.namespace} - {facts.namespace})
