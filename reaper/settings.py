"""Every setting of the reaper, documented field by field; must not know where values come from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Self

import msgspec
from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from policy import defaults
from policy.classes import DEFAULT_TRUSTED_CONTROLLERS
from policy.keys import DEFAULT_EXCLUDED_NAMESPACES, OWN_NAMESPACE
from policy.profile import Profile
from policy.resources import ResourceTable
from reaper.acting_settings import ActingSettings, Count, Span, Wait
from reaper.alert_settings import AlertSettings
from reaper.clocks import EARLY_SECONDS, TOLERANCE_SECONDS
from reaper.criteria import JudgeSettings
from reaper.logs import check_template
from reaper.prometheus import PrometheusOptions
from reaper.source_rows import parse_sources
from runtime.component import (
    Context,
    ExcludedNamespaces,
    Identity,
    InstalledProfile,
    Kubeconfig,
    LeaseNamespace,
    LogFormat,
    LogLevel,
    OpsHost,
    Port,
    ProtectMetrics,
    TrustedControllers,
)
from runtime.gpu_resources import DESCRIPTION, EXAMPLE, ResourceRows, table_of


def _parsed(value: object) -> object:
    """Reads JSON, as flags and variables hold it."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError as error:
        raise ValueError("must be a JSON object") from error


