"""Starts that we count ourselves: a port that comes back, a start time that changes, and what proves neither."""

from __future__ import annotations

import pytest

from observer.judge.standing import member_standing
from observer.judge.starts import KEPT, Contact, contact, follow_starts, loop
from router_contract.judging import Starts
from router_contract.readings import FailureKind, Instant
from router_contract.targets import Ready
from tests.judge.build import NOW, POLICY, ago, evidence, inputs, kept, member, refused, run

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
    assert (stand(down).detail, stand(down).seconds) == ("connection refused, so it is down or still loads", 21.0)


def test_refused_after_one_start_again_says_how_many_were_seen():
    seen = evidence(
        answered_at=ago(30),
        failed_at=ago(1),
        failure=FailureKind.REFUSED,
        starts=Starts(at=(ago(40),), listened=True, gone=True),
    )
    assert stand(seen).detail == "connection refused, so it is down or still loads, after 2 starts seen by us"


@pytest.mark.parametrize("down", [True, False], ids=["down now", "up now"])
def test_a_loop_is_the_answer_whatever_the_member_does_at_this_moment(down):
    starts = Starts(at=(ago(40), ago(5)), listened=True)
    base = refused("a", failing_since=ago(2)) if down else evidence()
    seen = type(base)(**{name: getattr(base, name) for name in base.__struct_fields__} | {"starts": starts})
    found = run(inputs(members=(seen,)), kept()).explanation
    assert (found.main.type, found.main.reason) == ("Member pod-a", "StartupLoop")
    assert found.sentences[1] == ("Member pod-a is StartupLoop for 40 s: attempt 3 seen by us, last ended: not known.")


def test_one_that_nobody_ever_reached_says_so():
    seen = refused("a", first_seen=ago(90))
    found = member_standing(member(ready=Ready.UNKNOWN), seen, answered=False, now=NOW, policy=POLICY)
    assert (found.standing.value, found.detail) == ("Loading", "attempt 1 seen by us, 90 s, nobody listens yet")
