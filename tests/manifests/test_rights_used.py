"""The rights of our accounts against the calls that they make, as the API server's audit log has them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox.cluster import Sandbox, SandboxOptions
from sandbox.install import install_chart
from sandbox.secret_volume import SecretVolume
from tests.certs.webhook_tls import SERVING
from tests.manifests.rights_site import VALUES, Right, Site

COMPONENTS = ("webhook", "reaper", "quota", "certs")
VIRTUAL = "no call needs it: our guards ask for it"
CONFLICT = "only after a conflict with another writer of the same ledger"
NOT_REACHED: dict[tuple[str, Right], str] = {
    ("reaper", Right("gpu-tenure.io", "terms", "update")): VIRTUAL,
    ("reaper", Right("events.k8s.io", "events", "patch")): "only if the very same sentence is said again",
    ("quota", Right("gpu-tenure.io", "gpuquotas", "get")): CONFLICT,
    ("webhook", Right("gpu-tenure.io", "gpuquotas", "get")): CONFLICT,
}
"""Rights that this test does not reach. Those to read `reaper.ownerResources` and to stop what Kueue manages
are left out by their groups: these kinds belong to other projects."""


@pytest.fixture(scope="module")
def sandbox(kubernetes: str) -> Iterator[Sandbox]:
    """A control plane of its own, since everything that an account does there is compared."""
    options = SandboxOptions(alertmanager=False, audit=True, kubernetes=kubernetes)
    with Sandbox.start(options) as started:
        started.add_node("node-a", {"nvidia.com/gpu": 32})
        yield started


@pytest.fixture(scope="module")
def site(sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Everything that the components do, done once."""
    site = Site(sandbox, install_chart(sandbox, VALUES))
    with SecretVolume(site.api, SERVING, tmp_path_factory.mktemp("volume")) as volume:
        site.certify(volume)
        site.prepare()
        site.reap()
        site.exceed()
        site.scrape()
        yield site


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_right_is_used(site: Site, component: str) -> None:
    """No account may do what it never does, nor where, nor to an object by name that it never does it to."""
    used = site.used(component)
    others = site.other_groups()
    excused = {right for owner, right in NOT_REACHED if owner == component}
    granted = {right for right in site.granted(component) if right.group not in others}
    assert granted, "the account has rights"
    assert excused <= granted, "the table names rights that exist"
    unused = {right for right in granted - excused if not any(map(right.serves, used))}
    assert sorted(unused) == []


@pytest.mark.parametrize("component", COMPONENTS)
def test_no_request_lacks_a_right(site: Site, component: str) -> None:
    """Whatever a component asks for, it may have; `certs ensure` looks for Deployments first."""
    entries = site.audited(component)
    refused = [
        (entry["verb"], entry["requestURI"])
        for entry in entries
        if entry.get("responseStatus", {}).get("code") == 403
        and (component, entry.get("objectRef", {}).get("resource")) != ("certs", "deployments")
    ]
    assert entries
    assert refused == []
