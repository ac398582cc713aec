"""The chart with `tls.source: cert-manager`, beside cert-manager's own controllers on a real API server.

The webhook reads its files as from a kubelet's Secret volume; the API server dials it through a balancer.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from cryptography import x509

from certs.bundle import read_certificates
from certs.issue import issue_ca
from certs.probe import Target, dial
from sandbox.cert_manager import INJECTOR, NAMESPACE, CertManager
from sandbox.cluster import Sandbox, SandboxOptions
from sandbox.deadline import utc_now, wait
from sandbox.install import Installation, install_chart
from sandbox.ports import LOOPBACK
from sandbox.secret_volume import SecretVolume
from tests.certs.webhook_tls import AUTHORITY, MUTATING, SERVING, VALIDATING, WebhookTls
from tests.loads import DRY_RUN, GPU_POD, POLICY, PodLoad

GROUP = "/apis/cert-manager.io/v1"
OURS = f"{GROUP}/namespaces/gpu-tenure-system"
KEPT = ("issuers/gpu-tenure-selfsigned", "issuers/gpu-tenure-ca")
CA, LEAF = f"{OURS}/certificates/gpu-tenure-ca", f"{OURS}/certificates/gpu-tenure-webhook"
SERVICE = "gpu-tenure-webhook.gpu-tenure-system.svc"


class Site(WebhookTls):
    """A control plane with cert-manager, the chart and its webhook."""

    def __init__(self, installation: Installation) -> None:
        super().__init__(installation.sandbox.api())
        self.installation = installation

    def ready(self, path: str) -> bool:
        """Whether cert-manager says of an object of its own that it is ready."""
        conditions = ((self.api.find(path) or {}).get("status") or {}).get("conditions") or []
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    def renew(self, path: str) -> None:
        """Asks for another certificate as `cmctl renew` does: by a condition of the Certificate."""
        found = self.api.get(path)
        asked = {
            "type": "Issuing",
            "status": "True",
            "reason": "ManuallyTriggered",
            "message": "asked for by a test",
            "lastTransitionTime": utc_now().strftime("%Y-%m-%dT%H:%M:%SZ"),
            "observedGeneration": found["metadata"]["generation"],
        }
        found["status"]["conditions"].append(asked)
        self.api.replace(f"{path}/status", found)

    def in_order(self) -> bool:
        """Whether every caBundle holds the CA that the serving certificate came with."""
        authorities = [one.fingerprint for one in read_certificates(self.data(SERVING).get("ca.crt", b""))]
        return len(authorities) == 1 and all(authorities[0] in found for found in self.trusted())

    def served(self) -> bool:
        """Whether every replica shows the certificate in the Secret to whom trusts the CA beside it."""
        data = self.data(SERVING)
        targets = [Target(LOOPBACK, one.port, SERVICE) for one in self.installation.webhooks.values()]
        shown = [asyncio.run(dial(target, data["ca.crt"])).not_after for target in targets]
        return all(end == read_certificates(data["tls.crt"])[0].not_after for end in shown)


@pytest.fixture(scope="module")
def site(kubernetes: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The chart as an administrator installs it, under enforce, where cert-manager is already."""
    options = SandboxOptions(prometheus=False, alertmanager=False, exporter=False, kubernetes=kubernetes)
    with Sandbox.start(options) as sandbox:
        CertManager(sandbox).start()
        values = {"profile": "enforce", "tls": {"source": "cert-manager", "caBundle": ""}}
        installation = install_chart(sandbox, values)
        with SecretVolume(sandbox.api(), SERVING, tmp_path_factory.mktemp("volume")) as volume:
            volume.wait_for("tls.crt")
            installation.tls = volume.folder
            installation.start_webhooks(2)
            made = Site(installation)
            wait(made.in_order, 30, "the caBundles are written")
            yield made


def test_everything_that_the_chart_asks_for_becomes_ready(site: Site) -> None:
    """Its issuers and its certificates; none of our own components keeps certificates."""
    for path in (*(f"{OURS}/{name}" for name in KEPT), CA, LEAF):
        wait(lambda path=path: site.ready(path), 30, f"{path} is ready")
    assert site.api.find("/api/v1/namespaces/gpu-tenure-system/serviceaccounts/gpu-tenure-certs") is None


