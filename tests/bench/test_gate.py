"""Servers that disagree, or answer wrongly, are found out before anything is measured."""

import base64
from typing import Any

import msgspec
import pytest

from bench.gate import DisagreementError, Post, check
from bench.jobs import JOBS
from bench.pods import UID
from bench.reviews import WORKLOADS, Workload, reviews

POD = msgspec.structs.replace(WORKLOADS[0], variants=1)
REVIEW = reviews(POD)[1]  # has labels and annotations of its own
JOB = reviews(Workload("10 kB", 10_000, JOBS, jobs=True, variants=1))[0]
CLASS = {"op": "add", "path": "/metadata/labels/gpu-tenure.io~1class", "value": "batch"}


def server(*operations: dict[str, Any], **response: Any) -> Post:
    """A server that always gives the same answer."""
    patch = base64.b64encode(msgspec.json.encode(operations)).decode()
    answer = {"uid": UID, "allowed": True, "patchType": "JSONPatch", "patch": patch, **response}
    content = msgspec.json.encode({"response": answer})
    return lambda _: content


def test_servers_that_do_the_same_by_other_operations_agree() -> None:
    """What counts is the pod that comes out."""
    replaced = {"op": "replace", "path": "/spec/activeDeadlineSeconds", "value": 60}
    added = replaced | {"op": "add"}
    check({"a": server(CLASS, replaced), "b": server(added, CLASS)}, [REVIEW])


@pytest.mark.parametrize(
    ("other", "message"),
    [
        pytest.param(
            server(CLASS | {"value": "serving"}),
            r"labels\[gpu-tenure.io/class\] is 'batch' and 'serving'",
            id="another class is a difference",
        ),
        pytest.param(
            server(CLASS, {"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 60}),
            "spec.activeDeadlineSeconds is 86400 and 60",
            id="another deadline is a difference",
        ),
        pytest.param(
            server(CLASS, {"op": "remove", "path": "/metadata/labels/app"}),
            "changes more than it should",
            id="a user's label that is gone is damage",
        ),
        pytest.param(server(CLASS, uid="1"), "answered", id="the uid of another request is no answer"),
        pytest.param(server(CLASS, allowed=False), "answered", id="a refusal is no answer"),
        pytest.param(server(CLASS, patchType=None), "answered", id="an admission without a patch is none"),
    ],
)
def test_differences_are_named(other: Post, message: str) -> None:
    """The message says which server, which review and which field."""
    with pytest.raises(DisagreementError, match=message):
        check({"a": server(CLASS), "b": other}, [REVIEW])


TEMPLATE = "/spec/template/metadata"
MARK = {"op": "add", "path": f"{TEMPLATE}/annotations", "value": {"gpu-tenure.io/deadline": "job"}}


@pytest.mark.parametrize(
    ("other", "message"),
    [
        pytest.param(
            server(MARK | {"value": {"gpu-tenure.io/deadline": "kept"}}),
            r"template.annotations\[gpu-tenure.io/deadline\] is 'job' and 'kept'",
            id="another mark on the template is a difference",
        ),
        pytest.param(
            server(MARK, {"op": "add", "path": f"{TEMPLATE}/labels", "value": {"app": "x"}}),
            "changes more than it should",
            id="a label of ours that is none is damage",
        ),
        pytest.param(
            server(MARK, {"op": "remove", "path": "/spec/template/spec/volumes"}),
            "changes more than it should",
            id="so is a volume that is gone",
        ),
    ],
)
def test_templates_of_jobs_are_compared_too(other: Post, message: str) -> None:
    """What the pods of a Job will inherit counts as much as the Job."""
    with pytest.raises(DisagreementError, match=message):
        check({"a": server(MARK), "b": other}, [JOB])
