"""The receiver over HTTP: what Alertmanager should send again, and what it should not."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Collection
from pathlib import Path

import aiohttp
import pytest

from reaper import receiver
from reaper.hints import Hint
from reaper.receiver import BODY_BYTES, NotNow, Receiver
from runtime.ops import OpsServer
from tests.reaper.alerting.test_hints import POD, message

DCGM = {"namespace": "team-a", "pod": "train-0"}


class Gate:
    """A receiver on an ops server, what it took, and a client."""

    def __init__(self, token_file: Path) -> None:
        self.token_file = token_file
        self.taken: list[Collection[Hint]] = []
        self.busy = ""
        self.unknown: Collection[Hint] = ()
        self.url = ""

    def take(self, hints: Collection[Hint]) -> Collection[Hint]:
        """Takes hints."""
        if self.busy:
            raise NotNow(self.busy)
        self.taken.append(hints)
        return self.unknown

    async def post(self, body: bytes, authorization: str = "Bearer secret") -> tuple[int, str]:
        """Posts a body; gives status and text."""
        headers = {"Authorization": authorization}
        async with (
            aiohttp.ClientSession() as session,
            session.post(self.url, data=io.BytesIO(body), headers=headers) as answer,
        ):
            return answer.status, await answer.text()


@pytest.fixture
async def gate(tmp_path: Path) -> AsyncIterator[Gate]:
    """A receiver with a token."""
    token_file = tmp_path / "token"
    token_file.write_text("secret\n")
    gate = Gate(token_file)
    async with OpsServer("127.0.0.1", 0, posts={"/alerts": Receiver(token_file, gate.take).handle}) as server:
        gate.url = f"http://127.0.0.1:{server.port}/alerts"
        yield gate


async def test_hints_are_taken(gate: Gate) -> None:
    """However often the same message comes."""
    for _ in range(2):
        assert await gate.post(message(DCGM)) == (200, "looking at 1 pods\n")
    assert gate.taken == [{POD}, {POD}]


async def test_pods_without_gpus_are_no_error(gate: Gate) -> None:
    """Sending it again would change nothing."""
    gate.unknown = (POD,)
    assert await gate.post(message(DCGM)) == (200, "looking at 0 pods\n")


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer wrong", "Bearer secret2", "Basic secret", "secret", "Bearer sécret"],
)
async def test_without_the_token_nothing_is_read(gate: Gate, authorization: str) -> None:
    """401, which Alertmanager does not try again."""
    assert (await gate.post(message(DCGM), authorization))[0] == 401
    assert gate.taken == []


async def test_the_token_is_read_anew(gate: Gate) -> None:
    """It may be rotated; one that cannot be read lets nobody in and is tried again."""
    gate.token_file.write_text("other")
    assert (await gate.post(message(DCGM)))[0] == 401
    assert (await gate.post(message(DCGM), "bearer other"))[0] == 200
    gate.token_file.write_text("\n")
    assert (await gate.post(message(DCGM), "Bearer "))[0] == 503
    gate.token_file.unlink()
    assert (await gate.post(message(DCGM)))[0] == 503


async def test_a_follower_asks_to_send_it_again(gate: Gate) -> None:
    """503 makes Alertmanager try again, and the Service may choose the leader then."""
    gate.busy = "another replica leads"
    assert await gate.post(message(DCGM)) == (503, "another replica leads\n")


async def test_what_is_to_be_sent_again_comes_by_another_connection(gate: Gate) -> None:
    """A Service chooses once for each connection: one that is kept leads to a follower again and again."""

    async def answered(session: aiohttp.ClientSession) -> tuple[int, str | None]:
        headers = {"Authorization": "Bearer secret"}
        async with session.post(gate.url, data=message(DCGM), headers=headers) as answer:
            return answer.status, answer.headers.get("Connection")

    async with aiohttp.ClientSession() as session:
        assert await answered(session) == (200, None)
        gate.busy = "another replica leads"
        assert await answered(session) == (503, "close")
        gate.token_file.unlink()
        assert await answered(session) == (503, "close")


async def test_what_is_no_message_is_refused_for_good(gate: Gate) -> None:
    """400, with the reason."""
    status, text = await gate.post(b"{}")
    assert status == 400
    assert "is no message of Alertmanager" in text


async def test_a_body_has_its_limit(gate: Gate) -> None:
    """413; one just below it is read."""
    assert (await gate.post(b" " * (BODY_BYTES + 1)))[0] == 413
    padded = message(DCGM, padding="x" * (BODY_BYTES - 2000))
    assert len(padded) < BODY_BYTES
    assert (await gate.post(padded))[0] == 200


async def test_a_body_that_never_comes_has_its_limit(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """408, and the connection goes."""
    monkeypatch.setattr(receiver, "READ_SECONDS", 0.05)

    async def endless() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    headers = {"Authorization": "Bearer secret"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(gate.url, data=endless(), headers=headers) as answer,
    ):
        assert answer.status == 408


async def test_other_methods_and_paths_do_not_exist(gate: Gate) -> None:
    """Without a token file there is no such path at all."""
    async with aiohttp.ClientSession() as session, session.get(gate.url) as answer:
        assert answer.status == 405
    async with (
        OpsServer("127.0.0.1", 0) as server,
        aiohttp.ClientSession() as session,
        session.post(f"http://127.0.0.1:{server.port}/alerts") as answer,
    ):
        assert answer.status == 404
