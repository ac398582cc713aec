"""Whatever people send: the patch applies, lasts, loses nothing, and no review is a failure of ours."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import jsonpatch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from policy.keys import DEFAULT_EXCLUDED_NAMESPACES
from policy.profile import Profile
from policy.syntax import is_label_value
from runtime.clock import SystemClock
from tests.webhook.reviews import Granted, Known
from webhook.app import MUTATE, VALIDATE, Admission
from webhook.metrics import WebhookMetrics
from webhook.own import OWN_ANNOTATIONS, OWN_LABELS
from webhook.patch import ANNOTATIONS_LIMIT_BYTES, annotations_bytes
from webhook.reception import MalformedError, reviewed
from webhook.rights import Right
from webhook.scene import AdmissionSettings

P = "gpu-tenure.io/"
POLICIES = [
    {},
    {"deadline": {}},
    {"deadline": {"default": "1h", "max": "2h", "jobs": "pod"}, "idle": {"action": "stop"}},
    {
        "deadline": {"jobs": "none"},
        "idle": {"memory": "500Mi", "statistic": "average", "utilization": 10},
        "bounds": {"after": {"min": "30m", "max": "9h"}, "grace": "3h", "exemption": "24h"},
        "requireTerms": True,
    },
]
LONG = "x" * 80
ASKED = st.sampled_from(
    [
        "evict",
        "stop",
        "exempt",
        "warn",
        "2h",
        "90m",
        "soon",
        "9d",
        "5",
        "100",
        "10%",
        "500Mi",
        "5pct",
        "",
        "x" * 80,
    ]
)
labels = st.dictionaries(
    st.one_of(st.sampled_from(OWN_LABELS), st.text(max_size=10)),
    st.one_of(ASKED, st.text(max_size=20)),
    max_size=8,
)
NOTES = st.sampled_from(
    ["injected", "kept", "job", "would-inject", "none: Kueue", "604800", "idle-after", "never"]
)
annotations = st.dictionaries(
    st.one_of(st.sampled_from((*OWN_ANNOTATIONS, "gpu-eviction-policy")), st.text(max_size=10)),
    st.one_of(NOTES, st.text(max_size=30)),
    max_size=8,
)
CONTROLLERS = [
    "system:serviceaccount:kube-system:job-controller",
    "system:serviceaccount:ops:operator",
    "dev-a",
    "",
]
references = st.lists(
    st.fixed_dictionaries(
        {
            "apiVersion": st.sampled_from(["apps/v1", "batch/v1", "v1", ""]),
            "kind": st.sampled_from(["Job", "ReplicaSet", "Notebook", "StatefulSet"]),
            "name": st.just("o"),
            "uid": st.just("u"),
            "controller": st.sampled_from([True, False, None]),
        }
    ),
    max_size=2,
)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A value, or now and then null."""
    return st.sampled_from([True, True, True, False]).flatmap(lambda there: strategy if there else st.none())


