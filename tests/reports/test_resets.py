"""Resets, beginnings, NaN and what is not known. Reports 48 to 60."""

from __future__ import annotations

import itertools
import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporters.document import metrics_document
from router_contract.canary_inputs import QueryAnswer
from router_contract.readings import FailureKind, MissingCode, ScrapeFailed, State
from router_contract.verdicts import TargetState
from tests.fleets import HandClock, at, body, deployment, one, report, store, take, target
from tests.judge import build
from tests.judge.canary.build import Canary, analysis, answer, asked, definition, promql
from tests.reports.rows import row

TOKENS, RUNNING, TTFT = "prompt-tokens", "requests-running", "time-to-first-token"
ONE = deployment("a")


def filled(*reads: tuple[float, bytes]) -> object:
    kept = store()
    kept.set_deployments((ONE,), at(0))
    for moment, data in reads:
        take(kept, ONE, "a", data, moment)
    return kept


def fail(kept: object, moment: float, kind: FailureKind = FailureKind.REFUSED) -> None:
    aim = target(ONE, "a")
    kept.on_failure(aim, ScrapeFailed(target=aim.key, at=at(moment), kind=kind, detail="gone"))


@row(48)
def test_after_a_restart_the_new_value_is_the_increase() -> None:
    kept, seen = filled(), []
    for place, tokens in enumerate((100, 175, 20, 35)):
        take(kept, ONE, "a", body(tokens=tokens), 15.0 * place)
        value = one(report(kept, 15.0 * place), "a", TOKENS)
        seen.append(value.running_total)
        if place == 0:
            assert (value.window, value.window_missing) == (None, MissingCode.AWAITING_SECOND_SAMPLE)
    assert [after - before for before, after in itertools.pairwise(seen)] == [75.0, 20.0, 15.0]


@row(50)
@settings(deadline=None)
@given(st.lists(st.integers(0, 10**12), min_size=2, max_size=12))
def test_no_increase_is_negative_whatever_a_producer_counts(counts: list[int]) -> None:
    kept, before = filled(), 0.0
    for place, tokens in enumerate(counts):
        take(kept, ONE, "a", body(tokens=tokens), 5.0 * place)
        value = one(report(kept, 5.0 * place), "a", TOKENS)
        assert value.window is None or value.window.increase >= 0
        assert value.running_total is not None
        assert value.running_total >= before
        before = value.running_total


@row(52)
def test_an_idle_window_has_no_mean_and_says_so() -> None:
    kept = filled(*((5.0 * place, body(tokens=100)) for place in range(4)))
    value = one(report(kept, 15.0), "a", TTFT)
    assert value.window is not None
    assert (value.window.increase, value.window.mean, value.window.quantiles) == (0.0, None, ())
    told = msgspec.json.encode(metrics_document(report(kept, 15.0))).decode()
    assert "NaN" not in told
    assert '"Idle"' in told or '"NoObservations"' in told


@row(53)
def test_a_failed_read_is_neither_zero_nor_idle() -> None:
    kept = filled((0.0, body(running=7)))
    fail(kept, 5.0)
    value = one(report(kept, 5.0), "a", RUNNING)
    assert (value.value, value.state, value.age_seconds) == (7.0, State.FRESH, 5.0)
    value = one(report(kept, 30.0), "a", RUNNING)
    assert (value.value, value.state) == (7.0, State.STALE)
    value = one(report(kept, 1000.0), "a", RUNNING)
    assert (value.value, value.missing) == (None, MissingCode.EXPIRED)
    held = build.run(build.inputs(members=(build.refused("a"),)), build.kept())
    assert build.answer(held, "EngineProgressing").startswith("Unknown/")


@row(54)
def test_with_every_target_down_what_is_desired_stays() -> None:
    two = build.role(
        build.replica(build.member("a"), ordinal=0), build.replica(build.member("b"), ordinal=1), command=("serve",)
    )
    judged = build.run(build.inputs(build.deployment(two), members=(build.refused("a"), build.refused("b"))))
    (status,) = judged.roles
    assert (status.desired, len(status.groups)) == (2, 2)
    assert status.endpoints.eligible is None, "and nothing is called zero that nobody proved"


@row(55)
def test_an_empty_vector_is_no_data_and_not_zero() -> None:
    empty = answer()
    assert isinstance(empty, QueryAnswer)
    outcome = Canary(definition(analysis(promql(limit=10.0)))).sample(asked(empty))
    assert (outcome.reason.value, outcome.verdict.value) == ("NoData", "Inconclusive")


@row(56)
def test_no_endpoint_is_an_explicit_zero_beside_what_is_desired() -> None:
    parked = build.role(desired=0, replicas=())
    (status,) = build.run(build.inputs(build.deployment(parked), members=())).roles
    assert (status.desired, status.ready, status.endpoints.eligible) == (0, 0, 0)


@row(58)
def test_a_cold_member_is_warming_and_not_excluded() -> None:
    kept = filled((0.0, body(counts=None)))
    value = one(report(kept, 0.0), "a", TTFT)
    assert (value.value, value.state) == (None, State.MISSING)
    assert value.missing in {MissingCode.ABSENT, MissingCode.HISTOGRAM_NOT_YET}
    assert report(kept, 0.0).targets[0].status.state is TargetState.UP
    cold = build.evidence("a", ranks=(build.rank(moved_at=None, work=0.0, work_since=None),))
    assert build.group(build.run(build.inputs(members=(cold,)))).state.value == "Eligible"


@row(60)
def test_a_value_whose_read_was_skipped_ages() -> None:
    clock = HandClock()
    kept = filled((0.0, body(running=4)))
    ages = [one(report(kept, moment), "a", RUNNING) for moment in (0.0, 11.0, 13.0, 299.0, 301.0)]
    assert [value.state for value in ages] == [State.FRESH, State.FRESH, State.STALE, State.STALE, State.MISSING]
    assert [value.value for value in ages] == [4.0, 4.0, 4.0, 4.0, None]
    assert [value.age_seconds for value in ages[:4]] == [0.0, 11.0, 13.0, 299.0]
    assert clock.now().mono == 0.0


@pytest.mark.parametrize("number", ["NaN", "+Inf", "-Inf"])
def test_a_number_that_is_none_is_missing_with_its_code(number: str) -> None:
    """As report 52, at the source: the program itself exports 0/0."""
    value = one(report(filled((0.0, body(running=number))), 0.0), "a", RUNNING)
    assert (value.value, value.missing) == (None, MissingCode.NOT_FINITE)


def test_a_clock_that_jumps_back_makes_no_negative_age_and_no_increase() -> None:
    kept = filled((100.0, body(tokens=10)), (105.0, body(tokens=20)))
    take(kept, ONE, "a", body(tokens=30), 103.0)
    value = one(report(kept, 103.0), "a", TOKENS)
    assert value.age_seconds is None or value.age_seconds >= 0.0
    assert value.window is None or (value.window.seconds > 0 and math.isfinite(value.window.per_second))
