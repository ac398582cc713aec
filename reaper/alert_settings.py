"""The settings of alerts, out to Alertmanager and in from it; must not know where values come from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, field_validator, model_validator

from reaper.alertmanager import AlertmanagerOptions
from runtime.settings import Names, Seconds, Settings

LABEL: Final = re.compile(r"([a-zA-Z_][a-zA-Z0-9_]*)=(\S[^,]*)", re.ASCII)
OWN_LABELS: Final = frozenset(
    {
        "action",
        "alertname",
        "left",
        "namespace",
        "origin",
        "owner",
        "owner_kind",
        "owner_name",
        "pod",
        "policy",
        "requester",
        "severity",
        "stage",
    }
)
HELD_CYCLES: Final = 4
"""An alert outlives three cycles that fail, as Prometheus' own alerts do."""

ONCE_SECONDS: Final = 3600
"""The least for --once."""


class AlertSettings(Settings):
    """What an administrator may choose about alerts."""

    alertmanager_urls: Names = Field(
        (),
        description="Base URLs of Alertmanagers that get warnings; of a cluster all of them",
        examples=["http://alertmanager:9093"],
    )
    alertmanager_timeout: Annotated[Seconds, Field(ge=1)] = Field(
        10, description="Limit of one attempt to post alerts", examples=["10s"]
    )
    alertmanager_bearer_token_file: Path | None = Field(
        None,
        description="File with a token for Alertmanager, read anew each time",
        examples=["/var/run/token"],
    )
    alertmanager_username: str = Field("", description="User for basic authentication", examples=["reaper"])
    alertmanager_password_file: Path | None = Field(
        None, description="File with that user's password", examples=["/var/run/password"]
    )
    alertmanager_ca_file: Path | None = Field(
        None, description="Certificates to trust for Alertmanager", examples=["/etc/ssl/alertmanager.pem"]
    )
    alertmanager_cert_file: Path | None = Field(
        None, description="Certificate to show to Alertmanager", examples=["/etc/ssl/reaper.crt"]
    )
    alertmanager_key_file: Path | None = Field(
        None, description="Private key of that certificate", examples=["/etc/ssl/reaper.key"]
    )
    alert_labels: Names = Field(
        (), description="Further labels of every alert, as name=value", examples=["cluster=a,site=north"]
    )
    alert_hold: Annotated[Seconds, Field(ge=1)] = Field(
        300,
        description="How long an alert lasts if it is not posted again, and never less than four cycles;"
        " for --once an hour at least, and more than the time between two runs",
        examples=["5m"],
    )
    receiver_token_file: Path | None = Field(
        None,
        description="File with the token of Alertmanager's webhook; without it POST /alerts does not exist",
        examples=["/var/run/receiver/token"],
    )

    @field_validator("alert_labels")
    @classmethod
    def _are_labels(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for one in value:
            found = LABEL.fullmatch(one)
            if found is None or found.group(1) in OWN_LABELS:
                raise ValueError("must be labels of your own such as cluster=a")
        return value

    @model_validator(mode="after")
    def _are_reachable(self) -> AlertSettings:
        self.alertmanagers()
        return self

    def alertmanagers(self) -> tuple[AlertmanagerOptions, ...]:
        """Gives how to reach each Alertmanager; raises ValueError for what cannot work."""
        return tuple(
            AlertmanagerOptions(
                url=url,
                timeout=self.alertmanager_timeout,
                bearer_token_file=self.alertmanager_bearer_token_file,
                username=self.alertmanager_username,
                password_file=self.alertmanager_password_file,
                ca_file=self.alertmanager_ca_file,
                cert_file=self.alertmanager_cert_file,
                key_file=self.alertmanager_key_file,
                labels=dict(one.split("=", 1) for one in self.alert_labels),
            )
            for url in self.alertmanager_urls
        )

    def hold_seconds(self, cycle_seconds: float, *, once: bool) -> float:
        """Gives how long an alert lasts without being posted again; nobody knows when a next run comes."""
        return max(self.alert_hold, HELD_CYCLES * cycle_seconds, ONCE_SECONDS if once else 0)
