"""How long-running commands end, whatever they run."""

from __future__ import annotations

from asyncio import Event

import pytest

from cli.running import FAILED, identity_of, run_component
from policy.errors import InvalidError
from runtime.kube import ApiError, ApiUnreachable
from runtime.kubeconfig import KubeConfigError
from runtime.lifecycle import PartFailed


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(PartFailed("cache", "ended by itself"), id="a part that fell"),
        pytest.param(OSError(98, "Address already in use"), id="a port that is taken"),
        pytest.param(TimeoutError("lists not read in time"), id="time that ran out"),
        pytest.param(ApiError(403, "Forbidden"), id="an API server that refuses"),
        pytest.param(ApiUnreachable("/api"), id="an API server that is away"),
    ],
)
def test_what_fails_while_it_runs_says_so(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    """One line without a traceback, and a code that is not that of bad input."""

    async def main(_: Event) -> None:
        raise error

    assert run_component("webhook", main) == FAILED == 1
    (line,) = [one for one in capsys.readouterr().err.splitlines() if one.startswith("error: ")]
    assert line == f"error: webhook: {error}"


@pytest.mark.parametrize(
    ("returned", "code"),
    [(None, 0), (0, 0), (1, 1)],
    ids=["a loop that was stopped", "a cycle that saw everything", "a cycle that held"],
)
def test_what_ends_by_itself_says_how(returned: int | None, code: int) -> None:
    """A single cycle tells whether it saw everything."""

    async def main(_: Event) -> int | None:
        return returned

    assert run_component("reaper", main) == code


def test_a_kubeconfig_that_cannot_be_used_is_bad_input() -> None:
    """It is told with its flag, as all wrong settings are."""

    async def main(_: Event) -> None:
        raise KubeConfigError("no such file")

    with pytest.raises(InvalidError, match="--kubeconfig: no such file"):
        run_component("quota", main)


def test_replicas_that_chose_no_name_have_different_ones() -> None:
    """On one host too; a name that was chosen is taken as it is."""
    assert identity_of("rack-4") == "rack-4"
    assert len({identity_of(None), identity_of(None), identity_of("")}) == 3
