"""The ways into the cluster that are compared: which webhooks a namespace's pods pass; pure data."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import msgspec

from bench.figures import CONTROLLER_RUNTIME, OURS
from bench.pods import USUAL, Object, pod, variant_of

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
MUTATING, VALIDATING = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"
CHART = {MUTATING: "zz-gpu-tenure", VALIDATING: "gpu-tenure"}
"""The configurations of the chart, by their resource."""
PATHS = {MUTATING: "/mutate", VALIDATING: "/validate"}
NAME_LABEL = "kubernetes.io/metadata.name"
TIMEOUT_SECONDS = 30
ENTRIES = 24
"""Entries of environment, with which a review has about 10 kB."""
VARIANTS = 4


class Door(msgspec.Struct, frozen=True):
    """A namespace, and the server that each resource of configurations calls for its pods."""

    name: str
    namespace: str
    servers: Mapping[str, str]


NO_WEBHOOK = Door("no webhook", "bench-none", {})
MUTATED = Door(OURS, "bench-ours", {MUTATING: OURS})
OTHER = Door(CONTROLLER_RUNTIME, "bench-other", {MUTATING: CONTROLLER_RUNTIME})
WHOLE = Door(f"{OURS}, validating too", "bench-whole", {MUTATING: OURS, VALIDATING: OURS})
DOORS = (NO_WEBHOOK, MUTATED, OTHER, WHOLE)


def configuration(chart: Object, door: Door, path: str, address: str) -> Object:
    """Gives a copy of the chart's configuration for one door's namespace and one server.

    Rules and match conditions stay as they are, so that the API server has the same work with each. A server
    that does not answer refuses the pod, so that no failure is taken for speed. It has long to answer, since
    a busy machine is to show in the figures and not as a failure.
    """
    hooks = copy.deepcopy(chart["webhooks"])
    for hook in hooks:
        hook["clientConfig"]["url"] = f"https://{address}{path}"
        hook["namespaceSelector"] = {"matchLabels": {NAME_LABEL: door.namespace}}
        hook["failurePolicy"] = "Fail"
        hook["timeoutSeconds"] = TIMEOUT_SECONDS
    return {
        "apiVersion": chart["apiVersion"],
        "kind": chart["kind"],
        "metadata": {"name": f"zz-{door.namespace}"},
        "webhooks": hooks,
    }


def pods() -> dict[str, Object]:
    """Gives the pods that are created, by name: those of people, as they send them."""
    return {
        f"{kind.name}-{variant:02d}": _sent(pod(variant_of(kind, variant), ENTRIES, ""))
        for kind in USUAL
        if kind.controller is None
        for variant in range(VARIANTS)
    }


def _sent(obj: Object) -> Object:
    """Takes away what the API server adds."""
    added = ("managedFields", "namespace", "name")
    metadata = {key: value for key, value in obj["metadata"].items() if key not in added}
    spec = {key: value for key, value in obj["spec"].items() if key not in ("priority", "preemptionPolicy")}
    return {**obj, "metadata": {**metadata, "generateName": "bench-"}, "spec": spec, "status": {}}
