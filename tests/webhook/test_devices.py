"""What makes an object a GPU pod at the door: every way to ask, further names, and claims."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from policy.claims import ClaimTemplate
from policy.errors import InvalidError
from policy.resources import parse_table
from policy.selection import PolicySet
from reaper.settings import ENV_PREFIX as REAPER_PREFIX
from reaper.settings import ReaperSettings
from runtime.clock import SystemClock
from runtime.settings import load
from webhook.admission import mutate
from webhook.app import MUTATE, Admission
from webhook.caches import NothingAround
from webhook.decision import Decision, Outcome
from webhook.metrics import WebhookMetrics
from webhook.reception import reviewed
from webhook.review import UserInfo
from webhook.rights import Right
from webhook.settings import ENV_PREFIX, WebhookSettings
from webhook.validation import terms_stage, validate

if TYPE_CHECKING:
    from tests.webhook.conftest import Door

Object = dict[str, Any]
Make = Callable[..., Object]
CLAIM = {"name": "c", "resourceClaimTemplateName": "t"}
CLASS = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
ROWS = [{"pattern": r"example\.com/npu", "unit": "device"}, {"pattern": r"amd\.com/gpu", "unit": "nothing"}]


def template(device_class: str, **more: Any) -> ClaimTemplate:
    """A template of one request."""
    request = {"name": "r", "exactly": {"deviceClassName": device_class, **more}}
    return msgspec.convert({"spec": {"spec": {"devices": {"requests": [request]}}}}, ClaimTemplate)


def asking(pod: Object, **limits: Any) -> Object:
    """The pod with other limits."""
    pod["spec"]["containers"][0]["resources"] = {"limits": limits}
    return pod


def annotated(pod: Object, **annotations: str) -> Object:
    """The pod with annotations."""
    pod["metadata"]["annotations"] = {key.replace("_", "-"): value for key, value in annotations.items()}
    return pod


def test_a_part_of_a_card_makes_a_gpu_pod(enforced: Door, pod: Make) -> None:
    """By the annotation alone, without any resource."""
    _, decision = enforced.admit(annotated(pod(0), gpu_fraction="0.5"))
    assert decision.outcome is Outcome.PATCHED
    assert decision.devices is not None
    assert decision.devices.counts == {"kai.scheduler/gpu-fraction": 500}


def test_pods_that_differ_in_annotations_alone(enforced: Door, pod: Make) -> None:
    """What is remembered of one is not taken for the other."""
    outcomes = [
        enforced.decide(annotated(pod(0), **annotations)).outcome
        for annotations in ({"gpu_fraction": "0.5"}, {}, {"gpu_memory": "10"}, {"other": "0.5"})
    ]
    assert outcomes == [Outcome.PATCHED, Outcome.NOT_GPU, Outcome.PATCHED, Outcome.NOT_GPU]


def test_pods_that_differ_in_overhead_alone(enforced: Door, pod: Make) -> None:
    """Nor here."""
    counts = [
        found.counts if (found := enforced.decide(pod(1, overhead=overhead)).devices) else None
        for overhead in (None, {"nvidia.com/gpu": "1"}, {"cpu": "1"}, {"nvidia.com/gpu": "2"})
    ]
    assert counts == [{"nvidia.com/gpu": number} for number in (1, 2, 1, 3)]


def test_a_job_of_parts_of_cards(enforced: Door, job: Make) -> None:
    """The template's annotations are those of its pods."""
    obj = job(template={"metadata": {"annotations": {"gpu-fraction": "0.5"}}})
    obj["spec"]["template"]["spec"] = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    assert enforced.decide(obj).outcome is Outcome.PATCHED


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("example.com/npu", Outcome.PATCHED),
        ("amd.com/gpu", Outcome.NOT_GPU),
        ("google.com/tpu", Outcome.PATCHED),
    ],
    ids=["a further name", "a name that was taken out", "a built-in name"],
)
def test_rows_of_configuration(enforced: Door, pod: Make, name: str, outcome: Outcome) -> None:
    """They hold for each decision."""
    settings = msgspec.structs.replace(enforced.settings(), table=parse_table(ROWS))
    request = enforced.request(asking(pod(), **{name: 1}))
    assert mutate(request, enforced.world(), settings, enforced.memory).outcome is outcome


def decide(door: Door, obj: Object, templates: dict[tuple[str, str], ClaimTemplate]) -> Decision:
    """What the mutating path decides where these templates are known."""
    world = msgspec.structs.replace(
        door.world(), claim_template=lambda namespace, name: templates.get((namespace, name))
    )
    return mutate(door.request(obj), world, door.settings(), door.memory)


def test_claims_whose_template_is_known(enforced: Door, pod: Make) -> None:
    """They make a GPU pod like any resource, and the template of another namespace does not."""
    obj = pod(0, resourceClaims=[CLAIM])
    two, other = template("gpu.nvidia.com", count=2), template("nic.example.com")
    decision = decide(enforced, obj, {("team-a", "t"): two})
    assert decision.outcome is Outcome.PATCHED
    assert decision.devices is not None
    assert decision.devices.counts == {CLASS: 2}
    assert decide(enforced, obj, {("team-b", "t"): two}).outcome is Outcome.CLAIMS_UNRESOLVED
    assert decide(enforced, obj, {("team-a", "t"): other}).outcome is Outcome.NOT_GPU
    assert decide(enforced, obj, {("team-a", "t"): two}).outcome is Outcome.PATCHED


