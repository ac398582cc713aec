"""The arithmetic of the ledger: what fits, what is held, what is counted."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.gpuquota import GPUQuota, Per
from policy.ledger import (
    MOST_RESERVATIONS,
    Ask,
    Fits,
    Ledger,
    NotYet,
    Reservation,
    Short,
    amount_of,
    concerns,
    folded,
    held,
    judge_ask,
    release,
    reserve,
    show_amount,
)
from policy.ledger_count import (
    HOLDERS_BYTES,
    MOST_REQUESTERS,
    HeldPod,
    count_pods,
    differs,
    excesses,
    summary_of,
)

GPU, MIG, MEMORY = "nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "nvidia.com/gpumem"
WEIGHTS = {GPU: Fraction(1), MIG: Fraction(1, 7)}


def weigh(name: str) -> Fraction:
    """A seventh for the smallest slice."""
    return WEIGHTS.get(name, Fraction(0))


def quota(hard: dict[str, int] | None = None, per: Per = Per.QUOTA, generation: int = 1) -> GPUQuota:
    """A quota of eight devices."""
    limits = {name: Fraction(amount) for name, amount in (hard or {"devices": 8}).items()}
    return GPUQuota("q", "u", generation, per=per, hard=limits)


def ledger(used: dict[str, dict[str, int]] | None = None, **more: Any) -> Ledger:
    """A ledger that has counted team-a and team-b."""
    return Ledger(used=used or {}, observed_generation=1, namespaces=("team-a", "team-b"), **more)


def ask(uid: str = "1", namespace: str = "team-a", **counts: int) -> Ask:
    """A pod that asks for GPUs unless said otherwise."""
    return Ask(uid, namespace, f"pod-{uid}", "dev-a", {GPU: counts.get("gpus", 1)})


def reserved(count: int, namespace: str = "team-a", subject: str = "*") -> dict[str, Reservation]:
    """Reservations of one GPU each."""
    return {
        f"{namespace}-{index}": Reservation(namespace, f"p{index}", subject, {GPU: 1})
        for index in range(count)
    }


@pytest.mark.parametrize(
    ("made", "have", "wanted", "expected"),
    [
        pytest.param(quota(), ledger(), ask(gpus=8), Fits, id="the whole quota fits into an empty one"),
        pytest.param(quota(), ledger(), ask(gpus=9), Short, id="more than the quota never fits"),
        pytest.param(quota(), ledger({"*": {GPU: 7}}), ask(), Fits, id="the last device fits"),
        pytest.param(quota(), ledger({"*": {GPU: 8}}), ask(), Short, id="a full quota refuses"),
        pytest.param(
            quota(),
            ledger({"*": {GPU: 5}}, reservations=reserved(3, "team-b")),
            ask(),
            Short,
            id="reservations count like pods",
        ),
        pytest.param(
            quota(per=Per.NAMESPACE),
            ledger({"team-b": {GPU: 8}}),
            ask(),
            Fits,
            id="another namespace's devices are not ours",
        ),
        pytest.param(
            quota({"devices": 1}),
            ledger({"*": {MIG: 6}}),
            Ask("1", "team-a", "p", None, {MIG: 1}),
            Fits,
            id="seven sevenths are exactly one device",
        ),
        pytest.param(
            quota({"devices": 1}),
            ledger({"*": {MIG: 7}}),
            Ask("1", "team-a", "p", None, {MIG: 1}),
            Short,
            id="an eighth seventh is too much",
        ),
        pytest.param(
            quota({MEMORY: 100}), ledger({"*": {GPU: 99}}), ask(), Fits, id="what is not limited always fits"
        ),
        pytest.param(
            quota(generation=2), ledger(), ask(), NotYet, id="a quota that changed must be counted first"
        ),
        pytest.param(
            quota(),
            ledger(),
            ask(namespace="new"),
            NotYet,
            id="a namespace must be counted first",
        ),
        pytest.param(
            quota(),
            ledger(reservations=reserved(4)),
            ask(),
            NotYet,
            id="half of a shared quota may be unconfirmed",
        ),
        pytest.param(
            quota(),
            ledger(reservations=reserved(4)),
            ask(namespace="team-b"),
            Fits,
            id="the other half is for others",
        ),
        pytest.param(
            quota(per=Per.NAMESPACE),
            ledger(reservations=reserved(4, subject="team-a")),
            ask(),
            Fits,
            id="what is not shared may be reserved whole",
        ),
        pytest.param(
            quota(),
            ledger(reservations=reserved(0)),
            ask(gpus=8),
            Fits,
            id="one large pod may come alone",
        ),
        pytest.param(
            quota(),
            ledger({"*": {GPU: 4}}, reservations=reserved(4)),
            ask("team-a-0"),
            Fits,
            id="a pod with a reservation fits again",
        ),
        pytest.param(
            quota({"devices": 5000}, Per.NAMESPACE),
            ledger(reservations=reserved(MOST_RESERVATIONS, subject="team-a")),
            ask(),
            NotYet,
            id="reservations are bounded",
        ),
        pytest.param(
            quota({"devices": 5000}, Per.NAMESPACE),
            ledger(reservations=reserved(MOST_RESERVATIONS // 2, subject="team-a")),
            ask(),
            NotYet,
            id="a namespace may have half of all reservations",
        ),
        pytest.param(
            quota({"devices": 5000}, Per.NAMESPACE),
            ledger(reservations=reserved(MOST_RESERVATIONS // 2, subject="team-a")),
            ask(namespace="team-b"),
            Fits,
            id="and keeps no other out",
        ),
    ],
)
def test_what_fits(made: GPUQuota, have: Ledger, wanted: Ask, expected: type) -> None:
    """One pod against one ledger."""
    assert isinstance(judge_ask(made, have, wanted, weigh), expected)


def test_a_refusal_has_the_numbers_and_the_holders() -> None:
    """What a person needs to know is in the value."""
    have = ledger({"*": {GPU: 7}}, holders={"*": ("team-a/Job/train (7)",)})
    found = judge_ask(quota(), have, ask(gpus=2), weigh)
    assert found == Short("*", "devices", Fraction(7), Fraction(8), Fraction(2), ("team-a/Job/train (7)",))


def test_fullness_is_of_the_fullest_limit() -> None:
    """With several limits the one that is nearest to its end is told."""
    found = judge_ask(quota({"devices": 100, GPU: 10}), ledger({"*": {GPU: 8}}), ask(), weigh)
    assert isinstance(found, Fits)
    assert (found.fullness, found.text) == (Fraction(9, 10), "9 of 10 nvidia.com/gpu")


def test_a_reservation_is_made_once() -> None:
    """A review that comes twice reserves once."""
    once = reserve(quota(), ledger(), ask(), "now")
    assert reserve(quota(), once, ask(gpus=3), "later") is once
    assert release(once, ["1"]) == ledger()
    assert release(once, ["2"]) is once


def test_only_pods_that_ask_for_what_is_limited_are_concerned() -> None:
    """Others never wait for the ledger."""
    assert concerns(quota(), {MIG: 1}, weigh)
    assert not concerns(quota({MEMORY: 5}), {GPU: 1}, weigh)


def pod(uid: str, namespace: str = "team-a", **more: Any) -> HeldPod:
    """A pod with one GPU."""
    return HeldPod(uid, namespace, f"p-{uid}", "dev-a", {GPU: 1}, **more)


def test_counting_takes_the_reservation_of_what_it_counts() -> None:
    """A pod is never in both columns, and never in neither."""
    have = ledger(reservations={**reserved(2), "x": Reservation("team-a", "x", "*", {GPU: 1})})
    after = count_pods(quota(), have, [pod("x"), pod("y")], ("team-a",), "7", weigh)
    assert after.used == {"*": {GPU: 2}}
    assert after.reservations == reserved(2)
    assert (after.pods_resource_version, after.observed_generation, after.namespaces) == ("7", 1, ("team-a",))


def test_ended_pods_hold_nothing_and_need_no_reservation() -> None:
    """Succeeded and Failed pods give back; so do UIDs that will never come."""
    after = count_pods(
        quota(),
        ledger(reservations=reserved(2)),
        [pod("team-a-0", ended=True)],
        ("team-a",),
        "7",
        weigh,
        ["team-a-1"],
    )
    assert (after.used, after.reservations) == ({}, {})


def test_holders_are_the_owners_with_most_and_what_is_known_of_them() -> None:
    """Pods of one workload are one holder; the three largest are named."""
    pods = [
        *(pod(f"a{index}", owner="Job/train", remark="idle since 10:00") for index in range(3)),
        pod("b", owner="Deployment/web"),
        pod("c"),
        pod("d", owner="Deployment/zoo"),
    ]
    after = count_pods(quota(), ledger(), pods, ("team-a",), "7", weigh)
    assert after.holders["*"] == (
        "team-a/Job/train (3, idle since 10:00)",
        "team-a/Deployment/web (1)",
        "team-a/Deployment/zoo (1)",
    )


def test_very_many_holders_leave_the_ledger_small_enough_to_be_written() -> None:
    """Whoever has service accounts without end has subjects without end; the fullest name their holders."""
    subject = "system:serviceaccount:team-a:" + "a" * 200
    pods = [
        HeldPod(
            str(index), "team-a", "p", f"{subject}{index}", {GPU: 2 if index == 7 else 1}, owner="b" * 390
        )
        for index in range(2000)
    ]
    after = count_pods(quota(per=Per.REQUESTER), ledger(), pods, ("team-a",), "7", weigh)
    assert len(after.used) == 2000
    assert f"{subject}7" in after.holders
    assert len(msgspec.json.encode(after.holders)) <= HOLDERS_BYTES


def test_excess_names_the_newest_pods() -> None:
    """Pods that slipped in are the newest ones; as many as make up the excess."""
    pods = [pod(str(day), created=f"2025-01-0{day}T00:00:00Z") for day in range(1, 6)]
    made = quota({"devices": 3})
    after = count_pods(made, ledger(), pods, ("team-a",), "7", weigh)
    (found,) = excesses(made, after, pods, weigh)
    assert after.over == ("*",)
    assert [one.uid for one in found.pods] == ["5", "4"]
    assert (found.used, found.hard) == (5, 3)


@pytest.mark.parametrize(
    ("made", "have", "summary"),
    [
        pytest.param(quota(), ledger(), "0/8", id="an empty shared quota"),
        pytest.param(
            quota(), ledger({"*": {GPU: 3}}, reservations=reserved(1)), "4/8", id="with reservations"
        ),
        pytest.param(
            quota(per=Per.NAMESPACE),
            ledger({"a": {GPU: 1}, "b": {GPU: 7}}),
            "b 7/8, a 1/8",
            id="the fullest subject comes first",
        ),
        pytest.param(
            quota({"devices": 8, MEMORY: 10}),
            ledger({"*": {GPU: 1, MEMORY: 4}}),
            "1/8 devices 4/10 nvidia.com/gpumem",
            id="several limits are named",
        ),
    ],
)
def test_the_printed_column(made: GPUQuota, have: Ledger, summary: str) -> None:
    """`kubectl get gpuquota` shows used and hard of each subject."""
    assert summary_of(made, have, weigh) == summary


def test_the_printed_column_stays_short() -> None:
    """Hundreds of subjects are cut with their number."""
    text = summary_of(quota(per=Per.NAMESPACE), ledger({f"team-{n}": {GPU: 1} for n in range(500)}), weigh)
    assert len(text) < 300
    assert "more" in text


def test_a_newer_version_alone_is_not_worth_a_write() -> None:
    """Pods that change nothing cost nothing."""
    assert not differs(ledger(pods_resource_version="1"), ledger(pods_resource_version="2"))
    assert differs(ledger(), ledger({"*": {GPU: 1}}))


@pytest.mark.parametrize(
    ("amount", "text"), [(Fraction(7), "7"), (Fraction(5, 2), "2.5"), (Fraction(1, 7), "0.14")]
)
def test_amounts_for_people(amount: Fraction, text: str) -> None:
    """Whole numbers stay whole."""
    assert show_amount(amount) == text


asks = st.builds(
    lambda uid, space, gpus, slices: Ask(str(uid), space, f"p{uid}", None, {GPU: gpus, MIG: slices}),
    st.integers(0, 40),
    st.sampled_from(["team-a", "team-b"]),
    st.integers(0, 4),
    st.integers(0, 9),
)


@given(st.lists(asks, max_size=40), st.integers(0, 8), st.sampled_from(Per))
def test_what_is_let_in_one_by_one_never_exceeds_a_limit(wanted: list[Ask], hard: int, per: Per) -> None:
    """Whatever comes in whatever order, no subject holds more than the limit."""
    made, have = quota({"devices": hard}, per), ledger()
    for one in wanted:
        if isinstance(judge_ask(made, have, one, weigh), Fits):
            have = reserve(made, have, one, "")
    for subject in {reservation.subject for reservation in have.reservations.values()}:
        assert amount_of(held(have, subject), "devices", weigh) <= hard


@given(st.lists(asks, max_size=20))
def test_a_ledger_survives_the_wire(wanted: list[Ask]) -> None:
    """What is written as JSON is read as the same value."""
    have = ledger({"*": {GPU: 2}}, holders={"*": ("a (1)",)})
    for one in wanted:
        have = reserve(quota(), have, one, "2025-01-01T00:00:00Z")
    assert msgspec.json.decode(msgspec.json.encode(have), type=Ledger) == have


def test_names_without_end_are_counted_under_few() -> None:
    """No amount changes that a limit is about, and the ledger stays small."""
    names = [f"nvidia.com/mig-{index}g.5gb" for index in range(5000)]
    counts = {**dict.fromkeys(names, 2), GPU: 3, MEMORY: 70}
    made = quota({"devices": 8, GPU: 8, names[-1]: 8})

    def by_name(name: str) -> Fraction:
        return Fraction(1, 7) if name in names else weigh(name)

    pods = [HeldPod("x", "team-a", "x", None, counts)]
    found = count_pods(made, ledger(), pods, ("team-a",), "7", by_name).used["*"]
    assert len(found) <= 5
    for limit in made.hard:
        assert amount_of(found, limit, by_name) == amount_of(counts, limit, by_name)


@given(
    st.dictionaries(st.sampled_from([f"a/{n}" for n in range(300)]), st.integers(0, 2**40), min_size=101),
    st.sets(st.sampled_from([f"a/{n}" for n in range(300)]), max_size=4),
)
def test_folding_changes_no_amount(counts: dict[str, int], limits: set[str]) -> None:
    """Neither weighted devices nor any limit notices, and a few names are left."""

    def weigh_by_number(name: str) -> Fraction:
        return Fraction(int(name.removeprefix("a/")) % 7, 7)

    few = folded(counts, limits, weigh_by_number)
    assert len(few) <= 7 + len(limits)
    for limit in ("devices", *limits):
        assert amount_of(few, limit, weigh_by_number) == amount_of(counts, limit, weigh_by_number)


EACH = quota({"devices": 2}, per=Per.REQUESTER)
RESERVED_FOR_NOBODY = Reservation("team-a", "y", "unknown:team-a", {GPU: 2})


def test_a_pod_that_stops_naming_its_requester_counts_for_the_same_one() -> None:
    """The first leader saw it happen; the next one reads it in the ledger."""
    seen = HeldPod("x", "team-a", "x", "dev-a", {GPU: 2}, recalled=True)
    first = count_pods(EACH, ledger(), [seen], ("team-a",), "7", weigh)
    assert first.requesters == {"x": "dev-a"}
    silent = HeldPod("x", "team-a", "x", None, {GPU: 2})
    after = count_pods(EACH, first, [silent], ("team-a",), "8", weigh)
    assert after.used == {"dev-a": {GPU: 2}}
    assert not differs(first, after)
    assert count_pods(EACH, after, [], ("team-a",), "9", weigh).requesters == {}


def test_who_a_pod_was_reserved_for_is_known_though_it_says_nothing() -> None:
    """It dropped the name before anybody had counted it."""
    reservations = {"x": Reservation("team-a", "x", "dev-a", {GPU: 2}), "y": RESERVED_FOR_NOBODY}
    pods = [HeldPod(uid, "team-a", uid, None, {GPU: 2}) for uid in "xy"]
    after = count_pods(EACH, ledger(reservations=reservations), pods, ("team-a",), "7", weigh)
    assert after.used == {"dev-a": {GPU: 2}, "unknown:team-a": {GPU: 2}}
    assert after.requesters == {"x": "dev-a"}


def test_excess_is_of_whom_the_ledger_remembers() -> None:
    """What is told of a pod agrees with how it is counted."""
    have = count_pods(
        EACH,
        ledger(),
        [HeldPod("x", "team-a", "x", "dev-a", {GPU: 3}, recalled=True)],
        ("team-a",),
        "7",
        weigh,
    )
    (excess,) = excesses(EACH, have, [HeldPod("x", "team-a", "x", None, {GPU: 3})], weigh)
    assert (excess.subject, excess.pods[0].name) == ("dev-a", "x")


def test_the_memory_of_requesters_is_bounded() -> None:
    """Those that are known already stay; only quotas that count by requester remember at all."""
    known = {f"z{number}": "dev-a" for number in range(MOST_REQUESTERS)}
    pods = [HeldPod(uid, "team-a", uid, "dev-a", {}, recalled=True) for uid in (*known, "a")]
    assert count_pods(EACH, ledger(requesters=known), pods, ("team-a",), "7", weigh).requesters == known
    assert count_pods(quota(), ledger(), pods, ("team-a",), "7", weigh).requesters == {}
