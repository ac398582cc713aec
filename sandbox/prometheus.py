"""Writes the configuration of Prometheus and Alertmanager; does not know what is scraped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml


@dataclass(frozen=True)
class ScrapeJob:
    """One scrape job, with one target or those of a file.

    Attributes:
        name: The value of the label `job`.
        target: Host and port.
        path: The path of the metrics.
        honor_labels: Whether labels of the exporter win over those of the target.
        labels: Labels of the target, as service discovery would set them.
        interval_seconds: The scrape interval; None takes the global one.
        drop_labels: Labels that are dropped from every series, after those of the target are there.
        targets_file: A file with the targets, which Prometheus watches, in the place of `target`.
    """

    name: str
    target: str
    path: str = "/metrics"
    honor_labels: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    interval_seconds: float | None = None
    drop_labels: tuple[str, ...] = ()
    targets_file: str = ""

    def target_labels(self) -> dict[str, str]:
        """The labels that a scrape adds to every series."""
        return {"job": self.name, "instance": self.target, **self.labels}


def scraped_labels(job: ScrapeJob, labels: Mapping[str, str]) -> dict[str, str]:
    """Gives the labels that a series has after a scrape; conflicts are solved as Prometheus does."""
    target = job.target_labels()
    if job.honor_labels:
        return {**target, **labels}
    return {**{f"exported_{key}" if key in target else key: value for key, value in labels.items()}, **target}


def prometheus_config(
    jobs: Sequence[ScrapeJob],
    interval_seconds: float,
    rule_files: Sequence[str] = (),
    alertmanager: str = "",
) -> str:
    """Writes prometheus.yml; `alertmanager` is host and port, empty for none."""
    interval = duration(interval_seconds)
    config: dict[str, Any] = {
        "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
        "rule_files": list(rule_files),
        "scrape_configs": [_job(job) for job in jobs],
    }
    if alertmanager:
        config["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]}
    return yaml.safe_dump(config, sort_keys=False)


def alertmanager_config(webhook_url: str = "") -> str:
    """Writes alertmanager.yml: everything goes to one webhook, or nowhere."""
    receiver: dict[str, Any] = {"name": "default"}
    if webhook_url:
        receiver["webhook_configs"] = [{"url": webhook_url, "send_resolved": True}]
    route = {"receiver": "default", "group_wait": "1s", "group_interval": "1s", "repeat_interval": "1h"}
    return yaml.safe_dump({"route": route, "receivers": [receiver]}, sort_keys=False)


def duration(seconds: float) -> str:
    """Writes a duration as Prometheus reads it, exact to the millisecond."""
    return f"{round(seconds * 1000)}ms"


def _job(job: ScrapeJob) -> dict[str, Any]:
    config: dict[str, Any] = {
        "job_name": job.name,
        "metrics_path": job.path,
        "honor_labels": job.honor_labels,
    }
    if job.targets_file:
        config["file_sd_configs"] = [{"files": [job.targets_file]}]
    else:
        config["static_configs"] = [{"targets": [job.target], "labels": dict(job.labels)}]
    if job.interval_seconds is not None:
        config["scrape_interval"] = config["scrape_timeout"] = duration(job.interval_seconds)
    if job.drop_labels:
        config["metric_relabel_configs"] = [{"action": "labeldrop", "regex": "|".join(job.drop_labels)}]
    return config
