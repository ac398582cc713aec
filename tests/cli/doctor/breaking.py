"""Ways to break an installation on a real control plane, each of which mends it again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import requests

from sandbox.deadline import wait
from sandbox.ports import LOOPBACK
from tests.cli.doctor.conftest import DEPLOYMENTS, FAST, OWN, PODS, SECRETS, TEAM, Site

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
MUTATING = f"{ADMISSION}/mutatingwebhookconfigurations/zz-gpu-tenure"
BINDING = f"{ADMISSION}/validatingadmissionpolicybindings/gpu-tenure-guard-pods"
POLICIES = "/apis/gpu-tenure.io/v1alpha1/gpupolicies"
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/gpu-tenure-reaper"
PAUSE = f"/api/v1/namespaces/{OWN}/configmaps/gpu-tenure-pause"
QUOTAS = f"/api/v1/namespaces/{TEAM}/resourcequotas"
TYPED = {"apiVersion": "gpu-tenure.io/v1alpha1", "kind": "GPUPolicy"}
SCOPED = {
    "metadata": {"name": "q"},
    "spec": {"hard": {"requests.nvidia.com/gpu": "4"}, "scopes": ["Terminating"]},
}
LOOSE = {
    **TYPED,
    "metadata": {"name": "loose"},
    "spec": {
        "priority": -1,
        "namespaceSelector": {"matchLabels": {"team": "ml"}},
        "idle": {"action": "observe"},
        "classes": {"serving": {"idle": {"action": "observe"}}},
    },
}


@contextmanager
def serving(text: str) -> Iterator[int]:
    """Answers every GET with a text; gives the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer((LOOPBACK, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@contextmanager
def no_webhook(site: Site) -> Iterator[None]:
    """Stops every replica."""
    site.installation.stop_webhooks()
    yield
    site.installation.start_webhooks(1)


@contextmanager
def no_bundle(site: Site) -> Iterator[None]:
    """Takes the caBundles away, and whoever would write them again."""
    site.sandbox.stop("certs")
    webhooks = site.api.get(MUTATING)["webhooks"]
    for one in webhooks:
        one["clientConfig"].pop("caBundle")
    site.api.patch(MUTATING, {"webhooks": webhooks})
    yield
    site.installation.start_certs("--interval=1s", "--settle=2s")


@contextmanager
def no_binding(site: Site) -> Iterator[None]:
    """Deletes the binding of a guard."""
    before = site.api.get(BINDING)
    site.api.delete(BINDING)
    yield
    del before["metadata"]["resourceVersion"], before["metadata"]["uid"]
    site.api.create(BINDING.rsplit("/", 1)[0], before)


@contextmanager
def paused(site: Site) -> Iterator[None]:
    """Pauses."""
    site.api.patch(PAUSE, {"data": {"paused": "true", "reason": "a test"}})
    yield
    site.api.patch(PAUSE, {"data": {"paused": "false"}})


@contextmanager
def loose_policy(site: Site) -> Iterator[None]:
    """Makes a policy that selects by an unguarded label."""
    site.api.create(POLICIES, LOOSE)
    yield
    site.api.delete(f"{POLICIES}/loose")


@contextmanager
def frozen(site: Site) -> Iterator[None]:
    """Scrapes an exporter that says for ever what it said once, of devices of its own."""
    source = next(one for one in site.sandbox.scrape_jobs if one.name == "dcgm")
    said = requests.get(f"{site.sandbox.exporter_url}{source.path}", timeout=10).text
    with serving(said.replace("GPU-", "GPU-f")) as port:
        before = site.sandbox.scrape_jobs
        job = replace(source, name="frozen", target=f"{LOOPBACK}:{port}", path="/metrics")
        site.sandbox.configure_prometheus([*before, job])
        site.wait_for_sample('count_over_time(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{job="frozen"}[1m]) > 5')
        yield
        site.sandbox.configure_prometheus(before)


@contextmanager
def stuck(site: Site) -> Iterator[None]:
    """Runs a busy pod whose profiling metrics are zero."""
    site.pod("stuck", activity="prof-stuck")
    site.wait_for_sample('count_over_time(DCGM_FI_DEV_GPU_UTIL{exported_pod="stuck"}[1m]) > 3')
    yield
    site.api.raw("DELETE", f"{PODS}/stuck", {"gracePeriodSeconds": 0})


@contextmanager
def twice(site: Site) -> Iterator[None]:
    """Scrapes the same exporter by a second job."""
    before = site.sandbox.scrape_jobs
    again = [replace(one, name=f"{one.name}-again") for one in before]
    site.sandbox.configure_prometheus([*before, *again])
    site.wait_for_sample('count(DCGM_FI_DEV_GPU_UTIL{job="dcgm-again"})')
    yield
    site.sandbox.configure_prometheus(before)


@contextmanager
def no_right(site: Site) -> Iterator[None]:
    """Takes a rule out of the reaper's role."""
    before = site.api.get(ROLE)["rules"]
    kept = [one for one in before if "pods/eviction" not in one["resources"]]
    site.api.patch(ROLE, {"rules": kept})
    yield
    site.api.patch(ROLE, {"rules": before})


@contextmanager
def scoped(site: Site) -> Iterator[None]:
    """Makes a ResourceQuota that counts GPUs by deadlines."""
    site.api.create(QUOTAS, SCOPED)
    yield
    site.api.delete(f"{QUOTAS}/q")


@contextmanager
def untainted(site: Site) -> Iterator[None]:
    """Adds a GPU node that takes everything."""
    site.sandbox.add_node("gpu-open", {"nvidia.com/gpu": 1})
    yield
    site.api.delete("/api/v1/nodes/gpu-open")


@contextmanager
def no_secret(site: Site) -> Iterator[None]:
    """Deletes the Secret of the receiver."""
    site.api.delete(f"{SECRETS}/receiver")
    yield
    site.api.create(SECRETS, {"metadata": {"name": "receiver"}, "stringData": {"token": "t"}})


@contextmanager
def no_leader(site: Site) -> Iterator[None]:
    """Stops the reaper, which gives its Lease back."""
    site.sandbox.stop("reaper")
    yield
    site.installation.start_reaper(*FAST)


@contextmanager
def no_replica(site: Site) -> Iterator[None]:
    """Scales a component to nothing."""
    path = f"{DEPLOYMENTS}/gpu-tenure-quota"
    site.api.patch(path, {"spec": {"replicas": 0}})
    wait(lambda: not site.api.get(path)["status"].get("readyReplicas"), 30, "it has no replica")
    yield
    site.api.patch(path, {"spec": {"replicas": 1}})


BREAKING = (
    no_webhook,
    no_binding,
    paused,
    loose_policy,
    frozen,
    stuck,
    twice,
    no_right,
    scoped,
    untainted,
    no_secret,
    no_leader,
    no_replica,
)
