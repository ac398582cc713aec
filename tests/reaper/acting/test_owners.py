"""From a pod to its root owner, as far as the chain can be followed."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from reaper.owners import MOST_VERSIONS, OwnerResolver, OwnersUnreadableError, Root
from runtime.kube import ApiError, ApiUnreachable
from tests.reaper.acting.kube import Answer, FakeKube
from tests.reaper.acting.made import NOON, minutes, pod_of

APPS = {
    "resources": [
        {"name": "replicasets", "kind": "ReplicaSet", "namespaced": True},
        {"name": "replicasets/scale", "kind": "Scale", "namespaced": True},
        {"name": "deployments", "kind": "Deployment", "namespaced": True},
    ]
}
SET = Root("apps/v1", "ReplicaSet", "team-a", "web-1", "uid-set")
WEB = Root("apps/v1", "Deployment", "team-a", "web", "uid-web")


def owned_by(root: Root, uid: str) -> dict[str, Any]:
    """Gives an object that another controls."""
    reference = {"apiVersion": root.api_version, "kind": root.kind, "name": root.name, "uid": root.uid}
    return {"metadata": {"uid": uid, "ownerReferences": [{**reference, "controller": True}]}}


def cluster(**changed: Answer) -> dict[tuple[str, str], Answer]:
    """Gives a pod's ReplicaSet and its Deployment."""
    base = "/apis/apps/v1/namespaces/team-a"
    return {
        ("GET", "/apis/apps/v1"): changed.get("discovery", APPS),
        ("GET", f"{base}/replicasets/web-1"): changed.get("set", owned_by(WEB, "uid-set")),
        ("GET", f"{base}/deployments/web"): changed.get("web", {"metadata": {"uid": "uid-web"}}),
    }


async def root_in(answers: dict[tuple[str, str], Answer]) -> Root:
    """Gives the root of a pod of the ReplicaSet."""
    pod = pod_of("a", owner=SET)
    return (await OwnerResolver(FakeKube(answers)).roots([pod], NOON))[pod.uid]


CHAINS = [
    pytest.param(cluster(), WEB, id="pod, ReplicaSet, Deployment"),
    pytest.param(cluster(set=ApiError(403, "Forbidden", "x")), SET, id="ends at what may not be read"),
    pytest.param(cluster(set=ApiError(404, "NotFound", "x")), SET, id="ends at what is gone"),
    pytest.param(cluster(set=owned_by(WEB, "another")), SET, id="an object of that name is not the owner"),
    pytest.param(cluster(web=ApiError(404, "NotFound", "x")), WEB, id="the last link need not exist"),
    pytest.param(cluster(discovery=ApiError(404, "NotFound", "x")), SET, id="an unknown API group"),
    pytest.param(cluster(discovery={"resources": []}), SET, id="an unknown kind"),
]


@pytest.mark.parametrize(("answers", "expected"), CHAINS)
async def test_the_root_is_the_end_of_the_chain(answers: Any, expected: Root) -> None:
    """As far as it can be followed."""
    assert await root_in(answers) == expected


@pytest.mark.parametrize("error", [ApiError(500, "", "x"), ApiError(429, "", "x"), ApiUnreachable("x")])
async def test_an_owner_that_cannot_be_read_now_stops_the_cycle(error: Exception) -> None:
    """Nobody knows which pods belong together."""
    with pytest.raises(OwnersUnreadableError):
        await root_in(cluster(set=error))


async def test_owners_are_remembered_for_half_an_hour() -> None:
    """Then they are read again."""
    kube = FakeKube(cluster())
    resolver = OwnerResolver(kube)
    pod = pod_of("a", owner=SET)
    await resolver.roots([pod], NOON)
    first = len(kube.sent)
    await resolver.roots([pod], NOON + minutes(29))
    assert len(kube.sent) == first
    await resolver.roots([pod], NOON + minutes(30))
    assert len(kube.sent) == 2 * first


async def test_a_pod_without_controller_is_its_own_root() -> None:
    """And a DaemonSet ends the chain unread."""
    daemon = Root("apps/v1", "DaemonSet", "team-a", "agent", "uid-agent")
    alone, member = pod_of("a"), pod_of("b", owner=daemon)
    kube = FakeKube({})
    roots = await OwnerResolver(kube).roots([alone, member], NOON)
    assert roots[alone.uid] == Root("v1", "Pod", "team-a", "a", alone.uid)
    assert roots[member.uid].untouchable
    assert kube.sent == []


