from __future__ import annotations

import copy
from datetime import UTC, datetime, time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.classes import PodClass
from policy.errors import FieldError, InvalidError
from policy.gpupolicy import BUILT_IN, parse_policy
from policy.spec import ActWindow, Exemption, JobDeadlines, Operator
from policy.terms import Action, Reference, Statistic

FULL: dict[str, Any] = {
    "apiVersion": "gpu-tenure.io/v1alpha1",
    "kind": "GPUPolicy",
    "metadata": {"name": "full", "uid": "u", "generation": 3, "creationTimestamp": "2026-01-31T09:30:00Z"},
    "spec": {
        "priority": 7,
        "namespaceSelector": {
            "matchLabels": {"team": "a"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["x", "y"]},
                {"key": "gone", "operator": "DoesNotExist"},
            ],
        },
        "idle": {
            "action": "evict", "after": "1h", "utilization": 10, "statistic": "average", "memory": "500Mi",
            "grace": "10m", "warmUp": "5m", "of": "given", "neverTouched": True,
        },
        "deadline": {"default": "1d", "max": "2d", "jobs": "pod"},
        "classes": {
            "interactive": {"creators": ["system:serviceaccount:jupyter:hub"], "idle": {"after": "3h"}},
            "batch": {"idle": {"memory": "5%"}, "deadline": {"max": "3d"}},
            "serving": {"idle": {"action": "warn"}},
        },
        "bounds": {"after": {"min": "30m", "max": "8h"}, "grace": "4h", "keepUntil": "2d", "exemption": "9d"},
        "scheduling": {
            "priorityClassName": "gpu",
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "nodeSelector": {"gpu": "true"},
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []},
        },
        "images": {"allowed": ["registry.example/team/*"]},
        "actWindow": {"days": ["Mon", "Fri"], "from": "20:00", "to": "06:00", "timeZone": "Europe/Berlin"},
        "contact": {"text": "ask the GPU team", "url": "https://example.com/gpu"},
        "requireTerms": True,
        "requireUse": True,
    },
    "status": {"anything": 1},
}  # fmt: skip


def parsed(**spec: Any) -> Any:
    """The policy of a specification."""
    return parse_policy({"metadata": {"name": "p"}, "spec": spec})


def errors_of(obj: dict[str, Any]) -> dict[str, str]:
    """The errors of an object, by path."""
    with pytest.raises(InvalidError) as caught:
        parse_policy(obj)
    return {error.path: error.message for error in caught.value.errors}


def test_a_full_policy_is_read_whole() -> None:
    """Every field of the design arrives."""
    policy = parse_policy(FULL)
    assert (policy.name, policy.uid, policy.generation, policy.priority) == ("full", "u", 3, 7)
    assert policy.created == datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
    assert policy.namespace_selector is not None
    assert policy.namespace_selector.match_labels == {"team": "a"}
    assert [e.operator for e in policy.namespace_selector.match_expressions] == [
        Operator.IN,
        Operator.DOES_NOT_EXIST,
    ]
    assert (policy.idle.action, policy.idle.utilization, policy.idle.statistic) == (
        Action.EVICT,
        10,
        Statistic.AVERAGE,
    )
    assert str(policy.idle.after) == "1h"
    assert (policy.idle.of, policy.idle.never_touched) == (Reference.GIVEN, True)
    assert policy.classes.creators == ("system:serviceaccount:jupyter:hub",)
    assert str(policy.classes.interactive.after) == "3h"
    assert policy.classes.batch.memory is not None
    assert policy.classes.batch.memory.percent == 5
    assert policy.bounds.exemption.limit is not None
    assert str(policy.bounds.exemption.limit) == "9d"
    assert policy.scheduling.node_selector == {"gpu": "true"}
    assert policy.images.allowed == ("registry.example/team/*",)
    assert policy.act_window == ActWindow(frozenset({0, 4}), time(20), time(6), "Europe/Berlin")
    assert str(policy.contact) == "ask the GPU team https://example.com/gpu"
    assert policy.require_terms
    assert policy.require_use
    assert not policy.is_built_in


