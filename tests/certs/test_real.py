"""Certificates on a real API server: rotations, ended CAs and lost Secrets under creations without a pause.

The webhook reads its files as from a kubelet's Secret volume; the API server dials it through a balancer.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
import requests

from certs.bundle import authority_data, read_bundle, read_certificates, serving_data
from certs.issue import issue_ca, issue_leaf
from certs.probe import Target, dial
from sandbox.balancer import Mode
from sandbox.cluster import Sandbox, SandboxOptions
from sandbox.deadline import utc_now, wait
from sandbox.install import Installation, install_chart
from sandbox.ports import LOOPBACK
from sandbox.secret_volume import SecretVolume
from tests.certs.webhook_tls import (
    AUTHORITY,
    CONFIGURATIONS,
    MUTATING,
    SECRETS,
    SERVING,
    VALIDATING,
    WebhookTls,
)
from tests.loads import CLIENTS, DRY_RUN, GPU_POD, PER_SECOND, PodLoad

LEASE = "/apis/coordination.k8s.io/v1/namespaces/gpu-tenure-system/leases/gpu-tenure-certs"
SHORT_LIVES = ("--ca-life=40s", "--ca-renew=20s", "--leaf-life=16s", "--leaf-renew=10s")
QUICK = ("--interval=1s", "--settle=2s")


class Site(WebhookTls):
    """A control plane with the chart, its webhook, and the component that keeps the certificates."""

    def __init__(self, installation: Installation) -> None:
        super().__init__(installation.sandbox.api())
        self.installation = installation
        self.sandbox = installation.sandbox

    def start_certs(self, *args: str) -> str:
        """Starts `gpu-tenure certs watch` anew; gives its ops server's address."""
        self.stop_certs()
        return self.installation.start_certs(*QUICK, *args)

    def stop_certs(self) -> None:
        """Stops it, if it runs."""
        if self.sandbox.running("certs"):
            self.sandbox.stop("certs")

    def put(self, path: str, data: dict[str, bytes]) -> None:
        """Writes the data of a Secret by hand."""
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        self.api.patch(path, {"data": encoded})

    def in_order(self) -> bool:
        """Whether both Secrets are whole and every caBundle holds their CAs."""
        bundle = read_bundle(self.data(AUTHORITY), self.data(SERVING))
        expected = [one.fingerprint for one in bundle.authorities]
        return bundle.complete and all(found == expected for found in self.trusted())


