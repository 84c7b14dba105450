"""Starts that we count ourselves: a port that comes back, a start time that changes, and what proves neither."""

from __future__ import annotations

import msgspec
import pytest

from observer.judge.standing import member_standing
from observer.judge.starts import KEPT, Contact, contact, follow_starts, loop
from router_contract.judging import Starts
from router_contract.readings import FailureKind, Instant
from router_contract.targets import Ready
from tests.judge.build import (
    NOW,
    POLICY,
    STATIC,
    ago,
    deployment,
    evidence,
    inputs,
    kept,
    member,
    record,
    refused,
    replica,
    role,
    run,
)

GOOD, ANSWER, REFUSED, NOTHING = Contact.GOOD, Contact.ANSWER, Contact.REFUSED, Contact.NOTHING


def follow(*reads: tuple[Contact, bool | None], period: float = 5.0) -> Starts:
    """One read every period; with each, whether it is of the same life as the good read before."""
    starts = Starts()
    for step, (met, same) in enumerate(reads):
        starts = follow_starts(starts, met, Instant(step * period, step * period), same=same)
    return starts


@pytest.mark.parametrize(
    ("reads", "count"),
    [
        pytest.param([(REFUSED, None)] * 3 + [(GOOD, None)], 0, id="a first start is no start again"),
        pytest.param([(ANSWER, None)] * 3 + [(GOOD, None)], 0, id="loading for the first time"),
        pytest.param([(GOOD, None), (GOOD, False)], 1, id="another start time, nothing else seen"),
        pytest.param([(GOOD, None), (REFUSED, None), (GOOD, False)], 1, id="refused and another life is one start"),
        pytest.param([(GOOD, None), (REFUSED, None), (GOOD, None)], 1, id="refused and back, no start time to tell"),
        pytest.param([(GOOD, None), (REFUSED, None), (GOOD, True)], 0, id="refused for a moment, the same process"),
        pytest.param(
            [(GOOD, None), (REFUSED, None), (ANSWER, None), (ANSWER, None), (GOOD, False)],
            1,
            id="refused, loading, then its new start time: one start",
        ),
        pytest.param(
            [(GOOD, None), (REFUSED, None), (ANSWER, None), (GOOD, True)], 0, id="a busy listener, the same process"
        ),
        pytest.param(
            [(GOOD, None), (REFUSED, None), (ANSWER, None), (REFUSED, None), (ANSWER, None)],
            2,
            id="it dies while it loads",
        ),
        pytest.param([(GOOD, None), (NOTHING, None), (GOOD, None)], 0, id="a timeout is no end of a process"),
        pytest.param(
            [(GOOD, None), (REFUSED, None), (NOTHING, None), (GOOD, None)], 1, id="refused, then a timeout, then back"
        ),
        pytest.param(
            [(GOOD, None), (REFUSED, None), (GOOD, None)] + [(GOOD, None)] * 13, 0, id="a minute of answers ends it"
        ),
        pytest.param(
            [(GOOD, None), (REFUSED, None), (GOOD, None)] + [(GOOD, None)] * 11, 1, id="less than a minute does not"
        ),
    ],
)
def test_starts_again(reads, count):
    assert len(follow(*reads).at) == count


def test_few_are_kept():
    assert len(follow(*[(GOOD, None), (REFUSED, None)] * 40).at) == KEPT


@pytest.mark.parametrize(
    ("failure", "met"),
    [(None, GOOD), (FailureKind.REFUSED, REFUSED), (FailureKind.HTTP, ANSWER), (FailureKind.TIMEOUT, NOTHING)],
)
def test_contact(failure, met):
    assert contact(failure) is met


def test_a_loop_is_two_starts_again_within_ten_minutes_and_no_platform_counts_them():
    seen = Starts(at=(ago(40), ago(20)), listened=True)
    assert loop(evidence(starts=seen), NOW) == ("attempt 3 seen by us, last ended: not known", 40.0)
    assert loop(evidence(starts=seen, attempt=9), NOW) is None
    assert loop(evidence(starts=Starts(at=(ago(700), ago(20)))), NOW) is None


def stand(seen):
    return member_standing(member(ready=Ready.UNKNOWN), seen, answered=True, now=NOW, policy=POLICY)


