"""Posts alerts to one Alertmanager, in the background and in limited time; must not know why they hold."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import msgspec
import stamina
import structlog
from msgspec import Struct

from reaper import metrics
from reaper.alertboard import Key
from reaper.alerts import Alert
from runtime.times import micro_time

log = structlog.get_logger(__name__)

PATH: Final = "/api/v2/alerts"
POST_ALERTS: Final = 100
ATTEMPTS: Final = 4
FIRST_WAIT: Final = 0.5
LONGEST_WAIT: Final = 5.0
SHOWN_BYTES: Final = 300


class AlertmanagerOptions(Struct, frozen=True):
    """How to reach one Alertmanager.

    Attributes:
        url: The address, with a path prefix if there is one.
        timeout: Seconds for one attempt, connecting included.
        bearer_token_file: A file with a token, read anew for each attempt.
        username: For basic authentication,
        password_file: with the password in this file, read anew for each attempt.
        ca_file: Certificates to trust instead of the usual ones.
        cert_file: The certificate that we show,
        key_file: and its private key; both are read again when they change.
        queue: The most alerts that wait; more are dropped, since they come again with the next cycle.
        labels: Further labels of every alert.
    """

    url: str
    timeout: float = 10.0
    bearer_token_file: Path | None = None
    username: str = ""
    password_file: Path | None = None
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    queue: int = 10_000
    labels: dict[str, str] = {}

    def __post_init__(self) -> None:
        """Refuses what cannot work.

        Raises:
            ValueError: it is no http address, carries a password, or half a client certificate.
        """
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("must be an address such as http://alertmanager.monitoring:9093")
        if parts.username or parts.password:
            raise ValueError("must not carry a user or a password; give them as settings")
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("a client certificate needs both its file and that of its key")


class PostError(Exception):
    """Alertmanager did not take the alerts; `again` says whether another attempt may help."""

    def __init__(self, message: str, *, again: bool) -> None:
        super().__init__(message)
        self.again = again


def _may_help(error: Exception) -> bool:
    return isinstance(error, PostError) and error.again


class Courier:
    """The Carrier for one Alertmanager: the newest of each alert waits, and one task posts."""

    def __init__(self, options: AlertmanagerOptions) -> None:
        self._options = options
        self._waiting: dict[Key, Alert] = {}
        self._something = asyncio.Event()
        self._posting = asyncio.Lock()
        self._trust: tuple[tuple[float, ...], ssl.SSLContext] | None = None
        self._failing = False

    def offer(self, alerts: Collection[Alert]) -> None:
        """Takes alerts that are to be posted; the newest with the same labels counts."""
        for alert in alerts:
            if alert.key in self._waiting or len(self._waiting) < self._options.queue:
                self._waiting[alert.key] = alert
            else:
                metrics.ALERTS.labels("dropped").inc()
        self._something.set()

    async def run(self) -> None:
        """Posts whatever is offered, for ever."""
        while True:
            await self._something.wait()
            await self.flush()

    async def flush(self) -> None:
        """Posts what waits now; what cannot be posted is counted and let go."""
        timeout = aiohttp.ClientTimeout(total=self._options.timeout)
        async with self._posting, aiohttp.ClientSession(timeout=timeout) as session:
            self._something.clear()
            waiting, self._waiting = tuple(self._waiting.values()), {}
            for some in _portions(waiting, POST_ALERTS):
                await self._deliver(session, some)

    async def _deliver(self, session: aiohttp.ClientSession, alerts: Sequence[Alert]) -> None:
        try:
            await self._try(
                session, msgspec.json.encode([wire(alert, self._options.labels) for alert in alerts])
            )
        except PostError as error:
            self._failed(len(alerts), str(error))
        except Exception as error:
            # Whatever it is, cycles go on: nothing may hang on telling people.
            log.exception("alerts could not be posted")
            self._failed(len(alerts), type(error).__name__)
        else:
            metrics.ALERTS.labels("sent").inc(len(alerts))
            if self._failing:
                log.info("alerts are posted again", alertmanager=self._options.url)
            self._failing = False

    def _failed(self, count: int, why: str) -> None:
        metrics.ALERTS.labels("failed").inc(count)
        if not self._failing:
            log.warning("alerts not posted", alertmanager=self._options.url, error=why)
        self._failing = True

    async def _try(self, session: aiohttp.ClientSession, body: bytes) -> None:
        attempts = stamina.retry_context(
            on=_may_help, attempts=ATTEMPTS, wait_initial=FIRST_WAIT, wait_max=LONGEST_WAIT, timeout=None
        )
        async for attempt in attempts:
            with attempt:
                if attempt.num > 1:
                    metrics.ALERT_RETRIES.inc()
                await self._post(session, body)

    async def _post(self, session: aiohttp.ClientSession, body: bytes) -> None:
        url = self._options.url.rstrip("/") + PATH
        try:
            async with session.post(
                url, data=body, headers=self._headers(), ssl=self._context(), allow_redirects=False
            ) as answer:
                if answer.status == 200:
                    return
                said = (await answer.content.read(SHOWN_BYTES)).decode(errors="replace")
                again = answer.status >= 500 or answer.status == 429
                raise PostError(f"HTTP {answer.status} {said}".strip(), again=again)
        except TimeoutError as error:
            raise PostError("no answer in time", again=True) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise PostError(str(error) or type(error).__name__, again=True) from error

    def _headers(self) -> dict[str, str]:
        headers, options = {"Content-Type": "application/json"}, self._options
        if options.bearer_token_file is not None:
            headers["Authorization"] = f"Bearer {_secret(options.bearer_token_file)}"
        elif options.username:
            password = _secret(options.password_file) if options.password_file else ""
            pair = base64.b64encode(f"{options.username}:{password}".encode()).decode()
            headers["Authorization"] = f"Basic {pair}"
        return headers

    def _context(self) -> ssl.SSLContext | bool:
        """Gives what to trust and to show, read again when a file has changed."""
        options = self._options
        files = [path for path in (options.ca_file, options.cert_file, options.key_file) if path is not None]
        if not files:
            return True
        changed = tuple(path.stat().st_mtime for path in files)
        if self._trust is None or self._trust[0] != changed:
            context = ssl.create_default_context(cafile=options.ca_file)
            if options.cert_file is not None:
                context.load_cert_chain(options.cert_file, options.key_file)
            self._trust = changed, context
        return self._trust[1]


class Outbox:
    """All couriers of a process; one that hangs keeps no other waiting."""

    def __init__(self, couriers: Collection[Courier]) -> None:
        self._couriers = tuple(couriers)
        # Retries are counted and told here, not by the library.
        stamina.instrumentation.set_on_retry_hooks(())

    async def run(self) -> None:
        """Posts whatever is offered, for ever."""
        async with asyncio.TaskGroup() as group:
            for courier in self._couriers:
                group.create_task(courier.run(), name="post alerts")
            await asyncio.Event().wait()

    async def flush(self, seconds: float) -> None:
        """Posts what waits, at the end of a process, and waits no longer than this for it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(courier.flush() for courier in self._couriers))


def wire(alert: Alert, labels: Mapping[str, str]) -> dict[str, Any]:
    """Gives an alert, with further labels, in the spelling of Alertmanager's API."""
    found: dict[str, Any] = {
        "labels": {**labels, **alert.labels},
        "annotations": alert.annotations,
        "startsAt": micro_time(alert.starts_at),
    }
    if alert.ends_at is not None:
        found["endsAt"] = micro_time(max(alert.ends_at, alert.starts_at))
    return found


def _portions(alerts: Sequence[Alert], size: int) -> Iterator[Sequence[Alert]]:
    return (alerts[at : at + size] for at in range(0, len(alerts), size))


def _secret(path: Path) -> str:
    return path.read_text(encoding="utf-8").strip()
