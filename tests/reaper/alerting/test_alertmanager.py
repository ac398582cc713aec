"""Posting: whatever Alertmanager answers, the reaper goes on, and the newest of each alert arrives."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import stamina
from aiohttp import web

from certs.issue import issue_ca, issue_leaf
from reaper import metrics
from reaper.alertmanager import AlertmanagerOptions, Courier, Outbox
from reaper.alerts import Alert, AlertName, alert_of
from tests.certs.clients import client_pair
from tests.reaper.acting.made import NOON

Answer = Callable[[web.Request], Awaitable[web.Response]]


class FakeAlertmanager:
    """Takes alerts, and answers as it is told: one answer after the other, the last for ever."""

    def __init__(self) -> None:
        self.statuses: list[int] = [200]
        self.taken: list[list[dict[str, Any]]] = []
        self.authorizations: list[str] = []
        self.calls = 0
        self.called = asyncio.Event()
        self.hanging = asyncio.Event()
        self.hangs = False
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        """Answers a post."""
        self.calls += 1
        self.called.set()
        self.authorizations.append(request.headers.get("Authorization", ""))
        if self.hangs:
            await self.hanging.wait()
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        if status == 200:
            self.taken.append(await request.json())
        return web.Response(status=status, text="why" * 1000, headers={"Location": "/elsewhere"})


async def serve(fake: FakeAlertmanager, context: ssl.SSLContext | None = None) -> web.AppRunner:
    """Serves it on a free port."""
    app = web.Application()
    app.router.add_post("/am/api/v2/alerts", fake.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    fake.url = f"http{'s' if context else ''}://127.0.0.1:{runner.addresses[0][1]}/am"
    return runner


@pytest.fixture
async def fake() -> AsyncIterator[FakeAlertmanager]:
    """An Alertmanager that takes everything."""
    fake = FakeAlertmanager()
    runner = await serve(fake)
    yield fake
    fake.hanging.set()
    await runner.cleanup()


@pytest.fixture(autouse=True)
def no_waits() -> Iterator[None]:
    """Attempts follow each other at once."""
    with stamina.set_testing(True, attempts=4):
        yield


def alert(pod: str, text: str = "") -> Alert:
    """Gives a warning of a pod."""
    return alert_of(AlertName.IDLE_WARNING, {"pod": pod}, {"summary": text}, NOON, NOON)


def counted(result: str) -> float:
    """Gives how many alerts ended so."""
    return metrics.ALERTS.labels(result)._value.get()


async def post(url: str, *alerts: Alert, **options: Any) -> Courier:
    """Posts alerts with a courier of its own."""
    courier = Courier(AlertmanagerOptions(url, **options))
    courier.offer(alerts)
    await courier.flush()
    return courier


async def test_alerts_arrive_in_the_api_s_spelling(fake: FakeAlertmanager) -> None:
    """Labels, annotations and both times."""
    await post(fake.url, alert("a", "idle"), labels={"cluster": "x"})
    assert fake.taken == [
        [
            {
                "labels": {"alertname": "GPUTenureIdleWarning", "pod": "a", "cluster": "x"},
                "annotations": {"summary": "idle"},
                "startsAt": "2025-03-01T12:00:00.000000Z",
                "endsAt": "2025-03-01T12:00:00.000000Z",
            }
        ]
    ]


async def test_the_newest_of_each_alert_is_posted_in_portions(fake: FakeAlertmanager) -> None:
    """A body never grows without end."""
    await post(fake.url, alert("0", "old"), *(alert(str(at)) for at in range(250)))
    assert [len(one) for one in fake.taken] == [100, 100, 50]
    assert fake.taken[0][0]["annotations"] == {}


@pytest.mark.parametrize(
    ("statuses", "calls"),
    [
        pytest.param([503, 500, 200], 3, id="errors of the server pass: tried again"),
        pytest.param([429, 200], 2, id="too many requests: tried again"),
        pytest.param([503], 4, id="a server that stays down: given up after four attempts"),
        pytest.param([400], 1, id="a refusal: not tried again"),
        pytest.param([302], 1, id="a redirection is not followed"),
    ],
)
async def test_how_often_it_is_tried(fake: FakeAlertmanager, statuses: list[int], calls: int) -> None:
    """Only what may pass is tried again, and every alert is counted once."""
    arrives = statuses[-1] == 200
    before = counted("sent"), counted("failed")
    fake.statuses = statuses
    await post(fake.url, alert("a"))
    assert fake.calls == calls
    assert len(fake.taken) == arrives
    assert (counted("sent") - before[0], counted("failed") - before[1]) == (arrives, not arrives)


async def test_a_server_that_hangs_or_is_away_costs_limited_time(fake: FakeAlertmanager) -> None:
    """The alerts are let go: they come again with the next cycle."""
    fake.hangs = True
    before = counted("failed")
    await post(fake.url, alert("a"), timeout=0.05)
    await post("http://127.0.0.1:1", alert("a"))
    assert counted("failed") - before == 2


async def test_too_many_alerts_are_dropped_not_kept(fake: FakeAlertmanager) -> None:
    """Memory stays bounded while Alertmanager is away, and known alerts are still renewed."""
    before = counted("dropped")
    courier = Courier(AlertmanagerOptions(fake.url, queue=2))
    courier.offer([alert("a"), alert("b"), alert("c"), alert("a", "newer")])
    await courier.flush()
    assert counted("dropped") - before == 1
    assert [one["annotations"] for one in fake.taken[0]] == [{"summary": "newer"}, {}]


async def test_credentials_are_read_anew_each_time(fake: FakeAlertmanager, tmp_path: Path) -> None:
    """Tokens and passwords are rotated while the reaper runs."""
    secret = tmp_path / "secret"
    secret.write_text("one\n")
    courier = await post(fake.url, alert("a"), bearer_token_file=secret)
    secret.write_text("two\n")
    courier.offer([alert("a")])
    await courier.flush()
    await post(fake.url, alert("a"), username="reaper", password_file=secret)
    assert fake.authorizations == ["Bearer one", "Bearer two", "Basic cmVhcGVyOnR3bw=="]


async def test_a_secret_that_is_missing_fails_like_any_outage(fake: FakeAlertmanager, tmp_path: Path) -> None:
    """Nothing is posted without it, and nothing is raised."""
    await post(fake.url, alert("a"), bearer_token_file=tmp_path / "missing")
    assert fake.calls == 0


async def test_both_sides_may_show_certificates(tmp_path: Path) -> None:
    """A server that demands a client's certificate takes ours, and one of another CA is not believed."""
    now = datetime.now(UTC)
    ca = issue_ca("test", now, timedelta(days=2))
    leaf = issue_leaf(ca, ["localhost"], ["127.0.0.1"], now, timedelta(days=2))
    (tmp_path / "ca.crt").write_bytes(ca.cert_pem)
    (tmp_path / "tls.crt").write_bytes(leaf.cert_pem)
    (tmp_path / "tls.key").write_bytes(leaf.key_pem)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=tmp_path / "ca.crt")
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    context.verify_mode = ssl.CERT_REQUIRED
    fake = FakeAlertmanager()
    runner = await serve(fake, context)
    client = client_pair(ca, "reaper", now)
    (tmp_path / "own.crt").write_bytes(client.cert_pem)
    (tmp_path / "own.key").write_bytes(client.key_pem)
    own = {"cert_file": tmp_path / "own.crt", "key_file": tmp_path / "own.key"}
    await post(fake.url, alert("a"), ca_file=tmp_path / "ca.crt", **own)
    await post(fake.url, alert("b"), ca_file=tmp_path / "ca.crt")
    await post(fake.url, alert("c"), **own)
    await runner.cleanup()
    assert [one["labels"]["pod"] for taken in fake.taken for one in taken] == ["a"]


