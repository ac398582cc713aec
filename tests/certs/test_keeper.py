"""Rounds over Secrets and configurations in memory: order, conflicts, hands that edit, lost answers."""

from __future__ import annotations

from datetime import timedelta

import pytest

from certs.bundle import read_certificates
from certs.configurations import MUTATING, VALIDATING, Configurations
from certs.keeper import Keeper, Rules, Serves
from certs.rotation import Lives, Plan, Step
from certs.store import SecretStore
from runtime.kube import ApiError, ApiUnreachable
from tests.certs.made import NAME, ca, leaf, secrets
from tests.certs.memory import AUTHORITY, SECRETS, SERVING, MemoryApi
from tests.certs.memory import MUTATING as MUTATING_PATH
from tests.certs.memory import VALIDATING as VALIDATING_PATH
from tests.runtime.fakes import FakeTime

HOUR = timedelta(hours=1)
LIVES = Lives(ca=40 * HOUR, ca_renew=20 * HOUR, leaf=16 * HOUR, leaf_renew=8 * HOUR)
PLAN = Plan((NAME,), LIVES)
SETTLE = 30.0
ROUND = 30.0


class Site:
    """A keeper over an API server in memory, with a time of its own."""

    def __init__(self, *, installed: bool = True, leading: bool = True) -> None:
        self.api = MemoryApi(installed=installed)
        self.time = FakeTime(auto=True)
        self.leading = leading
        self.serves: Serves | None = None
        self.keeper = self.new_keeper()

    def new_keeper(self) -> Keeper:
        """A process that has just started."""
        store = SecretStore(self.api, "gpu-tenure-system", "gpu-tenure-webhook-ca", "gpu-tenure-webhook-tls")
        names = ((MUTATING, "zz-gpu-tenure"), (VALIDATING, "gpu-tenure"))
        configurations = Configurations(self.api, names)
        return Keeper(
            store,
            configurations,
            Rules(PLAN, SETTLE),
            self.time,
            may_write=lambda: self.leading,
            serves=self.serves,
            sleep=self.time.sleep,
        )

    async def round(self) -> Step:
        """One round; time goes on afterwards."""
        situation = await self.keeper.round()
        self.time.seconds += ROUND
        return situation.decision.step

    def in_order(self) -> bool:
        """Whether everything is there and trusted everywhere."""
        bundle = self.api.bundle
        return bundle.complete and all(pem == bundle.authorities_pem for pem in self.api.bundles())


@pytest.fixture
async def kept() -> Site:
    """A site whose certificates are in order."""
    site = Site()
    await site.round()
    assert site.in_order()
    return site


async def test_a_fresh_cluster_is_in_order_after_one_round() -> None:
    """Trust is written before the leaf: no call meets a certificate that it does not know."""
    site = Site()
    assert await site.round() is Step.KEEP
    assert site.in_order()
    order = [path for _, path in site.api.writes]
    assert order.index(MUTATING_PATH) < order.index(SERVING)
    assert order.index(VALIDATING_PATH) < order.index(SERVING)


async def test_without_configurations_there_is_nothing_to_wait_for() -> None:
    """The component may come first; what is installed later is trusted in the next round."""
    site = Site(installed=False)
    assert await site.round() is Step.KEEP
    later = MemoryApi()
    site.api.objects |= {path: later.objects[path] for path in (MUTATING_PATH, VALIDATING_PATH)}
    await site.round()
    assert site.in_order()


async def test_a_rotation_waits_until_the_new_ca_has_settled(kept: Site) -> None:
    """The leaf is switched a settling time after the caBundles were read back, and then stays."""
    old = kept.api.bundle.leaf
    kept.time.seconds += 10 * 3600  # the leaf is due: a fresh one of the old CA comes first
    await kept.round()
    assert kept.api.bundle.leaf != old
    renewed = kept.api.bundle.leaf
    kept.time.seconds += 11 * 3600 - 2 * ROUND
    assert await kept.round() is Step.WAIT
    assert len(kept.api.bundle.authorities) == 2
    assert all(len(read_certificates(pem)) == 2 for pem in kept.api.bundles())
    assert kept.api.bundle.leaf == renewed
    assert await kept.round() is Step.KEEP
    assert kept.api.bundle.leaf != renewed


