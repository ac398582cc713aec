"""The webhook behind a real API server: pods that ask for GPUs in every way are seen, and completed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from policy.profile import Profile

if TYPE_CHECKING:
    from tests.webhook.conftest import Site

CLASS_LABEL = "gpu-tenure.io/class"
Object = dict[str, Any]


@pytest.fixture(autouse=True)
def enforcing(site: Site) -> None:
    """All of these run under `enforce`."""
    site.set_profile(Profile.ENFORCE)


def pod(limits: Object | None = None, annotations: Object | None = None, **spec: Any) -> Object:
    """A pod that nobody schedules."""
    containers = [{"name": "c", "image": "i", "resources": {"limits": limits or {}}}]
    metadata = {"generateName": "p-", "annotations": annotations or {}}
    return {"metadata": metadata, "spec": {"schedulerName": "nobody", "containers": containers, **spec}}


def has_terms(site: Site, namespace: str, body: Object) -> bool:
    """Whether the pod is created with terms."""
    reply = site.create(f"/api/v1/namespaces/{namespace}/pods", body)
    assert reply.status == 201, reply.text[:500]
    return CLASS_LABEL in reply.json["metadata"].get("labels", {})


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(pod({"huawei.com/Ascend910B": 1, "huawei.com/Ascend910B-memory": 100}), id="an Ascend"),
        pytest.param(pod({"google.com/tpu": 4}), id="a TPU"),
        pytest.param(pod(None, {"gpu-fraction": "0.5"}), id="a part of a card"),
    ],
)
def test_gpu_pods_of_all_kinds(site: Site, selected: str, body: Object) -> None:
    """They get their terms."""
    assert has_terms(site, selected, body)


def test_other_pods(site: Site, selected: str) -> None:
    """Monitoring is no device."""
    assert not has_terms(site, selected, pod({"gpu.intel.com/i915_monitoring": 1}))


@pytest.mark.parametrize(
    ("device_class", "is_gpu"), [("gpu.nvidia.com", True), ("nic.example.com", False)], ids=["GPUs", "others"]
)
def test_claims_made_from_a_template(site: Site, selected: str, device_class: str, is_gpu: bool) -> None:
    """Even of a template that was made a moment ago; the devices of other classes are not ours."""
    exactly = {"name": "r", "exactly": {"deviceClassName": device_class, "count": 2}}
    template = {"metadata": {"name": "t"}, "spec": {"spec": {"devices": {"requests": [exactly]}}}}
    path = f"/apis/resource.k8s.io/v1/namespaces/{selected}/resourceclaimtemplates"
    site.sandbox.api().create(path, template)
    claims = [{"name": "c", "resourceClaimTemplateName": "t"}]
    assert has_terms(site, selected, pod(resourceClaims=claims)) is is_gpu


def test_claims_that_nobody_knows(site: Site, selected: str) -> None:
    """They are let pass as they are."""
    for claim in ({"resourceClaimName": "shared"}, {"resourceClaimTemplateName": "never-made"}):
        assert not has_terms(site, selected, pod(resourceClaims=[{"name": "c", **claim}]))
