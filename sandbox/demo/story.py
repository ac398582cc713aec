"""Tells the demo from nothing to the checked summary: acts move the scene and look at what was done."""

import contextlib
import os
import shutil
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console

from policy.durations import format_time
from sandbox.binaries import cache_dir
from sandbox.cluster import Sandbox, SandboxOptions
from sandbox.deadline import monotonic, utc_now, wait
from sandbox.demo import board, texts
from sandbox.demo.expected import compare, load_expected
from sandbox.demo.rows import Row
from sandbox.demo.scene import HUB, NODES, Scene
from sandbox.history import write_history
from sandbox.install import install_chart
from sandbox.session import exports

SCRAPE_SECONDS = 5.0
# Told, because a pod must run for minutes before its interval can be told from the data.
SCRAPE_INTERVALS = '{"dcgm": 5}'
# Shortened so that the story fits into minutes, as act 3 tells; everything else is as shipped.
REAPER = {
    "GPU_TENURE_REAPER_CYCLE": "3s",
    "GPU_TENURE_REAPER_QUIET": "3s",
    "GPU_TENURE_REAPER_DEVICE_PERCENT": "60",
    "GPU_TENURE_REAPER_SCRAPE_INTERVALS": SCRAPE_INTERVALS,
    "GPU_TENURE_REAPER_LOG_FORMAT": "json",
}
WARNING_SECONDS = 60.0
EVICTION_SECONDS = 150.0
SHORT_SECONDS = 60.0
NOTEBOOKS = ("notebook-0", "notebook-1", "notebook-2")
INCOMPLETE = "cycle held: observations are incomplete"
WIDTH_WITHOUT_TERMINAL = 150
POD = """
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: team-vision}
spec:
  containers: [{name: c, image: registry.example/c:1, resources: {limits: {%s: "1"}}}]
"""


@dataclass
class Story:
    """The narrator: the scene, the console and what was not as promised."""

    scene: Scene
    console: Console
    failures: list[str] = field(default_factory=list)

    def check(self, label: str, *, good: bool) -> None:
        """Show one thing that the demo promises, and remember it if it does not hold."""
        board.seen(self.console, label, good=good)
        if not good:
            self.failures.append(label)

    def reach(self, label: str, predicate: Callable[[], object], seconds: float = SHORT_SECONDS) -> None:
        """Wait until something holds; a time-out is remembered as a failure."""
        try:
            with board.waiting(self.console, label):
                wait(predicate, seconds, label, poll=0.5)
        except TimeoutError:
            self.check(label, good=False)
        else:
            self.check(label, good=True)


def tell(*, keep: bool, kubernetes: str = "") -> bool:
    """Run the whole demo; True if everything ended as the table of expected outcomes says.

    `kubernetes` is another pinned release than the default.
    """
    console = Console(width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL)
    _act(console, 1)
    began = monotonic()
    options = SandboxOptions(scrape_interval_seconds=SCRAPE_SECONDS, kubernetes=kubernetes)
    with Sandbox.start(options) as sandbox:
        board.say(console, f"Kubernetes is ready after {monotonic() - began:.1f} s.")
        story = Story(set_up(sandbox, console), console)
        for act in (admission, judging, incidents, recreation, webhook_down, end):
            act(story)
        if story.failures:
            _keep_logs(story)
        if keep:
            _keep(story)
    return not story.failures


def set_up(sandbox: Sandbox, console: Console) -> Scene:
    """Install gpu-tenure as the administrator of the cluster does."""
    for name, resources in NODES.items():
        sandbox.add_node(name, resources)
    # As a chart that was upgraded once: a first installation would fail open, whatever the profile.
    closed = {"profile": "enforce", "policies": {"shipped": False}, "webhook": {"failClosed": True}}
    installation = install_chart(sandbox, closed)
    installation.start_webhooks(2)
    scene = Scene(sandbox, installation)
    scene.wait_served()
    scene.apply("policies.yaml")
    scene.apply("namespaces.yaml")
    what = "the Helm chart with profile [bold]enforce[/bold], two webhook replicas, two policies"
    board.say(console, f"{len(NODES)} GPU nodes, {what}.")
    return scene


def admission(story: Story) -> None:
    """Create the workloads and show what they were given."""
    console, scene = story.console, story.scene
    _act(console, 2)
    for file, flags in (("workloads.yaml", ()), ("notebooks.yaml", (f"--as={HUB}",))):
        for line in scene.apply(file, *flags).stderr.splitlines():
            board.say(console, f"[yellow]{line}[/yellow]")
    scene.wait_running()
    ranks = [
        pod["metadata"]["name"] for pod in scene.pods() if pod["metadata"]["name"].startswith("sweep-0-")
    ]
    scene.activity("team-vision", ranks[0], "busy")
    console.print(board.admitted(scene.rows()))


def judging(story: Story) -> None:
    """Start the reaper on an hour of data and wait for its warnings."""
    console, scene = story.console, story.scene
    _act(console, 3)
    write_history(scene.sandbox, minutes=texts.HISTORY_MINUTES)
    scene.ask_naive()
    start_reaper(story, "reaper-1")
    story.reach(texts.WARNED, lambda: {*NOTEBOOKS, "protected"} <= _due(scene).keys(), WARNING_SECONDS)
    console.print(board.judged(scene.rows(), "What the reaper sees", console.width))
    for event in _events(scene, "notebook-0", "GPUIdleWarning")[:1]:
        board.say(console, f"kubectl describe pod notebook-0: [yellow]{event['note']}[/yellow]")


