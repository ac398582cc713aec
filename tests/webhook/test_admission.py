"""What the mutating path decides about pods: terms, deadline, and whom it leaves alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from policy.profile import Profile
from webhook.answers import Allowed, Patched
from webhook.decision import Outcome

if TYPE_CHECKING:
    from tests.webhook.conftest import Door

P = "gpu-tenure.io/"
Object = dict[str, Any]
MakePod = Callable[..., Object]
TERMS = {
    f"{P}policy": "default",
    f"{P}class": "batch",
    f"{P}idle-action": "evict",
    f"{P}idle-after": "2h",
    f"{P}idle-utilization": "5",
    f"{P}idle-statistic": "maximum",
    f"{P}idle-grace": "30m",
    f"{P}idle-warm-up": "30m",
}
ASKED_BY = {f"{P}requested-by": "dev-a"}
INJECTED = {f"{P}deadline": "injected", f"{P}deadline-seconds": "604800", **ASKED_BY}
REPLICA_SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}
JOB_REFERENCE = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
RS_CONTROLLER = "system:serviceaccount:kube-system:replicaset-controller"
JOB_CONTROLLER = "system:serviceaccount:kube-system:job-controller"


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"name": "p"}, id="labels and annotations are absent"),
        pytest.param({"name": "p", "labels": None, "annotations": None}, id="they are null"),
        pytest.param({"name": "p", "labels": {}, "annotations": {}}, id="they are empty"),
        pytest.param(
            {"name": "p", "labels": {"app": "x"}, "annotations": {"a/b": "~1"}}, id="others are there"
        ),
        pytest.param({"generateName": "p-", "labels": {}}, id="the pod has a generateName"),
        pytest.param(None, id="the metadata is what the API server sends"),
        pytest.param({}, id="the metadata is empty"),
    ],
)
def test_terms_and_deadline_are_written_whatever_maps_exist(
    enforced: Door, pod: MakePod, metadata: Object | None
) -> None:
    """The patch applies whether the maps are absent, null, empty or filled, and keeps what was in them."""
    original = pod(metadata=metadata)
    admitted, decision = enforced.admit(original)
    before = original["metadata"]
    assert decision.outcome is Outcome.PATCHED
    assert admitted["metadata"]["labels"] == {**(before.get("labels") or {}), **TERMS}
    assert admitted["metadata"]["annotations"] == {**(before.get("annotations") or {}), **INJECTED}
    assert admitted["spec"] == {**original["spec"], "activeDeadlineSeconds": 604800}


def test_a_pod_without_any_metadata_gets_some(enforced: Door, pod: MakePod) -> None:
    """Even a missing `metadata` is no reason for a patch that does not apply."""
    bare = pod()
    del bare["metadata"]
    admitted, decision = enforced.admit(bare)
    assert decision.outcome is Outcome.PATCHED
    assert admitted["metadata"]["labels"] == TERMS


def test_deciding_again_changes_nothing(enforced: Door, pod: MakePod) -> None:
    """The API server may call again after another webhook: the same pod is answered without a patch."""
    admitted, _ = enforced.admit(pod(metadata={"labels": {f"{P}idle-after": "3h"}}))
    again, decision = enforced.admit(admitted)
    assert decision.outcome is Outcome.UNCHANGED
    assert decision.answer == Allowed()
    assert again == admitted


@pytest.mark.parametrize(
    ("profile", "labels", "note"),
    [
        pytest.param(Profile.OBSERVE, {}, "would-inject", id="observe writes no deadline"),
        pytest.param(Profile.WARN, {}, "would-inject", id="nor does warn"),
        pytest.param(
            Profile.ENFORCE, {f"{P}enforcement": "dry-run"}, "would-inject", id="nor does a dry run"
        ),
        pytest.param(Profile.ENFORCE, {f"{P}enforcement": "odd"}, "would-inject", id="odd is a dry run"),
        pytest.param(Profile.ENFORCE, {f"{P}enforcement": "enabled"}, "injected", id="enforce does"),
    ],
)
def test_deadlines_are_written_only_where_enforcement_is_on(
    enforced: Door, pod: MakePod, profile: Profile, labels: dict[str, str], note: str
) -> None:
    """A deadline is an action; elsewhere the annotation says what would have happened."""
    enforced.profile, enforced.namespace_labels = profile, labels
    admitted, decision = enforced.admit(pod())
    assert decision.deadline == admitted["metadata"]["annotations"][f"{P}deadline"] == note
    assert ("activeDeadlineSeconds" in admitted["spec"]) == (note == "injected")
    assert admitted["metadata"]["labels"] == TERMS


@pytest.mark.parametrize(
    ("own", "note", "seconds"),
    [
        pytest.param(3600, "kept", 3600, id="a shorter one of the user stays"),
        pytest.param(1209600, "kept", 1209600, id="one at the maximum stays"),
        pytest.param(1209601, "lowered", 1209600, id="one above the maximum is lowered"),
    ],
)
def test_a_users_own_deadline(enforced: Door, pod: MakePod, own: int, note: str, seconds: int) -> None:
    """The effective deadline is the smaller of the user's and the maximum."""
    admitted, decision = enforced.admit(pod(activeDeadlineSeconds=own))
    assert admitted["spec"]["activeDeadlineSeconds"] == seconds
    assert decision.deadline == note
    assert any("lowered" in warning for warning in decision.warnings) == (note == "lowered")


