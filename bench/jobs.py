"""The Jobs of the benchmark: without a deadline, with one within and one beyond the limit; pure data."""

from __future__ import annotations

from bench.pods import UID, Kind, Object, managed_template_fields, metadata, pod_spec

DAY = 86_400
USER = "dev-{variant}@example.com"
CRON = ("batch/v1", "CronJob", "nightly")

JOBS = (
    Kind("once", USER, "kubectl-create", "Never"),
    Kind(
        "short",
        USER,
        "kubectl-client-side-apply",
        "OnFailure",
        labels={"app": "evaluate-{variant}"},
        annotations={"example.com/run": UID},
        deadline=DAY,
    ),
    Kind("long", USER, "sdk", "Never", labels={"team": "vision-{variant}"}, deadline=30 * DAY),
    Kind(
        "nightly",
        "system:serviceaccount:kube-system:cronjob-controller",
        "kube-controller-manager",
        "Never",
        controller=CRON,
        labels={"schedule": "nightly-{variant}", "release": UID},
    ),
)
"""Kinds of Jobs; labels, annotations and the deadline are the Job's own, the rest is that of its pods."""


def job(kind: Kind, entries: int, namespace: str) -> Object:
    """Gives a Job as the API server sends it; its pods have `entries` more entries of environment."""
    spec = pod_spec(kind, entries)
    spec.pop("activeDeadlineSeconds", None)
    deadline = {"activeDeadlineSeconds": kind.deadline} if kind.deadline else {}
    template: Object = {"spec": spec}
    template["metadata"] = {} if kind.labels is None else {"labels": dict(kind.labels)}
    return {
        "kind": "Job",
        "apiVersion": "batch/v1",
        "metadata": metadata(kind, namespace, managed_template_fields(kind, spec)),
        "spec": {
            "parallelism": 1,
            "completions": 1,
            **deadline,
            "backoffLimit": 6,
            "template": template,
            "completionMode": "NonIndexed",
            "suspend": False,
        },
        "status": {},
    }
