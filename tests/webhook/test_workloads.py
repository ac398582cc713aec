"""What the mutating path decides about workloads that are neither pods nor Jobs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from policy.profile import Profile
from policy.resourcequota import NamespaceQuotas, Room
from policy.workloads import WORKLOADS, WorkloadKind
from webhook.decision import Outcome
from webhook.review import MalformedError

if TYPE_CHECKING:
    from tests.webhook.conftest import Door

P = "gpu-tenure.io/"
KEY = f"{P}requested-by"
MAX_TIME = "kueue.x-k8s.io/max-exec-time-seconds"
QUEUED = {"labels": {"kueue.x-k8s.io/queue-name": "q"}}
WEEK, TWO_WEEKS = 604800, 1209600
Object = dict[str, Any]
Make = Callable[..., Object]


def put(tree: Object, path: str, value: Any) -> None:
    """Puts a value at a path of the table; each `*` becomes the item of a list, or the role `Worker`."""
    keys = path.split(".")
    node: Any = tree
    for key, following in zip(keys, [*keys[1:], None], strict=True):
        if key == "*":
            inner: Any = value if following is None else {}
            if isinstance(node, list):
                node[:] = node or [inner]
                node = node[0]
            else:
                node = node.setdefault("Worker", inner)
            continue
        is_map = key.endswith("ReplicaSpecs")
        empty: Any = [] if following == "*" and not is_map else {}
        node.setdefault(key, value if following is None else empty)
        node = node[key]


def workload(kind: WorkloadKind, pod: Object, **metadata: Any) -> Object:
    """A workload with the containers of a pod at every place that its kind has."""
    group = f"{kind.group}/v1" if kind.group else "v1"
    tree: Object = {"apiVersion": group, "kind": kind.kind, "metadata": {"name": "w", **metadata}, "spec": {}}
    for template in kind.templates:
        put(tree, template.path, {"spec": copy.deepcopy(pod["spec"])})
    for place in kind.containers[:1]:
        put(tree, place, copy.deepcopy(pod["spec"]["containers"][0]))
    return tree


def row(name: str) -> WorkloadKind:
    """The row of a kind."""
    return next(kind for kind in WORKLOADS if kind.kind == name and kind.group != "batch.volcano.sh")


def texts(value: Any, key: str) -> list[Any]:
    """All values of a key, at any depth."""
    if isinstance(value, dict):
        own = [value[key]] if key in value else []
        return own + [text for item in value.values() for text in texts(item, key)]
    return [text for item in value for text in texts(item, key)] if isinstance(value, list) else []


every_kind = pytest.mark.parametrize("kind", WORKLOADS, ids=lambda kind: f"{kind.group}/{kind.kind}")
bounded = pytest.mark.parametrize(
    "kind", [kind for kind in WORKLOADS if kind.deadline], ids=lambda kind: kind.kind
)


@every_kind
def test_every_kind_says_who_asked_where_its_pods_inherit_it(
    enforced: Door, pod: Make, kind: WorkloadKind
) -> None:
    """On the templates, or on the metadata that its operator copies; nothing else is touched."""
    original = workload(kind, pod())
    admitted, decision = enforced.admit(original)
    assert decision.outcome is Outcome.PATCHED
    places = 1 if kind.mark else len(kind.templates)
    assert texts(admitted, KEY) == ["dev-a"] * places
    if kind.deadline is None:
        assert not texts(admitted, f"{P}deadline")
        assert not texts(admitted, "activeDeadlineSeconds")
    assert decision.terms is None
    again, repeated = enforced.admit(admitted)
    assert again == admitted
    assert repeated.outcome is Outcome.UNCHANGED


@every_kind
def test_workloads_of_other_pods_are_left_alone(enforced: Door, pod: Make, kind: WorkloadKind) -> None:
    """Whatever their kind."""
    original = workload(kind, pod(0))
    assert enforced.decide(original).outcome is Outcome.NOT_GPU


@every_kind
def test_what_a_controller_makes_keeps_what_its_template_says(
    enforced: Door, pod: Make, kind: WorkloadKind
) -> None:
    """A ReplicaSet that differed from its Deployment would be made again and again."""
    enforced.user = "system:serviceaccount:kube-system:deployment-controller"
    original = workload(kind, pod())
    admitted, _ = enforced.admit(original)
    assert not texts(admitted, KEY)
    if kind.deadline is None:
        assert admitted == original


@bounded
@pytest.mark.parametrize(
    ("own", "note", "seconds"),
    [
        pytest.param(None, "injected", WEEK, id="none"),
        pytest.param(60, "kept", 60, id="shorter"),
        pytest.param(2**33, "lowered", TWO_WEEKS, id="too long"),
        pytest.param(0, "kept", 0, id="one that its operator refuses"),
    ],
)
def test_kinds_with_a_field_of_their_own_are_bounded_by_it(
    enforced: Door, pod: Make, kind: WorkloadKind, own: int | None, note: str, seconds: int
) -> None:
    """The field is data; the rule is that of Jobs."""
    original = workload(kind, pod())
    if own is not None:
        put(original, str(kind.deadline), own)
    admitted, decision = enforced.admit(original)
    assert decision.deadline == note
    assert admitted["metadata"]["annotations"][f"{P}deadline"] == note
    assert texts(admitted["spec"], "activeDeadlineSeconds") == [seconds]
    changes = note in {"injected", "lowered"}
    assert any("activeDeadlineSeconds" in warning for warning in decision.warnings) is changes
    assert enforced.admit(admitted)[1].outcome is Outcome.UNCHANGED


@bounded
@pytest.mark.parametrize(
    ("jobs", "note"), [("job", "injected"), ("pod", "injected"), ("none", "none: PolicyHasNone")]
)
def test_where_the_policy_sets_deadlines_of_jobs(
    door: Door, pod: Make, kind: WorkloadKind, jobs: str, note: str
) -> None:
    """Their pods are an operator's and get none: the field is set unless the policy wants none at all."""
    door.policy(deadline={"jobs": jobs})
    assert door.decide(workload(kind, pod())).deadline == note


