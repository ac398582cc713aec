"""What people can still create while the webhook is away: the table that the README shows.

Every cell is one real request to a real API server. Creating pods never depends on us unless an administrator
chose `enforce`, and then only GPU pods do.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.balancer import Mode

if TYPE_CHECKING:
    from sandbox.api import Reply
    from tests.webhook.conftest import Site

Object = dict[str, Any]
FAULTS = {
    "mutate down": (Mode.REFUSE, Mode.PASS),
    "validate down": (Mode.PASS, Mode.REFUSE),
    "both down": (Mode.REFUSE, Mode.REFUSE),
    "hanging": (Mode.BLACK_HOLE, Mode.BLACK_HOLE),
}
OBJECTS = ("GPU pod", "CPU pod", "binding", "pod status", "Job")
PASSES, BARE, REFUSED = "as ever", "without terms", "refused"
# All that is not named here passes as if nothing had happened.
EXPECTED = {
    ("observe", "mutate down", "GPU pod"): BARE,
    ("observe", "both down", "GPU pod"): BARE,
    ("observe", "hanging", "GPU pod"): BARE,
    ("enforce", "mutate down", "GPU pod"): BARE,
    ("enforce", "validate down", "GPU pod"): REFUSED,
    ("enforce", "both down", "GPU pod"): REFUSED,
    ("enforce", "hanging", "GPU pod"): REFUSED,
    **{
        (profile, fault, "Job"): BARE
        for profile in ("observe", "enforce")
        for fault in ("mutate down", "both down", "hanging")
    },
}
NOT_OURS = {"CPU pod", "binding", "pod status"}
GPU = {"limits": {"nvidia.com/gpu": 1}}


@pytest.fixture(scope="module")
def table(request: pytest.FixtureRequest) -> Iterator[dict[tuple[str, str, str], str]]:
    """What was seen; printed at the end."""
    seen: dict[tuple[str, str, str], str] = {}
    yield seen
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        sys.stdout.write("\n" + "\n".join(rendered(seen)) + "\n")


def rendered(seen: dict[tuple[str, str, str], str]) -> list[str]:
    """The table in Markdown."""
    lines = [f"| profile | webhook | {' | '.join(OBJECTS)} |", f"|---|---|{'---|' * len(OBJECTS)}"]
    for profile in ("observe", "enforce"):
        for fault in FAULTS:
            cells = [seen.get((profile, fault, name), "?") for name in OBJECTS]
            lines.append(f"| `{profile}` | {fault} | {' | '.join(cells)} |")
    return lines


def pod(name: str, resources: Object) -> Object:
    """A pod that no scheduler takes."""
    container = {"name": "main", "image": "x", "resources": resources}
    spec = {"restartPolicy": "Never", "schedulerName": "nobody", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


class Requests:
    """The requests of the table, in one namespace."""

    def __init__(self, site: Site, namespace: str) -> None:
        self._site = site
        self._core = f"/api/v1/namespaces/{namespace}"
        self._batch = f"/apis/batch/v1/namespaces/{namespace}"

    def prepare(self) -> None:
        """Creates the GPU pod that is bound and whose status changes, while all is well."""
        assert self._site.create(f"{self._core}/pods", pod("before", GPU)).status == 201

    def send(self, what: str) -> Reply:
        """Sends the request of one column."""
        match what:
            case "GPU pod":
                return self._site.create(f"{self._core}/pods", pod("gpu", GPU))
            case "CPU pod":
                return self._site.create(f"{self._core}/pods", pod("cpu", {"limits": {"cpu": "1"}}))
            case "binding":
                target = {"apiVersion": "v1", "kind": "Node", "name": "node-a"}
                binding = {
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"name": "before"},
                    "target": target,
                }
                return self._site.create(f"{self._core}/pods/before/binding", binding)
            case "pod status":
                return self._site.sandbox.api().raw(
                    "PATCH",
                    f"{self._core}/pods/before/status",
                    {"status": {"message": "seen"}},
                    {"Content-Type": "application/merge-patch+json"},
                )
            case _:
                job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}}
                spec = {"suspend": True, "template": {"spec": pod("x", GPU)["spec"]}}
                return self._site.create(f"{self._batch}/jobs", {**job, "spec": spec})


def outcome(what: str, reply: Reply) -> str:
    """A cell of the table, from the answer of the API server."""
    if reply.status not in {200, 201}:
        assert "failed calling webhook" in reply.text, reply.text
        return REFUSED
    if what in NOT_OURS:
        return PASSES
    annotations = reply.json["metadata"].get("annotations") or {}
    return PASSES if "gpu-tenure.io/deadline" in annotations else BARE


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("profile", ["observe", "enforce"])
def test_what_passes_while_the_webhook_is_away(
    site: Site, selected: str, profile: str, fault: str, table: dict[tuple[str, str, str], str]
) -> None:
    """Only GPU pods under enforce depend on the validating webhook; nobody else even waits for us."""
    site.set_profile(profile)
    requests = Requests(site, selected)
    requests.prepare()
    site.set_modes(*FAULTS[fault])
    try:
        for what in OBJECTS:
            if what in NOT_OURS:
                # Cuts what earlier requests left open: a connection now would be one for this request.
                site.set_modes(*FAULTS[fault])
            table[profile, fault, what] = outcome(what, requests.send(what))
            if what in NOT_OURS:
                assert site.mutating.connections == site.validating.connections == 0
    finally:
        site.set_modes(Mode.PASS, Mode.PASS)
    seen = {what: table[profile, fault, what] for what in OBJECTS}
    assert seen == {what: EXPECTED.get((profile, fault, what), PASSES) for what in OBJECTS}
