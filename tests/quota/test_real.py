"""Quotas on the real API server, with the rights of the parts' own accounts: restarts, caches, outages."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

import pytest
import requests

from sandbox.api import Reply
from sandbox.balancer import Backend
from sandbox.deadline import monotonic, wait
from sandbox.faults import Fault, FaultProxy
from tests.quota.conftest import GPU, QUOTAS, RESERVATION_SECONDS, pod

if TYPE_CHECKING:
    from tests.quota.conftest import QuotaSite

Make = Callable[..., str]


@pytest.fixture
def running(site: QuotaSite) -> QuotaSite:
    """One replica of the webhook and one keeper."""
    if "quota" not in site.keepers:
        site.start_keeper()
    if not site.installation.webhooks:
        site.installation.start_webhooks(1, ["--drain=1s"])
    return site


def create(site: QuotaSite, namespace: str, name: str, gpus: int = 1, *, dry_run: bool = False) -> Reply:
    """Creates a pod as the administrator; a refusal is an answer."""
    query = "?dryRun=All" if dry_run else ""
    return site.sandbox.api().raw("POST", f"/api/v1/namespaces/{namespace}/pods{query}", pod(name, gpus))


def told(site: QuotaSite, namespace: str, name: str, gpus: int = 1) -> Reply:
    """Creates a pod as clients do that come again when they are told to; the answer that they get."""

    def answer() -> Reply | None:
        reply = create(site, namespace, name, gpus)
        return None if reply.status == 429 else reply

    return wait(answer, 20, f"{name} is let in or refused", poll=0.2)


def created(site: QuotaSite, namespace: str, name: str, gpus: int = 1) -> None:
    """Creates a pod that fits."""
    reply = told(site, namespace, name, gpus)
    assert reply.status == 201, reply.text


def delete(site: QuotaSite, namespace: str, name: str) -> None:
    """Deletes a pod at once."""
    site.sandbox.api().delete(f"/api/v1/namespaces/{namespace}/pods/{name}", {"gracePeriodSeconds": 0})


class Truth:
    """Looks again and again whether a ledger shows less than the pods that exist; reads pods before it."""

    def __init__(self, site: QuotaSite, namespace: str, quota: str) -> None:
        self._site, self._namespace, self._quota = site, namespace, quota
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.looks = 0
        self.below: list[tuple[int, int]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        api = self._site.sandbox.api()
        while not self._stop.is_set():
            before = {
                one["metadata"]["uid"] for one in api.list(f"/api/v1/namespaces/{self._namespace}/pods")
            }
            used = self._site.used(self._quota)
            after = {one["metadata"]["uid"] for one in api.list(f"/api/v1/namespaces/{self._namespace}/pods")}
            # Pods that were there all the time must be in the ledger.
            if used < len(before & after):
                self.below.append((used, len(before & after)))
            self.looks += 1

    def _pods(self) -> set[str]:
        listed = self._site.sandbox.api().list(f"/api/v1/namespaces/{self._namespace}/pods")
        return {one["metadata"]["uid"] for one in listed}


def test_a_user_sees_what_holds_the_quota(running: QuotaSite, namespace: str) -> None:
    """The refusal names numbers and holders, and the printed column shows used and hard."""
    running.make_quota("seen", [namespace], hard=2)
    assert create(running, namespace, "a").status == 201
    reply = create(running, namespace, "b")
    assert reply.status == 201
    assert any("GPUQuota seen is nearly full: 2 of 2 devices" in one for one in reply.warnings)
    running.wait(lambda: running.status("seen").get("holders"), "the holders are known")
    running.wait(lambda: not running.status("seen").get("reservations"), "both are counted")
    refused = create(running, namespace, "c")
    assert refused.status == 403
    assert "GPUQuota seen has 2 of 2 devices in use, and this pod asks for 1." in refused.text
    assert f"{namespace}/Pod/a (1)" in refused.text
    printed = running.sandbox.kubectl("get", "gpuquota", "seen").stdout.splitlines()
    assert printed[0].split() == ["NAME", "PER", "USED", "OVER", "AGE"]
    assert printed[1].split()[:3] == ["seen", "quota", "2/2"]


def test_a_dry_run_leaves_nothing(running: QuotaSite, namespace: str) -> None:
    """The answer is that of a real request, and the ledger stays as it was."""
    running.make_quota("tried", [namespace], hard=1)
    before = running.sandbox.api().get(f"{QUOTAS}/tried")["metadata"]["resourceVersion"]
    assert create(running, namespace, "a", dry_run=True).status == 201
    assert create(running, namespace, "b", gpus=2, dry_run=True).status == 403
    assert running.sandbox.api().get(f"{QUOTAS}/tried")["metadata"]["resourceVersion"] == before


def test_terminating_and_gated_pods_count(running: QuotaSite, namespace: str) -> None:
    """As in a ResourceQuota: until they are gone, and from the beginning."""
    running.make_quota("late", [namespace], hard=2)
    api, path = running.sandbox.api(), f"/api/v1/namespaces/{namespace}/pods"
    body = pod("held")
    body["metadata"]["finalizers"] = ["example.com/wait"]
    api.create(path, body)
    gated = pod("gated")
    gated["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
    api.create(path, gated)
    api.delete(f"{path}/held")
    running.wait(lambda: running.status("late").get("used") == {"*": {GPU: 2}}, "both are counted")
    assert create(running, namespace, "more").status == 403
    api.patch(f"{path}/held", {"metadata": {"finalizers": None}})
    running.wait(lambda: running.used("late") == 1, "the pod is gone")
    created(running, namespace, "more")


def test_finished_pods_give_back(running: QuotaSite, namespace: str) -> None:
    """A pod that has succeeded holds nothing."""
    running.make_quota("done", [namespace], hard=1)
    created(running, namespace, "a")
    status = {"status": {"phase": "Succeeded"}}
    running.sandbox.api().patch(f"/api/v1/namespaces/{namespace}/pods/a/status", status)
    running.wait(lambda: running.used("done") == 0, "the pod is not counted")
    created(running, namespace, "b")


def test_a_dry_run_namespace_counts_and_is_warned(running: QuotaSite, make_namespace: Make) -> None:
    """Its pods are let in over the limit, are told so, and take from others."""
    free, strict = make_namespace({"gpu-tenure.io/enforcement": "dry-run"}), make_namespace()
    running.make_quota("mixed", [free, strict], hard=1)
    created(running, free, "a")
    reply = create(running, free, "b")
    assert reply.status == 201
    assert any("would be refused: GPUQuota mixed" in one for one in reply.warnings)
    running.wait(lambda: running.used("mixed") == 2, "both are counted")
    assert create(running, strict, "c").status in (403, 429)
    running.wait(lambda: running.status("mixed").get("over") == ["*"], "the excess is in the status")
    events = f"/apis/events.k8s.io/v1/namespaces/{free}/events"
    running.wait(
        lambda: [one for one in running.sandbox.api().list(events) if one["reason"] == "OverQuota"],
        "an Event tells of it",
    )


def test_several_quotas_hold_at_once(running: QuotaSite, make_namespace: Make) -> None:
    """What the wider one leaves does not help where the narrower is full, and nothing stays reserved."""
    one, two = make_namespace(), make_namespace()
    running.make_quota("a-wide", [one, two], hard=10)
    running.make_quota("b-narrow", [one], hard=1)
    created(running, one, "a")
    assert create(running, one, "b").status == 403
    created(running, two, "c")
    running.wait(lambda: running.used("a-wide") == 2, "only what exists is held")


def test_each_requester_has_a_limit(running: QuotaSite, namespace: str) -> None:
    """Who created a pod is whom it counts for."""
    running.make_quota("each", [namespace], hard=1, per="requester")
    path = f"/api/v1/namespaces/{namespace}/pods"
    for user in ("dev-a", "dev-b"):
        running.sandbox.api().grant_edit(namespace, user)
        api = running.sandbox.api(user)
        wait(lambda api=api, user=user: api.raw("POST", path, pod(user)).status == 201, 20, "one is let in")
        refused = api.raw("POST", path, pod(f"{user}-2"))
        assert refused.status == 403
        assert f"GPUQuota each for {user} has 1 of 1" in refused.text


def test_a_keeper_that_restarts_counts_what_it_missed(running: QuotaSite, namespace: str) -> None:
    """Pods that came and went while nobody counted."""
    running.make_quota("missed", [namespace], hard=4)
    for name in "ab":
        created(running, namespace, name)
    running.wait(lambda: not running.status("missed").get("reservations"), "both are counted")
    with Truth(running, namespace, "missed") as truth:
        running.sandbox.stop("quota")
        created(running, namespace, "c")
        delete(running, namespace, "a")
        assert running.used("missed") == 3
        running.start_keeper()
        running.wait(lambda: running.status("missed").get("used") == {"*": {GPU: 2}}, "it counts anew")
    assert truth.looks
    assert truth.below == []


def test_a_paused_leader_takes_nothing_back(running: QuotaSite, namespace: str) -> None:
    """Another leads meanwhile; the first wakes up with the pods of before, and must not count them."""
    running.make_quota("paused", [namespace], hard=6)
    created(running, namespace, "a")
    running.wait(lambda: not running.status("paused").get("reservations"), "it is counted")
    running.start_keeper("quota-2")
    with Truth(running, namespace, "paused") as truth:
        running.sandbox.suspend("quota")
        try:
            for name in ("b", "c"):
                created(running, namespace, name)
            running.wait(
                lambda: running.status("paused").get("used") == {"*": {GPU: 3}},
                "the second leads and counts",
                60,
            )
        finally:
            running.sandbox.resume("quota")
        created(running, namespace, "d")
        running.wait(lambda: running.status("paused").get("used") == {"*": {GPU: 4}}, "the fourth is counted")
        looks = truth.looks
        wait(lambda: truth.looks > looks + 20, 30, "the first has had its time")
    assert truth.below == []
    assert running.used("paused") == 4
    running.sandbox.stop("quota-2")
    del running.keepers["quota-2"]


def test_a_replica_with_a_stale_cache_admits_nothing_too_much(running: QuotaSite, namespace: str) -> None:
    """Its watch of quotas hangs, so it knows an old ledger; the write tells it better."""
    running.make_quota("stale", [namespace], hard=2)
    installation = running.installation
    with running.sandbox.api_proxy() as proxy:
        installation.stop_webhooks(seconds=3)
        stale = running.sandbox.kubeconfig("webhook", proxy.url)
        installation.start_webhooks(1, ["--drain=1s", f"--kubeconfig={stale}"])
        try:
            # New watches of quotas hang; the one that is there is cut.
            proxy.fault = Fault("hang", only=f"{QUOTAS}?watch")
            running.wait(lambda: create(running, namespace, "x", dry_run=True).status == 201, "it answers")
            quota = running.sandbox.api().get(f"{QUOTAS}/stale")
            used = {**quota["status"], "used": {"*": {GPU: 1}}}
            running.sandbox.stop("quota")
            running.sandbox.api().replace(f"{QUOTAS}/stale/status", {**quota, "status": used})
            results = [create(running, namespace, f"p{index}").status for index in range(3)]
            assert results.count(201) == 1
            assert running.used("stale") == 2
        finally:
            installation.stop_webhooks(seconds=3)
            running.start_keeper()


@pytest.fixture
def behind_proxy(running: QuotaSite) -> Iterator[FaultProxy]:
    """The one replica of the webhook reaches the API server by a proxy."""
    installation = running.installation
    with running.sandbox.api_proxy() as proxy:
        installation.stop_webhooks(seconds=3)
        kubeconfig = running.sandbox.kubeconfig("webhook", proxy.url)
        installation.start_webhooks(1, ["--drain=1s", f"--kubeconfig={kubeconfig}"])
        yield proxy
        installation.stop_webhooks(seconds=3)


def test_an_outage_delays_others_only_when_a_quota_may_be_new(
    running: QuotaSite, behind_proxy: FaultProxy, make_namespace: Make
) -> None:
    """The webhook cannot reach the API server: at first others are let in at once, later nobody is."""
    under, free = make_namespace(), make_namespace()
    running.make_quota("cut-off", [under])
    created(running, free, "before")
    behind_proxy.fault = Fault("hang")
    begun = monotonic()
    assert create(running, free, "now").status == 201
    assert monotonic() - begun < 2
    begun = monotonic()
    later = create(running, under, "later")
    assert (later.status, later.headers.get("Retry-After")) == (429, "1")
    assert monotonic() - begun < 5
    wait(lambda: create(running, free, "after", dry_run=True).status == 429, 10, "nobody can tell")
    behind_proxy.fault = Fault()
    created(running, free, "after")
    created(running, under, "later")


@pytest.mark.parametrize(
    ("fault", "answers"),
    [
        pytest.param(Fault("hang", only=f"{QUOTAS}?watch"), True, id="its watch of quotas hangs"),
        pytest.param(Fault("hang", only="/api/v1/namespaces?watch"), True, id="its watch of names hangs"),
        pytest.param(Fault("hang", only=QUOTAS), False, id="it can read no quotas"),
        pytest.param(Fault("reset"), False, id="it can read nothing"),
    ],
)
def test_a_replica_that_is_cut_off_lets_nobody_past_a_new_quota(
    running: QuotaSite, behind_proxy: FaultProxy, namespace: str, fault: Fault, answers: bool
) -> None:
    """Where it can still ask it knows the quota; where it cannot it lets nobody in."""
    api, name = running.sandbox.api(), namespace[-40:].strip("-")
    created(running, namespace, "before")
    selector = {"matchLabels": {"quota": name}}
    if "namespaces" in fault.only:
        # The quota is known for long: what is new is the namespace's label.
        running.make_quota(name, [], hard=3, namespaceSelector=selector)
    behind_proxy.fault = fault
    api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {"quota": name}}})
    if "namespaces" not in fault.only:
        running.make_quota(name, [], hard=3, namespaceSelector=selector)
    running.wait(lambda: namespace in running.status(name).get("namespaces", ()), "the namespace is counted")
    ask = told if answers else create
    statuses = [ask(running, namespace, f"p{index}").status for index in range(6)]
    assert statuses == ([201, 201, 403, 403, 403, 403] if answers else [429] * 6)
    assert running.used(name) == (3 if answers else 1)
    behind_proxy.fault = Fault()
    if not answers:
        created(running, namespace, "q0")
        created(running, namespace, "q1")
    assert told(running, namespace, "more").status == 403
    assert running.used(name) == 3


def test_a_forged_review_holds_nothing_for_long(running: QuotaSite, namespace: str) -> None:
    """Any pod of the cluster can send one: what it reserves is bounded, and expires."""
    running.make_quota("forged", [namespace], hard=2)
    backend: Backend = next(iter(running.installation.webhooks.values()))
    body = {**pod("never"), "apiVersion": "v1", "kind": "Pod"}
    body["metadata"]["uid"] = "00000000-0000-0000-0000-000000000001"
    review: dict[str, Any] = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "operation": "CREATE",
            "namespace": namespace,
            "userInfo": {"username": "mallory"},
            "object": body,
        },
    }
    url = f"https://{backend.host}:{backend.port}/validate"
    reply = requests.post(url, json=review, verify=str(running.installation.tls / "ca.crt"), timeout=10)
    assert json.loads(reply.text)["response"]["allowed"] is True
    assert running.used("forged") == 1
    begun = monotonic()
    running.wait(lambda: running.used("forged") == 0, "it expires", 4 * RESERVATION_SECONDS)
    assert monotonic() - begun > RESERVATION_SECONDS / 2


@pytest.fixture(autouse=True, scope="module")
def tidy(quota_site: QuotaSite) -> Iterator[None]:
    """Ends what the tests of this module have started."""
    yield
    quota_site.stop_keepers()
    quota_site.installation.stop_webhooks(seconds=3)
