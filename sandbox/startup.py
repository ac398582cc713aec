"""Brings the parts of a sandbox up in the order in which they need each other; does not decide which."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import requests
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from urllib3.exceptions import InsecureRequestWarning

from sandbox.children import Children
from sandbox.deadline import wait
from sandbox.egress import egress_config
from sandbox.parts import AUDIT_POLICY, PARTS, STAGES_DIR, Layout
from sandbox.users import SYSTEM_NAMESPACE, User, kubeconfig, token_file

CONTROL_PLANE = ("controller-manager", "scheduler", "kwok")
TOOLS = ("kubectl", "helm", "promtool")
READY_SECONDS = 90.0
PROBE_SECONDS = 2.0
ROOT = Path(__file__).parent.parent


def write_files(layout: Layout, users: Mapping[str, User]) -> None:
    """Writes tokens, keys, the audit policy and a kubeconfig for each user; links the command line tools."""
    folder = layout.folder
    layout.tools.mkdir()
    for tool in TOOLS:
        (layout.tools / tool).symlink_to(layout.binaries.path(tool))
    (folder / "kubeconfigs").mkdir()
    (folder / "tokens.csv").write_text(token_file(list(users.values())))
    (folder / "service-accounts.pem").write_bytes(_private_key())
    (folder / "audit-policy.yaml").write_text(AUDIT_POLICY)
    if layout.kubelet:
        (folder / "egress.yaml").write_text(egress_config(layout.egress.name))
        layout.pod_stages.write_text(stages_without((STAGES_DIR / "pod.yaml").read_text(), SYSTEM_NAMESPACE))
    for user in users.values():
        layout.kubeconfig(user.short).write_text(kubeconfig(user, layout.api_url, layout.ca))


def stages_without(text: str, namespace: str) -> str:
    """Gives Stages that leave the objects of a namespace alone."""
    stages = list(yaml.safe_load_all(text))
    for stage in stages:
        elsewhere = {"key": ".metadata.namespace", "operator": "NotIn", "values": [namespace]}
        stage["spec"]["selector"]["matchExpressions"].append(elsewhere)
    return yaml.safe_dump_all(stages, sort_keys=False)


def child_environment(folder: Path) -> dict[str, str]:
    """Gives the environment of all children: nothing of the caller's, so that no KUBECONFIG leaks in."""
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
        "HELM_CACHE_HOME": str(folder / "helm"),
        "HELM_CONFIG_HOME": str(folder / "helm"),
        "HELM_DATA_HOME": str(folder / "helm"),
    }


def launch(children: Children, layout: Layout, part: str) -> None:
    """Starts a part without waiting for it."""
    found = PARTS[part]
    children.spawn(
        part, found.argv(layout), child_environment(layout.folder), stop_seconds=found.stop_seconds
    )


def wait_ready(children: Children, layout: Layout, part: str, needs: Sequence[str] = ()) -> None:
    """Returns when a part says that it is ready.

    Raises:
        ChildError: It, or a part that it `needs`, has ended.
        TimeoutError: It never says so.
    """
    url = layout.url(part, PARTS[part].scheme) + PARTS[part].ready_path

    def ready() -> bool:
        for name in (*needs, part):
            children.check(name)
        return answers(url)

    try:
        wait(ready, READY_SECONDS, f"{part} is ready")
    except TimeoutError as error:
        msg = f"{error}; its log ends with:\n{children.log_tail(part)}"
        raise TimeoutError(msg) from error


def answers(url: str) -> bool:
    """Says whether a probe gets 200; certificates are not checked, for none is known yet."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InsecureRequestWarning)
        try:
            return requests.get(url, timeout=PROBE_SECONDS, verify=False).status_code == 200  # noqa: S501 (loopback)
        except requests.RequestException:
            return False


def start_all(children: Children, layout: Layout, extras: Sequence[str]) -> None:
    """Starts etcd and the API server, then what works with them, and returns when all are ready."""
    launch(children, layout, "etcd")
    launch(children, layout, "apiserver")
    for part in extras:
        launch(children, layout, part)
    wait_ready(children, layout, "apiserver", needs=["etcd"])
    for part in CONTROL_PLANE:
        launch(children, layout, part)
    for part in ("etcd", *CONTROL_PLANE, *extras):
        wait_ready(children, layout, part, needs=["etcd", "apiserver"])


def _private_key() -> bytes:
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
