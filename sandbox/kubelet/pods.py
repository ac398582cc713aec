"""What the kubelet has to know of a Pod or a Service, read from its JSON: pure; decides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.commands import Command, container_command


@dataclass(frozen=True)
class Probe:
    """Where a container says that it is ready: the name of a port, and a path."""

    port: str
    path: str


@dataclass(frozen=True)
class Pod:
    """A pod of one container.

    Attributes:
        uid: What tells it from others of the same name.
        name: Its name.
        labels: What Services select it by.
        account: The ServiceAccount that it runs as.
        container: The name of its container.
        image: The image, which is reported and nothing else.
        command: How the container runs.
        ports: The names of its ports with their numbers in the pod.
        probe: Where it says that it is ready; None is always.
        secrets: The Secrets that it mounts, by the path in the container.
        restarts: Which ends have the container started again: Always, OnFailure or Never.
        grace_seconds: How long it may take to end.
        phase: The phase that is reported.
        scheduled: Whether it has a node.
        deleting: Whether it was asked to end.
    """

    uid: str
    name: str
    labels: Mapping[str, str]
    account: str
    container: str
    image: str
    command: Command
    ports: Mapping[str, int]
    probe: Probe | None
    secrets: Mapping[str, str]
    restarts: str
    grace_seconds: float
    phase: str
    scheduled: bool
    deleting: bool

    @property
    def finished(self) -> bool:
        """Says whether it ended for good."""
        return self.phase in {"Succeeded", "Failed"}


@dataclass(frozen=True)
class ServicePort:
    """One port of a Service: where it is called, and whom that reaches.

    Attributes:
        service: The name of the Service.
        address: Its cluster IP.
        port: The port at this address.
        selector: The labels of the pods behind it.
        target: The name or the number of their port.
    """

    service: str
    address: str
    port: int
    selector: Mapping[str, str]
    target: str

    def reaches(self, pod: Pod) -> str | None:
        """Gives the name of the pod's port that this leads to; None if the pod is not behind it."""
        if pod.deleting or not self.selector.items() <= pod.labels.items():
            return None
        return next((name for name, port in pod.ports.items() if self.target in {name, str(port)}), None)


def read_pod(obj: Mapping[str, Any]) -> Pod:
    """Reads a Pod as the API server gives it."""
    meta, spec = obj["metadata"], obj["spec"]
    container = spec["containers"][0]
    return Pod(
        uid=meta["uid"],
        name=meta["name"],
        labels=meta.get("labels") or {},
        account=spec.get("serviceAccountName", "default"),
        container=container["name"],
        image=container["image"],
        command=container_command(container, meta["namespace"], meta["name"]),
        ports={one["name"]: one["containerPort"] for one in container.get("ports") or [] if "name" in one},
        probe=_probe(container.get("readinessProbe") or {}),
        secrets=_secrets(spec, container),
        restarts=spec.get("restartPolicy", "Always"),
        grace_seconds=float(spec.get("terminationGracePeriodSeconds", 30)),
        phase=obj.get("status", {}).get("phase", "Pending"),
        scheduled=bool(spec.get("nodeName")),
        deleting="deletionTimestamp" in meta,
    )


def read_service(obj: Mapping[str, Any]) -> list[ServicePort]:
    """Reads the ports of a Service; one without a cluster IP or a selector has none."""
    spec = obj["spec"]
    address, selector = spec.get("clusterIP", "None"), spec.get("selector") or {}
    if address in {"", "None"} or not selector:
        return []
    name = obj["metadata"]["name"]
    return [
        ServicePort(name, address, one["port"], selector, str(one.get("targetPort", one["port"])))
        for one in spec["ports"]
    ]


def with_files(command: Command, folders: Mapping[str, str]) -> Command:
    """Puts the folders of this machine in the place of the paths at which volumes are mounted."""

    def here(value: str) -> str:
        for path, folder in folders.items():
            if value.startswith(f"{path.rstrip('/')}/"):
                return folder + value[len(path.rstrip("/")) :]
        return value

    return command.changed(here)


def with_addresses(command: Command, addresses: Mapping[str, str]) -> Command:
    """Puts addresses of this machine in the place of names that only a cluster's DNS would know."""

    def here(value: str) -> str:
        for name, address in addresses.items():
            value = value.replace(name, address)
        return value

    return command.changed(here)


def _probe(probe: Mapping[str, Any]) -> Probe | None:
    get = probe.get("httpGet")
    return Probe(str(get["port"]), get["path"]) if get else None


def _secrets(spec: Mapping[str, Any], container: Mapping[str, Any]) -> dict[str, str]:
    named = {
        volume["name"]: volume["secret"]["secretName"]
        for volume in spec.get("volumes") or []
        if "secret" in volume
    }
    mounts = container.get("volumeMounts") or []
    return {one["mountPath"]: named[one["name"]] for one in mounts if one["name"] in named}