@pytest.mark.parametrize(
    "claim",
    [CLAIM, {"name": "c", "resourceClaimName": "shared"}],
    ids=["an unknown template", "a claim that several pods may share"],
)
async def test_claims_that_cannot_be_resolved(enforced: Door, pod: Make, claim: Object) -> None:
    """The pod is admitted as it is by both paths, and counted."""
    obj = pod(0, resourceClaims=[claim])
    decision = enforced.decide(obj)
    assert (decision.outcome, decision.patch, decision.allowed) == (Outcome.CLAIMS_UNRESOLVED, (), True)
    stages = (terms_stage(enforced.memory),)
    checked = await validate(
        enforced.request(obj), enforced.world(), enforced.settings(), enforced.memory, stages
    )
    assert (checked.outcome, checked.allowed) == (Outcome.CLAIMS_UNRESOLVED, True)


def test_a_claim_that_is_not_counted_beside_a_device(enforced: Door, pod: Make) -> None:
    """The device makes a GPU pod, and the claim is said."""
    decision = enforced.decide(pod(1, resourceClaims=[{"name": "c", "resourceClaimName": "shared"}]))
    assert decision.outcome is Outcome.PATCHED
    assert any("ResourceClaim shared may be shared" in reason for reason in decision.reasons)


class Late(NothingAround):
    """A cluster whose template comes while somebody waits for it."""

    def __init__(self, *, comes: bool) -> None:
        self.comes = comes
        self.known: ClaimTemplate | None = None
        self.waits: list[tuple[str, tuple[str, ...], float]] = []

    def claim_template(self, namespace: str, name: str) -> ClaimTemplate | None:
        """The template, once it is there."""
        return self.known if (namespace, name) == ("team-a", "t") else None

    async def wait_claims(self, namespace: str, names: Collection[str], timeout: float) -> bool:  # noqa: ASYNC109
        """Notes the wait."""
        self.waits.append((namespace, tuple(names), timeout))
        self.known = template("gpu.nvidia.com") if self.comes else None
        return self.comes


class Nobody:
    """Rights that nobody asks for."""

    async def may_use(self, user: UserInfo, policy: str, namespace: str) -> Right:
        """Not asked."""
        raise AssertionError((user, policy, namespace))


class Caches:
    """What runtime.catalog.Catalog offers."""

    synced = True

    def __init__(self, door: Door) -> None:
        self._door = door

    @property
    def policies(self) -> PolicySet:
        """The policies of the door."""
        return self._door.world().policies

    def namespace(self, _: str) -> Any:
        """The namespace of the door."""
        return self._door.world().namespace

    async def wait_namespace(self, name: str, timeout: float) -> Any:  # noqa: ASYNC109
        """Not waited for."""
        raise AssertionError((name, timeout))


@pytest.mark.parametrize("comes", [True, False], ids=["it comes", "it does not"])
async def test_a_template_that_is_newer_than_the_watch(enforced: Door, pod: Make, comes: bool) -> None:
    """The review waits a moment for it, once."""
    around = Late(comes=comes)
    metrics = WebhookMetrics(CollectorRegistry())
    admission = Admission(
        Caches(enforced), enforced.settings(), metrics, SystemClock(), 0.25, Nobody(), around
    )
    review = enforced.review(pod(0, resourceClaims=[CLAIM]))
    answer = json.loads(await reviewed(admission.routes()[MUTATE], review))["response"]
    assert answer["allowed"]
    assert ("patch" in answer) is comes
    assert around.waits == [("team-a", ("t",), 0.25)]


@pytest.mark.parametrize(
    ("kind", "prefix", "needed"),
    [
        (WebhookSettings, ENV_PREFIX, {"host": "127.0.0.1"}),
        (ReaperSettings, REAPER_PREFIX, {"prometheus_url": "http://prometheus:9090"}),
    ],
    ids=["webhook", "reaper"],
)
def test_both_components_read_the_same_rows(kind: Any, prefix: str, needed: dict[str, str]) -> None:
    """As the chart writes them: JSON in a variable; what is wrong is refused with its flag."""

    def read(text: str) -> Any:
        return load(kind, needed, env_prefix=prefix, environ={f"{prefix}GPU_RESOURCES": text})

    for empty in ("", "[]"):
        assert read(empty).gpu_resources == ()
    settings = read(json.dumps(ROWS))
    table = settings.table() if isinstance(settings, ReaperSettings) else settings.admission().table
    assert table.weight_of("example.com/npu") == 1
    assert table.known("amd.com/gpu") is None
    for wrong in ("{", '[{"pattern": "("}]', '[{"pattern": "(", "unit": "device"}]', '["a"]'):
        with pytest.raises(InvalidError, match="gpu-resources"):
            read(wrong)
