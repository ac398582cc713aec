"""The command `gpu-tenure judge`: verdicts for a list of pods, from a Prometheus; it only ever reads."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import Form, Output
from cli.prometheus_flags import Reach, reaches_prometheus

if TYPE_CHECKING:
    from policy.errors import FieldError
    from reaper.criteria import JudgeSettings
    from reaper.dossier import Given, Judged
    from reaper.observation import Observation
    from reaper.pods import GpuPod
    from reaper.prometheus import PrometheusOptions

PREFIX = "GPU_TENURE_JUDGE_"
Pods = Annotated[
    Path | None,
    typer.Option(help="What `kubectl get pods -A -o json` prints; `-` reads it from standard input."),
]
PrometheusUrl = Annotated[
    str, typer.Option(envvar=f"{PREFIX}PROMETHEUS_URL", help="Prometheus, Thanos, Mimir or VictoriaMetrics.")
]
At = Annotated[str | None, typer.Option(help="Judge at this time (RFC 3339) instead of now.", metavar="TIME")]
Policies = Annotated[
    list[Path] | None, typer.Option(help="GPUPolicy files for pods that carry no terms; may be repeated.")
]
Intervals = Annotated[
    list[str] | None,
    typer.Option(help="Scrape interval of an exporter where it cannot be detected.", metavar="dcgm=5m"),
]
Matchers = Annotated[
    list[str] | None,
    typer.Option(
        help="A label that series must carry, if one Prometheus serves several.", metavar="cluster=prod"
    ),
]
History = Annotated[
    str, typer.Option(help="How far back the start of an idle stretch is looked for.", metavar="7d")
]
Resources = Annotated[
    str,
    typer.Option(
        envvar=f"{PREFIX}GPU_RESOURCES", help="Further names of GPU resources, as the chart's; JSON."
    ),
]
SourceFile = Annotated[
    Path | None,
    typer.Option(help="File with further exporters under `sources`, such as the reaper's settings."),
]
NvidiaSmi = Annotated[
    list[Path] | None,
    typer.Option(
        "--nvidia-smi",
        help="A recording of nvidia-smi from a node without any exporter, in the place of pods and"
        " Prometheus; may be repeated, `-` is standard input.",
    ),
]


@reaches_prometheus
def judge(  # noqa: PLR0913, PLR0917  one argument per flag
    pods: Pods = None,
    prometheus_url: PrometheusUrl = "",
    at: At = None,
    policy: Policies = None,
    output: Form = Output.TABLE,
    interval: Intervals = None,
    matcher: Matchers = None,
    history: History = "24h",
    reach: Reach = Reach(),  # noqa: B008 - frozen
    gpu_resources: Resources = "",
    source_file: SourceFile = None,
    nvidia_smi: NvidiaSmi = None,
) -> None:
    """Say of every GPU pod whether it is idle, and how that is known. It never acts.

    `kubectl get pods -A -o json | gpu-tenure judge --pods - --prometheus-url URL`

    Pods that carry terms are judged by them; others by `--policy`, or by the defaults of their class, and
    marked `assumed`. Exit code 0: judged. 1: Prometheus could not be used, all verdicts are Unknown. 2: bad
    input.

    For a node without any exporter record its cards for some hours, then judge them; cards, not pods:

    `nvidia-smi --query-gpu=timestamp,uuid,name,utilization.gpu,memory.used --format=csv -l 15 > NODE.csv`

    `gpu-tenure judge --nvidia-smi NODE.csv`
    """
    from cli import judge_input
    from policy.errors import InvalidError

    errors: list[FieldError] = []
    if nvidia_smi:
        _report(nvidia_smi, pods, prometheus_url, policy or (), output)
        return
    if missing := judge_input.missing({"--pods": pods, "--prometheus-url": prometheus_url}):
        raise InvalidError(missing)
    moment = judge_input.moment(at, errors)
    options = reach.options(prometheus_url, errors)
    sources = judge_input.sources(source_file, errors)
    settings = judge_input.criteria(interval or (), matcher or (), history, sources, errors)
    policies = judge_input.policies(policy or (), errors)
    names = judge_input.table(gpu_resources, errors)
    candidates = judge_input.pods(pods, policies, names, errors) if pods is not None else []
    if errors or options is None or settings is None:
        raise InvalidError(errors)
    observation = asyncio.run(_observe(candidates, options, settings, moment))
    _print(output, candidates, observation, settings)
    for remark in observation.remarks if output is Output.TABLE else ():
        print(f"note: {remark}", file=sys.stderr)
    if not observation.complete:
        said = "; ".join(observation.problems)
        told = said if options.url in said else f"{options.url}: {said}"
        print(f"error: {told}; all verdicts are Unknown", file=sys.stderr)
        sys.exit(1)


def _report(
    recordings: Sequence[Path], pods: Path | None, url: str, policy: Sequence[Path], output: Output
) -> None:
    """Judges cards by recordings; pods and Prometheus have no part in that."""
    from cli import judge_input
    from cli.nvidia_smi import report
    from policy.errors import FieldError, InvalidError
    from reaper.criteria import JudgeSettings

    errors: list[FieldError] = []
    both = {"--pods": pods, "--prometheus-url": url}
    errors += [FieldError(flag, "does not go with --nvidia-smi") for flag, value in both.items() if value]
    policies = judge_input.policies(policy, errors)
    if errors:
        raise InvalidError(errors)
    report(recordings, policies, JudgeSettings(), as_json=output is Output.JSON)


async def _observe(
    pods: Sequence[tuple[GpuPod, Given]], options: PrometheusOptions, settings: JudgeSettings, at: datetime
) -> Observation:
    from reaper.dossier import skip_of
    from reaper.observation import observe_terms
    from reaper.prometheus import HttpPrometheus
    from runtime.clock import SystemClock

    terms = [given.terms for pod, given in pods if skip_of(pod, given.terms) is None]
    adapter = HttpPrometheus(options, SystemClock().monotonic)
    try:
        return await observe_terms(adapter, terms, at, settings)
    finally:
        adapter.close()


def _print(
    output: Output, pods: Sequence[tuple[GpuPod, Given]], observation: Observation, settings: JudgeSettings
) -> None:
    from reaper.dossier import document, judge_all

    judged: list[Judged] = judge_all(pods, observation, settings)
    if output is Output.JSON:
        print(json.dumps([document(one) for one in judged], indent=2))
        return
    from cli.printing import show
    from cli.verdict_table import verdict_table

    show(lambda width: verdict_table(judged, observation, width))
