"""Ensuring once on a real API server, through a proxy that goes wrong: what may pass is tried again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from certs.ensuring import ensure_once
from certs.outcome import Outcome
from certs.settings import CertsSettings
from runtime.clock import SystemClock
from runtime.kube import ApiError, KubeClient
from sandbox.cluster import Sandbox
from sandbox.faults import Fault, FaultProxy

CALM = Fault()
LIMIT_SECONDS = 60.0


@pytest.fixture
def proxy(sandbox: Sandbox) -> Iterator[FaultProxy]:
    """Between the command and the API server."""
    with sandbox.api_proxy() as found:
        yield found


@pytest.fixture
async def behind(sandbox: Sandbox, proxy: FaultProxy) -> AsyncIterator[KubeClient]:
    """An administrator's client, through the proxy."""
    async with await KubeClient.connect(sandbox.kubeconfig("admin", proxy.url)) as client:
        yield client
    # Connections with TLS end some turns of the loop after they were closed.
    await asyncio.sleep(0.25)


def ensure(client: KubeClient, namespace: str, limit_seconds: float = LIMIT_SECONDS) -> asyncio.Task[Outcome]:
    """Begins to ensure certificates in a namespace of the test, for no webhook at all."""
    settings = CertsSettings(namespace=namespace, mutating=(), validating=(), probe="none")
    stop = asyncio.Event()
    return asyncio.create_task(ensure_once(client, settings, SystemClock(), "me", stop, limit_seconds))


def only_secrets(namespace: str, fault: Fault) -> Fault:
    """The fault for the Secrets alone: the Lease is held without trouble."""
    return Fault(fault.kind, status=fault.status, only=f"/api/v1/namespaces/{namespace}/secrets")


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault("reset"), id="connections are reset"),
        pytest.param(Fault("html"), id="a gateway answers"),
        pytest.param(Fault("status", status=503), id="it is not available"),
        pytest.param(Fault("status", status=429), id="it has too much to do"),
        pytest.param(Fault("status", status=409), id="somebody else writes"),
    ],
)
async def test_what_may_pass_is_tried_again(
    behind: KubeClient, proxy: FaultProxy, namespace: str, fault: Fault
) -> None:
    """And all is in order a moment after it has passed."""
    proxy.fault = only_secrets(namespace, fault)
    work = ensure(behind, namespace)
    await asyncio.sleep(1.5)
    assert not work.done(), work.exception()
    proxy.fault = CALM
    found = await asyncio.wait_for(work, LIMIT_SECONDS)
    assert found.changes == ("a CA was made", "a serving certificate was made")


async def test_trouble_that_stays_is_said_at_the_end(
    behind: KubeClient, proxy: FaultProxy, namespace: str
) -> None:
    """Not only that the time was up."""
    proxy.fault = only_secrets(namespace, Fault("status", status=503))
    with pytest.raises(TimeoutError, match=r"not in order within 2 s: 503"):
        await ensure(behind, namespace, 2.0)


async def test_a_refusal_that_will_not_pass_ends_it_at_once(
    behind: KubeClient, proxy: FaultProxy, namespace: str
) -> None:
    """Whoever lacks a right need not wait to hear so."""
    proxy.fault = only_secrets(namespace, Fault("status", status=403))
    with pytest.raises(ApiError, match="403"):
        await asyncio.wait_for(ensure(behind, namespace), 10)