def test_the_certificate_is_for_the_service_and_for_the_host_of_the_url(site: Site) -> None:
    """The API server asks for the Service's name, or with `webhook.url` for the host in it."""
    data = site.data(SERVING)
    assert sorted(data) == ["ca.crt", "tls.crt", "tls.key"]
    leaf = x509.load_pem_x509_certificate(data["tls.crt"])
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [SERVICE, f"{SERVICE}.cluster.local"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == [LOOPBACK]
    assert leaf.not_valid_after_utc - leaf.not_valid_before_utc == timedelta(days=90)


def test_the_api_server_calls_the_webhook_with_what_was_injected(site: Site) -> None:
    """A GPU pod gets its terms by TLS that only the injected CA makes good."""
    assert {tuple(found) for found in site.trusted()} == {(site.signer(),)}
    before = site.rejected()
    reply = site.api.raw("POST", DRY_RUN, GPU_POD)
    assert reply.status == 201, reply.text
    assert POLICY in reply.json["metadata"]["labels"]
    assert site.rejected() == before


def test_an_upgrade_leaves_what_was_injected(site: Site) -> None:
    """The chart renders no caBundle in its place, and nothing else of ours writes one."""
    before = site.trusted()
    site.installation.upgrade({"webhook": {"timeoutSeconds": {"mutate": 3, "validate": 3}}})
    assert {one["timeoutSeconds"] for one in site.api.get(MUTATING)["webhooks"]} == {3}
    assert site.trusted() == before
    assert _writers_of_bundles(site, MUTATING) == _writers_of_bundles(site, VALIDATING) == {INJECTOR}


def _writers_of_bundles(site: Site, path: str) -> set[str]:
    """Who owns a caBundle of a configuration."""
    managed = site.api.get(path)["metadata"]["managedFields"]
    return {one["manager"] for one in managed if "f:caBundle" in json.dumps(one["fieldsV1"])}


def test_renewals_under_load_fail_no_call(site: Site) -> None:
    """Of the certificate, also after its Secret is lost, and of the CA: read in place, and trusted before."""
    replicas, before = set(site.installation.webhooks), site.rejected()
    load = PodLoad(site.api)
    with load.running():
        load.goes_on()
        _follows(site, lambda: site.renew(LEAF))
        load.goes_on()
        _follows(site, lambda: site.api.raw("DELETE", SERVING))
        load.goes_on()
        first = site.signer()
        site.renew(CA)
        wait(lambda: site.signer() != first, 30, "the CA is renewed")
        _follows(site, lambda: site.renew(LEAF))
        load.goes_on()
    assert all(first in found for found in site.trusted()), "the CA before is trusted until it ends"
    assert load.failures() == []
    assert site.rejected() == before
    assert all(site.installation.sandbox.running(name) for name in replicas)


def test_a_lost_ca_is_followed_by_another_without_a_failed_call(site: Site) -> None:
    """A CA with a new key signs from the next renewal on; until then the old one is trusted and serves."""
    before, first = site.rejected(), site.signer()
    load = PodLoad(site.api)
    with load.running():
        load.goes_on()
        site.api.raw("DELETE", AUTHORITY)
        wait(lambda: site.signer() not in {"", first}, 30, "another CA is made")
        _follows(site, lambda: site.renew(LEAF))
        load.goes_on()
    assert all(site.signer() in found for found in site.trusted())
    assert load.failures() == []
    assert site.rejected() == before


def _follows(site: Site, cause: Callable[[], object]) -> None:
    """Does something after which another certificate comes, is trusted, and is served by every replica."""
    before = site.serial()
    cause()
    wait(lambda: site.serial() not in {"", before}, 30, "another certificate comes")
    wait(site.in_order, 30, "its CA is trusted everywhere")
    wait(site.served, 30, "every replica serves it")


def test_whoever_changes_over_loses_no_call(site: Site) -> None:
    """To our own certificates and back: each takes up the CA of the other, because its name is the same.

    A certificate that fits is kept, whoever asked for it; the next one comes from the same CA.
    """
    before, authority = site.rejected(), site.signer()
    load = PodLoad(site.api)
    with load.running():
        load.goes_on()
        site.installation.upgrade({"tls": {"source": "certs"}})
        assert all(site.trusted())
        assert site.api.find(LEAF) is None
        site.installation.start_certs("--interval=1s", "--settle=2s")
        _follows(site, lambda: site.api.raw("DELETE", SERVING))
        load.goes_on()
        site.installation.sandbox.stop("certs")
        site.installation.upgrade({"tls": {"source": "cert-manager"}})
        wait(lambda: site.ready(LEAF), 30, "the certificate is cert-manager's again")
        _follows(site, lambda: site.renew(LEAF))
        load.goes_on()
    assert site.signer() == authority
    assert load.failures() == []
    assert site.rejected() == before


def test_an_issuer_of_the_cluster_may_sign(site: Site) -> None:
    """With `tls.issuer` no CA of our own is asked for, and the caBundles hold that of the issuer."""
    secret = {"metadata": {"name": "internal"}, "type": "kubernetes.io/tls"}
    pair = issue_ca("an internal CA", utc_now(), timedelta(days=2))
    data = {"tls.crt": pair.cert_pem.decode(), "tls.key": pair.key_pem.decode()}
    site.api.create(f"/api/v1/namespaces/{NAMESPACE}/secrets", {**secret, "stringData": data})
    issuer = {"apiVersion": "cert-manager.io/v1", "kind": "ClusterIssuer", "metadata": {"name": "internal"}}
    site.api.create(f"{GROUP}/clusterissuers", {**issuer, "spec": {"ca": {"secretName": "internal"}}})
    given = {"tls": {"issuer": {"name": "internal", "kind": "ClusterIssuer"}}}
    _follows(site, lambda: site.installation.upgrade(given))
    internal = read_certificates(pair.cert_pem)[0].fingerprint
    assert all(internal in found for found in site.trusted())
    assert site.api.find(CA) is None
    reply = site.api.raw("POST", DRY_RUN, GPU_POD)
    assert POLICY in reply.json["metadata"]["labels"]