async def test_a_bug_in_posting_ends_nothing(fake: FakeAlertmanager, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is counted, and the next post is tried as ever."""

    def broken(*_: object) -> dict[str, str]:
        raise RuntimeError("a bug")

    before = counted("failed")
    with monkeypatch.context() as patched:
        patched.setattr(Courier, "_headers", broken)
        courier = await post(fake.url, alert("a"))
    assert counted("failed") - before == 1
    courier.offer([alert("a")])
    await courier.flush()
    assert len(fake.taken) == 1


async def test_one_that_hangs_keeps_no_other_waiting(fake: FakeAlertmanager) -> None:
    """Each Alertmanager has a courier of its own, and at the end nobody waits longer than was said."""
    slow = FakeAlertmanager()
    slow.hangs = True
    runner = await serve(slow)
    couriers = [Courier(AlertmanagerOptions(one.url, timeout=30)) for one in (slow, fake)]
    outbox = Outbox(couriers)
    running = asyncio.create_task(outbox.run())
    for courier in couriers:
        courier.offer([alert("a")])
    async with asyncio.timeout(10):
        await slow.called.wait()
        await fake.called.wait()
        await outbox.flush(0.05)
    assert len(fake.taken) == 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    slow.hanging.set()
    await runner.cleanup()


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"url": "alertmanager:9093"}, id="no http address"),
        pytest.param({"url": "http://user:secret@alertmanager"}, id="a password in the address"),
        pytest.param({"url": "http://a", "cert_file": Path("x")}, id="a certificate without its key"),
    ],
)
def test_what_cannot_work_is_refused(options: dict[str, Any]) -> None:
    """At the start, and without repeating a secret."""
    with pytest.raises(ValueError, match=r"must|needs") as caught:
        AlertmanagerOptions(**options)
    assert "secret" not in str(caught.value)