@bounded
@pytest.mark.parametrize(
    ("change", "note"),
    [
        pytest.param({"profile": Profile.WARN}, "would-inject", id="without enforcement"),
        pytest.param({"quotas": NamespaceQuotas(scoped=True)}, "none: ScopedQuota", id="a scoped quota"),
    ],
)
def test_reasons_against_a_deadline(
    enforced: Door, pod: Make, kind: WorkloadKind, change: Object, note: str
) -> None:
    """They are those of Jobs."""
    for name, value in change.items():
        setattr(enforced, name, value)
    admitted, decision = enforced.admit(workload(kind, pod()))
    assert decision.deadline == note
    assert not texts(admitted["spec"], "activeDeadlineSeconds")


def test_what_an_unlisted_operator_makes_has_no_deadline(enforced: Door, pod: Make) -> None:
    """Nobody knows what it would do with it."""
    enforced.user = "system:serviceaccount:argo:cron"
    reference = {"apiVersion": "argoproj.io/v1", "kind": "CronWorkflow", "name": "c", "controller": True}
    made = workload(row("Workflow"), pod(), ownerReferences=[reference])
    assert enforced.decide(made).deadline == "none: UnknownController"


@pytest.mark.parametrize("name", [kind.kind for kind in WORKLOADS if kind.run_once])
@pytest.mark.parametrize(
    ("own", "limit"),
    [
        pytest.param(None, str(WEEK), id="none"),
        pytest.param("60", "60", id="shorter"),
        pytest.param(str(2**31 - 1), str(TWO_WEEKS), id="too long"),
        pytest.param("soon", str(WEEK), id="what Kueue cannot read"),
    ],
)
def test_what_kueue_manages_is_bounded_by_kueue(
    enforced: Door, pod: Make, name: str, own: str | None, limit: str
) -> None:
    """Its own clock stands still while a workload waits."""
    labels = QUEUED["labels"] | ({} if own is None else {MAX_TIME: own})
    admitted, _ = enforced.admit(workload(row(name), pod(), labels=labels))
    assert admitted["metadata"]["labels"] == QUEUED["labels"] | {MAX_TIME: limit}
    assert not texts(admitted["spec"], "activeDeadlineSeconds")
    if row(name).deadline:
        assert admitted["metadata"]["annotations"][f"{P}deadline"] == "none: Kueue"
    assert enforced.admit(admitted)[1].outcome is Outcome.UNCHANGED


def test_servers_in_a_queue_are_not_bounded(enforced: Door, pod: Make) -> None:
    """A Deployment ends when somebody ends it."""
    admitted, _ = enforced.admit(workload(row("Deployment"), pod(), **QUEUED))
    assert admitted["metadata"]["labels"] == QUEUED["labels"]


@pytest.mark.parametrize(("restart", "limit"), [("Never", str(WEEK)), ("Always", None)])
def test_pods_in_a_queue(enforced: Door, pod: Make, restart: str, limit: str | None) -> None:
    """A bare pod is bounded if it is run once."""
    admitted, _ = enforced.admit(pod(metadata={"name": "p", **QUEUED}, restartPolicy=restart))
    assert admitted["metadata"]["labels"].get(MAX_TIME) == limit
    assert enforced.admit(admitted)[1].outcome is Outcome.UNCHANGED


def test_jobs_in_a_queue(enforced: Door, job: Make) -> None:
    """And without enforcement nothing is written there either."""
    admitted, decision = enforced.admit(job(metadata={"name": "j", **QUEUED}))
    assert admitted["metadata"]["labels"][MAX_TIME] == str(WEEK)
    assert decision.deadline == "none: Kueue"
    enforced.profile = Profile.OBSERVE
    admitted, _ = enforced.admit(job(metadata={"name": "j", **QUEUED}))
    assert MAX_TIME not in admitted["metadata"]["labels"]