@pytest.mark.parametrize(
    "spec", [{}, None, {"idle": None, "classes": None, "deadline": None}], ids=["empty", "null", "nulls"]
)
def test_an_empty_policy_is_valid(spec: Any) -> None:
    """A policy that says nothing leaves all to the defaults: everywhere, priority 0, no deadline."""
    policy = parse_policy({"metadata": {"name": "p"}, "spec": spec})
    assert (policy.priority, policy.deadline, policy.batch_deadline) == (0, None, None)
    assert policy.namespace_selector is None
    assert policy.bounds.exemption == Exemption()
    assert not policy.require_terms
    assert not policy.require_use


def test_the_built_in_policy_observes_without_deadline() -> None:
    """What holds where no policy can be used never acts."""
    assert BUILT_IN.is_built_in
    assert BUILT_IN.idle.action is Action.OBSERVE
    assert all(BUILT_IN.deadline_of(pod_class) is None for pod_class in PodClass)


@pytest.mark.parametrize(
    ("deadline", "batch", "expected"),
    [
        pytest.param({}, None, ("7d", "14d", "job"), id="an empty block is 7d, at most 14d, on the Job"),
        pytest.param({"default": "1d"}, None, ("1d", "14d", "job"), id="a shorter default keeps the maximum"),
        pytest.param(
            {"default": "30d"}, None, ("30d", "30d", "job"), id="a longer default moves the maximum"
        ),
        pytest.param({"max": "1d"}, None, ("1d", "1d", "job"), id="a lower maximum moves the default"),
        pytest.param(
            {"max": "30d", "jobs": "none"}, None, ("7d", "30d", "none"), id="a higher maximum does not"
        ),
        pytest.param(
            {"default": "1d", "max": "2d"}, {"max": "3d"}, ("1d", "3d", "job"), id="batch wins per field"
        ),
        pytest.param({"jobs": "pod"}, {}, ("7d", "14d", "pod"), id="an empty batch block changes nothing"),
        pytest.param(None, {"default": "1h"}, ("1h", "14d", "job"), id="a batch block alone is a deadline"),
    ],
)
def test_deadline_blocks(deadline: Any, batch: Any, expected: tuple[str, str, str]) -> None:
    """What a block leaves out comes from the block below, then from the defaults table."""
    policy = parsed(deadline=deadline, classes={"batch": {"deadline": batch}})
    block = policy.deadline_of(PodClass.BATCH)
    assert (str(block.default), str(block.max), block.jobs) == expected
    assert block.jobs is JobDeadlines(expected[2])
    assert (policy.deadline_of(PodClass.SERVING) is None) is (deadline is None)