@pytest.fixture(scope="module")
def site(kubernetes: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The chart as an administrator installs it, under enforce; the first certificates come from nothing."""
    options = SandboxOptions(prometheus=False, alertmanager=False, exporter=False, kubernetes=kubernetes)
    with Sandbox.start(options) as sandbox:
        values = {"profile": "enforce", "tls": {"source": "certs", "caBundle": ""}}
        installation = install_chart(sandbox, values)
        assert "caBundle" not in json.dumps(sandbox.api().get(MUTATING)["webhooks"])
        made = Site(installation)
        made.start_certs()
        with SecretVolume(sandbox.api(), SERVING, tmp_path_factory.mktemp("volume")) as volume:
            volume.wait_for("tls.crt")
            installation.tls = volume.folder
            installation.start_webhooks(2)
            wait(made.in_order, 30, "the certificates are in order")
            yield made
            made.stop_certs()


def test_a_whole_rotation_under_load_fails_no_call(site: Site) -> None:
    """Leaves and a CA end and are followed by others: every pod gets its terms, and no call fails."""
    before = site.rejected()
    peace, load = PodLoad(site.api), PodLoad(site.api)
    with peace.running():
        peace.goes_on(4 * PER_SECOND)
    with load.running():
        # Both Secrets are lost first, so that what follows lives as short as it is now told to.
        site.stop_certs()
        for path in (AUTHORITY, SERVING):
            site.api.raw("DELETE", path)
        site.start_certs(*SHORT_LIVES)
        wait(lambda: site.signer() and site.serial(), 60, "a CA of short life signs a leaf")
        second, leaf = site.signer(), site.serial()
        wait(lambda: site.serial() != leaf, 60, "the leaf is followed by another")
        wait(lambda: site.signer() != second, 60, "a CA is followed by another")
        third = site.signer()
        wait(lambda: all(third in found for found in site.trusted()), 30, "which is trusted everywhere")
        wait(lambda: all(second not in found for found in site.trusted()), 60, "the one before goes")
    assert load.failures() == []
    assert site.rejected() == before
    # Half of what the same clients did just before, which is 50 a second where the machine can: on two cores
    # with six others waiting for each it was 15 to 30, so that no fixed number holds.
    assert load.per_second() > peace.per_second() / 2


def test_an_ended_ca_is_followed_by_another_without_a_failed_call(site: Site) -> None:
    """Everything that is trusted and served has ended: connections that are open carry the calls over."""
    site.stop_certs()
    now = utc_now()
    ca = issue_ca("ended", now - timedelta(days=1), timedelta(days=1, seconds=12))
    names = ["gpu-tenure-webhook.gpu-tenure-system.svc", "localhost"]
    leaf = issue_leaf(ca, names, [LOOPBACK], now, timedelta(seconds=12))
    pairs = {"tls.crt": ca.cert_pem, "tls.key": ca.key_pem, "ca.crt": ca.cert_pem}
    served = {"tls.crt": leaf.cert_pem, "tls.key": leaf.key_pem}
    bundle = read_bundle(pairs, served)
    site.put(AUTHORITY, authority_data(bundle))
    site.put(SERVING, serving_data(bundle))
    pem = base64.b64encode(ca.cert_pem).decode()
    wait(lambda: _serves(site, ca.cert_pem), 30, "both replicas serve the certificate that will end")
    for path in (MUTATING, VALIDATING):
        count = len(site.api.get(path)["webhooks"])
        places = [f"/webhooks/{n}/clientConfig/caBundle" for n in range(count)]
        site.api.patch(path, [{"op": "replace", "path": place, "value": pem} for place in places], "json")
    with ThreadPoolExecutor(2 * CLIENTS) as crowd:
        # Connections for more calls at once than will come.
        list(crowd.map(lambda _: site.api.raw("POST", DRY_RUN, GPU_POD), range(10 * CLIENTS)))
    load = PodLoad(site.api)
    with load.running():
        wait(lambda: len(load.replies) > 2 * PER_SECOND, 30, "calls go through")
        before = site.rejected()
        wait(lambda: utc_now() > now + timedelta(seconds=13), 30, "all of it has ended")
        site.start_certs()
        wait(site.in_order, 60, "it is followed by another")
        answered = len(load.replies)
        wait(lambda: len(load.replies) > answered + 2 * PER_SECOND, 30, "calls still go through")
    assert load.failures() == []
    assert site.rejected() == before
    said = site.sandbox.log("certs").read_text()
    assert "the CA is not valid" in said


def _serves(site: Site, ca_pem: bytes) -> bool:
    """Whether every replica shows a certificate of this CA."""
    targets = [Target(LOOPBACK, one.port, "localhost") for one in site.installation.webhooks.values()]
    return all(asyncio.run(dial(target, ca_pem)).error is None for target in targets)


@pytest.mark.parametrize("path", [AUTHORITY, SERVING], ids=["the CA's Secret", "the serving Secret"])
def test_a_deleted_secret_comes_back(site: Site, path: str) -> None:
    """With what the running pods serve still trusted."""
    site.start_certs()
    wait(site.in_order, 30, "the certificates are in order")
    site.api.raw("DELETE", path)
    wait(lambda: bool(site.data(path)) and site.in_order(), 60, "the Secret is back")
    reply = site.api.raw("POST", DRY_RUN, GPU_POD)
    assert "gpu-tenure.io/policy" in reply.json["metadata"]["labels"]


def test_a_configuration_that_loses_its_bundle_gets_it_back(site: Site) -> None:
    """Applied anew by hand, say; everything else of it stays as it was applied."""
    site.start_certs()
    wait(site.in_order, 30, "the certificates are in order")
    before = site.api.get(VALIDATING)
    site.api.patch(VALIDATING, [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}], "json")
    wait(site.in_order, 30, "the caBundle is back")
    assert site.api.get(VALIDATING)["webhooks"] == before["webhooks"]


def run(site: Site, *args: str) -> subprocess.CompletedProcess[str]:
    """Runs a command of the certificates as the administrator."""
    kubeconfig = f"--kubeconfig={site.sandbox.kubeconfig('admin')}"
    argv = [sys.executable, "-m", "cli", "certs", *args, kubeconfig, f"--names={LOOPBACK}"]
    env = {**os.environ, "COLUMNS": "160"}
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60, env=env)


def test_inspect_shows_what_is_there_and_what_is_wrong(site: Site) -> None:
    """A table for people, JSON for programs, and an exit code."""
    site.start_certs()
    wait(site.in_order, 30, "the certificates are in order")
    shown = run(site, "inspect")
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "serving certificate" in shown.stdout
    assert "next: keep (nothing to do)" in shown.stdout
    site.stop_certs()
    site.api.patch(VALIDATING, [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}], "json")
    told = run(site, "inspect", "--output", "json")
    assert told.returncode == 1
    assert json.loads(told.stdout)["problems"] == ["gpu-tenure: validate.gpu-tenure.io: has no caBundle"]


def test_ensure_does_it_once_and_ends(site: Site) -> None:
    """As a job of a script would, by an administrator's rights."""
    site.stop_certs()
    site.api.raw("DELETE", SERVING)
    done = run(site, "ensure", "--settle=1s")
    assert done.returncode == 0, done.stderr
    assert site.in_order()
    assert done.stdout.startswith("certificates are in order: a serving certificate was made")
    again = json.loads(run(site, "ensure", "--settle=1s", "--output=json").stdout)
    assert again["changes"] == []
    assert again["webhooks"] == len(site.trusted())
    # Whoever comes next need not wait for the end of the Lease.
    assert not site.api.get(LEASE)["spec"].get("holderIdentity")


def test_the_ends_of_certificates_are_metrics(site: Site) -> None:
    """Of the CA, the leaf, every caBundle, and of what the webhook shows when it is dialled."""
    url = site.start_certs()
    wait(site.in_order, 30, "the certificates are in order")

    def metric(name: str) -> float | None:
        found = re.search(
            rf"^{re.escape(name)} (\S+)$", requests.get(f"{url}/metrics", timeout=10).text, re.MULTILINE
        )
        return float(found[1]) if found else None

    wait(lambda: metric("gpu_tenure_certs_probe_success") == 1, 30, "the webhook was dialled")
    leaf = read_certificates(site.data(SERVING)["tls.crt"])[0].not_after.timestamp()
    assert metric('gpu_tenure_certs_not_after_timestamp_seconds{certificate="leaf"}') == leaf
    wait(
        lambda: metric("gpu_tenure_certs_served_not_after_timestamp_seconds") == leaf, 30, "it shows the leaf"
    )
    one = '{configuration="gpu-tenure",webhook="validate.gpu-tenure.io"}'
    ca = read_certificates(site.data(AUTHORITY)["tls.crt"])[0].not_after.timestamp()
    assert metric(f"gpu_tenure_certs_trusted_not_after_timestamp_seconds{one}") == ca


def test_a_token_of_ours_may_do_just_this(site: Site) -> None:
    """It reads and writes two Secrets of one namespace and two caBundles, and nothing else."""
    certs = site.sandbox.api("certs")
    assert certs.raw("GET", AUTHORITY).status == 200
    assert certs.raw("GET", SECRETS).status == 403
    assert certs.raw("GET", "/api/v1/namespaces/default/secrets/x").status == 403
    assert certs.raw("GET", f"{CONFIGURATIONS}/validatingwebhookconfigurations/other").status == 403
    assert certs.raw("DELETE", SERVING).status == 403


def test_files_change_all_at_once(site: Site, tmp_path: Path) -> None:
    """The volume that these tests read from is as a kubelet's."""
    volume = SecretVolume(site.api, SERVING, tmp_path / "volume")
    volume.update()
    assert (volume.folder / "tls.crt").read_bytes() == site.data(SERVING)["tls.crt"]
    assert (volume.folder / "tls.crt").is_symlink()


def test_a_pod_is_tried_every_minute_where_only_dry_runs_are_allowed(site: Site) -> None:
    """It fails while nobody answers the webhook's address; and no pod can ever be stored there."""
    site.installation.upgrade({"canary": {"enabled": True, "namespace": "tries"}})
    url = site.start_certs()
    wait(site.in_order, 30, "the certificates are in order")
    wait(lambda: _canary(url) == 1, 30, "the pod got its terms")
    # The API server takes up a new admission policy about once a second, so the first tries may still pass.
    wait(lambda: _refused_to_be_stored(site), 15, "only dry runs are allowed")
    assert all(_refused_to_be_stored(site) for _ in range(5))
    site.installation.balancer.mode = Mode.REFUSE
    try:
        url = site.start_certs()
        wait(lambda: "canary failed" in site.sandbox.log("certs").read_text(), 60, "the pod is refused")
        assert _canary(url) == 0
    finally:
        site.installation.balancer.mode = Mode.PASS


def _refused_to_be_stored(site: Site) -> bool:
    answer = site.api.raw("POST", "/api/v1/namespaces/tries/pods", GPU_POD)
    return answer.status == 422 and "only dry runs are allowed" in answer.text


def _canary(url: str) -> float | None:
    """What is shown of the last attempt."""
    text = requests.get(f"{url}/metrics", timeout=5).text
    found = re.search(r"^gpu_tenure_certs_canary_success (\S+)$", text, re.MULTILINE)
    return float(found.group(1)) if found else None
