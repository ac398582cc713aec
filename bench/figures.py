"""From samples of interleaved rounds to medians, ratios and verdicts on targets; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

import msgspec

OURS = "gpu-tenure"
CONTROLLER_RUNTIME = "controller-runtime"
PLAIN = "plain net/http"
SERVERS = (OURS, CONTROLLER_RUNTIME, PLAIN)
MEMORY_LIMIT_BYTES = 80_000_000
LARGE_LIMIT_SECONDS = 0.015
"""How long a review of the large workload may take, one at a time."""


class Sample(msgspec.Struct, frozen=True, rename="camel"):
    """What the load generator measured of one server in one round."""

    reviews: int
    seconds: float
    server_cpu_seconds: float = msgspec.field(name="serverCPUSeconds")
    load_cpu_seconds: float = msgspec.field(name="loadCPUSeconds")
    p50_seconds: float
    p99_seconds: float


class Figures(msgspec.Struct, frozen=True, rename="camel"):
    """One server under one workload: medians over the rounds.

    `load_share` is the part of its core that the load generator needed, at most in any round: near 1, it and
    not the server was the limit. `memory_bytes` is what was resident when the rounds were over.
    """

    server: str
    workload: str
    reviews_per_second: float
    cpu_seconds_per_review: float = msgspec.field(name="cpuSecondsPerReview")
    p50_seconds: float
    p99_seconds: float
    load_share: float
    memory_bytes: int
    rounds: int


class Ratio(msgspec.Struct, frozen=True, rename="camel"):
    """How many times cheaper and faster ours is than a comparator: medians of the ratios within each round.

    `per_core` compares CPU per review (what a core can do), `per_second` the reviews per second as seen.
    """

    comparator: str
    workload: str
    per_core: float
    per_second: float
    target: float | None = None

    @property
    def reached(self) -> bool | None:
        """Whether the target for a core is reached; None if there is none for this workload."""
        return None if self.target is None else self.per_core >= self.target


TARGETS: Mapping[str, float] = {CONTROLLER_RUNTIME: 10.0, PLAIN: 1.5}


def summarize(server: str, workload: str, samples: Sequence[Sample], memory_bytes: int) -> Figures:
    """Gives the medians of one server's rounds."""
    return Figures(
        server,
        workload,
        median(sample.reviews / sample.seconds for sample in samples),
        median(cpu_per_review(sample) for sample in samples),
        median(sample.p50_seconds for sample in samples),
        median(sample.p99_seconds for sample in samples),
        max(sample.load_cpu_seconds / sample.seconds for sample in samples),
        memory_bytes,
        len(samples),
    )


def compare(
    comparator: str, workload: str, ours: Sequence[Sample], theirs: Sequence[Sample], target: float | None
) -> Ratio:
    """Compares round by round, so that what slows the machine down for a while slows both."""
    pairs = list(zip(ours, theirs, strict=True))
    return Ratio(
        comparator,
        workload,
        median(cpu_per_review(other) / cpu_per_review(own) for own, other in pairs),
        median((own.reviews / own.seconds) / (other.reviews / other.seconds) for own, other in pairs),
        target,
    )


def cpu_per_review(sample: Sample) -> float:
    """Gives the user and system seconds that the server spent on one review."""
    return sample.server_cpu_seconds / sample.reviews
