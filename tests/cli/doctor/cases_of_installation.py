"""What can be wrong with an installation: facts, check, level, and words of its todo."""

from __future__ import annotations

from cli.doctor.facts import Seen
from reaper.pause import Pause
from tests.cli.doctor.healthy import (
    absent,
    busy,
    component,
    configuration,
    definition,
    healthy,
    lease,
    with_metrics,
    with_switches,
)
from tests.cli.doctor.wrong import (
    CRON,
    ERROR,
    FORBIDDEN,
    INFO,
    MISSING,
    UNKNOWN,
    WARNING,
    Case,
    others,
)

OF_THE_INSTALLATION: list[Case] = [
    ("nothing is installed", absent(), "installation.present", ERROR, "helm upgrade --install"),
    ("a right is missing", healthy(rights={"reaper": Seen(MISSING)}), "rights.reaper", ERROR, "helm upgrade"),
    (
        "rights may not be asked for",
        healthy(rights={"webhook": FORBIDDEN}),
        "rights.asking",
        UNKNOWN,
        "subject",
    ),
    ("things may not be read", healthy(nodes=FORBIDDEN, pods=FORBIDDEN), "sight.rights", UNKNOWN, "view"),
    ("no answer", healthy(nodes=Seen(hidden="no answer: x")), "sight.answers", UNKNOWN, "again"),
    ("Kubernetes is too old", healthy(git_version="v1.28.1"), "installation.kubernetes", ERROR, "install.md"),
    ("Kubernetes is untested", healthy(git_version="v1.32.1"), "installation.kubernetes", INFO, "install.md"),
    (
        "definitions are missing",
        healthy(definitions=Seen(())),
        "installation.definitions",
        ERROR,
        "install.yaml",
    ),
    (
        "a definition is not established",
        healthy(definitions=Seen((definition("gpupolicies", established=False), definition("gpureclaims")))),
        "installation.definitions",
        ERROR,
        "helm upgrade",
    ),
    (
        "a definition of another version",
        healthy(
            definitions=Seen(tuple(definition(one, version="1.0") for one in ("gpupolicies", "gpureclaims")))
        ),
        "installation.schemas",
        WARNING,
        "of that version",
    ),
    (
        "a component of another version",
        healthy(deployments=others(component("quota", version="1.0"))),
        "installation.quota-version",
        WARNING,
        "of that version",
    ),
    (
        "the reaper is missing",
        healthy(deployments=others("reaper")),
        "installation.reaper",
        ERROR,
        "helm upgrade",
    ),
    (
        "the webhook runs elsewhere",
        healthy(
            deployments=others("webhook"),
            mutating=Seen(configuration(("mutate.gpu-tenure.io", "Ignore"), url="https://w")),
            validating=Seen(configuration(("validate.gpu-tenure.io", "Ignore"), url="https://w")),
        ),
        "installation.webhook",
        INFO,
        "runs where",
    ),
    (
        "no replica is ready",
        healthy(deployments=others(component("webhook", 0))),
        "installation.webhook",
        ERROR,
        "describe deployment",
    ),
    (
        "a replica is not ready",
        healthy(deployments=others(component("reaper", 1))),
        "installation.reaper",
        WARNING,
        "kubectl -n gpu-tenure-system logs",
    ),
    (
        "one replica alone",
        healthy(deployments=others(component("webhook", 1, replicas=1))),
        "installation.webhook",
        INFO,
        "webhook.replicas=2",
    ),
    (
        "a suspended CronJob",
        healthy(deployments=others("reaper"), cron_jobs=Seen((component("reaper", suspend=True, **CRON),))),
        "installation.reaper",
        WARNING,
        '"suspend":false',
    ),
    (
        "nobody leads",
        healthy(leases=Seen((lease("quota"), lease("certs")))),
        "installation.reaper-lease",
        WARNING,
        "kubectl -n gpu-tenure-system get lease",
    ),
    (
        "a leader that is late",
        healthy(leases=Seen((lease("reaper", age=600), lease("quota"), lease("certs")))),
        "installation.reaper-lease",
        ERROR,
        "look at the logs",
    ),
    ("no switches", healthy(switches=Seen()), "installation.switches", WARNING, "helm upgrade"),
    ("a dry run", with_switches(dry_run=True), "installation.switches", INFO, "reaper.dryRun=false"),
    ("wrong settings", healthy(settings_problem="x: y"), "installation.settings", ERROR, "reaper.env"),
    (
        "paused",
        healthy(pause=Seen(Pause(paused=True, reason="why"))),
        "installation.pause",
        WARNING,
        "unpause",
    ),
    ("no pause switch", healthy(pause=Seen()), "installation.pause", WARNING, "unpause"),
    ("the brake", with_metrics(busy(), brake=True), "installation.brake", WARNING, "unpause --brake"),
]