LOADS = {"failed_at": ago(1), "failure": FailureKind.HTTP, "failure_status": 503, "failure_detail": "answered 503"}


def test_one_that_answered_and_says_503_after_a_start_loads_again():
    seen = evidence(answered_at=ago(30), starts=Starts(at=(ago(8),), listened=True, pending=True), **LOADS)
    found = stand(seen)
    assert (found.standing.value, found.detail, found.seconds) == ("Loading", "attempt 2 seen by us, 8 s", 8.0)


def test_503_without_a_start_is_a_failure():
    seen = evidence(answered_at=ago(30), starts=Starts(listened=True), failing_since=ago(17), **LOADS)
    assert (stand(seen).standing.value, stand(seen).seconds) == ("Failing", 17.0)
    other = evidence(
        answered_at=ago(30), starts=Starts(at=(ago(8),), pending=True), **(LOADS | {"failure_status": 500})
    )
    assert stand(other).standing.value == "Failing"


def test_one_that_never_answered_and_says_503_loads():
    seen = evidence(answered_at=None, first_seen=ago(12), **LOADS)
    assert (stand(seen).standing.value, stand(seen).detail) == ("Loading", "attempt 1 seen by us, 12 s")


def test_refused_says_what_it_cannot_tell_and_since_when():
    down = evidence(answered_at=ago(30), failed_at=ago(1), failure=FailureKind.REFUSED, failing_since=ago(21))
    assert (stand(down).detail, stand(down).seconds) == (
        "connection refused for 21 s: down, or loading again after a restart; a load may take up to 1800 s",
        21.0,
    )


def test_refused_after_one_start_again_says_how_many_were_seen():
    seen = evidence(
        answered_at=ago(30),
        failed_at=ago(1),
        failure=FailureKind.REFUSED,
        starts=Starts(at=(ago(40),), listened=True, gone=True),
    )
    assert stand(seen).detail.endswith("a load may take up to 1800 s, after 2 starts seen by us")


LOOP = Starts(at=(ago(40), ago(5)), listened=True)


def test_a_replica_that_is_eligible_is_never_told_as_a_loop():
    judged = run(inputs(members=(evidence(starts=LOOP),)), kept())
    found = judged.explanation
    assert judged.groups()[0].state.value == "Eligible"
    assert "StartupLoop" not in [item.reason for item in (*found.others, *found.unknown)]
    assert found.main is None


def test_one_that_answers_and_is_not_eligible_is_still_told_as_a_loop():
    target = deployment(with_router=True)
    found = run(inputs(target, members=(evidence(starts=LOOP),)), kept(record(listed=False))).explanation
    assert (found.main.type, found.main.reason) == ("Member pod-a", "StartupLoop")
    assert found.sentences[1] == "Member pod-a is StartupLoop for 40 s: attempt 3 seen by us, last ended: not known."


@pytest.mark.parametrize("seconds", [2, 80])
def test_one_that_is_down_now_is_down_first_with_its_loop_as_the_detail(seconds):
    seen = refused("a", failing_since=ago(seconds), starts=msgspec.structs.replace(LOOP, gone=True))
    target = deployment(role(replica(member(ready=Ready.UNKNOWN))))
    found = run(inputs(target, facts=STATIC, members=(seen,)), kept()).explanation
    assert (found.main.type, found.main.reason) == ("Member pod-a", "Down")
    assert found.main.message.endswith("after a start-up loop of 3 starts seen by us")
    assert (found.main.advice, found.main.hint) == (
        "Act",
        "it starts again and again: see how the last attempt ended",
    )
    assert "StartupLoop" not in [item.reason for item in found.others]


def test_one_that_says_503_in_a_loop_is_in_the_loop():
    seen = evidence(answered_at=ago(30), starts=msgspec.structs.replace(LOOP, pending=True), **LOADS)
    assert stand(seen).standing.value == "StartupLoop"


def test_one_that_nobody_ever_reached_says_so():
    seen = refused("a", first_seen=ago(90))
    found = member_standing(member(ready=Ready.UNKNOWN), seen, answered=False, now=NOW, policy=POLICY)
    assert (found.standing.value, found.detail) == ("Loading", "attempt 1 seen by us, 90 s, nobody listens yet")
