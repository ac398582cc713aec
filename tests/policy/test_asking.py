from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.asking import CLASS_ROWS, admitted_terms, parse_asked, policy_terms
from policy.classes import PodClass
from policy.gpupolicy import BUILT_IN, GPUPolicy, parse_policy
from policy.keys import SEED_EVICTION_POLICY, Annotation, Label
from policy.terms import Action, Reference, Terms, terms_to_labels
from tests.policy.strategies import label_wishes, policies


def policy(**spec: Any) -> GPUPolicy:
    """The policy of a specification."""
    return parse_policy({"metadata": {"name": "p"}, "spec": spec})


IDLE = {"action": "evict", "after": "2h", "grace": "30m"}
BOUNDED = {"after": {"min": "30m", "max": "8h"}, "grace": "4h"}


def test_class_rows_are_the_defaults_table() -> None:
    """Where a policy says nothing: 2h for interactive and batch, 24h and warn only for serving."""
    rows = {c: (t.action, str(t.after), str(t.grace), t.utilization, t.memory) for c, t in CLASS_ROWS.items()}
    assert rows == {
        PodClass.INTERACTIVE: ("evict", "2h", "30m", 5, None),
        PodClass.BATCH: ("evict", "2h", "30m", 5, None),
        PodClass.SERVING: ("warn", "24h", "30m", 5, None),
    }


@pytest.mark.parametrize(
    ("spec", "pod_class", "action", "after"),
    [
        pytest.param({}, PodClass.SERVING, "warn", "24h", id="the class's row is the last resort"),
        pytest.param(
            {"idle": {"after": "3h"}}, PodClass.SERVING, "warn", "3h", id="idle is above the row, per field"
        ),
        pytest.param(
            {"idle": IDLE}, PodClass.SERVING, "evict", "2h", id="an acting idle reaches serving pods"
        ),
        pytest.param(
            {"idle": IDLE, "classes": {"serving": {"idle": {"action": "warn"}}}},
            PodClass.SERVING,
            "warn",
            "2h",
            id="the class is above idle, per field",
        ),
        pytest.param(
            {"idle": IDLE, "classes": {"serving": {"idle": {"after": "9h"}}}},
            PodClass.BATCH,
            "evict",
            "2h",
            id="another class's block does not count",
        ),
    ],
)
def test_policy_terms(spec: dict[str, Any], pod_class: PodClass, action: str, after: str) -> None:
    """Per field: the class's block over `idle` over the class's row."""
    terms = policy_terms(policy(**spec), pod_class)
    assert (terms.action, str(terms.after)) == (action, after)


def test_a_class_may_take_back_what_the_policy_chose() -> None:
    """False counts where it is written, and is not the same as nothing."""
    chosen = policy(
        idle={"neverTouched": True, "of": "given"},
        classes={"serving": {"idle": {"neverTouched": False, "of": "card"}}},
    )
    serving, batch = (policy_terms(chosen, one) for one in (PodClass.SERVING, PodClass.BATCH))
    assert (serving.never_touched, serving.of) == (False, Reference.CARD)
    assert (batch.never_touched, batch.of) == (True, Reference.GIVEN)


@pytest.mark.parametrize("pod_class", PodClass)
def test_the_built_in_policy_observes_every_class(pod_class: PodClass) -> None:
    """Without a policy nothing is ever done."""
    assert policy_terms(BUILT_IN, pod_class).action is Action.OBSERVE


