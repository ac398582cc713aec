"""Every step of a rotation: what is decided in every state, and that no moment is without a way in."""

from __future__ import annotations

from datetime import timedelta

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from certs.bundle import Bundle, Certificate, read_bundle
from certs.issue import BACKDATED, KeyPair
from certs.rotation import Lives, Plan, Step, advance, decide
from tests.certs.made import DAY, NAME, NOW, PLAN, again, bundle, ca, leaf, secrets

CA = ca(100 * DAY)
OLD = ca(600 * DAY)
ENDED = ca(800 * DAY)
FUTURE = ca(-2 * DAY)

STATES = [
    pytest.param(None, None, (), Step.ADD_CA, True, "no CA with its key", id="a fresh cluster"),
    pytest.param(CA, None, (), Step.RENEW_LEAF, True, "no certificate with its key", id="the leaf is lost"),
    pytest.param(None, leaf(CA), (CA,), Step.ADD_CA, False, "no CA with its key", id="the CA's key is lost"),
    pytest.param(None, leaf(CA), (), Step.ADD_CA, True, "no CA with its key", id="the CA is lost whole"),
    pytest.param(CA, leaf(CA), (), Step.KEEP, False, "nothing to do", id="all in order"),
    pytest.param(CA, leaf(CA, 59 * DAY), (), Step.KEEP, False, "nothing", id="a leaf with 31 days left"),
    pytest.param(CA, leaf(CA, 61 * DAY), (), Step.RENEW_LEAF, False, "ends at", id="a leaf with 29 left"),
    pytest.param(CA, leaf(CA, 91 * DAY), (), Step.RENEW_LEAF, True, "is not valid", id="a leaf that ended"),
    pytest.param(CA, leaf(CA, -2 * DAY), (), Step.RENEW_LEAF, True, "is not valid", id="a leaf of tomorrow"),
    pytest.param(
        CA, leaf(CA, names=("other.svc",)), (), Step.RENEW_LEAF, True, f"not for {NAME}", id="other names"
    ),
    pytest.param(
        CA, leaf(ca()), (), Step.RENEW_LEAF, True, "signed by no CA of ours", id="a leaf of a stranger"
    ),
    pytest.param(OLD, leaf(OLD), (), Step.ADD_CA, False, "the CA ends at", id="a CA with 130 days left"),
    pytest.param(
        ENDED, leaf(ENDED, 75 * DAY), (), Step.ADD_CA, True, "the CA is not valid", id="a CA that ended"
    ),
    pytest.param(FUTURE, leaf(FUTURE), (), Step.ADD_CA, True, "is not valid", id="a CA of tomorrow"),
    pytest.param(CA, leaf(OLD), (OLD,), Step.RENEW_LEAF, False, "by an older CA", id="amid a rotation"),
    pytest.param(CA, leaf(CA), (OLD,), Step.DROP_CA, False, "can be valid any more", id="long after one"),
    pytest.param(
        ca(DAY), leaf(ca(DAY)), (), Step.RENEW_LEAF, True, "no CA of ours", id="same name, other key"
    ),
]


@pytest.mark.parametrize(("signer", "served", "trusted", "step", "urgent", "said"), STATES)
def test_every_state_has_one_next_step(
    signer: KeyPair | None,
    served: KeyPair | None,
    trusted: tuple[KeyPair, ...],
    step: Step,
    urgent: bool,
    said: str,
) -> None:
    """With everything settled; an urgent one is a state in which nobody can connect."""
    decision = decide(bundle(signer, served, *trusted), PLAN, NOW, settled=True)
    assert (decision.step, decision.urgent) == (step, urgent), decision.reason
    assert said in decision.reason


def test_a_new_ca_signs_nothing_before_it_is_trusted() -> None:
    """Until then the old leaf goes on, even if it is due; a leaf that nobody can use does not wait."""
    rotating = bundle(CA, leaf(OLD, 70 * DAY), OLD)
    assert decide(rotating, PLAN, NOW, settled=False).step is Step.WAIT
    assert decide(rotating, PLAN, NOW, settled=True).step is Step.RENEW_LEAF
    ended = bundle(CA, leaf(OLD, 95 * DAY), OLD)
    assert decide(ended, PLAN, NOW, settled=False).urgent


def test_a_leaf_of_the_present_ca_is_renewed_only_where_that_ca_is_trusted() -> None:
    """A caBundle that somebody broke is mended first."""
    due = bundle(CA, leaf(CA, 70 * DAY))
    assert decide(due, PLAN, NOW, settled=False).step is Step.KEEP
    assert decide(due, PLAN, NOW, settled=True).step is Step.RENEW_LEAF


@pytest.mark.parametrize(
    ("age", "step"),
    [
        pytest.param(90 * DAY - timedelta(seconds=1), Step.KEEP, id="a second before its last leaf ends"),
        pytest.param(90 * DAY, Step.DROP_CA, id="when its last leaf ends"),
    ],
)
def test_an_old_ca_goes_when_its_last_leaf_has_ended(age: timedelta, step: Step) -> None:
    """It signed its last leaf when the new one was made, at the latest."""
    new = ca(age)
    assert decide(bundle(new, leaf(new), CA), PLAN, NOW, settled=True).step is step