@pytest.mark.parametrize(
    ("spec", "path", "message"),
    [
        pytest.param(
            {"idel": {}}, "spec.idel", "did you mean idle", id="an unknown field, with the likely one"
        ),
        pytest.param(
            {"idle": {"zzz": 1}}, "spec.idle.zzz", "unknown field", id="an unknown field of a block"
        ),
        pytest.param({"zzz": None}, "spec.zzz", "unknown field", id="an unknown field that is null"),
        pytest.param({"idle": []}, "spec.idle", "must be an object", id="a list for a block"),
        pytest.param({"priority": "1"}, "spec.priority", "whole number", id="a priority in quotes"),
        pytest.param({"priority": True}, "spec.priority", "whole number", id="a priority of true"),
        pytest.param({"priority": 2**31}, "spec.priority", "whole number", id="a priority beyond 32 bits"),
        pytest.param(
            {"idle": {"action": "exempt"}},
            "spec.idle.action",
            "must be one of",
            id="exempt is no policy's action",
        ),
        pytest.param(
            {"idle": {"after": 7200}}, "spec.idle.after", "duration such as 90m", id="a number for a duration"
        ),
        pytest.param({"idle": {"after": "0s"}}, "spec.idle.after", "longer than 0s", id="idle after nothing"),
        pytest.param(
            {"idle": {"utilization": 0}}, "spec.idle.utilization", "from 1 to 100", id="a utilization of 0"
        ),
        pytest.param(
            {"idle": {"utilization": 5.0}}, "spec.idle.utilization", "whole number", id="a broken utilization"
        ),
        pytest.param(
            {"idle": {"statistic": "p95"}}, "spec.idle.statistic", "must be one of", id="an unknown statistic"
        ),
        pytest.param({"idle": {"memory": "0%"}}, "spec.idle.memory", "quantity", id="a memory of nothing"),
        pytest.param({"idle": {"memory": []}}, "spec.idle.memory", "quantity", id="a list for memory"),
        pytest.param(
            {"idle": {"of": "slice"}}, "spec.idle.of", "must be one of card, given", id="of a slice"
        ),
        pytest.param(
            {"idle": {"neverTouched": "yes"}},
            "spec.idle.neverTouched",
            "true or false",
            id="a text for a choice",
        ),
        pytest.param({"idle": {"warmUp": "x"}}, "spec.idle.warmUp", "duration", id="a malformed warm-up"),
        pytest.param(
            {"deadline": {"default": "3d", "max": "2d"}},
            "spec.deadline",
            "must not be longer",
            id="default above max",
        ),
        pytest.param(
            {"deadline": {"jobs": "yes"}}, "spec.deadline.jobs", "must be one of", id="an unknown place"
        ),
        pytest.param(
            {"deadline": {"max": "2d"}, "classes": {"batch": {"deadline": {"default": "3d"}}}},
            "spec.classes.batch.deadline",
            "must not be longer",
            id="batch above the common maximum",
        ),
        pytest.param(
            {"classes": {"serving": {"deadline": {}}}},
            "spec.classes.serving.deadline",
            "only batch",
            id="a deadline for serving",
        ),
        pytest.param(
            {"classes": {"batch": {"creators": ["x"]}}},
            "spec.classes.batch.creators",
            "unknown",
            id="creators of batch",
        ),
        pytest.param(
            {"classes": {"interactive": {"creators": [""]}}},
            "spec.classes.interactive.creators[0]",
            "must be a text",
            id="an empty creator",
        ),
        pytest.param(
            {"classes": {"other": {}}}, "spec.classes.other", "unknown field", id="an unknown class"
        ),
        pytest.param(
            {"bounds": {"after": {"min": "2h", "max": "1h"}}},
            "spec.bounds.after",
            "must not be longer",
            id="min above max",
        ),
        pytest.param(
            {"bounds": {"exemption": "maybe"}},
            "spec.bounds.exemption",
            "never, or",
            id="an unknown exemption",
        ),
        pytest.param(
            {"bounds": {"exemption": False}}, "spec.bounds.exemption", "never, or", id="no for an exemption"
        ),
        pytest.param(
            {"bounds": {"keepUntil": "0s"}}, "spec.bounds.keepUntil", "longer than", id="no snooze at all"
        ),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"a b": "c"}}},
            "spec.namespaceSelector.matchLabels[a b]",
            "label key",
            id="a malformed key",
        ),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"a": True}}},
            "spec.namespaceSelector.matchLabels[a]",
            "label value",
            id="a value that is not in quotes",
        ),
        pytest.param(
            {"namespaceSelector": {"matchLabels": ["a"]}},
            "spec.namespaceSelector.matchLabels",
            "must be an object",
            id="a list for labels",
        ),
        pytest.param(
            {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}},
            "spec.namespaceSelector.matchExpressions[0].operator",
            "must be one of",
            id="an unknown operator",
        ),
        pytest.param(
            {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            "spec.namespaceSelector.matchExpressions[0]",
            "values are required",
            id="In without values",
        ),
        pytest.param(
            {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": [1]}]}},
            "spec.namespaceSelector.matchExpressions[0].values[0]",
            "label value",
            id="a number among the values",
        ),
        pytest.param(
            {
                "namespaceSelector": {
                    "matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]
                }
            },
            "spec.namespaceSelector.matchExpressions[0]",
            "values must be empty",
            id="Exists with values",
        ),
        pytest.param(
            {"namespaceSelector": {"matchExpressions": [{"operator": "Exists"}]}},
            "spec.namespaceSelector.matchExpressions[0]",
            "key is required",
            id="an expression without key",
        ),
        pytest.param(
            {"scheduling": {"tolerations": [{"keys": "x", "operator": "Exists"}]}},
            "spec.scheduling.tolerations[0].keys",
            "did you mean key",
            id="an unknown field of a toleration",
        ),
        pytest.param(
            {"scheduling": {"nodeAffinity": []}}, "spec.scheduling.nodeAffinity", "an object", id="a list"
        ),
        pytest.param(
            {"images": {"allowed": "x"}}, "spec.images.allowed", "must be a list", id="a text for a list"
        ),
        pytest.param(
            {"images": {"allowed": ["a b"]}},
            "spec.images.allowed[0]",
            "must be a registry",
            id="an image with a space",
        ),
        pytest.param(
            {"images": {"allowed": ["x" * 513]}}, "spec.images.allowed[0]", "at most 512", id="a long image"
        ),
        pytest.param({"requireUse": "yes"}, "spec.requireUse", "true or false", id="a right in words"),
        pytest.param(
            {"actWindow": {"days": ["Monday"]}}, "spec.actWindow.days[0]", "must be one of", id="a long day"
        ),
        pytest.param({"actWindow": {"days": []}}, "spec.actWindow.days", "at least one", id="no day"),
        pytest.param(
            {"actWindow": {"from": 1200}}, "spec.actWindow.from", "in quotes", id="a time without quotes"
        ),
        pytest.param(
            {"actWindow": {"to": "24:30"}}, "spec.actWindow.to", "time of day", id="a time after midnight"
        ),
        pytest.param(
            {"actWindow": {"from": "08:00", "to": "08:00"}},
            "spec.actWindow.to",
            "must differ",
            id="an empty window",
        ),
        pytest.param(
            {"actWindow": {"timeZone": "a b"}}, "spec.actWindow.timeZone", "time zone", id="a malformed zone"
        ),
        pytest.param(
            {"contact": {"text": "a\nb"}}, "spec.contact.text", "one line", id="a contact of two lines"
        ),
        pytest.param(
            {"contact": {"text": "a" * 201}}, "spec.contact.text", "at most 200", id="a long contact"
        ),
        pytest.param({"contact": {"url": "mailto:x"}}, "spec.contact.url", "https://", id="another scheme"),
        pytest.param({"requireTerms": "yes"}, "spec.requireTerms", "true or false", id="a text for a switch"),
    ],
)
def test_invalid_fields(spec: dict[str, Any], path: str, message: str) -> None:
    """Each mistake is found at its path, in words that say what to write."""
    errors = errors_of({"metadata": {"name": "p"}, "spec": spec})
    assert list(errors) == [path]
    assert message in errors[path]