async def test_a_restart_amid_a_rotation_waits_anew(kept: Site) -> None:
    """What another process saw is not known to this one."""
    kept.time.seconds += 8 * 3600
    await kept.round()
    kept.time.seconds += 12 * 3600
    assert await kept.round() is Step.WAIT
    kept.keeper = kept.new_keeper()
    assert await kept.round() is Step.WAIT
    assert await kept.round() is Step.KEEP


async def test_a_configuration_that_was_reset_holds_the_rotation(kept: Site) -> None:
    """Somebody applied an old manifest: the wait begins again."""
    kept.time.seconds += 8 * 3600
    await kept.round()
    kept.time.seconds += 12 * 3600
    assert await kept.round() is Step.WAIT
    kept.api.objects[VALIDATING_PATH]["webhooks"][0]["clientConfig"].pop("caBundle")
    assert await kept.round() is Step.WAIT
    assert kept.in_order()
    assert await kept.round() is Step.KEEP


async def test_a_quiet_round_reads_every_configuration_once(kept: Site) -> None:
    """And writes nothing."""
    kept.api.reads.clear()
    kept.api.writes.clear()
    assert await kept.round() is Step.KEEP
    read = [path for path in kept.api.reads if path in {MUTATING_PATH, VALIDATING_PATH}]
    assert sorted(read) == sorted([MUTATING_PATH, VALIDATING_PATH])
    assert kept.api.writes == []


async def test_what_was_written_is_read_back(kept: Site) -> None:
    """A round that finds another caBundle knows only by a new look that it is trusted now."""
    kept.api.objects[VALIDATING_PATH]["webhooks"][0]["clientConfig"].pop("caBundle")
    calls: list[str] = []

    def note(method: str, path: str) -> None:
        if path == VALIDATING_PATH:
            calls.append(method)

    kept.api.fail = note
    assert await kept.round() is Step.KEEP
    assert calls == ["GET", "GET", "PATCH", "GET"]
    assert kept.in_order()


HANDS = [
    pytest.param(AUTHORITY, None, id="the CA's Secret deleted"),
    pytest.param(SERVING, None, id="the serving Secret deleted"),
    pytest.param(AUTHORITY, {"tls.crt": b"", "tls.key": b"", "ca.crt": b""}, id="the CA's Secret emptied"),
    pytest.param(SERVING, {"tls.crt": b"x", "tls.key": b"y"}, id="the serving Secret spoilt"),
    pytest.param(SERVING, secrets(ca(), leaf(ca()))[1], id="a stranger's certificate"),
]


@pytest.mark.parametrize(("path", "data"), HANDS)
async def test_what_hands_do_to_secrets_heals(kept: Site, path: str, data: dict[str, bytes] | None) -> None:
    """Within a few rounds, and always with a leaf that is trusted."""
    if data is None:
        del kept.api.objects[path]
    else:
        kept.api.put_secret(path, data)
    for _ in range(4):
        await kept.round()
    assert kept.in_order()


async def test_both_secrets_lost_are_made_anew_at_once(kept: Site) -> None:
    """Nobody can connect anyway: nothing is waited for."""
    del kept.api.objects[AUTHORITY], kept.api.objects[SERVING]
    assert await kept.round() is Step.KEEP
    assert kept.in_order()
    assert len(kept.api.bundle.authorities) == 2


async def test_an_ended_ca_takes_the_fast_path(kept: Site, capsys: pytest.CaptureFixture[str]) -> None:
    """A cluster that slept for a week: one round mends it, and says so."""
    kept.time.seconds += 200 * 3600
    assert await kept.round() is Step.KEEP
    assert kept.in_order()
    assert len(kept.api.bundle.authorities) == 1
    said = capsys.readouterr().out
    assert "certificates changed" in said
    assert "the CA is not valid" in said
    assert "urgent" in said