def _checked_sources(rows: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
    """Refuses rows that make no table, where the setting is named."""
    parse_sources(rows)
    return rows


TextMap = Annotated[dict[str, str], BeforeValidator(_parsed)]
NumberMap = Annotated[dict[str, float], BeforeValidator(_parsed)]
SourceRows = Annotated[tuple[dict[str, Any], ...], BeforeValidator(_parsed), AfterValidator(_checked_sources)]
ENV_PREFIX = "GPU_TENURE_REAPER_"
_JUDGE = JudgeSettings()


class ReaperSettings(ActingSettings, AlertSettings):
    """What an administrator may choose."""

    prometheus_url: str = Field(
        description="Base URL of Prometheus, Thanos, Mimir or VictoriaMetrics",
        examples=["http://prometheus:9090"],
    )
    prometheus_timeout: Span = Field(15, description="Limit of one query", examples=["15s"])
    prometheus_concurrency: Count = Field(4, description="Queries at a time", examples=["4"])
    prometheus_bearer_token_file: Path | None = Field(
        None,
        description="File with a token for Prometheus, read anew for each query",
        examples=["/var/run/token"],
    )
    prometheus_username: str = Field("", description="User for basic authentication", examples=["reaper"])
    prometheus_password_file: Path | None = Field(
        None, description="File with that user's password", examples=["/var/run/password"]
    )
    prometheus_ca_file: Path | None = Field(
        None, description="Certificates to trust for Prometheus", examples=["/etc/ssl/prometheus.pem"]
    )
    prometheus_cert_file: Path | None = Field(
        None, description="Certificate to show to Prometheus", examples=["/etc/ssl/reaper.crt"]
    )
    prometheus_key_file: Path | None = Field(
        None, description="Private key of that certificate", examples=["/etc/ssl/reaper.key"]
    )
    prometheus_headers: TextMap = Field(
        {}, description="Further headers, as JSON", examples=['{"X-Scope-OrgID": "gpu"}']
    )
    matchers: TextMap = Field(
        {}, description="Labels that every series must carry, as JSON", examples=['{"cluster": "a"}']
    )
    scrape_intervals: NumberMap = Field(
        {},
        description="Scrape interval in seconds by source, where the data do not tell",
        examples=['{"dcgm": 15}'],
    )
    sources: SourceRows = Field(
        (),
        description="Further exporters, and changes to built-in ones (docs/sources.md), as JSON",
        examples=['[{"name": "amd", "like": "amd", "metricPrefix": "lab_"}]'],
    )
    coverage: float = Field(
        defaults.COVERAGE,
        ge=0.5,
        le=1,
        description="Share of a window's samples that a verdict needs",
        examples=["0.9"],
    )
    fresh_scrapes: Count = Field(
        defaults.FRESH_SCRAPES, description="The last sample may be this many scrapes old", examples=["3"]
    )
    fresh: Span = Field(
        defaults.FRESH_SECONDS, description="… or this old, if that is more", examples=["90s"]
    )
    history: Wait = Field(
        86_400, description="How far back the start of an idle stretch is looked for", examples=["24h"]
    )
    observe_limit: Span = Field(
        45, description="Limit of all queries of one cycle together", examples=["45s"]
    )
    windows: Count = Field(_JUDGE.windows, description="Windows asked for in one cycle", examples=["12"])
    points: Count = Field(
        _JUDGE.points, description="The most points that one query may make", examples=["40000000"]
    )
    rest_watts: Count = Field(
        round(_JUDGE.rest_watts), description="Above this power an AMD device is not at rest", examples=["90"]
    )
    parked_bytes: Count = Field(
        _JUDGE.parked_bytes,
        description="An idle pod with this much memory per device is called parked",
        examples=["524288000"],
    )
    clock_tolerance: Span = Field(
        TOLERANCE_SECONDS,
        description="How far the clocks of Prometheus and the API server may differ from ours",
        examples=["60s"],
    )
    early_start: Wait = Field(
        EARLY_SECONDS,
        description="How long before its pod's creation a container may claim to have started",
        examples=["5m"],
    )
    profile: InstalledProfile = Profile.OBSERVE
    dry_run: bool = Field(
        True,
        description="Plan and report, but write nothing; evictions are tried on the server without effect",
    )
    kubeconfig: Kubeconfig = None
    context: Context = None
    ops_host: OpsHost = "0.0.0.0"
    ops_port: Port = 9443
    protect_metrics: ProtectMetrics = False
    log_format: LogFormat = "auto"
    log_level: LogLevel = "info"
    lease_namespace: LeaseNamespace = OWN_NAMESPACE
    identity: Identity = None
    excluded_namespaces: ExcludedNamespaces = DEFAULT_EXCLUDED_NAMESPACES
    trusted_controllers: TrustedControllers = DEFAULT_TRUSTED_CONTROLLERS
    gpu_resources: ResourceRows = Field((), description=DESCRIPTION, examples=[EXAMPLE])
    contact: str = Field(
        "", description="Whom to ask, where the policy names nobody", examples=["gpu-help@example.org"]
    )
    logs_url_template: Annotated[str, AfterValidator(lambda value: value and check_template(value))] = Field(
        "",
        description="Address of a pod's logs, which its GPUReclaim keeps; see docs/audit.md for placeholders",
        examples=["https://grafana.example.com/logs?ns={namespace}&pod={pod}"],
    )
    audit_log: str = Field(
        "",
        description="File that all that is done is appended to, as lines of JSON; - is standard output",
        examples=["/var/log/gpu-tenure/audit.jsonl"],
    )

    cycle: Span = Field(defaults.CYCLE_SECONDS, description="Time between two cycles", examples=["60s"])
    quiet: Wait = Field(
        defaults.QUIET_SECONDS,
        description="No warning and no action after a start or leader change",
        examples=["10m"],
    )
    records_kept: Span = Field(
        defaults.RECORDS_KEPT_SECONDS, description="How long a GPUReclaim is kept", examples=["30d"]
    )
    sync_timeout: Span = Field(60, description="How long --once waits for its first lists", examples=["60s"])
    stalled_cycles: Count = Field(
        10, description="Unhealthy when no cycle has ended for this many cycle times", examples=["10"]
    )

    @field_validator("prometheus_url")
    @classmethod
    def _is_url(cls, value: str) -> str:
        PrometheusOptions(value)
        return value.rstrip("/")

    @model_validator(mode="after")
    def _is_judgeable(self) -> Self:
        self.judging()
        self.prometheus()
        return self

    def prometheus(self) -> PrometheusOptions:
        """Gives how to reach Prometheus."""
        return PrometheusOptions(
            url=self.prometheus_url,
            timeout=self.prometheus_timeout,
            concurrency=self.prometheus_concurrency,
            bearer_token_file=self.prometheus_bearer_token_file,
            username=self.prometheus_username,
            password_file=self.prometheus_password_file,
            ca_file=self.prometheus_ca_file,
            cert_file=self.prometheus_cert_file,
            key_file=self.prometheus_key_file,
            headers=self.prometheus_headers,
        )

    def judging(self) -> JudgeSettings:
        """Gives the numbers that judging rests on."""
        return JudgeSettings(
            coverage=self.coverage,
            fresh_scrapes=self.fresh_scrapes,
            fresh_seconds=self.fresh,
            intervals=self.scrape_intervals,
            sources=parse_sources(self.sources),
            history=self.history,
            matchers=self.matchers,
            limit_seconds=self.observe_limit,
            windows=self.windows,
            points=self.points,
            rest_watts=self.rest_watts,
            parked_bytes=self.parked_bytes,
        )

    def table(self) -> ResourceTable:
        """Gives the names of GPU resources."""
        return table_of(self.gpu_resources)
