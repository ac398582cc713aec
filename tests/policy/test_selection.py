from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.gpupolicy import parse_policy
from policy.selection import PolicySet, select, selector_matches
from policy.spec import Expression, Operator, Selector


def policy(name: str, priority: int = 0, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """A GPUPolicy object; without labels it selects every namespace."""
    selector = None if labels is None else {"matchLabels": labels}
    return {"metadata": {"name": name}, "spec": {"priority": priority, "namespaceSelector": selector, **spec}}


BROKEN = {"idle": {"after": "soon"}}


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param([], "built-in", id="without policies the built-in one holds"),
        pytest.param(
            [policy("a", labels={"team": "x"})], "built-in", id="a policy of other namespaces does not"
        ),
        pytest.param([policy("a"), policy("b", 1)], "b", id="the highest priority wins"),
        pytest.param([policy("b"), policy("a"), policy("c")], "a", id="ties go to the smallest name"),
        pytest.param([policy("a", -1), policy("b", -2)], "a", id="priorities may be negative"),
        pytest.param([policy("a"), policy("b", 1, {"team": "x"})], "a", id="a winner must select"),
        pytest.param([policy("a"), policy("b", 1, {"team": "ml"})], "b", id="labels of the namespace select"),
        pytest.param(
            [policy("a"), policy("b", 1, {"kubernetes.io/metadata.name": "ns"})], "b", id="so does its name"
        ),
        pytest.param(
            [policy("a"), policy("b", 1, **BROKEN)], "built-in", id="an invalid winner is the built-in one"
        ),
        pytest.param([policy("a", **BROKEN), policy("b")], "built-in", id="an invalid one wins ties by name"),
        pytest.param([policy("a"), policy("b", **BROKEN)], "a", id="and loses them by name"),
        pytest.param(
            [policy("a", 1), policy("b", **BROKEN)], "a", id="an invalid one of lower priority is nothing"
        ),
        pytest.param(
            [policy("a"), policy("b", 9, {"team": "x"}, **BROKEN)],
            "a",
            id="an invalid one of elsewhere is nothing",
        ),
        pytest.param(
            [policy("a"), policy("b", priority="x")],  # type: ignore[arg-type]
            "built-in",
            id="an unreadable priority may be the highest",
        ),
        pytest.param(
            [policy("a"), policy("b", 1, {"a b": "c"})],
            "built-in",
            id="an unreadable selector may select everything",
        ),
        pytest.param(
            [policy("a", -5), {"metadata": None, "spec": 7}], "built-in", id="an unreadable object too"
        ),
    ],
)
def test_selection(objects: list[dict[str, Any]], expected: str) -> None:
    """One policy applies, whole; one that may have meant to and cannot be read yields the built-in one."""
    selected = select(PolicySet.of(objects), "ns", {"team": "ml"})
    assert selected.policy.name == expected
    assert (selected.problem is not None) is (expected == "built-in" and any(is_invalid(o) for o in objects))


def is_invalid(obj: dict[str, Any]) -> bool:
    """Whether an object is invalid."""
    return bool(PolicySet.of([obj]).invalid)


def test_the_problem_names_policy_and_field() -> None:
    """An administrator learns which policy to repair, and where."""
    selected = select(PolicySet.of([policy("b", **BROKEN)]), "ns", None)
    assert selected.problem is not None
    assert "GPUPolicy b" in selected.problem
    assert "spec.idle.after" in selected.problem


def test_policies_are_found_by_name() -> None:
    """The built-in policy answers to its name, an invalid one to none."""
    policies = PolicySet.of([policy("a"), policy("b", **BROKEN)])
    assert policies.get("a") == parse_policy(policy("a"))
    assert policies.get("b") is None
    assert policies.get("c") is None
    found = policies.get("built-in")
    assert found is not None
    assert found.is_built_in
    assert [str(error) for error in policies.invalid["b"].errors] == [
        "spec.idle.after: must be a duration such as 90m, 2h or 1d12h"
    ]


@pytest.mark.parametrize(
    ("expression", "labels", "matches"),
    [
        pytest.param(Expression("a", Operator.IN, ("x", "y")), {"a": "y"}, True, id="In with the value"),
        pytest.param(Expression("a", Operator.IN, ("x",)), {"a": "z"}, False, id="In with another"),
        pytest.param(Expression("a", Operator.IN, ("x",)), {}, False, id="In without the label"),
        pytest.param(Expression("a", Operator.NOT_IN, ("x",)), {"a": "x"}, False, id="NotIn with the value"),
        pytest.param(Expression("a", Operator.NOT_IN, ("x",)), {"a": "z"}, True, id="NotIn with another"),
        pytest.param(Expression("a", Operator.NOT_IN, ("x",)), {}, True, id="NotIn without the label"),
        pytest.param(Expression("a", Operator.EXISTS), {"a": ""}, True, id="Exists with an empty value"),
        pytest.param(Expression("a", Operator.EXISTS), {}, False, id="Exists without the label"),
        pytest.param(Expression("a", Operator.DOES_NOT_EXIST), {}, True, id="DoesNotExist without the label"),
        pytest.param(Expression("a", Operator.DOES_NOT_EXIST), {"a": ""}, False, id="DoesNotExist with it"),
    ],
)
def test_expressions(expression: Expression, labels: dict[str, str], matches: bool) -> None:
    """Expressions compare as Kubernetes' label selectors do."""
    assert selector_matches(Selector(match_expressions=(expression,)), labels) is matches


def test_selectors_are_conjunctions() -> None:
    """All of a selector must hold; an empty one and none select everything."""
    selector = Selector({"a": "x"}, (Expression("b", Operator.EXISTS),))
    assert selector_matches(selector, {"a": "x", "b": ""})
    assert not selector_matches(selector, {"a": "x"})
    assert not selector_matches(selector, {"a": "y", "b": ""})
    assert selector_matches(Selector(), {})
    assert selector_matches(None, {})


OBJECTS = st.lists(
    st.builds(
        policy,
        st.sampled_from("abcdefgh"),
        st.integers(-2, 2),
        st.none() | st.just({"team": "ml"}) | st.just({"team": "x"}) | st.just({"a b": ""}),
        idle=st.sampled_from([{}, {"after": "soon"}, {"after": "1h"}]),
    ),
    max_size=6,
    unique_by=lambda obj: obj["metadata"]["name"],
)


@given(OBJECTS.flatmap(lambda objects: st.tuples(st.just(objects), st.permutations(objects))))
def test_selection_does_not_depend_on_order(both: tuple[list[dict[str, Any]], list[dict[str, Any]]]) -> None:
    """Whatever order a watch delivers, the same policies are the same set and select the same."""
    one, other = (PolicySet.of(objects) for objects in both)
    assert one == other
    assert select(one, "ns", {"team": "ml"}) == select(other, "ns", {"team": "ml"})