def test_broken_secrets_are_written_anew() -> None:
    """What else somebody put there goes."""
    authority, serving = secrets(CA, leaf(CA))
    edited = read_bundle(authority, {**serving, "notes": b"do not touch"})
    assert decide(edited, PLAN, NOW, settled=True).step is Step.WRITE
    assert decide(read_bundle(authority, serving), PLAN, NOW, settled=True).step is Step.KEEP


class World:
    """Secrets and caBundles in memory, rounds over them, and API servers that read late."""

    def __init__(self, plan: Plan, start: Bundle) -> None:
        self.plan = plan
        self.bundle = start
        self.now = NOW
        self.settled = False
        self.read_by_api_servers: tuple[Certificate, ...] = start.authorities
        self.steps: list[Step] = []

    def round(self) -> None:
        """One round: at most one step of each kind, then every caBundle has what the bundle says."""
        decision = decide(self.bundle, self.plan, self.now, settled=self.settled)
        self.steps.append(decision.step)
        before = self.bundle.signer
        self.bundle = again(advance(self.bundle, decision, self.plan, self.now))
        if self.bundle.signer != before:
            self.settled = False

    def api_servers_read(self) -> None:
        """Every API server has seen the caBundle: it has settled."""
        self.read_by_api_servers = self.bundle.authorities
        self.settled = True

    def connects(self, served: KeyPair) -> bool:
        """Whether an API server accepts a leaf with what it has read."""
        trusted = [x509.load_pem_x509_certificate(one.pem) for one in self.read_by_api_servers]
        store = x509.verification.Store(trusted)
        verifier = x509.verification.PolicyBuilder().store(store).time(self.now)
        try:
            verifier.build_server_verifier(x509.DNSName(self.plan.names[0])).verify(
                x509.load_pem_x509_certificate(served.cert_pem), []
            )
        except x509.verification.VerificationError:
            return False
        return True


HOURS = st.lists(
    st.tuples(st.integers(1, 60), st.booleans()), min_size=40, max_size=90
)  # hours that pass, and whether the API servers read meanwhile
SHORT = Plan(PLAN.names, Lives(ca=20 * DAY, ca_renew=10 * DAY, leaf=6 * DAY, leaf_renew=4 * DAY))


@settings(max_examples=12, deadline=None)
@given(HOURS)
def test_whatever_the_pace_every_leaf_in_use_is_accepted(pace: list[tuple[int, bool]]) -> None:
    """Over several rotations, with API servers that read late and a webhook that reloads a round late."""
    signer = ca(life=SHORT.lives.ca)
    world = World(SHORT, bundle(signer, leaf(signer, life=SHORT.lives.leaf)))
    world.api_servers_read()
    served = world.bundle.leaf
    late = 0
    for hours, read in pace:
        assert served is not None
        assert world.connects(served), world.steps
        latest = world.bundle.leaf
        world.round()
        assert world.bundle.leaf is not None
        assert world.connects(world.bundle.leaf), world.steps
        served = latest
        late = 0 if read else late + hours
        # An API server that reads nothing for days is no matter of certificates.
        if read or late > 24:
            world.api_servers_read()
            late = 0
        world.now += timedelta(hours=min(hours, 24))
    assert len(world.bundle.authorities) <= 3


def test_a_whole_life_of_rotations_visits_every_step() -> None:
    """Three years, a round a day: leaves renewed, CAs added and dropped, never more than two at once."""
    signer = ca()
    world = World(PLAN, bundle(signer, leaf(signer)))
    most = 0
    for _ in range(3 * 365):
        world.round()
        world.api_servers_read()
        assert world.bundle.leaf is not None
        assert world.connects(world.bundle.leaf)
        most = max(most, len(world.bundle.authorities))
        world.now += DAY
    counted = {step: world.steps.count(step) for step in set(world.steps)}
    assert counted[Step.ADD_CA] == 1
    assert counted[Step.DROP_CA] == 1
    assert 17 <= counted[Step.RENEW_LEAF] <= 20
    assert most == 2


def test_a_lost_cluster_is_whole_again_after_two_steps() -> None:
    """Nothing at all: a CA, then a leaf of it, at once."""
    world = World(PLAN, Bundle())
    world.round()
    world.round()
    assert world.steps == [Step.ADD_CA, Step.RENEW_LEAF]
    assert world.bundle.complete
    assert decide(world.bundle, PLAN, NOW, settled=False).step is Step.KEEP


def test_what_has_ended_is_not_trusted_for_another_moment() -> None:
    """A new CA in the place of one that ended does not carry it along."""
    expired = bundle(ENDED, leaf(ENDED, 75 * DAY))
    decision = decide(expired, PLAN, NOW, settled=False)
    added = advance(expired, decision, PLAN, NOW)
    assert [one.valid(NOW) for one in added.authorities] == [True]
    signer = added.signer_certificate
    assert signer is not None
    assert signer.not_before == NOW - BACKDATED
