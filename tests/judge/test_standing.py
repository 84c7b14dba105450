"""Stall, down, saturated, loading and start-up loops are told apart."""

from __future__ import annotations

import pytest

from observer.judge.stall import engine_progressing
from observer.judge.standing import MemberStanding, Standing, member_standing, rank_progress
from router_contract.readings import FailureKind
from router_contract.targets import Ready
from tests.judge.build import NOW, POLICY, ago, answer, evidence, inputs, member, rank, refused, run


def stand(seen, *, answered=True, ready=Ready.TRUE):
    return member_standing(member(ready=ready), seen, answered=answered, now=NOW, policy=POLICY)


TIMEOUT = {"failed_at": ago(1), "failure": FailureKind.TIMEOUT}


@pytest.mark.parametrize(
    ("seen", "answered", "ready", "expected"),
    [
        pytest.param(evidence(), True, Ready.TRUE, "Progressing", id="moves"),
        pytest.param(evidence(ranks=(rank(work=0.0),)), True, Ready.TRUE, "Idle", id="no work"),
        pytest.param(
            evidence(ranks=(rank(moved_at=ago(61), work_since=ago(61)),)),
            True,
            Ready.TRUE,
            "Stalled",
            id="work and no progress for a minute, whatever /health says",
        ),
        pytest.param(
            evidence(ranks=(rank(moved_at=ago(59), work_since=ago(100)),)),
            True,
            Ready.TRUE,
            "Progressing",
            id="not yet",
        ),
        pytest.param(
            evidence(ranks=(rank(moved_at=ago(3600), work_since=ago(5)),)),
            True,
            Ready.TRUE,
            "Progressing",
            id="work that just came after an idle hour",
        ),
        pytest.param(
            evidence(ranks=(rank(moved_at=None, watched_since=ago(20), work_since=ago(300)),)),
            True,
            Ready.TRUE,
            "Progressing",
            id="after a reset the clock starts again",
        ),
        pytest.param(
            evidence(ranks=(rank(moved_at=None, watched_since=ago(70), work_since=ago(300)),)),
            True,
            Ready.TRUE,
            "Stalled",
            id="and runs out",
        ),
        pytest.param(
            evidence(ranks=(rank(work=0.0, work_since=None, moved_at=ago(90)),), router_inflight=2.0),
            True,
            Ready.TRUE,
            "Stalled",
            id="only the router counts requests",
        ),
        pytest.param(
            evidence(ranks=(rank("0"), rank("1", moved_at=ago(90), work_since=ago(90)))),
            True,
            Ready.TRUE,
            "Stalled",
            id="one rank of two",
        ),
        pytest.param(
            evidence(ranks=(rank(work=None, work_since=None),)), True, Ready.TRUE, "Unknown", id="work not read"
        ),
        pytest.param(evidence(ranks=(rank(watched_since=None),)), True, Ready.TRUE, "Unknown", id="read once"),
        pytest.param(evidence(ranks=()), True, Ready.TRUE, "Unknown", id="no progress series"),
        pytest.param(
            evidence(answered_at=ago(30), failed_at=ago(1), failure=FailureKind.REFUSED),
            True,
            Ready.TRUE,
            "Down",
            id="refused is down",
        ),
        pytest.param(evidence(answered_at=ago(30), **TIMEOUT), True, Ready.TRUE, "Saturated", id="timeout is not down"),
        pytest.param(
            evidence(answered_at=ago(30), failed_at=ago(1), failure=FailureKind.HTTP, failure_detail="500"),
            True,
            Ready.TRUE,
            "Failing",
            id="a bad answer",
        ),
        pytest.param(refused(attempt=1), False, Ready.FALSE, "Loading", id="loading is not a stall"),
        pytest.param(refused(), False, Ready.UNKNOWN, "Loading", id="loading where nobody counts attempts"),
        pytest.param(refused(attempt=2), False, Ready.FALSE, "StartupLoop", id="second attempt"),
        pytest.param(
            refused(attempt=3), True, Ready.FALSE, "StartupLoop", id="answered earlier, now starts a third time"
        ),
        pytest.param(refused(attempt=1), True, Ready.FALSE, "Down", id="answered in this life and refuses"),
        pytest.param(evidence(answered_at=None), False, Ready.UNKNOWN, "Unknown", id="nobody reported"),
    ],
)
def test_standing(seen, answered, ready, expected):
    assert stand(seen, answered=answered, ready=ready).standing.value == expected


def test_a_start_up_loop_shows_the_last_termination():
    found = stand(refused(attempt=4, last_termination="OOMKilled"), answered=False, ready=Ready.FALSE)
    assert found.detail == "attempt 4, last ended: OOMKilled"


def test_loading_shows_elapsed_and_budget():
    seen = refused(attempt=1, started_at=NOW.wall - 61, startup_budget=1800.0)
    assert stand(seen, answered=False, ready=Ready.FALSE).detail == "attempt 1, 61 s of 1800 s"


def test_a_stall_names_work_rank_and_time():
    _, detail, seconds = rank_progress(
        rank("3", work=5.0, moved_at=ago(75), work_since=ago(90)), evidence(), NOW, POLICY
    )
    assert (detail, seconds) == ("rank 3: 5 requests and no progress for 75 s", 75.0)


def say(*standings):
    return engine_progressing([MemberStanding(uid=str(n), name=f"m{n}", standing=s) for n, s in enumerate(standings)])


@pytest.mark.parametrize(
    ("standings", "expected"),
    [
        ((Standing.PROGRESSING, Standing.IDLE), "True/Progressing"),
        ((Standing.IDLE,), "True/Idle"),
        ((Standing.STALLED, Standing.UNKNOWN), "False/Stalled"),
        ((Standing.PROGRESSING, Standing.UNKNOWN), "Unknown/NotObserved"),
        ((Standing.DOWN,), "Unknown/NotObserved"),
        ((Standing.SATURATED,), "Unknown/NotObserved"),
        ((Standing.LOADING,), "Unknown/NotObserved"),
        ((), "Unknown/NotObserved"),
    ],
)
def test_engine_progressing(standings, expected):
    found = say(*standings)
    assert f"{found.status.value}/{found.reason}" == expected


def test_the_message_is_bounded():
    found = say(*[Standing.STALLED] * 9)
    assert "and 4 more" in found.message
    assert len(found.evidence) == 5


def test_a_hang_with_a_good_health_is_a_stall():
    """Core frozen, `/health` 200: progress decides, not health."""
    stuck = evidence(health_at=ago(1), ranks=(rank(work=5.0, moved_at=ago(600), work_since=ago(400)),))
    assert answer(run(inputs(members=(stuck,))), "EngineProgressing") == "False/Stalled"


def test_one_request_that_stands_still_is_singular():
    seen = evidence(ranks=(rank(work=1.0, moved_at=ago(61), work_since=ago(61)),))
    assert stand(seen).detail == "rank 0: 1 request and no progress for 61 s"
