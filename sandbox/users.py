"""The users of the sandbox, their tokens and kubeconfigs; grants no rights beyond administration."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

SYSTEM_NAMESPACE = "gpu-tenure-system"
COMPONENTS = ("webhook", "reaper", "quota", "certs")
MASTERS = "system:masters"


@dataclass(frozen=True)
class User:
    """A user as the API server knows it.

    Attributes:
        short: The name used in the sandbox's own interface.
        name: The user name of the API server.
        groups: The groups; `system:authenticated` comes by itself.
        token: The bearer token.
    """

    short: str
    name: str
    groups: tuple[str, ...]
    token: str


def make_users(rng: random.Random) -> dict[str, User]:
    """Makes all users with fresh tokens, by their short names."""
    service_accounts = ("system:serviceaccounts", f"system:serviceaccounts:{SYSTEM_NAMESPACE}")
    known: list[tuple[str, str, tuple[str, ...]]] = [
        ("admin", "admin", (MASTERS,)),
        ("dev-a", "dev-a", ("developers",)),
        ("dev-b", "dev-b", ("developers",)),
        ("controller-manager", "system:kube-controller-manager", ()),
        ("scheduler", "system:kube-scheduler", ()),
        ("kwok", "kwok", (MASTERS,)),
        ("exporter", "exporter", (MASTERS,)),
    ]
    for component in COMPONENTS:
        account = f"system:serviceaccount:{SYSTEM_NAMESPACE}:gpu-tenure-{component}"
        known.append((component, account, service_accounts))
    return {short: User(short, name, groups, f"{rng.getrandbits(128):032x}") for short, name, groups in known}


def token_file(users: Sequence[User]) -> str:
    """Writes the API server's static token file."""
    out = io.StringIO()
    rows = csv.writer(out)
    for user in users:
        rows.writerow([user.token, user.name, f"uid-{user.short}", ",".join(user.groups)])
    return out.getvalue()


def kubeconfig(user: User, server: str, ca: Path) -> str:
    """Writes the kubeconfig of one user."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "sandbox",
        "clusters": [{"name": "sandbox", "cluster": {"server": server, "certificate-authority": str(ca)}}],
        "users": [{"name": user.short, "user": {"token": user.token}}],
        "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": user.short}}],
    }
    return yaml.safe_dump(config, sort_keys=False)
