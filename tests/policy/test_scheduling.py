"""The scheduling fields that a pod gets from its policy."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.objects import ObjectMeta
from policy.scheduling import (
    PREFERRED,
    REQUIRED,
    TERMS,
    PodScheduling,
    PriorityClass,
    PriorityClasses,
    with_defaults,
)
from policy.spec import Scheduling

Fields = dict[str, Any]


def expression(key: str, *values: str) -> Fields:
    """An expression over a node's label."""
    return {"key": key, "operator": "In", "values": list(values)}


A, B, C = expression("a", "1"), expression("b", "1", "2"), {"key": "c", "operator": "Exists"}


def term(*expressions: Fields) -> Fields:
    """A term of these expressions."""
    return {"matchExpressions": list(expressions)}


def required(*terms: Fields) -> Fields:
    """A node affinity of these terms."""
    return {REQUIRED: {TERMS: list(terms)}}


@pytest.mark.parametrize(
    ("own", "wanted", "default", "got"),
    [
        pytest.param((None, 0, "PreemptLowerPriority"), "gpu", None, ("gpu", None, None), id="none yet"),
        pytest.param(("", 0, None), "gpu", None, ("gpu", None, None), id="an empty one"),
        pytest.param(("std", 5, "Never"), "gpu", "std", ("gpu", None, None), id="the default one is none"),
        pytest.param(("std", 5, "Never"), "gpu", None, ("std", 5, "Never"), id="the user's own stays"),
        pytest.param(("gpu", 9, "Never"), "gpu", None, ("gpu", 9, "Never"), id="called again"),
        pytest.param(("gpu", 9, "Never"), "gpu", "gpu", ("gpu", 9, "Never"), id="it is the default one"),
        pytest.param((None, 0, "Never"), None, None, (None, 0, "Never"), id="the class does not exist"),
    ],
)
def test_priority_class(
    own: tuple[str | None, int, str | None],
    wanted: str | None,
    default: str | None,
    got: tuple[str | None, int | None, str | None],
) -> None:
    """What was computed from the former class goes with it, and only then."""
    pod = PodScheduling(*own)
    after = with_defaults(pod, Scheduling(priority_class_name="gpu"), wanted, default)
    assert (after.priority_class, after.priority, after.preemption) == got


@pytest.mark.parametrize(
    ("own", "got"),
    [
        pytest.param(None, [{"key": "gpu", "operator": "Exists"}], id="none"),
        pytest.param([], [{"key": "gpu", "operator": "Exists"}], id="an empty list"),
        pytest.param(
            [{"key": "gpu", "operator": "Exists", "value": "", "effect": None}],
            [{"key": "gpu", "operator": "Exists", "value": "", "effect": None}],
            id="an equal one, spelled otherwise",
        ),
        pytest.param(
            [{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}],
            [
                {"key": "gpu", "operator": "Exists", "effect": "NoExecute"},
                {"key": "gpu", "operator": "Exists"},
            ],
            id="one for another effect",
        ),
    ],
)
def test_tolerations(own: list[Fields] | None, got: list[Fields]) -> None:
    """One is added only if there is no equal one."""
    defaults = Scheduling(tolerations=({"key": "gpu", "operator": "Exists"},))
    assert with_defaults(PodScheduling(tolerations=own), defaults, None, None).tolerations == got


def test_an_operator_that_is_left_out_is_equal() -> None:
    """As the API server reads it."""
    own = [{"key": "gpu", "operator": "Equal", "value": "a"}]
    defaults = Scheduling(tolerations=({"key": "gpu", "value": "a"},))
    assert with_defaults(PodScheduling(tolerations=own), defaults, None, None).tolerations is own


def test_node_selector() -> None:
    """Fills what the pod does not select by itself."""
    own = PodScheduling(node_selector={"a": "mine"})
    after = with_defaults(own, Scheduling(node_selector={"a": "policy", "b": "policy"}), None, None)
    assert after.node_selector == {"a": "mine", "b": "policy"}