def test_a_selector_may_ask_for_an_empty_value() -> None:
    """An empty label value is a value."""
    selector = parsed(
        namespaceSelector={"matchExpressions": [{"key": "a", "operator": "In", "values": [""]}]}
    )
    assert selector.namespace_selector.match_expressions[0].values == ("",)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        pytest.param("built-in", "reserved", id="the built-in name is reserved"),
        pytest.param("a" * 64, "at most 63", id="a name is a label's value"),
        pytest.param("Upper", "lower-case", id="names are lower case"),
        pytest.param("", "lower-case", id="a name is required"),
        pytest.param(None, "lower-case", id="null is no name"),
    ],
)
def test_invalid_names(name: Any, message: str) -> None:
    """A policy's name must fit into a label."""
    assert message in errors_of({"metadata": {"name": name}, "spec": {}})["metadata.name"]


def test_all_errors_are_collected() -> None:
    """One reading finds everything."""
    obj = copy.deepcopy(FULL)
    obj["kind"], obj["apiVersion"], obj["extra"] = "Policy", "v1", 1
    obj["metadata"]["name"] = "built-in"
    obj["spec"]["idle"]["after"] = "soon"
    obj["spec"]["bounds"]["grace"] = 5
    obj["spec"]["contact"]["url"] = "x"
    paths = {
        "kind",
        "apiVersion",
        "extra",
        "metadata.name",
        "spec.idle.after",
        "spec.bounds.grace",
        "spec.contact.url",
    }
    assert set(errors_of(obj)) == paths
    with pytest.raises(InvalidError, match="must be a duration such as 90m") as caught:
        parse_policy(obj)
    assert any(str(error).startswith("spec.idle.after: ") for error in caught.value.errors)


