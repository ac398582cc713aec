"""Scheduling defaults: schema, policy package and pods take the same, and say what is wrong with all else."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from policy.errors import InvalidError
from policy.gpupolicy import parse_policy
from sandbox.api import Reply
from sandbox.cluster import Sandbox

POLICIES = "/apis/gpu-tenure.io/v1alpha1/gpupolicies"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
PATH = "spec.scheduling"
TERM = f"{PATH}.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0]"
EXPRESSION = f"{TERM}.matchExpressions[0]"
FIELD = f"{TERM}.matchFields[0]"
TOLERATION = f"{PATH}.tolerations[0]"
DRAWN = 250
Object = dict[str, Any]

pytestmark = pytest.mark.usefixtures("release")


def tolerating(**fields: Any) -> Object:
    """One toleration."""
    return {"tolerations": [fields]}


def requiring(*terms: Object) -> Object:
    """A node affinity that requires terms."""
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [*terms]}}}


def expressing(**fields: Any) -> Object:
    """A node affinity of one expression."""
    return requiring({"matchExpressions": [fields]})


def naming(**fields: Any) -> Object:
    """A node affinity over the name of nodes."""
    return requiring({"matchFields": [fields]})


BAD: dict[str, tuple[Object, str, str]] = {
    "a PriorityClass of capitals": (
        {"priorityClassName": "Batch"},
        f"{PATH}.priorityClassName",
        "PriorityClass",
    ),
    "a PriorityClass with two dots": (
        {"priorityClassName": "a..b"},
        f"{PATH}.priorityClassName",
        "PriorityClass",
    ),
    "no key": (tolerating(operator="Equal"), TOLERATION, "key is required"),
    "nothing at all": (tolerating(), TOLERATION, "key is required"),
    "a key with a space": (tolerating(key="a b"), f"{TOLERATION}.key", "the key of a taint"),
    "a value that Exists ignores": (
        tolerating(key="a", operator="Exists", value="b"),
        f"{TOLERATION}.value",
        "must be empty where operator is Exists",
    ),
    "a value with a space": (tolerating(key="a", value="b c"), f"{TOLERATION}.value", "the value of a taint"),
    "seconds without an end": (
        tolerating(key="a", operator="Exists", effect="NoSchedule", tolerationSeconds=5),
        f"{TOLERATION}.tolerationSeconds",
        "needs the effect NoExecute",
    ),
    "an operator of elsewhere": (tolerating(key="a", operator="Gt"), f"{TOLERATION}.operator", "Unsupported"),
    "no terms": (requiring(), f"{PATH}.nodeAffinity.{REQUIRED}.nodeSelectorTerms", "at least 1"),
    "required terms left out": (
        {"nodeAffinity": {REQUIRED: {}}},
        f"{PATH}.nodeAffinity.{REQUIRED}.nodeSelectorTerms",
        "Required",
    ),
    "a term that selects nothing": (requiring({}), TERM, "must hold an expression"),
    "In without values": (expressing(key="a", operator="In"), f"{EXPRESSION}.values", "must have values"),
    "Exists with a value": (
        expressing(key="a", operator="Exists", values=["b"]),
        f"{EXPRESSION}.values",
        "none with Exists",
    ),
    "Gt of two": (
        expressing(key="a", operator="Gt", values=["1", "2"]),
        f"{EXPRESSION}.values",
        "one whole number",
    ),
    "Lt of a word": (
        expressing(key="a", operator="Lt", values=["x"]),
        f"{EXPRESSION}.values",
        "one whole number",
    ),
    "a label value with a space": (
        expressing(key="a", operator="In", values=["b c"]),
        f"{EXPRESSION}.values",
        "must be valid label values",
    ),
    "a wrong label key": (
        expressing(key="a/b/c", operator="Exists"),
        f"{EXPRESSION}.key",
        "a valid label key",
    ),
    "no operator": (expressing(key="a"), f"{EXPRESSION}.operator", "Required"),
    "another field": (
        naming(key="spec.x", operator="In", values=["a"]),
        f"{FIELD}.key",
        "Unsupported",
    ),
    "two nodes": (
        naming(key="metadata.name", operator="In", values=["a", "b"]),
        f"{FIELD}.values",
        "at most 1",
    ),
    "a node of capitals": (
        naming(key="metadata.name", operator="In", values=["A B"]),
        f"{FIELD}.values[0]",
        "the name of a node",
    ),
    "a weight beyond all": (
        {"nodeAffinity": {PREFERRED: [{"weight": 101, "preference": {"matchExpressions": []}}]}},
        f"{PATH}.nodeAffinity.{PREFERRED}[0].weight",
        "100",
    ),
    "no preference": (
        {"nodeAffinity": {PREFERRED: [{"weight": 1}]}},
        f"{PATH}.nodeAffinity.{PREFERRED}[0].preference",
        "Required",
    ),
}


def policy(scheduling: Object) -> Object:
    """A GPUPolicy with scheduling defaults."""
    return {
        "apiVersion": "gpu-tenure.io/v1alpha1",
        "kind": "GPUPolicy",
        "metadata": {"name": "tried"},
        "spec": {"scheduling": scheduling},
    }


def reads(scheduling: Object) -> bool:
    """Whether the policy package takes it."""
    try:
        parse_policy(policy(scheduling))
    except InvalidError:
        return False
    return True


@pytest.fixture
def store(sandbox: Sandbox) -> Callable[[Object], Reply]:
    """Tries to store a policy."""

    def call(scheduling: Object) -> Reply:
        path = f"{POLICIES}?dryRun=All&fieldValidation=Strict"
        return sandbox.api().raw("POST", path, policy(scheduling))

    return call


@pytest.mark.parametrize(("scheduling", "path", "message"), BAD.values(), ids=BAD)
def test_bad_defaults_are_refused(
    store: Callable[[Object], Reply], scheduling: Object, path: str, message: str
) -> None:
    """The cause names the field and says what it should be; offline the same is refused."""
    reply = store(scheduling)
    assert reply.status == 422, reply.text
    causes = [(cause["field"], cause["message"]) for cause in reply.json["details"]["causes"]]
    assert any(field == path and message in text for field, text in causes), causes
    assert not reads(scheduling)


KEYS = ("gpu", "example.com/gpu", "", "a b", "-a", "a/b/c", "x" * 64, "A.b_c")
VALUES = ("", "a", "a b", "-", "x" * 63, "5", "-7", "007", "9" * 19, "0", "node-a.b", "A")


def drawn(draw: random.Random) -> Object:
    """Scheduling defaults with about one mistake in every other one."""

    def some(pool: tuple[str, ...]) -> str:
        return draw.choice(pool if draw.random() < 0.3 else pool[:2])

    def expression() -> Object:
        operator = draw.choice(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
        count = {"E": 0, "D": 0, "G": 1, "L": 1}.get(operator[0], 2)
        pool = ("5", "-7", "007", "9" * 19, "0", "x") if operator in {"Gt", "Lt"} else VALUES
        count += draw.choice([0] * 6 + [1, -1])
        return {"key": some(KEYS), "operator": operator, "values": [some(pool) for _ in range(max(count, 0))]}

    def term() -> Object:
        kind = draw.random()
        if kind < 0.1:
            return {"matchExpressions": []}
        if kind < 0.3:
            name = draw.choice(["metadata.name", "metadata.name", "spec.name"])
            return {
                "matchFields": [
                    {"key": name, "operator": "In", "values": [draw.choice(["node-a.b", "A", ""])]}
                ]
            }
        return {"matchExpressions": [expression() for _ in range(draw.randint(1, 2))]}

    def toleration() -> Object:
        fields: Object = {"key": some(KEYS), "operator": draw.choice(["Exists", "Equal"])}
        fields["value"] = "" if fields["operator"] == "Exists" and draw.random() < 0.8 else some(VALUES)
        fields["effect"] = draw.choice(["NoSchedule", "PreferNoSchedule", "NoExecute"])
        if draw.random() < 0.3:
            fields["tolerationSeconds"] = draw.choice([-1, 0, 300])
        return {name: value for name, value in fields.items() if draw.random() < 0.9}

    affinity: Object = {REQUIRED: {"nodeSelectorTerms": [term()]}}
    if draw.random() < 0.5:
        affinity[PREFERRED] = [{"weight": draw.choice([1, 50, 100, 0]), "preference": term()}]
    choices: list[Object] = [
        {"tolerations": [toleration() for _ in range(draw.randint(1, 2))]},
        {"nodeAffinity": affinity},
        {"priorityClassName": draw.choice(["batch", "a.b", "A", "a_b", "-a", "a."])},
    ]
    return draw.choices(choices, [4, 5, 1])[0]


def test_schema_policy_package_and_pods_agree(
    sandbox: Sandbox, namespace: str, store: Callable[[Object], Reply]
) -> None:
    """Random defaults are stored if, and only if, they can be read; and a pod may have all that is stored."""
    draw = random.Random(11)  # noqa: S311 - the same in each run
    stored = 0
    for _ in range(DRAWN):
        scheduling = drawn(draw)
        reply = store(scheduling)
        assert (reply.status == 201) is reads(scheduling), (scheduling, reply.text)
        stored += reply.status == 201
        if reply.status == 201 and "priorityClassName" not in scheduling:
            spec: Object = {"containers": [{"name": "c", "image": "i"}]}
            spec["tolerations"] = scheduling.get("tolerations", [])
            spec["affinity"] = {"nodeAffinity": scheduling.get("nodeAffinity", {})}
            body = {"metadata": {"name": "p"}, "spec": spec}
            made = sandbox.api().raw("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", body)
            assert made.status == 201, (scheduling, made.text)
    assert DRAWN // 5 < stored < DRAWN * 4 // 5
