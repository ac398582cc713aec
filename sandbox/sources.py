"""The exporters that the simulator plays, as data: shape, label names, scrape job; measures nothing."""

from __future__ import annotations

from dataclasses import dataclass

from sandbox.prometheus import ScrapeJob

HONORED = "-honored"


@dataclass(frozen=True)
class Source:
    """One exporter: its name (also its scrape job), its shape, and whether its labels are honored."""

    name: str
    shape: str
    honor_labels: bool
    program: str

    @property
    def path(self) -> str:
        """The path of its metrics on the simulator."""
        return f"/{self.name}/metrics"

    def target_labels(self) -> dict[str, str]:
        """The labels that service discovery gives the target: those of the exporter's own pod."""
        return {"namespace": "gpu-operator", "pod": f"{self.program}-0", "container": self.program}


_SHAPES = {
    "dcgm": "nvidia-dcgm-exporter",
    "hami": "hami-device-plugin",
    "hami-legacy": "hami-device-plugin",
    "amd": "amd-device-metrics-exporter",
}
SOURCES = {
    source.name: source
    for shape, program in _SHAPES.items()
    for source in (Source(shape, shape, False, program), Source(shape + HONORED, shape, True, program))
}


def scrape_jobs(target: str, own: str = "") -> list[ScrapeJob]:
    """Gives one scrape job per exporter, all on one simulator (host and port).

    `own` is a file with further targets, which say of which job they are; empty is none.
    """
    jobs = [
        ScrapeJob(source.name, target, source.path, source.honor_labels, source.target_labels())
        for source in SOURCES.values()
    ]
    return [*jobs, *([ScrapeJob("gpu-tenure", "", targets_file=own)] if own else [])]