@pytest.mark.parametrize(
    ("set_up", "outcome"),
    [
        pytest.param({"operation": "UPDATE"}, Outcome.NOT_CREATE, id="updates"),
        pytest.param({"operation": "DELETE"}, Outcome.NOT_CREATE, id="deletions"),
        pytest.param({"sub_resource": "binding"}, Outcome.NOT_CREATE, id="bindings"),
        pytest.param({"sub_resource": "status"}, Outcome.NOT_CREATE, id="status"),
        pytest.param({"namespace": "kube-system"}, Outcome.EXCLUDED, id="system namespaces"),
        pytest.param({"namespace": "gpu-tenure-system"}, Outcome.EXCLUDED, id="our own namespace"),
        pytest.param(
            {"namespace_labels": {f"{P}enforcement": "disabled"}}, Outcome.OPTED_OUT, id="disabled namespaces"
        ),
        pytest.param({"namespace_known": False}, Outcome.NAMESPACE_UNKNOWN, id="namespaces not seen yet"),
    ],
)
def test_what_is_admitted_untouched(
    enforced: Door, pod: MakePod, set_up: dict[str, Any], outcome: Outcome
) -> None:
    """These are allowed without a patch and without a warning."""
    for name, value in set_up.items():
        setattr(enforced, name, value)
    decision = enforced.decide(pod())
    assert decision.outcome is outcome
    assert decision.answer == Allowed()


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(lambda pod: pod(0), id="a pod without devices"),
        pytest.param(lambda pod: pod("0"), id="a pod that asks for none"),
        pytest.param(lambda pod: {**pod(), "spec": None}, id="a pod whose spec is null"),
        pytest.param(lambda pod: {**pod(), "spec": {"containers": None}}, id="a pod without containers"),
    ],
)
def test_pods_without_devices_are_left_alone(
    enforced: Door, pod: MakePod, obj: Callable[[MakePod], Object]
) -> None:
    """CPU pods pass, however they come to us."""
    decision = enforced.decide(obj(pod))
    assert (decision.outcome, decision.answer) == (Outcome.NOT_GPU, Allowed())


def test_other_kinds_are_left_alone_whatever_they_hold(enforced: Door) -> None:
    """A kind that we know nothing of is admitted, even if its fields look odd to us."""
    odd = {"apiVersion": "example.org/v1", "kind": "Odd", "metadata": {"name": "x"}, "spec": {"template": 5}}
    assert enforced.decide(odd).outcome is Outcome.NOT_OURS


