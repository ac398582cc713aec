"""The command line of the benchmark: bounds, failures."""

import pytest

from bench import __main__ as command
from bench.admission import CoresError
from bench.rounds import Plan


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["--rounds", "0"], id="no rounds measure nothing"),
        pytest.param(["--rounds", "16"], id="too many rounds take too long"),
        pytest.param(["--seconds", "nan"], id="seconds must be a number that compares"),
        pytest.param(["--seconds", "60"], id="a round is short"),
        pytest.param(["--connections", "two"], id="connections are a number"),
    ],
)
def test_flags_out_of_bounds_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Bad input ends with code 2 and says what is allowed."""
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    assert ended.value.code == 2
    assert "must be a number from" in capsys.readouterr().err


def test_what_cannot_be_measured_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No traceback for what an ordinary machine may lack."""

    def run(plan: Plan, *_: object) -> None:
        assert plan == Plan(rounds=2)
        raise CoresError("two cores are needed")

    monkeypatch.setattr(command, "run", run)
    assert command.main(["admission", "--rounds", "2"]) == 1
    assert capsys.readouterr().err == "error: two cores are needed\n"


def test_an_interrupted_run_ends_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C has the exit code that shells expect."""

    def run(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run", run)
    assert command.main([]) == 130
