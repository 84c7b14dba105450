"""The histogram of convergence: each change of the eligible set once, nothing that was not watched."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from observer.app.case import stalls
from observer.app.convergence_times import BOUNDS, ConvergenceTimes
from router_contract.judging import Judged, Stored
from router_contract.readings import FailureKind
from router_contract.status import Convergence, Serving, ServingState
from router_contract.targets import DeploymentKey
from tests.judge.build import NOW, POLICY, ago, deployment, evidence, inputs, kept, member, rank, replica, role, run

KEY = DeploymentKey("ns", "md")
CONFIRMED = Serving(state=ServingState.CONFIRMED, value=1)
BASE = run(inputs(deployment(with_router=True)), kept())


def passed(changed: float | None, took: float | None, state: Serving = CONFIRMED) -> Judged:
    stored = replace(BASE.stored, eligible_changed_at=changed)
    return replace(BASE, stored=stored, convergence=Convergence(serving=state, took_seconds=took))


SEQUENCES: dict[str, tuple[float | None, list[tuple[float | None, float | None]], list[float]]] = {
    "nothing converged yet": (None, [(None, None), (10.0, None)], []),
    "one change, counted in the pass that converges": (None, [(None, None), (10.0, None), (10.0, 4.0)], [4.0]),
    "two changes": (None, [(10.0, 0.0), (20.0, None), (20.0, 3.0)], [0.0, 3.0]),
    "a view that comes back is no convergence": (None, [(10.0, 4.0), (10.0, 3600.0)], [4.0]),
    "what was under way at the start is not known": (10.0, [(10.0, 500.0)], []),
    "a change after the start is": (10.0, [(10.0, None), (20.0, 2.0)], [2.0]),
}


@pytest.mark.parametrize(("loaded", "passes", "wanted"), SEQUENCES.values(), ids=SEQUENCES)
def test_each_change_is_counted_once(
    loaded: float | None, passes: list[tuple[float | None, float | None]], wanted: list[float]
) -> None:
    times = ConvergenceTimes()
    before = Stored(eligible_changed_at=loaded)
    for changed, took in passes:
        judged = passed(changed, took)
        times.add(KEY, before, judged)
        before = judged.stored
    found = times.of(KEY)
    assert found is not None
    assert (found.count, found.sum) == (len(wanted), sum(wanted))
    assert found.counts == tuple(float(sum(value <= bound for value in wanted)) for bound in BOUNDS)


def test_a_deployment_without_a_router_has_no_histogram() -> None:
    times = ConvergenceTimes()
    times.add(KEY, Stored(), passed(None, None))
    times.add(KEY, Stored(), passed(10.0, None, Serving(state=ServingState.NOT_CONFIGURED)))
    assert times.of(KEY) is None


STALLS = {
    "stands still with work": (evidence("a", ranks=(rank(moved_at=ago(70), work_since=ago(80)),)), [("a", 70.0)]),
    "moves": (evidence("a"), [("a", 2.0)]),
    "no work": (evidence("a", ranks=(rank(work=0.0, work_since=None, moved_at=ago(70)),)), [("a", 0.0)]),
    "work not read": (evidence("a", ranks=(rank(work=None, work_since=None),)), []),
    "not watched": (evidence("a", ranks=(rank(watched_since=None, moved_at=None),)), []),
    "does not answer": (evidence("a", answered_at=ago(60), failed_at=ago(1), failure=FailureKind.TIMEOUT), []),
}


@pytest.mark.parametrize(("seen", "wanted"), STALLS.values(), ids=STALLS)
def test_stalls_are_of_ranks_whose_progress_is_known(seen, wanted: list[tuple[str, float]]) -> None:
    made = inputs(deployment(role(replica(member()))), members=(seen,))
    assert [(stall.uid, round(stall.seconds)) for stall in stalls(made, NOW, POLICY)] == wanted