def test_what_only_the_reaper_may_write_is_dropped(enforced: Door, pod: MakePod) -> None:
    """A copied manifest cannot bring a warning along, and a snooze stays."""
    copied = {
        f"{P}idle-since": "2026-01-01T00:00:00Z",
        f"{P}reclaim-at": "2026-01-01T01:00:00Z",
        f"{P}warned-uid": "x",
        f"{P}asked": "idle-after",
        f"{P}keep-until": "4h",
    }
    admitted, _ = enforced.admit(pod(metadata={"annotations": copied}))
    assert admitted["metadata"]["annotations"] == {f"{P}keep-until": "4h", **INJECTED}


@pytest.mark.parametrize(
    ("labels", "annotations", "admitted_labels", "asked", "warned"),
    [
        pytest.param({"idle-after": "3h"}, {}, {"idle-after": "3h"}, "idle-after", None, id="within"),
        pytest.param({"idle-after": "9h"}, {}, {"idle-after": "4h"}, "idle-after", "at most 4h", id="above"),
        pytest.param({"idle-after": "soon"}, {}, {"idle-after": "2h"}, None, "got 2h", id="malformed"),
        pytest.param({"idle-action": "stop"}, {}, {"idle-action": "stop"}, "idle-action", None, id="more"),
        pytest.param({"idle-action": "warn"}, {}, {"idle-action": "evict"}, None, "got evict", id="milder"),
        pytest.param({"idle-grace": "1h"}, {}, {"idle-grace": "1h"}, "idle-grace", None, id="a longer grace"),
        pytest.param(
            {"idle-action": "exempt"}, {}, {"idle-action": "exempt"}, "idle-action", None, id="an exemption"
        ),
        pytest.param(
            {},
            {"gpu-eviction-policy": "never"},
            {"idle-action": "exempt"},
            "idle-action",
            None,
            id="the seed",
        ),
        pytest.param({"class": "serving", "policy": "mine"}, {}, {}, None, None, id="class in vain"),
    ],
)
def test_asking(
    enforced: Door,
    pod: MakePod,
    labels: dict[str, str],
    annotations: dict[str, str],
    admitted_labels: dict[str, str],
    asked: str | None,
    warned: str | None,
) -> None:
    """Users ask by the same labels; what is not given is replaced, with both values in a warning."""
    metadata = {"labels": {P + name: value for name, value in labels.items()}, "annotations": annotations}
    admitted, decision = enforced.admit(pod(metadata=metadata))
    expected = {**TERMS, **{P + name: value for name, value in admitted_labels.items()}}
    assert admitted["metadata"]["labels"] == expected
    assert admitted["metadata"]["annotations"].get(f"{P}asked") == asked
    assert enforced.admit(admitted)[1].outcome is Outcome.UNCHANGED
    assert warned is None or any(warned in warning for warning in decision.warnings)
    assert bool(decision.replaced) == (warned is not None)


@pytest.mark.parametrize(
    ("reference", "user", "restart", "pod_class", "note"),
    [
        pytest.param(None, "dev-a", "Never", "batch", "injected", id="a bare run-once pod"),
        pytest.param(None, "dev-a", "Always", "serving", "none: ClassNotBatch", id="a restarting pod"),
        pytest.param(
            REPLICA_SET,
            RS_CONTROLLER,
            "Always",
            "serving",
            "none: ControllerOwned",
            id="served",
        ),
        pytest.param(JOB_REFERENCE, JOB_CONTROLLER, "Never", "batch", "none: JobUnmarked", id="a Job's pod"),
        pytest.param(REPLICA_SET, "dev-a", "Never", "batch", "injected", id="a forged reference"),
        pytest.param(
            REPLICA_SET,
            "system:serviceaccount:operators:o",
            "Never",
            "serving",
            "none: UnknownController",
            id="an operator's pod",
        ),
    ],
)
def test_class_and_deadline_follow_the_controller(
    enforced: Door,
    pod: MakePod,
    reference: Object | None,
    user: str,
    restart: str,
    pod_class: str,
    note: str,
) -> None:
    """Who controls the pod, as far as that can be believed, decides what it is."""
    enforced.user = user
    metadata = {"name": "p", "ownerReferences": [reference]} if reference else {"name": "p"}
    admitted, decision = enforced.admit(pod(metadata=metadata, restartPolicy=restart))
    assert admitted["metadata"]["labels"][f"{P}class"] == pod_class
    assert decision.deadline == note
    assert ("activeDeadlineSeconds" in admitted["spec"]) == (note == "injected")


