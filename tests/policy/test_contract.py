from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
import yaml

from policy import defaults
from policy.asking import CLASS_ROWS, policy_terms
from policy.classes import PodClass
from policy.defaults import DEFAULTS
from policy.durations import parse_duration
from policy.gpupolicy import parse_policy
from policy.terms import Action, Statistic
from policy.verdicts import REASONS, Reason

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "manifests" / "examples" / "policies").glob("*.yaml"))
MODULES = sorted((ROOT / "policy").glob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_policy_imports_nothing_that_does_io(path: Path) -> None:
    """Only msgspec and the pure part of the standard library are imported, and no clock is read."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    roots = {name.split(".")[0] for name in names}
    assert roots <= set(sys.stdlib_module_names) | {"msgspec", "policy"}
    assert roots.isdisjoint(
        {"asyncio", "socket", "time", "random", "os", "logging", "subprocess", "pathlib", "zoneinfo"}
    )
    called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    calls = {function.attr for function in called if isinstance(function, ast.Attribute)}
    assert calls.isdisjoint({"now", "utcnow", "today"})


def test_every_reason_has_a_sentence() -> None:
    """What logs, Events and metrics name can be explained, in the order of the enum and in CamelCase."""
    assert list(REASONS) == list(Reason)
    assert all(sentence.endswith(".") and "\n" not in sentence for sentence in REASONS.values())
    assert all(reason.isalpha() and reason[0].isupper() for reason in Reason)
    assert len(set(REASONS.values())) == len(REASONS)


def test_the_defaults_table_says_what_the_design_says() -> None:
    """The documented table is made of the constants, and each row has a name of its own."""
    rows = {row.name: row.value for row in DEFAULTS}
    assert len(rows) == len(DEFAULTS)
    assert rows["deadline"] == "7d, at most 14d"
    assert rows["threshold"] == "maximum below 5 %"
    assert rows["interactive"] == "evict after 2h"
    assert rows["serving"] == "warn after 24h"
    assert rows["brake, idle"] == "20%, at least 8, within 15m"
    assert rows["namespace wait"] == "250ms"


@pytest.mark.parametrize(
    "text",
    [
        defaults.INTERACTIVE_AFTER,
        defaults.BATCH_AFTER,
        defaults.SERVING_AFTER,
        defaults.GRACE,
        defaults.WARM_UP,
        defaults.DEADLINE,
        defaults.DEADLINE_MAX,
        defaults.KEEP_UNTIL,
    ],
)
def test_default_durations_are_durations(text: str) -> None:
    """Defaults are written as users write them."""
    assert parse_duration(text).seconds > 0


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.stem} is valid and bears its name")
def test_example_policies_are_valid(path: Path) -> None:
    """Each example is read without an error and only warns about serving pods, by name."""
    policy = parse_policy(yaml.safe_load(path.read_text(encoding="utf-8")))
    assert policy.name == path.stem
    assert policy.classes.serving.action is Action.WARN
    assert policy_terms(policy, PodClass.SERVING).action is Action.WARN
    assert policy_terms(policy, PodClass.BATCH).action is Action.EVICT


def test_the_shipped_policy_has_the_default_terms() -> None:
    """The policy that the chart ships is the defaults table, with a deadline."""
    policy = parse_policy(yaml.safe_load((EXAMPLES[0].parent / "default.yaml").read_text(encoding="utf-8")))
    assert {pod_class: policy_terms(policy, pod_class) for pod_class in PodClass} == CLASS_ROWS
    assert policy.deadline is not None
    assert (str(policy.deadline.default), str(policy.deadline.max)) == (
        defaults.DEADLINE,
        defaults.DEADLINE_MAX,
    )
    assert policy.namespace_selector is None


def test_the_classic_rule() -> None:
    """The average of an hour below 10 %, and less than 500Mi."""
    policy = parse_policy(yaml.safe_load((EXAMPLES[0].parent / "classic.yaml").read_text(encoding="utf-8")))
    terms = policy_terms(policy, PodClass.BATCH)
    assert (str(terms.after), terms.utilization, terms.statistic, str(terms.memory)) == (
        "1h",
        10,
        Statistic.AVERAGE,
        "500Mi",
    )
