"""The command `python -m bench`: reads its flags, runs the benchmark and prints it; measures nothing."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec
from rich.console import Console

from bench import admission, programs
from bench.admission import CoresError, run
from bench.cycle import measure_cycle
from bench.fleet import FleetError
from bench.gate import DisagreementError
from bench.judging import measure_judging
from bench.report import Run, as_json, show
from bench.rounds import LoadError, Plan
from bench.watching import measure_watching
from sandbox import binaries
from sandbox.children import ChildError
from sandbox.toolchain import ToolchainError

FAILURES = (
    binaries.BuildError,
    programs.BuildError,
    ToolchainError,
    ChildError,
    CoresError,
    DisagreementError,
    LoadError,
    FleetError,
    subprocess.SubprocessError,
    TimeoutError,
)
MEASURES = {"watch": measure_watching, "judge": measure_judging, "cycle": measure_cycle}
PARTS = (*admission.PARTS, *MEASURES)
INTERRUPTED = 130
Number = TypeVar("Number", int, float)


def main(arguments: Sequence[str]) -> int:
    """Runs the benchmark; 0 if it could be measured, whatever the figures, 1 if not, 130 on Ctrl-C."""
    options = _parser().parse_args(arguments)
    plan = Plan(options.rounds, options.seconds, options.connections)
    parts = list(dict.fromkeys(options.parts)) or list(PARTS)
    try:
        webhook = [part for part in parts if part not in MEASURES]
        found = run(plan, _say, webhook) if webhook else Run(plan)
        others = {part: MEASURES[part](_say) for part in parts if part in MEASURES}
        found = msgspec.structs.replace(found, parts=others)
    except FAILURES as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    if options.output == "json":
        print(as_json(found))
    else:
        show(found, Console(width=None if sys.stdout.isatty() else 110))
    return 0


def _say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="The webhook beside two Go webhooks that do the same, and the reaper on a large cluster.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    plan = Plan()
    add = parser.add_argument
    add("parts", nargs="*", type=_part, help=f"what to measure, of {', '.join(PARTS)}; all by default")
    add("--rounds", type=_within(int, 1, 15), default=plan.rounds, help="interleaved rounds, 1 to 15")
    add("--seconds", type=_within(float, 0.2, 5), default=plan.seconds, help="per server and round, to 5")
    add("--connections", type=_within(int, 1, 64), default=plan.connections, help="kept open, 1 to 64")
    add("--output", choices=("table", "json"), default="table", help="how the result is printed")
    return parser


def _part(text: str) -> str:
    if text not in PARTS:
        msg = f"must be one of {', '.join(PARTS)}"
        raise argparse.ArgumentTypeError(msg)
    return text


def _within(kind: Callable[[str], Number], least: float, most: float) -> Callable[[str], Number]:
    """Gives a reader of a flag's value that refuses what is out of bounds."""

    def read(text: str) -> Number:
        msg = f"must be a number from {least:g} to {most:g}"
        try:
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(msg) from None
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(msg)
        return value

    return read


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