def test_errors_of_a_common_deadline_are_said_once() -> None:
    """A block that batch builds on is reported where it stands, not again for batch."""
    errors = errors_of(
        {
            "metadata": {"name": "p"},
            "spec": {"deadline": {"max": "x"}, "classes": {"batch": {"deadline": {}}}},
        }
    )
    assert list(errors) == ["spec.deadline.max"]


@pytest.mark.parametrize(
    ("window", "local", "is_open"),
    [
        pytest.param({"from": "08:00", "to": "18:00"}, "2026-02-02T08:00", True, id="the start is inside"),
        pytest.param({"from": "08:00", "to": "18:00"}, "2026-02-02T18:00", False, id="the end is outside"),
        pytest.param(
            {"from": "08:00", "to": "24:00"}, "2026-02-02T23:59", True, id="24:00 is the end of the day"
        ),
        pytest.param({"days": ["Mon"]}, "2026-02-02T00:00", True, id="a day without times is whole"),
        pytest.param({"days": ["Mon"]}, "2026-02-03T00:00", False, id="and ends at midnight"),
        pytest.param(
            {"days": ["Mon"], "from": "22:00", "to": "06:00"}, "2026-02-03T05:59", True, id="a night goes on"
        ),
        pytest.param(
            {"days": ["Mon"], "from": "22:00", "to": "06:00"}, "2026-02-02T05:59", False, id="but not before"
        ),
        pytest.param(
            {"days": ["Sun"], "from": "22:00", "to": "06:00"}, "2026-02-02T01:00", True, id="Sunday's night"
        ),
        pytest.param(
            {"days": ["Mon"], "from": "22:00", "to": "06:00"}, "2026-02-02T12:00", False, id="not at noon"
        ),
    ],
)
def test_act_windows(window: dict[str, Any], local: str, is_open: bool) -> None:
    """A window over midnight belongs to the day it starts on."""
    parsed_window = parsed(actWindow=window).act_window
    assert parsed_window.is_open(datetime.fromisoformat(local)) is is_open


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
PATHS = [
    (key, *rest)
    for key, value in FULL["spec"].items()
    for rest in ([()] + ([(inner,) for inner in value] if isinstance(value, dict) else []))
]


@given(st.sampled_from(PATHS), JSON)
def test_reading_never_raises_anything_else(path: tuple[str, ...], value: Any) -> None:
    """Whatever stands at any place of a policy, it is read or refused with paths."""
    obj = copy.deepcopy(FULL)
    node = obj["spec"]
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    errors: tuple[FieldError, ...] = ()
    try:
        assert parse_policy(obj).name == "full"
    except InvalidError as error:
        errors = error.errors
    assert all(found.path.startswith("spec") and found.message for found in errors)
