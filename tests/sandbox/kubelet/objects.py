"""Pods and Services as the API server gives them, for tests of the kubelet."""

from __future__ import annotations

from typing import Any

from sandbox.kubelet.pods import Pod, read_pod


def pod_object(**changes: Any) -> dict[str, Any]:
    """A pod of the webhook; changes go to its spec, but for `metadata` and `status`."""
    metadata = {"name": "w-1", "namespace": "ns", "uid": "u1", "labels": {"app": "w"}}
    container = {
        "name": "webhook",
        "image": "gpu-tenure:1",
        "args": ["webhook", "--extra=/tls/extra"],
        "env": [
            {"name": "CERT", "value": "/tls/tls.crt"},
            {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "URL", "value": "http://prometheus.svc:9090/x"},
        ],
        "ports": [{"name": "https", "containerPort": 8443}, {"name": "ops", "containerPort": 9443}],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "ops"}},
        "volumeMounts": [{"name": "tls", "mountPath": "/tls"}, {"name": "tmp", "mountPath": "/tmp"}],
    }
    spec = {
        "serviceAccountName": "gpu-tenure-webhook",
        "nodeName": "n",
        "terminationGracePeriodSeconds": 45,
        "containers": [container],
        "volumes": [{"name": "tls", "secret": {"secretName": "pair"}}, {"name": "tmp", "emptyDir": {}}],
    }
    status = changes.pop("status", {"phase": "Pending"})
    metadata |= changes.pop("metadata", {})
    return {"metadata": metadata, "spec": spec | changes, "status": status}


def pod(**changes: Any) -> Pod:
    """The same as it was read."""
    return read_pod(pod_object(**changes))
