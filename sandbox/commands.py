"""How a pod template runs `gpu-tenure`, made into a command for this machine: pure; starts nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.ports import LOOPBACK

# The names that the chart gives to ports of containers, and the flags of the commands that listen there.
LISTENERS: Mapping[str, tuple[str, str]] = {
    "https": ("--host", "--port"),
    "ops": ("--ops-host", "--ops-port"),
}
# The annotation started-ago makes pods older than they are, as a node with a wrong clock would.
EARLY_START = "--early-start=365d"


@dataclass(frozen=True)
class Command:
    """How a container is run: arguments of `gpu-tenure`, and environment."""

    args: tuple[str, ...]
    env: Mapping[str, str]

    def changed(self, change: Callable[[str], str]) -> Command:
        """Gives a command with all its values changed alike."""
        env = {name: change(value) for name, value in self.env.items()}
        return Command(tuple(map(change, self.args)), env)

    def argv(self, kubeconfig: Path, *more: str) -> list[str]:
        """Gives the argument list of a process that is who the kubeconfig says."""
        return [sys.executable, "-m", "cli", *self.args, f"--kubeconfig={kubeconfig}", *more]


def container_command(container: Mapping[str, Any], namespace: str, name: str) -> Command:
    """Reads how a container of a pod of this name runs."""
    known = {"metadata.namespace": namespace, "metadata.name": name}
    env = {one["name"]: _value(one, known) for one in container.get("env") or []}
    return Command(tuple(container.get("args") or ()), env)


def listening(port_name: str, port: int) -> tuple[str, str]:
    """Gives the flags that make a command listen on a loopback port."""
    host_flag, port_flag = LISTENERS[port_name]
    return f"{host_flag}={LOOPBACK}", f"{port_flag}={port}"


def _value(entry: Mapping[str, Any], known: Mapping[str, str]) -> str:
    path = entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
    return known[path] if path else str(entry.get("value", ""))
