"""Plays the Services of pods that run as processes: a balancer per port; knows no Kubernetes API."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from sandbox.balancer import Backend, Balancer
from sandbox.kubelet.pods import Pod, ServicePort

Backends = tuple[Backend, ...]
# The port of a container that has its metrics.
METRICS = "ops"
# Running pods, each with what the ports of its container are on this machine.
Here = Sequence[tuple[Pod, Mapping[str, Backend]]]


class Network:
    """Where the address of a Service leads on this machine."""

    def __init__(self, free_port: Callable[[], int]) -> None:
        self._free_port = free_port
        self._balancers: dict[tuple[str, int], Balancer] = {}
        self._shown: dict[tuple[str, int], Backends] = {}
        self._routes: Mapping[tuple[str, int], int] = {}

    def port_of(self, service: str, port: int) -> int:
        """Gives the loopback port of a Service's port; the Service may come later."""
        key = service, port
        if key not in self._balancers:
            self._balancers[key] = Balancer(self._free_port())
        return self._balancers[key].port

    def route(self, address: str, port: int) -> int | None:
        """Gives the loopback port that a cluster IP and its port lead to; None if it is none of ours."""
        return self._routes.get((address, port))

    def update(self, services: Sequence[ServicePort], pods: Here) -> None:
        """Takes the Services and the running pods as they are now."""
        self._routes = {(one.address, one.port): self.port_of(one.service, one.port) for one in services}
        wanted = {(one.service, one.port): backends(one, pods) for one in services}
        for key, balancer in self._balancers.items():
            behind = wanted.get(key, ())
            if self._shown.get(key, ()) != behind:
                balancer.set_backends(behind, wait_ready=0)
                self._shown[key] = behind

    def close(self) -> None:
        """Ends all balancers."""
        for balancer in self._balancers.values():
            balancer.close()


def backends(service: ServicePort, pods: Here) -> Backends:
    """Gives the running pods behind a Service's port; the balancer finds out who is ready."""
    return tuple(here[name] for pod, here in pods if (name := service.reaches(pod)) and name in here)


def targets(namespace: str, pods: Here) -> str:
    """Writes for Prometheus where the metrics of running pods are, with the ServiceMonitor's labels."""
    found = [
        {
            "targets": [f"{here[METRICS].host}:{here[METRICS].port}"],
            "labels": {
                "job": f"gpu-tenure-{pod.container}",
                "namespace": namespace,
                "pod": pod.name,
                "container": pod.container,
                "endpoint": METRICS,
            },
        }
        for pod, here in pods
        if METRICS in here
    ]
    return json.dumps(found)