def incidents(story: Story) -> None:
    """Come back to a notebook, restart the reaper and lose Prometheus, all between warning and eviction."""
    scene, sandbox = story.scene, story.scene.sandbox
    _act(story.console, 4)
    due = _due(scene)["notebook-2"]
    scene.activity("team-nlp", "notebook-1", "busy")
    sandbox.stop("reaper-1")
    start_reaper(story, "reaper-2")
    story.reach(texts.SPARED, lambda: _row(scene, "notebook-1").outcome == "spared")
    sandbox.kill("prometheus")
    story.reach(texts.HOLDS, lambda: scene.journal.said(INCOMPLETE))
    story.reach(texts.DUE, lambda: format_time(utc_now()) > due)
    once = len(scene.journal.said(INCOMPLETE)) == 1
    story.check(texts.HELD, good=once and not _gone(scene, *NOTEBOOKS))
    sandbox.start_part("prometheus")
    story.reach(texts.EVICTED, lambda: _gone(scene, "notebook-0", "notebook-2"), EVICTION_SECONDS)
    story.reach(texts.BLOCKED, lambda: _row(scene, "protected").outcome == "blocked")


def recreation(story: Story) -> None:
    """Wait until the pod that a Deployment made anew is warned and kept."""

    def settled() -> bool:
        services = [row for row in story.scene.rows() if row.namespace == "team-services"]
        outcomes = sorted(row.outcome for row in services)
        return outcomes == ["evicted", "warned"] and any(row.skip == "OwnerRecreates" for row in services)

    story.reach(texts.RECREATED, settled, EVICTION_SECONDS)


def webhook_down(story: Story) -> None:
    """Kill both replicas of the webhook and create pods."""
    scene, sandbox = story.scene, story.scene.sandbox
    _act(story.console, 5)
    for name in tuple(scene.installation.webhooks):
        sandbox.kill(name)
    began = monotonic()
    cpu = sandbox.kubectl("apply", "-f", "-", stdin=POD % ("cpu-pod", "cpu"), check=False)
    story.check(texts.CPU_CREATED.format(seconds=monotonic() - began), good=cpu.returncode == 0)
    gpu = sandbox.kubectl("apply", "-f", "-", stdin=POD % ("gpu-pod", "nvidia.com/gpu"), check=False)
    story.check(texts.GPU_REFUSED, good=gpu.returncode != 0 and "gpu-tenure" in gpu.stderr)
    scene.installation.webhooks.clear()
    scene.installation.start_webhooks(2)
    again = ("apply", "--dry-run=server", "-f", "-")
    admitted = sandbox.kubectl(*again, stdin=POD % ("gpu-pod", "nvidia.com/gpu"), check=False)
    story.check(texts.BACK, good=admitted.returncode == 0)


def end(story: Story) -> None:
    """Show and compare what became of everyone."""
    console, scene = story.console, story.scene
    _act(console, 6)
    scene.ask_naive()
    rows = scene.rows()
    console.print(board.judged(rows, "What became of them", console.width))
    evicted = sum(row.outcome == "evicted" for row in rows)
    wrongly = sum(row.naive and row.outcome != "evicted" for row in rows)
    board.say(console, texts.SUMMARY.format(evicted=evicted, wrongly=wrongly))
    comparison = compare(rows, load_expected())
    for difference in comparison.differences:
        story.check(difference, good=False)
    as_expected = f"{comparison.matched} of {len(rows)} pods ended as sandbox/demo/expected.yaml says"
    board.seen(console, as_expected, good=not comparison.differences)
    if story.failures:
        console.print(f"[bold red]{len(story.failures)} things were not as promised.[/bold red]")


def start_reaper(story: Story, name: str) -> None:
    """Start a reaper that really acts, and read its log from now on."""
    scene = story.scene
    scene.installation.start_reaper("--no-dry-run", env=REAPER, name=name)
    scene.journal.paths.append(scene.sandbox.log(name))


def _act(console: Console, number: int) -> None:
    title, *sentences = texts.ACTS[number]
    board.act(console, number, title, *sentences)


def _due(scene: Scene) -> dict[str, str]:
    return {row.pod: row.reclaim_at for row in scene.rows() if row.reclaim_at}


def _row(scene: Scene, pod: str) -> Row:
    return next(row for row in scene.rows() if row.pod == pod)


def _gone(scene: Scene, *names: str) -> bool:
    return not {pod["metadata"]["name"] for pod in scene.pods()} & set(names)


def _events(scene: Scene, pod: str, reason: str) -> list[dict[str, Any]]:
    events = scene.sandbox.api().list("/apis/events.k8s.io/v1/events")
    return [event for event in events if event["reason"] == reason and event["regarding"].get("name") == pod]


def _keep_logs(story: Story) -> None:
    folder = cache_dir(os.environ) / "demo-logs"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(story.scene.sandbox.dir / "logs", folder)
    board.say(story.console, f"The logs of all parts are kept in {folder}")


def _keep(story: Story) -> None:
    """Leave everything running until Ctrl-C, which is how it is meant to end."""
    sandbox = story.scene.sandbox
    _act(story.console, 7)
    for line in (
        *exports(sandbox.kubeconfig(), sandbox.dir, sandbox.prometheus_url),
        "kubectl describe pod protected -n team-nlp",
        "kubectl get gpureclaims -A; kubectl get gpupolicies",
        f"kubectl get pods -A -o json | gpu-tenure judge --pods - --prometheus-url {sandbox.prometheus_url}",
    ):
        story.console.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()
