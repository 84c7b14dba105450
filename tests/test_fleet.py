"""Values at an instant, why they are missing, and role totals that never fall."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from observer import fleet
from observer.fleet import Record
from router_contract.catalog import lookup
from router_contract.readings import FailureKind, Instant, MissingCode, ScrapeFailed, SignalValue, State
from router_contract.targets import Component, Deployment
from router_contract.verdicts import TargetState
from tests.fleets import (
    KEY,
    POLICY,
    WALL,
    at,
    body,
    deployment,
    due,
    member,
    one,
    report,
    role_total,
    store,
    take,
    target,
    ttft,
)

ONE = deployment("a")
RUNNING = "requests-running"
TOKENS = "prompt-tokens"
TTFT = "time-to-first-token"


def failure(seconds: float, kind: FailureKind = FailureKind.REFUSED) -> ScrapeFailed:
    return ScrapeFailed(target=target(ONE, "a").key, at=at(seconds), kind=kind, detail="why")


AGES = [
    ("just read", 0.0, State.FRESH, 2.0, None),
    ("two periods and a timeout", 12.0, State.FRESH, 2.0, None),
    ("a moment later", 12.001, State.STALE, 2.0, None),
    ("at its last moment", 300.0, State.STALE, 2.0, None),
    ("expired", 300.001, State.MISSING, None, MissingCode.EXPIRED),
]


@pytest.mark.parametrize(("age", "state", "value", "code"), [row[1:] for row in AGES], ids=[row[0] for row in AGES])
def test_a_value_ages(age: float, state: State, value: float | None, code: MissingCode | None) -> None:
    kept = store()
    kept.set_deployments((ONE,), at(0))
    take(kept, ONE, "a", body(), 100.0)
    shown = one(report(kept, 100.0 + age), "a", RUNNING)
    assert (shown.state, shown.value, shown.missing) == (state, value, code)
    if value is not None:
        assert (shown.age_seconds, shown.observed_at) == (pytest.approx(age), WALL + 100)


def test_a_target_that_was_never_read_has_every_signal_with_a_code() -> None:
    kept = store()
    kept.set_deployments((ONE,), at(0))
    found = report(kept, 5.0).targets[0]
    assert {value.missing for value in found.values} == {MissingCode.NEVER_READ}
    assert len(found.values) == len(fleet.sources(lookup(Component.ENGINE, "vllm"), None))
    assert (found.status.state, found.status.age_seconds) == (TargetState.PENDING, None)
    kept.on_failure(target(ONE, "a"), failure(6.0))
    found = report(kept, 7.0).targets[0]
    assert {value.missing for value in found.values} == {MissingCode.SCRAPE_FAILED}
    assert (found.status.state, found.status.last_error_kind) == (TargetState.FAILING, FailureKind.REFUSED)


def test_a_failure_leaves_what_was_read_to_age_and_is_remembered_after_recovery() -> None:
    kept = store()
    kept.set_deployments((ONE,), at(0))
    take(kept, ONE, "a", body(), 0.0)
    kept.on_failure(target(ONE, "a"), failure(5.0, FailureKind.TIMEOUT))
    seen = report(kept, 6.0)
    assert (one(seen, "a", RUNNING).state, one(seen, "a", RUNNING).age_seconds) == (State.FRESH, 6.0)
    status = seen.targets[0].status
    assert (status.state, status.consecutive_failures, status.failures, status.reads) == (TargetState.FAILING, 1, 1, 2)
    assert status.last_error_at == WALL + 5
    take(kept, ONE, "a", body(), 10.0)
    status = report(kept, 10.0).targets[0].status
    assert (status.state, status.consecutive_failures, status.last_error) == (TargetState.UP, 0, "why")


MISSING = [
    ("absent from a body that is else read", body(counts=None), TTFT, MissingCode.ABSENT),
    ("unreadable", body(more="vllm:num_requests_waiting nonsense\n"), "requests-waiting", MissingCode.UNREADABLE),
    ("torn", body(counts=(3.0, 2.0, 1.0)), TTFT, MissingCode.UNREADABLE),
    ("not finite", body(running="NaN"), RUNNING, MissingCode.NOT_FINITE),
    ("infinite", body(tokens="+Inf"), TOKENS, MissingCode.NOT_FINITE),
]


@pytest.mark.parametrize(("data", "signal", "code"), [row[1:] for row in MISSING], ids=[row[0] for row in MISSING])
def test_a_signal_that_a_body_does_not_tell_has_a_code_and_the_bodys_age(
    data: bytes, signal: str, code: MissingCode
) -> None:
    kept = store()
    kept.set_deployments((ONE,), at(0))
    take(kept, ONE, "a", data, 1.0)
    seen = report(kept, 3.0)
    value = one(seen, "a", signal)
    assert (value.value, value.histogram, value.missing, value.window_missing) == (None, None, code, code)
    assert (value.age_seconds, value.observed_at, value.state) == (2.0, WALL + 1, State.MISSING)
    other = one(seen, "a", TOKENS if signal == RUNNING else RUNNING)
    assert other.state is State.FRESH


def test_what_begins_with_its_first_use_is_not_yet_once_its_pair_is_read() -> None:
    kept = store()
    of = deployment("a", software="sglang")
    kept.set_deployments((of,), at(0))
    text = ttft((1.0, 2.0, 3.0)).replace("vllm:", "sglang:") + "# TYPE sglang:prompt_tokens_total counter\n"
    take(kept, of, "a", f"{text}sglang:prompt_tokens_total 3\n".encode(), 0.0)
    seen = report(kept, 0.0)
    assert one(seen, "a", "cached-tokens").missing is MissingCode.COUNTER_NOT_YET
    assert one(seen, "a", "inter-token-latency").missing is MissingCode.HISTOGRAM_NOT_YET
    assert one(seen, "a", "transfer-failures").missing is MissingCode.ABSENT


def test_windows_say_why_they_are_not_there_yet() -> None:
    kept = store()
    kept.set_deployments((ONE,), at(0))
    take(kept, ONE, "a", body(tokens=100), 0.0)
    first = one(report(kept, 0.0), "a", TOKENS)
    assert (first.window, first.window_missing) == (None, MissingCode.AWAITING_SECOND_SAMPLE)
    assert first.running_total == 0.0
    take(kept, ONE, "a", body(tokens=150), 5.0)
    second = one(report(kept, 5.0), "a", TOKENS)
    assert second.window is not None
    assert (second.window.increase, second.window.seconds, second.running_total) == (50.0, 5.0, 50.0)
    gauge = one(report(kept, 5.0), "a", RUNNING)
    assert (gauge.window, gauge.window_missing, gauge.running_total) == (None, None, None)


def test_a_program_that_no_table_knows_is_no_target_that_is_well() -> None:
    of = deployment("a", software="mystery")
    kept = store()
    kept.set_deployments((of,), at(0))
    assert report(kept, 0.0).targets[0].status.problems == ()
    take(kept, of, "a", body(), 1.0)
    shown = report(kept, 1.0).targets[0]
    assert shown.values == ()
    assert [problem.kind for problem in shown.status.problems] == [MissingCode.UNKNOWN_SOFTWARE]
    assert "'mystery'" in shown.status.problems[0].detail
    assert (shown.status.samples_kept, shown.status.age_seconds) == (0, 0.0)


def ranks(low: float, high: float) -> bytes:
    family = ttft((low, low, low), low) + ttft((high, high, high), high).split("\n", 1)[1].replace('"0"', '"1"')
    return body(counts=None, more=family)


def test_label_sets_are_merged_once_more_and_keep_their_total_when_one_is_gone() -> None:
    kept = store()
    kept.set_deployments((ONE,), at(0))
    take(kept, ONE, "a", ranks(1, 5), 0.0)
    take(kept, ONE, "a", ranks(3, 9), 5.0)
    shown = report(kept, 5.0).targets[0]
    (whole,) = shown.merged
    assert (whole.signal, whole.value, whole.labels) == (TTFT, 12.0, ())
    assert whole.window is not None
    assert (whole.window.increase, whole.running_total) == (6.0, 6.0)
    assert len(shown.of(TTFT)) == 2
    take(kept, ONE, "a", body(counts=(4.0, 4.0, 4.0), total=4.0), 10.0)
    shown = report(kept, 10.0).targets[0]
    assert shown.merged == ()
    assert role_total(report(kept, 10.0)).count == 7.0


def test_a_merge_is_as_old_as_its_oldest_part() -> None:
    of = deployment("a", "b")
    kept = store()
    kept.set_deployments((of,), at(0))
    take(kept, of, "a", body(), 0.0)
    take(kept, of, "b", body(), 20.0)
    (value,) = [value for value in report(kept, 21.0).roles[0].values if value.signal == TTFT]
    assert (value.state, value.age_seconds, value.value) == (State.STALE, 21.0, 6.0)


def test_histograms_without_a_common_bound_are_named() -> None:
    of = deployment("a", "b")
    kept = store()
    kept.set_deployments((of,), at(0))
    take(kept, of, "a", body(), 0.0)
    take(kept, of, "b", body(bounds=("0.3", "3", "+Inf")), 0.0)
    role = report(kept, 0.0).roles[0]
    assert (role.values, role.mismatched) == ((), (TTFT,))


def grow(kept: object, of: Deployment, name: str, count: int, seconds: float, **more: object) -> None:
    take(kept, of, name, body(tokens=count, counts=(count, count, count), **more), seconds)


def test_a_roles_total_outlives_its_members() -> None:
    both, alone = deployment("a", "b"), deployment("a")
    kept = store()
    kept.set_deployments((both,), at(0))
    for name in "ab":
        grow(kept, both, name, 10, 0.0)
        grow(kept, both, name, 15, 5.0)
    assert role_total(report(kept, 5.0)).count == 10.0
    kept.set_deployments((alone,), at(6))
    assert role_total(report(kept, 6.0)).count == 10.0
    grow(kept, alone, "a", 16, 10.0)
    assert role_total(report(kept, 10.0)).count == 11.0
    kept.set_deployments((both,), at(11))
    grow(kept, both, "b", 100, 15.0)
    grow(kept, both, "b", 101, 20.0)
    assert role_total(report(kept, 20.0)).count == 12.0


def test_a_terminating_member_serves_no_more_but_what_it_counted_stays() -> None:
    before = deployment("a", "b")
    after = deployment(members=(member("a", 8000), member("b", 8001, terminating=True)))
    kept = store()
    kept.set_deployments((before,), at(0))
    for name in "ab":
        grow(kept, before, name, 10, 0.0)
        grow(kept, before, name, 15, 5.0)
    kept.set_deployments((after,), at(6))
    (value,) = report(kept, 6.0).roles[0].values
    assert (value.value, value.running_total) == (15.0, 10.0)
    grow(kept, after, "b", 18, 10.0)
    assert role_total(report(kept, 10.0)).count == 13.0


OUTAGES = ["expired", "unreadable", "gone from the body", "restarted", "other bounds"]


@pytest.mark.parametrize("outage", OUTAGES)
def test_a_roles_total_does_not_fall_while_a_member_is_not_well(outage: str) -> None:
    of = deployment("a", "b")
    kept = store()
    kept.set_deployments((of,), at(0))
    for name in "ab":
        grow(kept, of, name, 10, 0.0)
        grow(kept, of, name, 15, 5.0)
    later = 400.0 if outage == "expired" else 10.0
    grow(kept, of, "a", 16, later)
    match outage:
        case "unreadable":
            take(kept, of, "b", body(counts=(3.0, 2.0, 1.0)), later)
        case "gone from the body":
            take(kept, of, "b", body(counts=None), later)
        case "restarted":
            grow(kept, of, "b", 2, later)
        case "other bounds":
            grow(kept, of, "b", 15, later, bounds=("0.1", "2.0", "+Inf"))
    total = role_total(report(kept, later))
    assert total.count == (13.0 if outage == "restarted" else 11.0)
    assert total.counts[0] == total.count


def test_a_record_folds_purely() -> None:
    record = Record(target=target(ONE, "a"), first_seen=at(0))
    broken = fleet.failed(record, failure(1.0))
    assert (record.reads, broken.reads, broken.failure) == (0, 1, failure(1.0))
    assert fleet.state_at(broken, at(2.0), POLICY) is State.MISSING
    assert fleet.totals(broken) == {}


def test_shed_and_due_are_told_by_who_reads() -> None:
    kept = store()
    kept.set_deployments((ONE,), at(0))
    shed = kept.report(KEY, at(1.0), lambda _: (None, True))
    assert shed.targets[0].status.state is TargetState.SHED
    planned = kept.report(KEY, at(1.0), lambda _: (3.5, False))
    assert planned.targets[0].status.next_due_seconds == 2.5


def exclusive(value: SignalValue) -> bool:
    there = value.value is not None and value.missing is None and value.state is not State.MISSING
    gone = value.value is None and value.missing is not None and value.state is State.MISSING
    return there != gone and not (value.window is not None and value.window_missing is not None)


BODIES = [body(), body(counts=None), body(running="NaN"), body(counts=(9.0, 1.0, 2.0)), b"", b"<html>", ranks(1, 2)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(range(len(BODIES))), st.floats(0.1, 200.0)), max_size=6), st.floats(0, 700.0))
def test_a_value_is_there_or_missing_with_a_code_and_never_both(reads: list[tuple[int, float]], later: float) -> None:
    kept = store()
    kept.set_deployments((ONE,), at(0))
    moment = 0.0
    for which, pause in reads:
        moment += pause
        take(kept, ONE, "a", BODIES[which], moment)
    shown = kept.report(KEY, Instant(moment + later, WALL), due)
    assert shown is not None
    for value in (*shown.targets[0].values, *shown.targets[0].merged, *shown.roles[0].values):
        assert exclusive(value), value
        assert value.age_seconds is None or value.age_seconds >= 0
        assert value.value is None or math.isfinite(value.value)
