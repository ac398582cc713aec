"""Everything that the checks look at, read once; values only, and what could not be seen says why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final, Generic, TypeVar

import msgspec
from msgspec import Struct

from certs.inspection import Inspection
from cli.doctor.admission_objects import Binding, Configuration, EndpointSlice, Guard
from cli.doctor.objects import Component, Definition, Lease, Named, Node
from policy.objects import Namespace
from policy.profile import Profile
from policy.resourcequota import ResourceQuota
from policy.selection import PolicySet
from reaper.dossier import Judged
from reaper.observation import Observation
from reaper.pause import Pause
from reaper.pods import GpuPod
from reaper.rights import Right
from reaper.settings import ReaperSettings
from reaper.sources import Source
from reaper.switches import Switches
from runtime.quotas import StoredQuota

T = TypeVar("T")


class Seen(Struct, Generic[T], frozen=True):
    """Something that was looked for.

    Attributes:
        value: What there is; None if there is nothing, or it could not be seen.
        hidden: Why it could not be seen; empty if it could.
    """

    value: T | None = None
    hidden: str = ""


NOT_ASKED: Final = "not asked for"


class Canary(Struct, frozen=True):
    """What the API server answered to a GPU pod that was only tried.

    Attributes:
        namespace: Where it was tried.
        status: The HTTP status; 0 if there was no answer.
        message: Why it was refused.
        labels: The labels that it would have.
    """

    namespace: str
    status: int = 0
    message: str = ""
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)


class Family(Struct, frozen=True):
    """Series of one metric in one scrape job that carry the same telling labels."""

    metric: str
    job: str
    labels: frozenset[str]


class MetricFacts(Struct, frozen=True, kw_only=True):
    """What Prometheus says.

    Attributes:
        url: Where it was asked; empty if no address is known.
        given: Whether a person named the address, who then means it to be reachable from here.
        problem: Why it could not be used; empty if it answered in full.
        ahead_seconds: How far its clock is ahead of the API server's; None if it does not say.
        families: Which known metrics exist, within the last hour.
        down: Scrape targets of these metrics that are down, as `job instance`.
        observation: The signals.
        judged: Verdicts on all GPU pods.
        crowded: Devices that several scrapers report, by source.
        recorded: The names of recorded series for long windows.
        brake: Whether the brake holds; None if there is no such metric.
        window: The window in seconds in which exporters were looked at.
    """

    url: str = ""
    given: bool = False
    problem: str = ""
    ahead_seconds: float | None = None
    families: tuple[Family, ...] = ()
    down: tuple[str, ...] = ()
    observation: Observation | None = None
    judged: tuple[Judged, ...] = ()
    crowded: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    recorded: frozenset[str] = frozenset()
    brake: bool | None = None
    window: int = 0


class Facts(Struct, frozen=True, kw_only=True):
    """An installation and its cluster at one moment.

    Attributes:
        at: The time by the API server's clock.
        namespace: Where gpu-tenure is installed.
        version: The version of this program.
        git_version: What the API server calls itself.
        settings: The reaper's settings, from its Deployment; the defaults where there is none.
        settings_problem: Why the reaper's environment cannot be read; empty if it can.
        sources: The exporters that the reaper knows.
        rights: Missing rights, by component.
        endpoints: What stands behind the webhook's Service.
        secrets: Keys of Secrets, by name.
        alertmanagers: Why Alertmanagers cannot be reached, by address; empty if they can.
    """

    at: datetime
    namespace: str
    version: str
    git_version: str
    settings: ReaperSettings
    settings_problem: str = ""
    sources: tuple[Source, ...] = ()
    rights: Mapping[str, Seen[tuple[Right, ...]]] = msgspec.field(default_factory=dict)
    accounts: Seen[tuple[Named, ...]] = Seen(hidden=NOT_ASKED)
    switches: Seen[Switches] = Seen(hidden=NOT_ASKED)
    pause: Seen[Pause] = Seen(hidden=NOT_ASKED)
    definitions: Seen[tuple[Definition, ...]] = Seen(hidden=NOT_ASKED)
    deployments: Seen[tuple[Component, ...]] = Seen(hidden=NOT_ASKED)
    cron_jobs: Seen[tuple[Component, ...]] = Seen(hidden=NOT_ASKED)
    leases: Seen[tuple[Lease, ...]] = Seen(hidden=NOT_ASKED)
    mutating: Seen[Configuration] = Seen(hidden=NOT_ASKED)
    validating: Seen[Configuration] = Seen(hidden=NOT_ASKED)
    endpoints: Seen[tuple[EndpointSlice, ...]] = Seen(hidden=NOT_ASKED)
    canary: Canary = Canary("default")
    certificates: Seen[Inspection] = Seen(hidden=NOT_ASKED)
    guards: Seen[tuple[Guard, ...]] = Seen(hidden=NOT_ASKED)
    bindings: Seen[tuple[Binding, ...]] = Seen(hidden=NOT_ASKED)
    policies: Seen[PolicySet] = Seen(hidden=NOT_ASKED)
    namespaces: Seen[tuple[Namespace, ...]] = Seen(hidden=NOT_ASKED)
    pods: Seen[tuple[GpuPod, ...]] = Seen(hidden=NOT_ASKED)
    nodes: Seen[tuple[Node, ...]] = Seen(hidden=NOT_ASKED)
    priority_classes: Seen[tuple[Named, ...]] = Seen(hidden=NOT_ASKED)
    resource_quotas: Seen[tuple[ResourceQuota, ...]] = Seen(hidden=NOT_ASKED)
    quotas: Seen[tuple[StoredQuota, ...]] = Seen(hidden=NOT_ASKED)
    secrets: Mapping[str, Seen[frozenset[str]]] = msgspec.field(default_factory=dict)
    alertmanagers: Mapping[str, str] = msgspec.field(default_factory=dict)
    metrics: MetricFacts = MetricFacts()

    @property
    def profile(self) -> Profile:
        """How far the installation goes, as far as it can be told."""
        known = self.switches.value.profile if self.switches.value is not None else None
        return known or self.settings.profile

    @property
    def excluded(self) -> tuple[str, ...]:
        """Namespaces that gpu-tenure leaves alone."""
        known = self.switches.value.excluded_namespaces if self.switches.value is not None else None
        return self.settings.excluded_namespaces if known is None else known

    @property
    def upgrade(self) -> str:
        """What installs the chart anew and keeps its values."""
        return f"helm upgrade gpu-tenure manifests/chart -n {self.namespace} --reset-then-reuse-values"

    @property
    def by_service(self) -> bool:
        """Whether the API server reaches the webhook by its Service, so that the chart runs it."""
        found = (one.value for one in (self.mutating, self.validating) if one.value is not None)
        webhooks = [webhook for one in found for webhook in one.webhooks or ()]
        return not webhooks or any(one.client_config.service is not None for one in webhooks)

    def component(self, name: str) -> Component | None:
        """A Deployment or CronJob of ours by the component's name; None if there is none to be seen."""
        known = (*(self.deployments.value or ()), *(self.cron_jobs.value or ()))
        return next((one for one in known if one.name == f"gpu-tenure-{name}"), None)

    def has(self, component: str) -> bool:
        """Whether a component is part of the installation, as far as can be told."""
        if component in {"webhook", "reaper"}:
            return True
        names = {one.name for one in self.accounts.value or ()}
        return f"gpu-tenure-{component}" in names or self.component(component) is not None

    def all_seen(self) -> Iterator[tuple[str, str]]:
        """Gives what each thing is called that was looked for, and why it could not be seen, if so."""
        for name, what in WORDS.items():
            yield what, getattr(self, name).hidden
        for secret, keys in self.secrets.items():
            yield f"Secret {secret}", keys.hidden


WORDS: Final[dict[str, str]] = {
    "accounts": "service accounts of the installation",
    "switches": "profile and switches of the installation",
    "pause": "the pause switch",
    "definitions": "definitions of our kinds",
    "deployments": "Deployments of the installation",
    "cron_jobs": "CronJobs of the installation",
    "leases": "Leases of the installation",
    "mutating": "the mutating webhook configuration",
    "validating": "the validating webhook configuration",
    "endpoints": "endpoints of the webhook",
    "certificates": "certificates of the webhook",
    "guards": "guards (ValidatingAdmissionPolicies)",
    "bindings": "bindings of the guards",
    "policies": "GPUPolicies",
    "namespaces": "namespaces",
    "pods": "pods of all namespaces",
    "nodes": "nodes",
    "priority_classes": "priority classes",
    "resource_quotas": "ResourceQuotas of all namespaces",
    "quotas": "GPUQuotas",
}
"""What people call the facts, by their fields."""