metadata = maybe(
    st.fixed_dictionaries(
        {},
        optional={
            "name": st.just("p"),
            "labels": maybe(labels),
            "annotations": maybe(annotations),
            "ownerReferences": maybe(references),
            "creationTimestamp": st.none(),
            "finalizers": st.just(["a/b"]),
        },
    )
)
quantity = st.sampled_from([1, "1", "2", "0", "1k", "1500m", "2.9991", "+1", "x", "", None, 0.5])
resources = st.dictionaries(
    st.sampled_from(["nvidia.com/gpu", "amd.com/gpu", "nvidia.com/gpumem", "nvidia.com/mig-1g.5gb", "cpu"]),
    quantity,
    max_size=3,
)
container = st.fixed_dictionaries(
    {"name": st.just("c")},
    optional={
        "image": st.text(max_size=5),
        "restartPolicy": st.just("Always"),
        "resources": maybe(
            st.fixed_dictionaries({}, optional={"limits": maybe(resources), "requests": resources})
        ),
        "env": st.just([{"name": "A", "value": "B"}]),
    },
)
HOLDER = {"name": "holder", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
held = st.lists(container, max_size=2).map(lambda others: [HOLDER, *others])
containers = st.sampled_from([held, held, held, st.lists(container, max_size=3), st.none()]).flatmap(
    lambda chosen: chosen
)
pod_spec = st.fixed_dictionaries(
    {"containers": containers},
    optional={
        "initContainers": maybe(st.lists(container, max_size=2)),
        "restartPolicy": st.sampled_from(["Never", "OnFailure", "Always", ""]),
        "activeDeadlineSeconds": maybe(st.integers(-5, 2**40)),
        "priority": maybe(st.integers(-1, 5)),
    },
)
pods = st.fixed_dictionaries(
    {"apiVersion": st.just("v1"), "kind": st.just("Pod"), "spec": maybe(pod_spec)},
    optional={"metadata": metadata},
)
template = st.fixed_dictionaries({"spec": maybe(pod_spec)}, optional={"metadata": metadata})
job_spec = st.fixed_dictionaries(
    {"template": maybe(template)}, optional={"activeDeadlineSeconds": maybe(st.integers(-5, 2**62))}
)
jobs = st.fixed_dictionaries(
    {"apiVersion": st.just("batch/v1"), "kind": st.just("Job"), "spec": maybe(job_spec)},
    optional={"metadata": metadata},
)


doors = st.builds(
    lambda spec, labels, profile, right: Admission(
        Known(spec, labels),
        AdmissionSettings(profile=profile),
        WebhookMetrics(CollectorRegistry()),
        SystemClock(),
        0.0,
        Granted(right),
    ),
    st.sampled_from(POLICIES),
    st.sampled_from([{}, {}, {f"{P}enforcement": "dry-run"}, {f"{P}enforcement": "disabled"}]),
    st.sampled_from(list(Profile)),
    st.sampled_from(list(Right)),
)


async def review(
    door: Admission, path: str, obj: Any, user: str, namespace: str = "team-a"
) -> dict[str, Any]:
    """The response to a review of an object."""
    group, _, version = str(obj["apiVersion"]).rpartition("/")
    request = {
        "uid": "u",
        "kind": {"group": group, "version": version, "kind": obj["kind"]},
        "operation": "CREATE",
        "namespace": namespace,
        "userInfo": {"username": user},
        "object": obj,
    }
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    response: dict[str, Any] = json.loads(await reviewed(door.routes()[path], json.dumps(body).encode()))[
        "response"
    ]
    return response


def patched(obj: Any, response: dict[str, Any]) -> Any:
    """The object after the patch of a response."""
    if "patch" not in response:
        return copy.deepcopy(obj)
    return jsonpatch.apply_patch(copy.deepcopy(obj), json.loads(base64.b64decode(response["patch"])))


def without_ours(value: Any) -> Any:
    """A value without our keys and deadlines, and without maps that are empty or null then."""
    if isinstance(value, dict):
        ours = {*OWN_LABELS, *OWN_ANNOTATIONS, "activeDeadlineSeconds"}
        kept = {key: without_ours(item) for key, item in value.items() if key not in ours}
        return {key: item for key, item in kept.items() if item not in ({}, None)}
    return [without_ours(item) for item in value] if isinstance(value, list) else value


FAST = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@FAST
@given(door=doors, obj=st.one_of(pods, jobs), user=st.sampled_from(CONTROLLERS))
async def test_a_patch_applies_lasts_and_loses_nothing(door: Admission, obj: Any, user: str) -> None:
    """The API server applies it to what was sent, may call again, and stores the rest untouched."""
    response = await review(door, MUTATE, obj, user)
    assert response["allowed"] is True
    admitted = patched(obj, response)
    assert without_ours(admitted) == without_ours(obj)
    again = await review(door, MUTATE, admitted, user)
    assert "patch" not in again
    warnings = response.get("warnings", [])
    assert all(len(warning) <= 120 and warning.isprintable() for warning in warnings)
    assert not any("no terms were written" in warning for warning in warnings)
    if "patch" not in response:
        assert admitted == obj
        return
    # A Job's own labels are its user's affair; we write none there.
    written = admitted["metadata"].get("labels") or {} if obj["kind"] == "Pod" else {}
    asked = (obj.get("metadata") or {}).get("labels") or {}
    assert all(
        is_label_value(written[key])
        for key in OWN_LABELS
        if key in written and written[key] != asked.get(key)
    )
    assert annotations_bytes(admitted["metadata"].get("annotations")) <= ANNOTATIONS_LIMIT_BYTES


@FAST
@given(door=doors, obj=pods, user=st.sampled_from(CONTROLLERS))
async def test_what_was_admitted_is_never_refused_for_its_terms(door: Admission, obj: Any, user: str) -> None:
    """Mutation and validation agree, also where terms are required."""
    response = await review(door, MUTATE, obj, user)
    checked = await review(door, VALIDATE, patched(obj, response), user)
    assert checked["allowed"] is True
    assert "warnings" not in checked


@FAST
@given(
    door=doors,
    obj=st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(
                st.sampled_from(
                    ["metadata", "spec", "labels", "containers", "resources", "limits", "template"]
                ),
                inner,
                max_size=4,
            ),
        ),
        max_leaves=12,
    ),
    path=st.sampled_from([MUTATE, VALIDATE]),
    kind=st.sampled_from([("v1", "Pod"), ("batch/v1", "Job"), ("apps/v1", "Deployment")]),
)
async def test_any_object_is_answered_or_malformed(
    door: Admission, obj: Any, path: str, kind: tuple[str, str]
) -> None:
    """An object of any shape is allowed or malformed; nothing else is raised."""
    sent = {**obj, "apiVersion": kind[0], "kind": kind[1]} if isinstance(obj, dict) else None
    if sent is None:
        sent = {"apiVersion": kind[0], "kind": kind[1], "spec": obj}
    try:
        response = await review(door, path, sent, "dev-a")
    except MalformedError:
        return
    assert response["allowed"] in {True, False}


@FAST
@given(
    door=doors,
    body=st.binary(max_size=60),
    cut=st.integers(0, 300),
    path=st.sampled_from([MUTATE, VALIDATE]),
)
async def test_any_bytes_are_answered_or_malformed(door: Admission, body: bytes, cut: int, path: str) -> None:
    """Noise, and reviews that were cut or overwritten."""
    pod = {"metadata": {}, "spec": {"containers": []}}
    request = {"uid": "u", "kind": {"kind": "Pod", "version": "v1"}, "operation": "CREATE", "object": pod}
    envelope = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    whole = json.dumps(envelope).encode()
    for sent in (body, whole[:cut] + body, whole[:cut] + body + whole[cut + len(body) :]):
        try:
            assert json.loads(await reviewed(door.routes()[path], sent))["response"]["allowed"] is True
        except MalformedError:
            continue


@given(namespace=st.sampled_from(DEFAULT_EXCLUDED_NAMESPACES), obj=st.one_of(pods, jobs), door=doors)
@settings(max_examples=30, deadline=None)
async def test_excluded_namespaces_are_never_touched(door: Admission, obj: Any, namespace: str) -> None:
    """Whatever is created there."""
    response = await review(door, MUTATE, obj, "dev-a", namespace)
    assert response == {"uid": "u", "allowed": True}
