"""The doctor on a real control plane: nothing to say where all is well, and what is broken is found."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from sandbox.deadline import wait
from sandbox.faults import FaultProxy
from tests.cli.doctor.breaking import BREAKING, no_bundle
from tests.cli.doctor.conftest import TEAM, Site

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def bare(site: Site) -> dict[str, Any]:
    """What is said while the exporters name no pods, and nothing runs."""
    site.pod("busy")
    site.wait_for_sample("count(DCGM_FI_DEV_GPU_UTIL)")
    found: dict[str, Any] = {}

    def settled() -> bool:
        found.update(site.json())
        return any(one["check"] == "exporters.pod-labels" for one in found["findings"])

    wait(settled, 60, "the pod has run long enough to be named")
    site.expose(named=True)
    return found


@pytest.fixture(scope="module")
def well(bare: dict[str, Any], running: Site) -> Site:  # noqa: ARG001 - this is first
    """The installation when all is well."""
    running.wait_for_sample(f'count(DCGM_FI_DEV_GPU_UTIL{{exported_namespace="{TEAM}"}})')
    wait(lambda: running.json()["code"] == 0, 60, "nothing is wrong")
    return running


def test_before_anything_is_installed(site: Site) -> None:
    """One error says so; Prometheus and nodes are looked at all the same."""
    wrong = {one["check"] for one in site.before["findings"] if one["level"] == "error"}
    assert wrong - {"prometheus.exporters"} == {"installation.present"}
    assert {"prometheus.answers", "cluster.taints"} <= {one["check"] for one in site.before["findings"]}
    assert site.before["code"] == 1


def test_before_anything_runs(bare: dict[str, Any]) -> None:
    """Nobody leads, no certificate is made, the API server calls nobody, and no series names a pod."""
    levels = {(one["check"], one["level"]) for one in bare["findings"]}
    assert {
        ("installation.reaper-lease", "warning"),
        ("admission.certificates", "error"),
        ("admission.canary", "error"),
        ("exporters.pod-labels", "warning"),
    } <= levels
    assert bare["code"] == 1


def test_where_all_is_well_nothing_is_said(well: Site) -> None:
    """Exit code 0, also if strict; Prometheus is where the reaper is told that it is."""
    told = well.json("--strict", url=None)
    assert told["code"] == 0, told
    assert told["counts"]["error"] == told["counts"]["warning"] == told["counts"]["unknown"] == 0
    assert told["counts"]["ok"] > 35
    assert told["profile"] == "warn"
    (answers,) = [one for one in told["findings"] if one["check"] == "prometheus.answers"]
    assert well.sandbox.prometheus_url in answers["what"]
    assert "admission.canary" in well.run("--all").stdout


def test_a_prometheus_that_is_away_or_answers_in_part(well: Site) -> None:
    """An error if a person named it, with the rest checked."""
    found = well.json(url="http://127.0.0.1:9")
    (answers,) = [one for one in found["findings"] if one["check"] == "prometheus.answers"]
    assert (answers["level"], found["code"]) == ("error", 1)
    assert "check address" in answers["todo"]
    assert found["counts"]["ok"] > 25
    proxy = FaultProxy(well.sandbox.prometheus_url)
    proxy.fault = replace(
        proxy.fault,
        kind="rewrite",
        rewrite=lambda body: body.replace(
            b'"status":"success"', b'"status":"success","warnings":["a store is down"]'
        ),
    )
    try:
        answers = well.finding("prometheus.answers", url=proxy.url)
    finally:
        proxy.close()
    assert answers["level"] == "error"
    assert "a store is down" in answers["what"]


def test_with_the_rights_of_a_developer(well: Site) -> None:
    """What may not be read is said once; nothing crashes, and nothing is invented."""
    found = well.json(user="dev-a")
    assert found["code"] == 0
    assert well.json("--strict", user="dev-a")["code"] == 1
    unseen = {one["check"] for one in found["findings"] if one["level"] == "unknown"}
    assert unseen == {"sight.rights", "rights.asking", "admission.canary"}
    (sight,) = [one for one in found["findings"] if one["check"] == "sight.rights"]
    assert {"nodes", "GPUPolicies"} <= set(sight["objects"])
    well.api.grant_edit(TEAM, "dev-a")
    canary = well.finding("admission.canary", f"--canary-namespace={TEAM}", user="dev-a")
    assert canary["level"] == "ok"


def test_nothing_is_written(well: Site) -> None:
    """The pod is only tried."""
    before = {one["metadata"]["name"] for one in well.api.list("/api/v1/namespaces/default/pods")}
    well.run()
    assert {one["metadata"]["name"] for one in well.api.list("/api/v1/namespaces/default/pods")} == before


def test_bad_flags_and_dead_servers(well: Site) -> None:
    """All bad flags at once with exit code 2; 1 for an API server that gives no answer."""
    done = well.run("--namespace=A_b", "--canary-namespace=x y", url="ftp://x")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 3)
    proxy = well.sandbox.api_proxy()
    proxy.fault = replace(proxy.fault, kind="reset")
    kubeconfig = well.sandbox.kubeconfig("admin", proxy.url)
    try:
        done = well.run(f"--kubeconfig={kubeconfig}")
    finally:
        proxy.close()
    assert (done.returncode, done.stdout) == (1, "")
    assert "error: " in done.stderr


CASES = [
    pytest.param("admission.canary", "error", "endpointslices", id="the webhook is stopped"),
    pytest.param("guards.bindings", "error", "helm upgrade", id="a guard's binding is deleted"),
    pytest.param("installation.pause", "warning", "gpu-tenure unpause", id="paused"),
    pytest.param("policies.selectors", "warning", "guarded", id="a policy by an unguarded label"),
    pytest.param("exporters.frozen", "warning", "restart dcgm-exporter", id="an exporter is frozen"),
    pytest.param("exporters.profiling", "warning", "other profilers", id="profiling is stuck"),
    pytest.param("exporters.scraped-twice", "warning", "one scrape job", id="two scrapers"),
    pytest.param("rights.reaper", "error", "helm upgrade", id="an RBAC rule is removed"),
    pytest.param("cluster.scoped-quotas", "warning", "GPUQuota", id="a scoped quota"),
    pytest.param("cluster.taints", "warning", "kubectl taint", id="an untainted node"),
    pytest.param("alerting.receiver-secret", "error", "create secret", id="no token Secret"),
    pytest.param("installation.reaper-lease", "warning", "get lease", id="nobody leads"),
    pytest.param("installation.quota", "error", "describe deployment", id="no replica is ready"),
]


@pytest.fixture(scope="module")
def broken(well: Site) -> dict[str, Any]:
    """What is said while all of this is broken at once; all is well before, and after it was mended."""
    assert well.json()["code"] == 0
    with ExitStack() as stack:
        for breaking in BREAKING:
            stack.enter_context(breaking(well))
        found = well.json()
    # What exporters did counts for minutes.
    wait(lambda: all(one.startswith("exporters.") for one in _wrong(well)), 60, "all is well again")
    return found


def _wrong(site: Site) -> set[str]:
    """The checks that have a warning or an error."""
    return {one["check"] for one in site.json()["findings"] if one["level"] in {"error", "warning"}}


@pytest.mark.parametrize(("check", "level", "todo"), CASES)
def test_what_is_broken_is_found(broken: dict[str, Any], check: str, level: str, todo: str) -> None:
    """With what to do; and the exit code says so."""
    assert broken["code"] == 1
    wrong = [one for one in broken["findings"] if (one["check"], one["level"]) == (check, level)]
    assert wrong, broken["findings"]
    assert todo in wrong[0]["todo"]


def test_a_caBundle_that_is_removed_is_found(well: Site) -> None:  # noqa: N802 - as the field is called
    """The API server trusts nobody then, and lets pods pass."""
    with no_bundle(well):
        found = well.json()
    levels = {(one["check"], one["level"]) for one in found["findings"]}
    assert {("admission.bundles", "error"), ("admission.canary", "error")} <= levels