def test_the_creator_of_a_deployment_is_told_what_its_pods_get(enforced: Door, pod: Make) -> None:
    """The pods are made by a controller, which reads no warning."""
    original = workload(row("Deployment"), pod())
    original["spec"]["template"]["metadata"] = {"labels": {f"{P}idle-after": "9h"}}
    admitted, decision = enforced.admit(original)
    assert decision.pod_class == "serving"
    assert "its pods: idle-after: asked '9h', got 4h" in decision.warnings[0]
    assert "evicts its pods once" in decision.warnings[1]
    assert admitted["spec"]["template"]["metadata"]["labels"] == {f"{P}idle-after": "9h"}
    assert enforced.decide(admitted).warnings == decision.warnings


def test_nobody_is_told_of_terms_that_do_not_act(door: Door, pod: Make) -> None:
    """The built-in policy observes."""
    assert door.decide(workload(row("Deployment"), pod())).warnings == ()


def test_a_notebook_is_interactive(door: Door, pod: Make) -> None:
    """As its pods will be, also where a StatefulSet is made for one."""
    assert door.decide(workload(row("Notebook"), pod())).pod_class == "interactive"
    made = workload(row("StatefulSet"), pod())
    assert door.decide(made).pod_class == "serving"
    made["spec"]["template"]["metadata"] = {"labels": {"notebook-name": "n"}}
    assert door.decide(made).pod_class == "interactive"


ROOM = NamespaceQuotas(rooms=(Room("ResourceQuota", "gpu", "nvidia.com/gpu", 8, 5),))


@pytest.mark.parametrize(
    ("replicas", "told"),
    [
        pytest.param(1, None, id="what fits"),
        pytest.param(
            2, "its 2 pods ask for 4 nvidia.com/gpu, but ResourceQuota gpu leaves 3 of 8", id="more"
        ),
        pytest.param(0, None, id="none at all"),
    ],
)
def test_replicas_that_a_quota_cannot_hold(door: Door, pod: Make, replicas: int, told: str | None) -> None:
    """Said where somebody reads it: the pods' own refusals reach only the controller."""
    door.quotas = ROOM
    original = workload(row("Deployment"), pod(2))
    original["spec"]["replicas"] = replicas
    assert door.decide(original).warnings == ((f"gpu-tenure: {told}",) if told else ())


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        pytest.param({"parallelism": 4}, "its 4 pods ask for 4", id="in parallel"),
        pytest.param({"parallelism": 9, "completions": 2}, None, id="fewer to complete"),
        pytest.param({}, None, id="one"),
    ],
)
def test_jobs_that_a_quota_cannot_hold(door: Door, job: Make, spec: Object, told: str | None) -> None:
    """What runs at once counts."""
    door.quotas = ROOM
    warnings = door.decide(job(**spec)).warnings
    assert any(told in warning for warning in warnings) if told else warnings == ()


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        pytest.param({"operation": "UPDATE"}, Outcome.NOT_CREATE, id="updates"),
        pytest.param({"namespace": "monitoring"}, Outcome.EXCLUDED, id="excluded namespaces"),
        pytest.param({"namespace_known": False}, Outcome.NAMESPACE_UNKNOWN, id="unknown namespaces"),
        pytest.param(
            {"namespace_labels": {f"{P}enforcement": "disabled"}},
            Outcome.OPTED_OUT,
            id="those that opted out",
        ),
    ],
)
def test_workloads_that_are_left_alone(enforced: Door, pod: Make, change: Object, outcome: Outcome) -> None:
    """The same gates stand before workloads as before pods."""
    for name, value in change.items():
        setattr(enforced, name, value)
    assert enforced.decide(workload(row("Deployment"), pod())).outcome is outcome


@pytest.mark.parametrize(
    "spec",
    [
        None,
        {},
        {"template": None},
        {"template": "x"},
        {"template": {"spec": []}},
        {"template": {"spec": {"containers": "x"}}},
        {"template": {"metadata": 5, "spec": {"containers": []}}},
    ],
    ids=lambda spec: repr(spec)[:40],
)
def test_odd_shapes_are_answered(enforced: Door, spec: Any) -> None:
    """A kind's own schema has not been checked yet when we are asked."""
    body = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "w"}, "spec": spec}
    assert enforced.decide(body).outcome is Outcome.NOT_GPU


def test_what_lies_behind_another_form_is_not_overwritten(enforced: Door, pod: Make) -> None:
    """A field that is no mapping is its sender's mistake, which the API server names."""
    original = workload(row("PyTorchJob"), pod())
    original["spec"]["runPolicy"] = "soon"
    admitted, _ = enforced.admit(original)
    assert admitted["spec"]["runPolicy"] == "soon"


def test_a_workload_that_is_none_is_malformed(enforced: Door) -> None:
    """As with pods: an answer of 400."""
    with pytest.raises(MalformedError):
        enforced.request({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": "x"})


def test_a_template_full_of_annotations_is_left_as_it_is(enforced: Door, pod: Make) -> None:
    """One more would get it refused."""
    original = workload(row("Deployment"), pod())
    original["spec"]["template"]["metadata"] = {"annotations": {"a": "x" * (256 * 1024 - 10)}}
    admitted, decision = enforced.admit(original)
    assert admitted == original
    assert decision.outcome is Outcome.PATCH_UNFIT