async def test_a_forged_reference_does_not_part_a_pod_from_its_owners() -> None:
    """A pod elsewhere that names the same UID, of an object that is not there, changes nothing for others."""
    forged = Root("apps/v1", "ReplicaSet", "team-b", "none", SET.uid)
    stranger, member = pod_of("x", namespace="team-b", owner=forged), pod_of("a", owner=SET)
    resolver = OwnerResolver(FakeKube(cluster()))
    assert (await resolver.roots([stranger], NOON))[stranger.uid] == forged
    assert (await resolver.roots([member], NOON))[member.uid] == WEB


async def test_only_the_mirror_of_a_static_pod_belongs_to_its_node() -> None:
    """Anybody can name a node as the controller of a pod; that must not make it untouchable."""
    node = Root("v1", "Node", "team-a", "node-a", "uid-node-a")
    mirror = pod_of("a", owner=node, annotations={"kubernetes.io/config.mirror": "x"})
    forged = pod_of("b", owner=node)
    roots = await OwnerResolver(FakeKube({})).roots([mirror, forged], NOON)
    assert roots[mirror.uid].untouchable
    assert roots[forged.uid] == Root("v1", "Pod", "team-a", "b", forged.uid)


def named(**changed: str) -> Root:
    """Gives an owner as somebody might write it into a reference."""
    given = {"api_version": "v1", "kind": "Pod", "name": "x", **changed}
    return Root(namespace="team-a", uid="uid-x", **given)


FORGED = [
    pytest.param(
        named(name="x?watch=true"),
        ["/api/v1", "/api/v1/namespaces/team-a/pods/x%3Fwatch%3Dtrue"],
        id="a query",
    ),
    pytest.param(
        named(name="../secrets/s"),
        ["/api/v1", "/api/v1/namespaces/team-a/pods/..%2Fsecrets%2Fs"],
        id="a path",
    ),
    pytest.param(named(api_version="v1?x=/v1"), [], id="a query as version"),
    pytest.param(named(api_version="../v1"), [], id="a path as version"),
    pytest.param(named(api_version=""), [], id="no version"),
    pytest.param(named(name="x" * 254), [], id="a name longer than any"),
    pytest.param(named(api_version=f"{'x' * 999}/v1"), [], id="a group longer than any"),
    pytest.param(
        named(api_version="metrics.k8s.io/v1"), ["/apis/metrics.k8s.io/v1"], id="an API that is down"
    ),
]


@pytest.mark.parametrize(("owner", "asked"), FORGED)
async def test_no_reference_leads_elsewhere_or_holds_others_up(owner: Root, asked: list[str]) -> None:
    """What a user may write into a reference is the end of the chain at worst."""
    pods = {"resources": [{"name": "pods", "kind": "Pod"}]}
    down = ApiError(503, "ServiceUnavailable", "x")
    kube = FakeKube({("GET", "/api/v1"): pods, ("GET", "/apis/metrics.k8s.io/v1"): down})
    pod = pod_of("a", owner=owner)
    assert (await OwnerResolver(kube).roots([pod], NOON))[pod.uid] == owner
    assert [path for _, path, _, _ in kube.sent] == asked


async def test_versions_that_users_make_up_fill_no_memory() -> None:
    """Each may lie behind an API that is down, so it is remembered; neither too many nor for too long."""
    kube = FakeKube(cluster())
    resolver = OwnerResolver(kube)
    made_up = [named(api_version=f"metrics.k8s.io/v1x{at}") for at in range(MOST_VERSIONS + 50)]
    for owner in made_up:
        kube.answers["GET", f"/apis/{owner.api_version}"] = ApiUnreachable("x")
    pods = [pod_of(f"p-{at}", owner=replace(one, uid=f"uid-{at}")) for at, one in enumerate(made_up)]
    member = pod_of("a", owner=SET)
    for _ in range(2):
        roots = await resolver.roots([*pods, member], NOON)
        assert roots[member.uid] == WEB
        assert len(resolver._resources) == MOST_VERSIONS
    later = await resolver.roots([member], NOON + minutes(30))
    assert later[member.uid] == WEB
    assert set(resolver._resources) == {"apps/v1"}