@pytest.mark.parametrize(
    ("own", "policy", "got"),
    [
        pytest.param(None, required(term(A)), required(term(A)), id="no affinity: the policy's"),
        pytest.param(required(term(B)), required(term(A)), required(term(B, A)), id="both in one term"),
        pytest.param(
            required(term(B), term(C)),
            required(term(A)),
            required(term(B, A), term(C, A)),
            id="in every term, since one is enough",
        ),
        pytest.param(
            required(term(C)),
            required(term(A), term(B)),
            required(term(C, A), term(C, B)),
            id="each with each of the policy's",
        ),
        pytest.param(required(term(B, A)), required(term(A)), required(term(B, A)), id="there already"),
        pytest.param(
            required({}, term(B)), required(term(A)), required({}, term(B, A)), id="a term that is never true"
        ),
        pytest.param(required({}), required(term(A)), required({}), id="only a term that is never true"),
        pytest.param(required(term(B)), required({}), required(term(B)), id="an empty term of the policy"),
        pytest.param(
            required({"matchFields": [A]}),
            required(term(A)),
            required({"matchFields": [A], "matchExpressions": [A]}),
            id="a field is no label",
        ),
        pytest.param(
            {PREFERRED: [{"weight": 1, "preference": term(A)}]},
            {PREFERRED: [{"weight": 1, "preference": term(A)}, {"weight": 2, "preference": term(B)}]},
            {PREFERRED: [{"weight": 1, "preference": term(A)}, {"weight": 2, "preference": term(B)}]},
            id="preferences are added if they are new",
        ),
    ],
)
def test_node_affinity(own: Fields | None, policy: Fields, got: Fields) -> None:
    """A pod's terms are ORed: a restriction that is not in all of them restricts nothing."""
    affinity = None if own is None else {"nodeAffinity": own, "podAffinity": {"kept": []}}
    after = with_defaults(PodScheduling(affinity=affinity), Scheduling(node_affinity=policy), None, None)
    assert after.affinity is not None
    assert after.affinity["nodeAffinity"] == got
    assert own is None or after.affinity["podAffinity"] == {"kept": []}


terms = st.lists(st.sampled_from([A, B, C]), max_size=3).map(lambda found: term(*found))
affinities = st.one_of(
    st.none(),
    st.builds(lambda many: {"nodeAffinity": required(*many)}, st.lists(terms, max_size=3)),
    st.just({"podAffinity": {}}),
    st.just({"nodeAffinity": None}),
    st.just({"nodeAffinity": {REQUIRED: {TERMS: None}}}),
)
tolerations = st.lists(
    st.fixed_dictionaries(
        {"operator": st.sampled_from(["Exists", "Equal"])},
        optional={"key": st.sampled_from("ab"), "effect": st.sampled_from(["NoSchedule", "NoExecute"])},
    ),
    max_size=3,
)
pods = st.builds(
    PodScheduling,
    priority_class=st.sampled_from([None, "", "gpu", "std", "own"]),
    priority=st.sampled_from([None, 0]),
    preemption=st.sampled_from([None, "Never"]),
    tolerations=st.one_of(st.none(), tolerations),
    node_selector=st.one_of(st.none(), st.dictionaries(st.sampled_from("ab"), st.sampled_from("12"))),
    affinity=affinities,
)
policies = st.builds(
    Scheduling,
    priority_class_name=st.just("gpu"),
    tolerations=tolerations.map(tuple),
    node_selector=st.dictionaries(st.sampled_from("ab"), st.sampled_from("12")),
    node_affinity=st.one_of(
        st.none(), st.builds(lambda many: required(*many), st.lists(terms, min_size=1, max_size=3))
    ),
)


def nodes_of(affinity: Fields | None) -> set[frozenset[str]]:
    """Which of eight nodes, each named by the labels that it has, the required terms allow."""
    every = [
        frozenset(letter for bit, letter in enumerate("abc") if number >> bit & 1) for number in range(8)
    ]
    requirement = ((affinity or {}).get("nodeAffinity") or {}).get(REQUIRED) or {}
    found = requirement.get(TERMS)
    if not found:
        return set(every)
    return {
        node
        for node in every
        if any(
            one.get("matchExpressions") and all(e["key"] in node for e in one["matchExpressions"])
            for one in found
        )
    }


@given(own=pods, defaults=policies, default=st.sampled_from([None, "std", "gpu"]))
def test_defaults_last_and_restrict_exactly(
    own: PodScheduling, defaults: Scheduling, default: str | None
) -> None:
    """Applied again they change nothing, and a node must suit both the pod and the policy."""
    after = with_defaults(own, defaults, "gpu", default)
    assert with_defaults(after, defaults, "gpu", default) == after
    wanted = required(
        *(one for one in (defaults.node_affinity or required())[REQUIRED][TERMS] if one["matchExpressions"])
    )
    policy = {"nodeAffinity": wanted}
    assert nodes_of(dict(after.affinity or {})) == nodes_of(dict(own.affinity or {})) & nodes_of(policy)
    assert (after.node_selector or {}).items() >= (own.node_selector or {}).items()
    assert list(after.tolerations or [])[: len(own.tolerations or [])] == list(own.tolerations or [])


def test_the_lowest_of_several_default_classes_counts() -> None:
    """In whichever order they come, as for the API server."""
    classes = [
        PriorityClass(ObjectMeta(name="high"), global_default=True, value=9),
        PriorityClass(ObjectMeta(name="low"), global_default=True, value=1),
        PriorityClass(ObjectMeta(name="gpu"), value=0),
    ]
    known = PriorityClasses(frozenset({"high", "low", "gpu"}), "low")
    assert PriorityClasses.of(classes) == PriorityClasses.of(reversed(classes)) == known
    assert PriorityClasses.of([]) == PriorityClasses()