@pytest.mark.parametrize(
    ("bounds", "label", "asked", "given", "in_asked", "why"),
    [
        pytest.param(
            BOUNDED, Label.IDLE_AFTER, "4h", "4h", True, None, id="a duration within bounds is given"
        ),
        pytest.param(
            BOUNDED, Label.IDLE_AFTER, "24h", "8h", True, "at most 8h", id="one above becomes the maximum"
        ),
        pytest.param(
            BOUNDED, Label.IDLE_AFTER, "1m", "30m", True, "at least 30m", id="one below becomes the minimum"
        ),
        pytest.param(
            BOUNDED, Label.IDLE_AFTER, "120m", "120m", False, None, id="the policy's value is no wish"
        ),
        pytest.param(
            BOUNDED, Label.IDLE_AFTER, "soon", "2h", False, "must be", id="nonsense becomes the policy's"
        ),
        pytest.param(
            {}, Label.IDLE_AFTER, "4h", "2h", False, "at most 2h", id="without bounds nothing longer"
        ),
        pytest.param({}, Label.IDLE_AFTER, "1h", "2h", False, "at least 2h", id="and nothing shorter"),
        pytest.param(
            {"after": {"max": "1h"}}, Label.IDLE_AFTER, "4h", "2h", False, "at most 2h", id="own value fits"
        ),
        pytest.param(BOUNDED, Label.IDLE_GRACE, "1h", "1h", True, None, id="a longer grace is given"),
        pytest.param(BOUNDED, Label.IDLE_GRACE, "9h", "4h", True, "at most 4h", id="up to its bound"),
        pytest.param(
            BOUNDED, Label.IDLE_GRACE, "1m", "30m", False, "at least 30m", id="a shorter one is not"
        ),
        pytest.param({}, Label.IDLE_ACTION, "stop", "stop", True, None, id="a stronger action is given"),
        pytest.param({}, Label.IDLE_ACTION, "evict", "evict", False, None, id="an equal one is no wish"),
        pytest.param(
            {}, Label.IDLE_ACTION, "warn", "evict", False, "stronger", id="a weaker one is not given"
        ),
        pytest.param(
            {}, Label.IDLE_ACTION, "", "evict", False, "must be one of", id="an empty one is malformed"
        ),
        pytest.param(
            {}, Label.IDLE_ACTION, "exempt", "evict", False, "no exemption", id="no exemption by default"
        ),
        pytest.param(
            {"exemption": "14d"}, Label.IDLE_ACTION, "exempt", "exempt", True, None, id="but where allowed"
        ),
        pytest.param(
            {}, Label.IDLE_UTILIZATION, "50", "5", False, "only the policy", id="utilization is fixed"
        ),
        pytest.param(
            {}, Label.IDLE_UTILIZATION, "5", "5", False, None, id="unless it is the policy's anyway"
        ),
        pytest.param(
            {}, Label.IDLE_STATISTIC, "average", "maximum", False, "only the policy", id="so is the statistic"
        ),
        pytest.param(
            {}, Label.IDLE_MEMORY, "1Gi", None, False, "only the policy", id="an own memory is taken away"
        ),
        pytest.param(
            {}, Label.IDLE_WARM_UP, "9h", "30m", False, "only the policy", id="and warm-up is fixed"
        ),
    ],
)
def test_asking(
    bounds: Any, label: Label, asked: str, given: str | None, in_asked: bool, why: str | None
) -> None:
    """What a user asks is given, cut to a bound, or replaced by the policy's value with both values named."""
    admitted = admitted_terms(
        policy(idle=IDLE, bounds=bounds), PodClass.BATCH, {label: asked, "app": "x"}, None
    )
    assert terms_to_labels(admitted.terms).get(label) == given
    assert admitted.asked == ((label.removeprefix("gpu-tenure.io/"),) if in_asked else ())
    assert len(admitted.replaced) == int(why is not None)
    if why is not None:
        replacement = admitted.replaced[0]
        assert (replacement.label, replacement.asked, replacement.given) == (label, asked, given)
        sentence = str(replacement)
        assert why in sentence
        assert repr(asked) in sentence
        assert (given or "none") in sentence
        assert len(sentence) <= 120


def test_several_wishes_are_sorted() -> None:
    """The annotation `asked` lists short names in order."""
    labels = {Label.IDLE_GRACE: "1h", Label.IDLE_AFTER: "4h", Label.IDLE_ACTION: "stop"}
    admitted = admitted_terms(
        policy(idle=IDLE, bounds=BOUNDED), PodClass.BATCH, labels, {Annotation.ASKED: "idle-memory"}
    )
    assert admitted.asked == ("idle-action", "idle-after", "idle-grace")
    assert admitted.replaced == ()


