"""What `gpu-tenure explain` tells people beyond the patch: where a policy does not reach, and no more."""

from __future__ import annotations

import pytest

from tests.cli.conftest import POLICY, Run, pod

SELECTIVE = f"{POLICY}  namespaceSelector: {{matchLabels: {{team: vision}}}}\n"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        pytest.param((), "with no labels; give them with --namespace-labels", id="no labels were given"),
        pytest.param(("--namespace-labels", "a=b"), "with labels a=b", id="other labels were given"),
    ],
)
def test_a_policy_that_selects_nothing_is_explained(run: Run, flags: tuple[str, ...], said: str) -> None:
    """Whoever tries a policy out must not wonder why the built-in one applied."""
    answer = run(pod(), policy=SELECTIVE, flags=flags).json
    assert answer["policy"] == "built-in"
    assert answer["reasons"][-1] == f"no given policy selects namespace default {said}"


@pytest.mark.parametrize(
    ("policy", "flags"),
    [
        pytest.param(SELECTIVE, ("--namespace-labels", "team=vision"), id="the policy applies"),
        pytest.param(None, (), id="no policy was given"),
    ],
)
def test_nothing_is_said_of_selection_where_nothing_is_odd(
    run: Run, policy: str | None, flags: tuple[str, ...]
) -> None:
    """The built-in policy without another is what was asked for."""
    assert not any("selects" in reason for reason in run(pod(), policy=policy, flags=flags).json["reasons"])


def test_an_excluded_namespace_is_said_once_and_nothing_else(run: Run) -> None:
    """Devices of a pod that was not looked at are not unreadable."""
    text = run(pod(), flags=("--namespace", "kube-system"), output="text").out
    assert text.count("The namespace is excluded by configuration.") == 1
    assert "devices" not in text