def test_without_a_policy_the_built_in_one_observes(door: Door, pod: MakePod) -> None:
    """No policy means no deadline and no action, and no warning either."""
    admitted, decision = door.admit(pod())
    assert decision.policy == "built-in"
    assert admitted["metadata"]["labels"][f"{P}idle-action"] == "observe"
    assert admitted["metadata"]["annotations"] == {f"{P}deadline": "none: PolicyHasNone", **ASKED_BY}
    assert decision.warnings == ()


def test_an_invalid_policy_falls_to_the_built_in_one_and_says_so(enforced: Door, pod: MakePod) -> None:
    """An invalid policy of higher priority never lets the next one act."""
    enforced.policy("broken", priority=9, idle={"after": "never"})
    decision = enforced.decide(pod())
    assert decision.policy == "built-in"
    assert any("broken is invalid" in reason for reason in decision.reasons)


@pytest.mark.parametrize(
    ("filled", "outcome"),
    [
        pytest.param(256 * 1024 - 50, Outcome.PATCH_UNFIT, id="annotations that ours would overfill"),
        pytest.param(200 * 1024, Outcome.PATCHED, id="annotations with room"),
    ],
)
def test_annotations_that_are_full_get_no_patch(
    enforced: Door, pod: MakePod, filled: int, outcome: Outcome
) -> None:
    """A patch beyond the API server's limit would refuse the pod: it is admitted without, and told."""
    original = pod(metadata={"annotations": {"a": "ä" * (filled // 2)}})
    admitted, decision = enforced.admit(original)
    assert decision.outcome is outcome
    assert decision.allowed
    if outcome is Outcome.PATCH_UNFIT:
        assert admitted == original
        assert "no terms were written" in decision.warnings[0]


def test_a_warning_says_what_will_happen_only_where_it_will(enforced: Door, pod: MakePod) -> None:
    """People are told of evictions where there are evictions."""
    assert any("evicts this pod once idle for 2h" in text for text in enforced.decide(pod()).warnings)
    enforced.profile = Profile.WARN
    assert enforced.decide(pod()).warnings == ()


def test_the_memory_between_requests_changes_no_answer(enforced: Door, pod: MakePod) -> None:
    """The same pod, another pod, another policy: a warm memory answers as a cold one does."""
    variants = [
        pod(),
        pod(2),
        pod(metadata={"labels": {f"{P}idle-after": "3h"}}),
        pod(restartPolicy="Always"),
    ]
    warm = [enforced.admit(variant) for variant in (*variants, *variants)]
    assert warm[:4] == warm[4:]
    assert [decision.devices.devices for _, decision in warm[:2] if decision.devices] == [1, 2]
    enforced.policies[0]["spec"]["idle"]["after"] = "1h"
    admitted, _ = enforced.admit(pod())
    assert admitted["metadata"]["labels"][f"{P}idle-after"] == "1h"


def test_the_patch_is_what_is_sent(enforced: Door, pod: MakePod) -> None:
    """The encoded patch and the one that `explain` shows are the same."""
    decision = enforced.decide(pod())
    assert isinstance(decision.answer, Patched)
    assert json.loads(decision.answer.patch) == list(decision.patch) != []
