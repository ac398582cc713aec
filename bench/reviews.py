"""Makes the AdmissionReviews of the benchmark: GPU pods as users submit them, always the same; does no I/O.

The shape follows what kube-apiserver sends at the mutating stage: managedFields are set, the plugins for
priority, service account and tolerations have run, uid is empty, and so is the name where a controller uses
generateName.
"""

from __future__ import annotations

import msgspec

from bench.pods import KINDS, Kind, Object, pod

NAMESPACE = "bench-training"
UID = "00000000-0000-4000-8000-000000000000"
SIZES = {"10 kB": 10_000, "30 kB": 30_000}


class Review(msgspec.Struct, frozen=True):
    """One review: what kind of pod it is about, and its body as the API server would send it."""

    kind: str
    body: bytes


def reviews(size_bytes: int) -> tuple[Review, ...]:
    """Gives one review per kind of pod, each just below `size_bytes` by its number of environment entries."""
    return tuple(Review(kind.name, _fill(kind, size_bytes)) for kind in KINDS)


def _fill(kind: Kind, size_bytes: int) -> bytes:
    body = encode(kind, 0)
    for entries in range(1, size_bytes):
        longer = encode(kind, entries)
        if len(longer) > size_bytes:
            break
        body = longer
    return body


def encode(kind: Kind, entries: int) -> bytes:
    """Gives the body of a review of a pod with that many entries of environment beyond its own."""
    obj = pod(kind, entries, NAMESPACE)
    body: bytes = msgspec.json.encode(_review(kind, obj))
    return body + b"\n"  # Go's encoder ends with one


def _review(kind: Kind, obj: Object) -> Object:
    gvk = {"group": "", "version": "v1", "kind": "Pod"}
    gvr = {"group": "", "version": "v1", "resource": "pods"}
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
