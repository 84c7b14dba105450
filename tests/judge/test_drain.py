"""The drain answer from two reads, and retirement shown whole."""

from __future__ import annotations

import msgspec
import pytest

from router_contract.judging import DrainRead
from router_contract.status import Retirement
from tests.judge.build import (
    NOW,
    ago,
    deployment,
    evidence,
    facts,
    inputs,
    kept,
    member,
    rank,
    record,
    replica,
    role,
    run,
)

GAUGES = ("requests-running", "requests-waiting")


def read(*values, seconds=1, identity="c1", error=""):
    return DrainRead(at=ago(seconds), identity=identity, values=tuple(zip(GAUGES, values, strict=False)), error=error)


IDLE = (read(0.0, 0.0, seconds=2), read(0.0, 0.0))


def answer(*reads, changes=None, **role_changes):
    target = deployment(role(replica(member("a", **(changes or {}))), **role_changes))
    (found,) = run(inputs(target, members=(evidence(drain=reads),)), kept()).drain
    return found


@pytest.mark.parametrize(
    ("reads", "state", "requests"),
    [
        pytest.param(IDLE, "Idle", 0.0, id="zero twice"),
        pytest.param((read(0.0, 0.0, seconds=2), read(2.0, 1.0)), "Busy", 3.0, id="busy 3"),
        pytest.param((read(1.0, 0.0, seconds=2), read(0.0, 0.0)), "Busy", 1.0, id="two consecutive reads, not one"),
        pytest.param((read(0.0, 0.0),), "Unknown", None, id="one read"),
        pytest.param((), "Unknown", None, id="no read"),
        pytest.param((read(0.0, None), read(0.0, None)), "Unknown", None, id="missing gauge"),
        pytest.param((read(), read()), "Unknown", None, id="no gauge at all"),
        pytest.param((read(0.0, float("nan")), read(0.0, 0.0)), "Unknown", None, id="not a number"),
        pytest.param((read(0.0, -1.0), read(0.0, 0.0)), "Unknown", None, id="negative"),
        pytest.param((read(0.0, 0.0), read(0.0, 0.0, error="not metrics")), "Unknown", None, id="unparsable"),
        pytest.param((read(0.0, 0.0), read(0.0, 0.0, identity="c2")), "Unknown", None, id="container replaced"),
    ],
)
def test_drain(reads, state, requests):
    found = answer(*reads)
    assert (found.state.value, found.requests) == (state, requests)


def test_a_missing_gauge_is_named():
    assert "requests-waiting is absent" in answer(read(0.0, None), read(0.0, None)).why


def test_a_restarted_container_holds():
    assert answer(*IDLE, changes={"restarts": 1}).state.value == "Unknown"


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"engine": "tgi"}, "Unsupported"),
        ({"arguments": ("-dpe",)}, "Unsupported"),
        ({"engine": "SGLang", "arguments": ("--disaggregation-mode", "decode")}, "Unsupported"),
        ({"engine": "SGLang"}, "Idle"),
    ],
)
def test_support(changes, state):
    assert answer(*IDLE, **changes).state.value == state


def several(leader, follower=(), **follower_changes):
    members = (
        member("a", declared_total=2),
        member("b", declared_total=2, seat=1, **({"serves": False} | follower_changes)),
    )
    seen = (evidence("a", drain=leader), evidence("b", drain=follower))
    target = deployment(role(replica(*members), size=2))
    (found,) = run(inputs(target, members=seen), kept(record("a/b"))).drain
    return found


def test_only_the_leader_of_a_leader_served_replica_is_asked():
    assert several(IDLE).state.value == "Idle"


def test_every_serving_member_is_asked():
    assert several(IDLE, serves=True).state.value == "Unknown"
    assert several(IDLE, IDLE, serves=True).state.value == "Idle"


def test_busy_beside_an_unread_member_has_no_number():
    found = several((read(1.0, 0.0), read(1.0, 0.0)), serves=True)
    assert (found.state.value, found.requests) == ("Busy", None)


def test_an_unreadable_shape_holds():
    assert answer(*IDLE, changes={"declared_total": 0}).state.value == "Unknown"


def test_a_leaving_replica_is_still_answered():
    assert answer(*IDLE, changes={"terminating": True}).state.value == "Idle"