@pytest.mark.parametrize(
    ("exemption", "labels", "action", "exempt", "replaced"),
    [
        pytest.param("14d", {}, "observe", True, [], id="the seed annotation exempts where allowed"),
        pytest.param("14d", {Label.IDLE_ACTION: "stop"}, "observe", True, [], id="whatever the label asks"),
        pytest.param(
            "never", {}, "evict", False, [SEED_EVICTION_POLICY], id="it is replaced where not allowed"
        ),
        pytest.param(
            "never", {Label.IDLE_ACTION: "stop"}, "stop", False, [SEED_EVICTION_POLICY], id="the label stays"
        ),
        pytest.param(
            "never",
            {Label.IDLE_ACTION: "exempt"},
            "evict",
            False,
            [Label.IDLE_ACTION],
            id="one sentence is enough",
        ),
    ],
)
def test_the_seed_annotation(
    exemption: str, labels: dict[str, str], action: str, exempt: bool, replaced: list[str]
) -> None:
    """`gpu-eviction-policy: never` asks for an exemption as the label does."""
    given = policy(idle=IDLE, bounds={"exemption": exemption})
    admitted = admitted_terms(given, PodClass.BATCH, labels, {SEED_EVICTION_POLICY: "never"})
    assert (admitted.terms.action, admitted.terms.exempt) == (action, exempt)
    assert [replacement.label for replacement in admitted.replaced] == replaced
    assert all(replacement.given == "evict" for replacement in admitted.replaced)


def test_another_value_of_the_seed_annotation_asks_nothing() -> None:
    """Only `never` is understood."""
    admitted = admitted_terms(policy(idle=IDLE), PodClass.BATCH, None, {SEED_EVICTION_POLICY: "always"})
    assert admitted.replaced == ()
    assert not admitted.terms.exempt


@given(policies(), st.sampled_from(PodClass), label_wishes(), st.booleans())
def test_admission_is_idempotent(
    given_policy: GPUPolicy, pod_class: PodClass, wishes: dict[str, str], seed: bool
) -> None:
    """Admitted again from its own labels a pod has the same terms and `asked`, and nothing is replaced."""
    annotations = {SEED_EVICTION_POLICY: "never"} if seed else None
    first = admitted_terms(given_policy, pod_class, wishes, annotations)
    labels = terms_to_labels(first.terms)
    again = admitted_terms(given_policy, pod_class, labels, annotations)
    assert terms_to_labels(again.terms) == labels
    assert again.asked == first.asked
    assert [replacement.label for replacement in again.replaced] in ([], [SEED_EVICTION_POLICY])


@given(policies(), st.sampled_from(PodClass), label_wishes())
def test_wishes_stay_within_the_policy(
    given_policy: GPUPolicy, pod_class: PodClass, wishes: dict[str, str]
) -> None:
    """No wish weakens a policy beyond its bounds, and `asked` names exactly what differs from the policy."""
    own = policy_terms(given_policy, pod_class)
    admitted = admitted_terms(given_policy, pod_class, wishes, None)
    terms, bounds = admitted.terms, given_policy.bounds
    assert terms.exempt or terms.action.rank >= own.action.rank
    assert not terms.exempt or bounds.exemption.limit is not None
    assert (
        min(bounds.after_min or own.after, own.after)
        <= terms.after
        <= max(bounds.after_max or own.after, own.after)
    )
    assert own.grace <= terms.grace <= max(bounds.grace or own.grace, own.grace)
    assert (terms.utilization, terms.statistic, terms.memory, terms.warm_up) == (
        own.utilization,
        own.statistic,
        own.memory,
        own.warm_up,
    )
    names = {"idle-action": "action", "idle-after": "after", "idle-grace": "grace"}
    differing = {name for name, field in names.items() if getattr(terms, field) != getattr(own, field)}
    assert set(admitted.asked) == differing | ({"idle-action"} if terms.exempt else set())


@given(policies(), st.sampled_from(PodClass))
def test_a_pod_without_wishes_has_the_policys_terms(given_policy: GPUPolicy, pod_class: PodClass) -> None:
    """Nothing asked, nothing replaced."""
    own: Terms = policy_terms(given_policy, pod_class)
    for labels in (None, {}, terms_to_labels(own)):
        admitted = admitted_terms(given_policy, pod_class, labels, None)
        assert (admitted.terms, admitted.asked, admitted.replaced) == (own, (), ())


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param(None, set(), id="an absent annotation lists nothing"),
        pytest.param("", set(), id="an empty one too"),
        pytest.param("idle-after", {"idle-after"}, id="one name"),
        pytest.param(
            "idle-after,policy,x,idle-grace", {"idle-after", "idle-grace"}, id="only terms can be asked"
        ),
    ],
)
def test_reading_asked(text: str | None, names: set[str]) -> None:
    """The annotation is read leniently: what is no term is no wish."""
    assert parse_asked(None if text is None else {Annotation.ASKED: text}) == names
