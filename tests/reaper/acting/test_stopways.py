"""The table of ways to stop an owner, and what an administrator may add to it."""

from __future__ import annotations

from typing import Any

import pytest

from policy.errors import InvalidError
from reaper.settings import ENV_PREFIX, ReaperSettings
from reaper.stopways import BUILT_IN, Ways, keys_of, patch_of, value_in, ways_of
from reaper.undoing import undoer
from runtime.settings import load
from tests.reaper.acting.made import NOON

ROW = {
    "apiGroup": "serving.kserve.io",
    "kind": "InferenceService",
    "resource": "inferenceservices",
    "field": "/metadata/annotations/serving.kserve.io~1stop",
    "value": "true",
}
WRONG = [
    pytest.param({"apiGroup": ""}, "apiGroup", id="no group"),
    pytest.param({"kind": "jobset"}, "kind", id="a kind in lower case"),
    pytest.param({"resource": "A/b"}, "resource", id="a path as resource"),
    pytest.param({"field": "spec.suspend"}, "field", id="a dotted path"),
    pytest.param({"field": "/spec/a/b/c"}, "field", id="too deep a field"),
    pytest.param({"field": "/metadata/finalizers"}, "field", id="other metadata"),
    pytest.param({"field": "/status/x"}, "field", id="the status"),
    pytest.param({"field": "/metadata/annotations/gpu-tenure.io~1x"}, "field", id="a key of ours"),
    pytest.param({"value": None}, "value", id="no value"),
    pytest.param({"value": {"a": 1}}, "value", id="an object as value"),
    pytest.param({"value": True}, "value", id="a truth as annotation"),
    pytest.param({"remember": "x"}, "remember", id="nothing to remember"),
    pytest.param({"patch": "x"}, "patch", id="an unknown key"),
]


@pytest.mark.parametrize(("changed", "path"), WRONG)
def test_a_wrong_row_is_named(changed: dict[str, Any], path: str) -> None:
    """With its number and its key."""
    with pytest.raises(InvalidError) as caught:
        ways_of([ROW, {**ROW, **changed}])
    assert [error.path for error in caught.value.errors] == [f"stopKinds[1].{path}"]


def test_rows_come_before_the_built_in_ones() -> None:
    """So that an administrator can choose another way for a kind of ours."""
    own = {**ROW, "apiGroup": "kubeflow.org", "kind": "Notebook", "resource": "notebooks"}
    found = ways_of([own]).of("kubeflow.org", "Notebook")
    assert found is not None
    assert found.value == "true"
    assert Ways(BUILT_IN).of("example.com", "Thing") is None


def test_settings_read_rows_as_json() -> None:
    """From a flag, as the chart writes them; switched off, there is no way at all."""
    flags = {"prometheus_url": "http://prometheus:9090", "stop_kinds": '[{"apiGroup": "ray.io"}]'}
    with pytest.raises(InvalidError, match="stop-kinds"):
        load(ReaperSettings, flags, env_prefix=ENV_PREFIX, environ={})
    environ = {f"{ENV_PREFIX}STOP_KINDS": "[]", f"{ENV_PREFIX}STOP": "false"}
    url = {"prometheus_url": "http://prometheus:9090"}
    settings = load(ReaperSettings, url, env_prefix=ENV_PREFIX, environ=environ)
    assert settings.ways() == Ways()


def test_pointers_reach_keys_with_slashes() -> None:
    """As RFC 6901 wants it."""
    assert keys_of(ROW["field"]) == ["metadata", "annotations", "serving.kserve.io/stop"]
    assert keys_of("/spec/a~01") == ["spec", "a~1"]
    patch = patch_of(ROW["field"], "true")
    assert value_in(patch, ROW["field"]) == "true"
    assert value_in({"spec": []}, "/spec/replicas") is None


def test_each_built_in_value_is_known_again() -> None:
    """A number is no truth: replicas of false would not be zero."""
    for way in BUILT_IN:
        assert way.stopped(way.value_at(NOON))
        assert not way.stopped(None)
    replicas = Ways(BUILT_IN).of("apps", "Deployment")
    assert replicas is not None
    assert not replicas.stopped(value=False)


REPLICAS = {"f:spec": {"f:replicas": {}}}
MANAGERS = [
    pytest.param([("keda", "2025-01-02", REPLICAS, "")], "keda", id="who owns the field"),
    pytest.param(
        [("hpa", "2025-01-02", REPLICAS, "scale"), ("argocd", "2025-01-03", {"f:spec": {}}, "")],
        "hpa",
        id="not who wrote something else later",
    ),
    pytest.param(
        [("kubectl", "2025-01-01", REPLICAS, ""), ("flux", "2025-01-03", REPLICAS, "")],
        "flux",
        id="of several the last",
    ),
    pytest.param(
        [("kcm", "2025-01-09", {}, "status"), ("argocd", "2025-01-03", {}, "")],
        "argocd",
        id="of a field that is gone, the last that wrote anything but status",
    ),
    pytest.param(
        [("gpu-tenure-reaper", "2025-01-09", REPLICAS, "")], "somebody unknown", id="never ourselves"
    ),
    pytest.param([], "somebody unknown", id="nobody is named"),
]


@pytest.mark.parametrize(("entries", "expected"), MANAGERS)
def test_who_undid_a_stop(entries: list[Any], expected: str) -> None:
    """Read from managedFields."""
    fields = [
        {"manager": manager, "time": time, "fieldsV1": owned, "subresource": sub}
        for manager, time, owned, sub in entries
    ]
    assert undoer({"metadata": {"managedFields": fields}}, "/spec/replicas") == expected