FULL = Retirement(
    role_name="serve",
    replica_ordinal=0,
    state="Draining",
    reason="Shed",
    observed_generation=7,
    target_member_uids=("a",),
    target_workload_uid="w",
    started_at=NOW.wall - 40,
    deadline=NOW.wall + 260,
    phase_started_at=NOW.wall - 10,
    last_consumed_retry_token="t",
)


def shown(record_):
    return run(inputs(facts=facts(retirement=record_))).retirement


def test_retirement_is_shown_whole():
    found = shown(FULL)
    assert found.record == FULL
    assert (found.phase_seconds_left, found.total_seconds_left) == (230.0, 260.0)


def test_absent_means_no_operation():
    assert shown(None) is None


@pytest.mark.parametrize(
    ("state", "started", "deadline", "left"),
    [
        ("Admitted", 10, 290, 20.0),
        ("Disqualified", 10, 290, 20.0),
        ("Withdrawing", 30, 270, 0.0),
        ("Withdrawing", 99, 270, 0.0),
        ("Draining", 10, 60, 60.0),
        ("Deleting", 10, 60, None),
        ("Settling", 10, 60, 20.0),
        ("Novel", 10, 60, None),
    ],
)
def test_phase_budgets(state, started, deadline, left):
    made = msgspec.structs.replace(FULL, state=state, phase_started_at=NOW.wall - started, deadline=NOW.wall + deadline)
    assert shown(made).phase_seconds_left == left


def test_aborted_is_retained_capacity():
    found = shown(msgspec.structs.replace(FULL, state="Aborted"))
    assert (found.phase_seconds_left, found.total_seconds_left) == (None, None)
    assert "capacity retained" in found.message


def test_ordinal_zero_is_encoded():
    assert b'"replicaOrdinal":0' in msgspec.json.encode(shown(FULL))


def test_short_requests_between_two_reads_of_zero_are_no_idleness():
    target = deployment(role(replica(member("a"))))
    seen = evidence(drain=IDLE, ranks=(rank(work=0.0, moved_at=ago(1)),))
    (found,) = run(inputs(target, members=(seen,)), kept()).drain
    assert (found.state.value, found.requests) == ("Unknown", None)
    assert found.why == "pod-a: its gauges are 0 and its counters moved between the reads: work still comes"


def test_reads_that_are_not_fresh_tell_nothing_of_now():
    found = answer(read(0.0, 0.0, seconds=18), read(0.0, 0.0, seconds=13))
    assert (found.state.value, found.why) == ("Unknown", "pod-a: last read 13 s ago")


TWO = (read(2.0, 0.0, seconds=2), read(2.0, 0.0))


@pytest.mark.parametrize(
    ("changes", "requests", "why"),
    [
        pytest.param({}, 2.0, "2 requests", id="a gauge that moves"),
        pytest.param({"router_inflight": 2.0}, 2.0, "2 requests", id="routers count as many"),
        pytest.param(
            {"router_inflight": 33.0},
            None,
            "at least 33 requests: routers hold 33 at pod-a, its gauges say 2",
            id="routers hold more",
        ),
        pytest.param(
            {"ranks": (rank(moved_at=ago(90), work_since=ago(90)),)},
            None,
            "at least 2 requests: pod-a is stalled, so its gauges may stand still",
            id="a hung engine",
        ),
        pytest.param(
            {"drain": IDLE, "router_inflight": 1.0},
            None,
            "at least 1 request: routers hold 1 at pod-a, its gauges say 0",
            id="zero is not idle while a router holds one",
        ),
        pytest.param(
            {"drain": (), "router_inflight": 4.0},
            None,
            "at least 4 requests: routers hold 4 at pod-a, its gauges say nothing",
            id="gauges that nobody read",
        ),
    ],
)
def test_a_number_that_may_be_too_low_is_only_a_least_one(changes, requests, why):
    seen = evidence(**({"drain": TWO} | changes))
    (found,) = run(inputs(deployment(role(replica(member("a")))), members=(seen,)), kept()).drain
    assert (found.state.value, found.requests, found.why) == ("Busy", requests, why)


def test_one_request_is_singular():
    assert answer(read(1.0, 0.0, seconds=2), read(1.0, 0.0)).why == "1 request"
