"""What cannot be read is told apart from what is not there, and nothing that a server does is a crash."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import msgspec
import pytest

from cli.doctor.facts import Seen
from cli.doctor.gathering import reachability, settings_of
from cli.doctor.objects import Named
from cli.doctor.reading import NO_RIGHTS, ClusterReader
from policy.profile import Profile
from reaper.rights import Right
from reaper.switches import Switches
from runtime.kube import ApiError, ApiUnreachable, Response
from sandbox.faults import Fault, FaultProxy
from tests.cli.doctor.healthy import component, typed
from tests.reaper.acting.kube import FakeKube

RIGHTS = (Right("", "pods", "get"), Right("apps", "deployments", "patch"))


class Answering(FakeKube):
    """Answers every request with the same body, or raises the same error."""

    def __init__(self, answer: object) -> None:
        super().__init__({})
        self.answer = answer
        self.asked: list[Any] = []

    async def request(self, method: str, path: str, **given: Any) -> Response:
        """Answers."""
        self.asked.append((method, path, given.get("body"), given.get("query")))
        if isinstance(self.answer, Exception):
            raise self.answer
        return Response(
            200, {}, self.answer if isinstance(self.answer, bytes) else msgspec.json.encode(self.answer)
        )


@pytest.mark.parametrize(
    ("answer", "hidden"),
    [
        pytest.param(ApiError(403, "Forbidden", "no"), NO_RIGHTS, id="a right is missing"),
        pytest.param(ApiError(401, "Unauthorized", "no"), NO_RIGHTS, id="nobody is known"),
        pytest.param(ApiError(404, "NotFound", "no"), "", id="it is not there"),
        pytest.param(ApiError(500, "InternalError", "etcd"), "the API server answered 500", id="an error"),
        pytest.param(ApiUnreachable("timed out"), "no answer: timed out", id="no answer"),
        pytest.param(b"<html>", "cannot be read", id="no JSON"),
        pytest.param([1], "cannot be read", id="another shape"),
    ],
)
async def test_why_something_is_not_seen(answer: object, hidden: str) -> None:
    """Of single objects; what is not there is hidden by nothing."""
    seen = await ClusterReader(Answering(answer)).typed("/api/v1/x", Named)
    assert seen.value is None
    assert seen.hidden.startswith(hidden)
    assert bool(seen.hidden) is bool(hidden)


async def test_objects_that_cannot_be_read_hide_no_others() -> None:
    """In a list."""
    items = [{"metadata": {"name": "a"}}, {"metadata": {"name": "b", "labels": 7}}]
    body = {"metadata": {"resourceVersion": "1"}, "items": items}
    seen = await ClusterReader(Answering(body)).kinds("/api/v1/x", Named)
    assert [one.name for one in seen.value or ()] == ["a"]


async def test_whoever_may_not_ask_for_rights_is_refused_once() -> None:
    """And not as often as there are rights."""
    kube = Answering(ApiError(403, "Forbidden", "no"))
    assert await ClusterReader(kube).lacking("u", "ns", RIGHTS) == Seen(hidden=NO_RIGHTS)
    assert len(kube.asked) == 1


async def test_rights_are_asked_for_as_the_account_that_it_is() -> None:
    """With the groups that a token of it would have."""
    kube = Answering({"status": {"allowed": False}})
    user = "system:serviceaccount:ns:gpu-tenure-reaper"
    assert (await ClusterReader(kube).lacking(user, "ns", RIGHTS)).value == RIGHTS
    spec = kube.asked[0][2]["spec"]
    assert (spec["user"], "system:serviceaccounts:ns" in spec["groups"]) == (user, True)
    assert spec["resourceAttributes"] == {"resource": "pods", "verb": "get"}


async def test_a_canary_is_a_dry_run() -> None:
    """Whatever comes back is told."""
    kube = Answering({"metadata": {"labels": {"a": "b"}}})
    assert (await ClusterReader(kube).canary("team")).labels == {"a": "b"}
    assert kube.asked[0][3] == {"dryRun": "All"}
    assert (await ClusterReader(Answering(ApiError(403, "Forbidden", "why"))).canary("team")).message == "why"
    assert (await ClusterReader(Answering(ApiUnreachable("gone"))).canary("team")).status == 0


def test_settings_come_from_the_deployment() -> None:
    """What is wrong in its environment is told, and the switches help out."""
    env = [{"name": "GPU_TENURE_REAPER_PROMETHEUS_URL", "value": "http://p:9090"}]
    pod = {"spec": {"containers": [{"env": env}]}}
    settings, problem = settings_of(component("reaper", template=pod), None, "ns")
    assert (settings.prometheus_url, problem) == ("http://p:9090", "")
    env.append({"name": "GPU_TENURE_REAPER_CYCLE", "value": "often"})
    switches = Switches(profile=Profile.ENFORCE, dry_run=False)
    settings, problem = settings_of(component("reaper", template=pod), switches, "ns")
    assert "CYCLE" in problem
    assert (settings.profile, settings.dry_run, settings.lease_namespace) == (Profile.ENFORCE, False, "ns")


@pytest.fixture
def proxy() -> Iterator[FaultProxy]:
    """A server that goes wrong as it is told."""
    with closing(FaultProxy("http://127.0.0.1:9")) as made:
        yield made


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        pytest.param(Fault("status", status=200), "", id="ready"),
        pytest.param(Fault("status", status=401), "", id="wants credentials"),
        pytest.param(Fault("status", status=503), "answered 503", id="not ready"),
        pytest.param(Fault("reset"), "Server disconnected", id="a reset"),
    ],
)
async def test_alertmanagers_are_knocked_at(proxy: FaultProxy, fault: Fault, problem: str) -> None:
    """Without credentials, so whoever asks for some is there."""
    proxy.fault = fault
    found = await reachability([proxy.url])
    assert bool(found[proxy.url]) is bool(problem)
    if fault.kind == "status":
        assert found == {proxy.url: problem}


def test_a_secret_is_told_by_its_volume() -> None:
    """Of several, and of none."""
    assert component("reaper").secret("receiver") == "receiver"
    assert component("webhook").secret("receiver") == ""
    assert typed(Named, {}).name == ""