@pytest.mark.parametrize(
    ("reloads_after", "rounds"),
    [
        pytest.param(5, 6, id="the webhook serves the new certificate after a while"),
        pytest.param(10_000, 121, id="the webhook cannot be dialled from here"),
    ],
)
async def test_what_all_is_ended_is_replaced_where_it_is_served_first(
    kept: Site, reloads_after: int, rounds: int
) -> None:
    """Open connections outlive a certificate, but not a new caBundle: that comes last, yet it comes."""
    kept.time.seconds += 200 * 3600
    before = kept.api.bundles()
    began = kept.time.seconds

    async def serves(authorities: bytes) -> bool:
        assert authorities == kept.api.bundle.authorities_pem
        return kept.time.seconds >= began + reloads_after

    kept.serves = serves
    kept.keeper = kept.new_keeper()
    held = 0
    while (situation := await kept.keeper.round()).held:
        assert kept.api.bundles() == before
        assert kept.api.bundle.complete
        held += 1
        kept.time.seconds += 1
    assert situation.decision.step is Step.KEEP
    assert kept.in_order()
    assert held + 1 == rounds


async def test_lost_secrets_do_not_cut_what_the_webhook_still_serves(kept: Site) -> None:
    """A deleted Secret leaves its files in running pods: their CA stays trusted beside the new one."""
    (served,) = kept.api.bundle.authorities
    del kept.api.objects[AUTHORITY], kept.api.objects[SERVING]
    await kept.round()
    assert all(
        served.fingerprint in {one.fingerprint for one in read_certificates(pem)}
        for pem in kept.api.bundles()
    )


async def test_a_secret_of_another_type_keeps_its_type() -> None:
    """The type of a Secret can never be changed."""
    site = Site()
    site.api.put_secret(SERVING, {"tls.crt": b"", "tls.key": b""}, "Opaque")
    await site.round()
    assert site.in_order()
    assert site.api.objects[SERVING]["type"] == "Opaque"


async def test_nobody_writes_without_the_lease() -> None:
    """A process that lost it a moment ago changes nothing."""
    site = Site(leading=False)
    await site.round()
    assert site.api.writes == []
    assert set(site.api.objects) == {MUTATING_PATH, VALIDATING_PATH}


FAULTS = [
    pytest.param(ApiUnreachable("cut"), id="no answer"),
    pytest.param(ApiError(409, "Conflict"), id="somebody was faster"),
    pytest.param(ApiError(503, "ServiceUnavailable"), id="an API server that is starting"),
]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("nth", range(1, 6))
async def test_a_write_that_fails_is_made_up_for(fault: Exception, nth: int) -> None:
    """At whatever write of a first round: the next one ends in order, with one CA."""
    site = Site()
    count = 0

    def fail(method: str, _: str) -> Exception | None:
        nonlocal count
        count += method != "GET"
        return fault if method != "GET" and count == nth else None

    site.api.fail = fail
    with pytest.raises(type(fault)) if nth <= 4 else _nothing():
        await site.round()
    for _ in range(3):
        await site.round()
    assert site.in_order()
    assert len(site.api.bundle.authorities) == 1


async def test_another_writer_is_never_overwritten(kept: Site) -> None:
    """A Secret that changed since it was read is read again."""
    stolen = secrets(ca(), leaf(ca()))[0]

    def fail(method: str, path: str) -> Exception | None:
        if method == "PUT" and path == SERVING and kept.api.data(AUTHORITY) != stolen:
            kept.api.put_secret(AUTHORITY, stolen)
            kept.api.put_secret(SERVING, secrets(ca(), leaf(ca()))[1])
        return None

    kept.api.fail = fail
    kept.time.seconds += 9 * 3600
    with pytest.raises(ApiError, match="409"):
        await kept.round()
    kept.api.fail = lambda _, __: None
    for _ in range(4):
        await kept.round()
    assert kept.in_order()


async def test_ensuring_ends_when_all_is_in_order() -> None:
    """With rounds as many as it takes."""
    site = Site()
    situation = await site.keeper.until_kept(1.0)
    assert situation.decision.step is Step.KEEP
    assert site.in_order()
    assert SECRETS in AUTHORITY


class _nothing:  # noqa: N801 - reads as the context that it is
    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None
