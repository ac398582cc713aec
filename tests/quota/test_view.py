"""What the leader remembers beside its caches: births of namespaces, and who asked for a pod first."""

from __future__ import annotations

import pytest

from policy.ledger_count import HeldPod
from policy.objects import Namespace, ObjectMeta
from policy.resources import BUILT_IN_TABLE
from quota.view import View
from runtime.listing import Entry
from tests.quota.memory import MemoryApi
from tests.runtime.fakes import FakeTime

GPU = "nvidia.com/gpu"


@pytest.fixture
def view() -> View:
    """A view whose first lists were empty."""
    view = View(MemoryApi(), BUILT_IN_TABLE, (), FakeTime(auto=True))
    view.namespaces._synced.set()
    view.pods._synced.set()
    return view


def see(view: View, name: str, version: str, labels: dict[str, str] | None, uid: str = "u") -> None:
    """The watch brings a namespace, or that it is gone."""
    found = None if labels is None else Namespace(ObjectMeta(name=name, uid=uid, labels=labels))
    view.namespaces._apply(("", name), None if found is None else Entry(uid, version, found))


def test_a_namespace_that_comes_into_being_is_noted(view: View) -> None:
    """With the time at which it was seen."""
    see(view, "a", "1", {})
    assert view.births == {"a": 1000.0}


def test_labels_that_change_end_it(view: View) -> None:
    """What selects it now did not select it from the beginning; other changes are no matter."""
    see(view, "a", "1", {"team": "a"})
    see(view, "a", "2", {"team": "a"})
    assert "a" in view.births
    see(view, "a", "3", {"team": "b"})
    assert view.births == {}


def test_a_namesake_is_no_birth(view: View) -> None:
    """Somebody may still know the labels of the one that died, by watch or in the same moment."""
    see(view, "a", "1", {})
    see(view, "a", "2", None)
    assert view.births == {}
    see(view, "a", "3", {}, "v")
    assert view.births == {}
    see(view, "b", "4", {})
    see(view, "b", "5", {}, "w")
    assert view.births == {}


def test_what_the_first_list_holds_was_there_before(view: View) -> None:
    """Of its beginning nothing is known."""
    view.namespaces._synced.clear()
    see(view, "a", "1", {})
    assert view.births == {}


def pod(requester: str | None) -> HeldPod:
    """A pod of somebody."""
    return HeldPod("u", "team-a", "p", requester, {GPU: 1})


@pytest.mark.parametrize(
    ("said", "counts_for"),
    [
        pytest.param(["dev-a", None], "dev-a", id="dropped"),
        pytest.param(["dev-a", "dev-b"], "dev-a", id="changed"),
        pytest.param([None, "dev-b"], "dev-b", id="added"),
        pytest.param(["unknown", "dev-b"], "dev-b", id="found out"),
        pytest.param(["dev-a", None, "dev-a"], "dev-a", id="dropped and put back"),
    ],
)
def test_a_pod_counts_for_whom_it_named_first(view: View, said: list[str | None], counts_for: str) -> None:
    """Later updates move it to nobody else."""
    for version, requester in enumerate(said):
        view.pods._apply(("team-a", "p"), Entry("u", str(version), pod(requester)))
    assert [one.requester for one in view.held_pods()] == [counts_for]
