"""What people can still create while the webhook is away: the table that the README shows.

Every cell is one real request to a real API server. Creating pods never depends on us unless an administrator
chose `enforce`, and then only GPU pods do.
"""

from __future__ import annotations

import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.balancer import Backend, Mode
from sandbox.ports import LOOPBACK

if TYPE_CHECKING:
    from sandbox.api import Reply
    from tests.webhook.conftest import Site

Object = dict[str, Any]
PROFILES = ("observe", "warn", "enforce")
DOWN, ODD = Mode.REFUSE, "an answer of 500"
FAULTS: dict[str, tuple[Mode | str, Mode | str]] = {
    "mutate down": (DOWN, Mode.PASS),
    "validate down": (Mode.PASS, DOWN),
    "both down": (DOWN, DOWN),
    "hanging": (Mode.BLACK_HOLE, Mode.BLACK_HOLE),
    "answering 500": (ODD, ODD),
}
NOT_OURS = ("CPU pod", "binding", "pod status")
OURS = ("GPU pod", "Job", "Deployment", "StatefulSet", "CronJob")
OBJECTS = ("GPU pod", *NOT_OURS, *OURS[1:])
PASSES, BARE, REFUSED = "as ever", "bare", "refused"
KEY = "gpu-tenure.io/requested-by"
GPU = {"limits": {"nvidia.com/gpu": 1}}
Table = dict[tuple[str, str, str], str]


def expected(profile: str, fault: str, what: str) -> str:
    """What the README promises."""
    mutate, validate = (way is not Mode.PASS for way in FAULTS[fault])
    if what == "GPU pod" and validate and profile == "enforce":
        return REFUSED
    return BARE if mutate and what in OURS else PASSES


@pytest.fixture(scope="module")
def table(request: pytest.FixtureRequest) -> Iterator[Table]:
    """What was seen; printed at the end."""
    seen: Table = {}
    yield seen
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        sys.stdout.write("\n" + "\n".join(rendered(seen)) + "\n")


def rendered(seen: Table) -> list[str]:
    """The table in Markdown; profiles where all went alike share their rows."""
    lines = [f"| profile | webhook | {' | '.join(OBJECTS)} |", f"|---|---|{'---|' * len(OBJECTS)}"]
    alike: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for profile in PROFILES:
        rows = tuple(tuple(seen.get((profile, fault, one), "?") for one in OBJECTS) for fault in FAULTS)
        alike.setdefault(rows, []).append(f"`{profile}`")
    for rows, profiles in alike.items():
        lines += [
            f"| {', '.join(profiles)} | {fault} | {' | '.join(cells)} |"
            for fault, cells in zip(FAULTS, rows, strict=True)
        ]
    return lines


class _Failing(BaseHTTPRequestHandler):
    """Answers everything with 500."""

    def do_POST(self) -> None:
        """Reads the review, and fails."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_error(500, "broken")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Says nothing."""


@pytest.fixture(scope="module")
def failing(site: Site) -> Iterator[Backend]:
    """A webhook that answers 500, with the certificate of the real one."""
    folder = site.installation.tls
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    server = ThreadingHTTPServer((LOOPBACK, site.sandbox.free_port()), _Failing)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield Backend(LOOPBACK, server.server_port)
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def broken(site: Site, failing: Backend) -> Iterator[Callable[[str], None]]:
    """Breaks the paths of the webhook as a fault says, and mends them afterwards."""

    def call(fault: str) -> None:
        for balancer, way in zip((site.mutating, site.validating), FAULTS[fault], strict=True):
            if way is ODD:
                balancer.set_backends([failing])
            balancer.mode = way if isinstance(way, Mode) else Mode.PASS

    yield call
    site.share_backends()
    site.set_modes(Mode.PASS, Mode.PASS)


def pod(name: str, resources: Object) -> Object:
    """A pod that no scheduler takes."""
    container = {"name": "main", "image": "x", "resources": resources}
    spec = {"restartPolicy": "Never", "schedulerName": "nobody", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def workload(what: str) -> tuple[str, Object]:
    """The root of a kind of workload, and one that makes no pods."""
    spec = pod("x", GPU)["spec"]
    once = {"suspend": True, "template": {"spec": spec}}
    many = {
        "replicas": 0,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {**spec, "restartPolicy": "Always"}},
    }
    root, specs = {
        "Job": ("batch", once),
        "CronJob": ("batch", {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": once}}),
        "Deployment": ("apps", many),
        "StatefulSet": ("apps", {**many, "serviceName": "s"}),
    }[what]
    return root, {"apiVersion": f"{root}/v1", "kind": what, "metadata": {"name": "w"}, "spec": specs}


class Requests:
    """The requests of the table, in one namespace."""

    def __init__(self, site: Site, namespace: str) -> None:
        self._site = site
        self._namespace = namespace
        self._core = f"/api/v1/namespaces/{namespace}"

    def prepare(self) -> None:
        """Creates the GPU pod that is bound and whose status changes, while all is well."""
        assert self._site.create(f"{self._core}/pods", pod("before", GPU)).status == 201

    def send(self, what: str) -> Reply:
        """Sends the request of one column."""
        match what:
            case "GPU pod":
                return self._site.create(f"{self._core}/pods", pod("gpu", GPU))
            case "CPU pod":
                return self._site.create(f"{self._core}/pods", pod("cpu", {"limits": {"cpu": "1"}}))
            case "binding":
                target = {"apiVersion": "v1", "kind": "Node", "name": "node-a"}
                binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "before"}}
                return self._site.create(f"{self._core}/pods/before/binding", {**binding, "target": target})
            case "pod status":
                return self._site.sandbox.api().raw(
                    "PATCH",
                    f"{self._core}/pods/before/status",
                    {"status": {"message": "seen"}},
                    {"Content-Type": "application/merge-patch+json"},
                )
            case _:
                root, body = workload(what)
                path = f"/apis/{root}/v1/namespaces/{self._namespace}/{what.lower()}s"
                return self._site.create(path, body)


def outcome(what: str, reply: Reply) -> str:
    """A cell of the table, from the answer of the API server."""
    if reply.status not in {200, 201}:
        assert "failed calling webhook" in reply.text, reply.text
        return REFUSED
    return PASSES if what in NOT_OURS or f'"{KEY}":' in reply.text else BARE


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("profile", PROFILES)
def test_what_passes_while_the_webhook_is_away(
    site: Site, selected: str, profile: str, fault: str, table: Table, broken: Callable[[str], None]
) -> None:
    """Only GPU pods under enforce depend on the validating webhook; nobody else even waits for us."""
    site.set_profile(profile)
    requests = Requests(site, selected)
    requests.prepare()
    broken(fault)
    for what in NOT_OURS:
        # Cuts what earlier requests left open: a connection now would be one for this request.
        broken(fault)
        table[profile, fault, what] = outcome(what, requests.send(what))
        assert site.mutating.connections == site.validating.connections == 0
    # Side by side, since some wait until time is up.
    with ThreadPoolExecutor(len(OURS)) as pool:
        for what, reply in zip(OURS, pool.map(requests.send, OURS), strict=True):
            table[profile, fault, what] = outcome(what, reply)
    seen = {what: table[profile, fault, what] for what in OBJECTS}
    assert seen == {what: expected(profile, fault, what) for what in OBJECTS}
