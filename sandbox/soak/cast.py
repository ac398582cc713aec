"""The pods of a soak: made, woken, put to sleep, made anew, and what each really does; breaks nothing."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import requests

from policy.keys import API_VERSION, Annotation, Label
from sandbox.census import Remembered
from sandbox.cluster import Sandbox
from sandbox.deadline import wait, wall_clock
from sandbox.devices import ACTIVITY
from sandbox.soak.truth import AFTER_SECONDS, Life

NAMESPACE = "soak"
NODE = "soak-node"
DEVICES = 64
KNOWN_SECONDS = 40.0
RUNNING_SECONDS = 60.0
BUSY_SECONDS = 45.0
"""How long a pod that woke up works."""

AFTER = f"{AFTER_SECONDS:.0f}s"
TERMS: Mapping[str, str] = {
    Label.POLICY: "soak",
    Label.CLASS: "batch",
    Label.IDLE_ACTION: "evict",
    Label.IDLE_AFTER: AFTER,
    Label.IDLE_UTILIZATION: "5",
    Label.IDLE_STATISTIC: "maximum",
    Label.IDLE_GRACE: "6s",
    Label.IDLE_WARM_UP: "2s",
}
POLICY = {
    "apiVersion": API_VERSION,
    "kind": "GPUPolicy",
    "metadata": {"name": "soak"},
    "spec": {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
        "idle": {"action": "evict", "after": AFTER, "grace": "6s", "warmUp": "2s"},
    },
}
STEADY: Mapping[str, str] = {
    **{f"busy-{n}": "busy" for n in range(4)},
    **{f"duty-{n}": "duty:5/20" for n in range(3)},
    "half-busy": "idle,busy",
    "profiling-stuck": "prof-stuck",
    "silent": "silent",
    "frozen": "frozen",
    "garbage": "garbage",
}
"""Pods that must stay, whatever happens, and what their devices do."""

RUN: Mapping[str, str] = {"rank-0": "idle", "rank-1": "idle", "rank-2": "busy"}
"""The pods of one owner: the busy one protects the others."""

GOING = tuple(f"going-{n}" for n in range(8))
"""Names of pods that fall asleep, and whose successors have the same name."""


class Cast:
    """Every pod that ever was there, in `lives`; the last of each name is the present one."""

    def __init__(self, sandbox: Sandbox, rng: random.Random) -> None:
        self.lives: list[Life] = []
        self._sandbox = sandbox
        self._api = sandbox.api()
        self._rng = rng
        self._pods = f"/api/v1/namespaces/{NAMESPACE}/pods"

    def enter(self) -> None:
        """Makes the namespace, the node, the policy and all pods."""
        self._sandbox.add_node(NODE, {"nvidia.com/gpu": DEVICES})
        self._api.create_namespace(NAMESPACE)
        self._api.create(f"/apis/{API_VERSION}/gpupolicies", POLICY)
        owner = self._api.create(f"/api/v1/namespaces/{NAMESPACE}/configmaps", {"metadata": {"name": "run"}})
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "run", "controller": True}
        owned = [{**reference, "uid": owner["metadata"]["uid"]}]
        for name, activity in STEADY.items():
            self.make(name, activity, idle=False, devices=activity.count(",") + 1)
        for name, activity in RUN.items():
            self.make(name, activity, idle=False, ownerReferences=owned)
        for name in GOING:
            self.make(name, "idle", idle=True)

    def make(self, name: str, activity: str, *, idle: bool, devices: int = 1, **metadata: object) -> Life:
        """Makes a pod, of which `idle` says whether it may be evicted for what it does."""
        limits = {"limits": {"nvidia.com/gpu": str(devices)}}
        body = {
            "metadata": {"name": name, "labels": TERMS, "annotations": {ACTIVITY: activity}, **metadata},
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "registry.example/x:1", "resources": limits}],
            },
        }
        asked = wall_clock()
        made = self._api.create(self._pods, body)
        life = Life(NAMESPACE, name, made["metadata"]["uid"], asked)
        life.turn(asked, idle=idle)
        self.lives.append(life)
        return life

    def present(self, name: str) -> Life:
        """Gives the youngest pod of a name; it may be gone."""
        return next(life for life in reversed(self.lives) if life.name == name)

    def living(self) -> dict[str, dict[str, Any]]:
        """Gives the pods that are there, by UID."""
        return {pod["metadata"]["uid"]: pod for pod in self._api.list(self._pods)}

    def wait_running(self) -> None:
        """Returns when every pod runs."""

        def all_run() -> bool:
            pods = self.living().values()
            return all(pod.get("status", {}).get("phase") == "Running" for pod in pods)

        wait(all_run, RUNNING_SECONDS, "all pods of the soak run", poll=0.5)

    def tend(self) -> None:
        """Lets pods go on: what was evicted is made anew, and what has worked for a while falls asleep."""
        living = self.living()
        for name in GOING:
            life = self.present(name)
            if life.uid not in living:
                self._make_anew(name)
            elif not life.idle and wall_clock() - life.spans[-1][0] > BUSY_SECONDS:
                asked = wall_clock()
                self._set(life, "idle")
                life.turn(asked, idle=True)

    def wake(self, count: int = 2) -> int:
        """Lets idle pods work again, those that are warned first; gives how many."""
        living = self.living()
        asleep = [life for name in GOING if (life := self.present(name)).idle and life.uid in living]
        self._rng.shuffle(asleep)
        asleep.sort(key=lambda life: Annotation.RECLAIM_AT not in _notes(living[life.uid]))
        return sum(self._wake(life) for life in asleep[:count])

    def recreate(self, count: int = 2) -> None:
        """Deletes pods and makes others of the same name at once."""
        living = self.living()
        names = [name for name in GOING if self.present(name).uid in living]
        for name in self._rng.sample(names, min(count, len(names))):
            life = self.present(name)
            gone = self._api.raw("DELETE", f"{self._pods}/{name}", {"preconditions": {"uid": life.uid}})
            if gone.status < 300:
                life.removed = wall_clock()
            wait(lambda uid=life.uid: uid not in self.living(), 30, f"{name} is gone")  # type: ignore[misc]
            self._make_anew(name)

    def spoil(self, count: int = 3) -> Callable[[], None]:
        """Lets the exporter print garbage for busy pods; gives what ends it."""
        chosen = self._rng.sample([name for name, activity in STEADY.items() if activity == "busy"], count)
        for name in chosen:
            self._set(self.present(name), "garbage")

        def mend() -> None:
            for name in chosen:
                self._set(self.present(name), "busy")

        return mend

    def _make_anew(self, name: str) -> None:
        busy = self._rng.random() < 0.3
        self.make(name, "busy" if busy else "idle", idle=not busy)

    def _wake(self, life: Life) -> bool:
        if not self._set(life, "busy"):
            return False
        life.turn(wall_clock(), idle=False)
        return True

    def _set(self, life: Life, activity: str) -> bool:
        """Changes what a pod does, and returns when the exporter knows; False if the pod is gone."""
        note = {"metadata": {"uid": life.uid, "annotations": {ACTIVITY: activity}}}
        headers = {"Content-Type": "application/merge-patch+json"}
        reply = self._api.raw("PATCH", f"{self._pods}/{life.name}", note, headers)
        if reply.status >= 300:
            return False

        def known() -> bool:
            text = requests.get(f"{self._sandbox.exporter_url}/state", timeout=10).text
            said = Remembered.load(text).activities.get(life.uid)
            return said is None or said[0] == activity

        wait(known, KNOWN_SECONDS, f"the exporter knows what {life.name} does")
        return True


def _notes(pod: Mapping[str, Any]) -> Mapping[str, str]:
    found: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    return found
