"""Makes the AdmissionReviews of the benchmark: GPU pods as users submit them, always the same; does no I/O.

The shape follows what kube-apiserver sends at the mutating stage: managedFields are set, the plugins for
priority, service account and tolerations have run, uid is empty, and so is the name where a controller uses
generateName.
"""

from __future__ import annotations

import bisect

import msgspec

from bench.jobs import JOBS, job
from bench.pods import UID, UNLIKE, USUAL, Kind, Object, pod, variant_of

NAMESPACE = "bench-training"


class Workload(msgspec.Struct, frozen=True):
    """A kind of load: bodies of about that many bytes about pods, or Jobs, of these kinds.

    Attributes:
        name: What the figures call it.
        size_bytes: The size that no body exceeds.
        kinds: Of the pods, or of the pods of the Jobs.
        jobs: Whether it is Jobs that are sent.
        variants: How many users and labels there are of each kind.
        alone: Whether reviews come one at a time, so that the latency is that of one.
        usual: Whether the targets are meant for it.
    """

    name: str
    size_bytes: int
    kinds: tuple[Kind, ...] = USUAL
    jobs: bool = False
    variants: int = 12
    alone: bool = False
    usual: bool = True


LARGE = Workload("1 MB", 1_000_000, variants=1, alone=True)
"""About as large as a pod gets: etcd takes no more than 1.5 MB."""
WORKLOADS = (
    Workload("10 kB", 10_000),
    Workload("30 kB", 30_000),
    LARGE,
    Workload("10 kB, Jobs", 10_000, JOBS, jobs=True),
    Workload("10 kB, no two alike", 10_000, UNLIKE, usual=False),
)


class Review(msgspec.Struct, frozen=True):
    """One review: the kind and variant of its pod, and its body as the API server would send it."""

    name: str
    body: bytes


def reviews(workload: Workload) -> tuple[Review, ...]:
    """Gives one review per variant and kind of pod, each just below the size by its environment."""
    return tuple(
        Review(f"{kind.name}-{variant:02d}", _fill(workload, variant_of(kind, variant)))
        for variant in range(workload.variants)
        for kind in workload.kinds
    )


def _fill(workload: Workload, kind: Kind) -> bytes:
    size = workload.size_bytes
    most = size // 100  # an entry takes more than this
    fits = bisect.bisect_right(
        range(most), size, key=lambda entries: len(encode(kind, entries, jobs=workload.jobs))
    )
    return encode(kind, max(fits - 1, 0), jobs=workload.jobs)


def encode(kind: Kind, entries: int, *, jobs: bool = False) -> bytes:
    """Gives the body of a review of a pod, or Job, with that many entries of environment beyond its own."""
    obj = job(kind, entries, NAMESPACE) if jobs else pod(kind, entries, NAMESPACE)
    body: bytes = msgspec.json.encode(_review(kind, obj))
    return body + b"\n"  # Go's encoder ends with one


def _review(kind: Kind, obj: Object) -> Object:
    group, _, version = obj["apiVersion"].rpartition("/")
    gvk = {"group": group, "version": version, "kind": obj["kind"]}
    gvr = {"group": group, "version": version, "resource": obj["kind"].lower() + "s"}
    name = {"name": obj["metadata"]["name"]} if "name" in obj["metadata"] else {}
    return {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": UID,
            "kind": gvk,
            "resource": gvr,
            "requestKind": gvk,
            "requestResource": gvr,
            **name,
            "namespace": NAMESPACE,
            "operation": "CREATE",
            "userInfo": _user(kind),
            "object": obj,
            "oldObject": None,
            "dryRun": False,
            "options": {
                "kind": "CreateOptions",
                "apiVersion": "meta.k8s.io/v1",
                "fieldManager": kind.field_manager,
                "fieldValidation": "Strict",
            },
        },
    }


def _user(kind: Kind) -> Object:
    group = "system:serviceaccounts" if kind.controller else "developers"
    return {
        "username": kind.username,
        "uid": "5a0d3cbe-6f5e-4b38-8e0e-0c5f4f0a9d11",
        "groups": [group, "system:authenticated"],
        "extra": {"authentication.kubernetes.io/credential-id": ["JTI=1f8e1a5c-52e0-4a3b-a1c5-8f0f3c8f9f5e"]},
    }
