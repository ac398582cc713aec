"""All metrics of the certificates, none named after a key or a secret; must not know how they are made."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

from certs.bundle import Bundle
from certs.configurations import Trust

NOT_AFTER = Gauge(
    "gpu_tenure_certs_not_after_timestamp_seconds",
    "When a certificate ends, as a Unix time: that of the CA that signs, and that which the webhook serves.",
    ["certificate"],
)
TRUSTED_NOT_AFTER = Gauge(
    "gpu_tenure_certs_trusted_not_after_timestamp_seconds",
    "When the last CA that a webhook of a configuration trusts ends; 0 if it trusts none.",
    ["configuration", "webhook"],
)
AUTHORITIES = Gauge("gpu_tenure_certs_authorities", "CAs that are trusted; more than one in a rotation.")
STEPS = Counter(
    "gpu_tenure_certs_steps_total",
    "Steps taken, by step and by whether it was urgent: nobody could connect until then.",
    ["step", "urgent"],
)
FAILURES = Counter("gpu_tenure_certs_failed_rounds_total", "Rounds that the API server did not let end.")
PROBE = Gauge(
    "gpu_tenure_certs_probe_success",
    "Whether the webhook's Service could be dialled with what the configurations trust (1 or 0).",
)
SERVED_NOT_AFTER = Gauge(
    "gpu_tenure_certs_served_not_after_timestamp_seconds",
    "When the certificate ends that the webhook showed to the probe.",
)
CANARY_SUCCESS = Gauge(
    "gpu_tenure_certs_canary_success",
    "Whether the last GPU pod that was tried as a dry run got its terms (1 or 0).",
)
CANARY_SECONDS = Gauge(
    "gpu_tenure_certs_canary_duration_seconds", "How long the API server took over that pod."
)


def show(bundle: Bundle, trusts: tuple[Trust, ...]) -> None:
    """Shows what a round ended with."""
    pairs = {"ca": bundle.signer_certificate, "leaf": bundle.leaf_certificate}
    for name, certificate in pairs.items():
        NOT_AFTER.labels(name).set(certificate.not_after.timestamp() if certificate else 0)
    AUTHORITIES.set(len(bundle.authorities))
    TRUSTED_NOT_AFTER.clear()
    for trust in trusts:
        ends = [one.not_after.timestamp() for one in trust.authorities]
        TRUSTED_NOT_AFTER.labels(trust.configuration, trust.webhook).set(max(ends, default=0))
