"""The informer's table: what follows each ending, and after which pause."""

from __future__ import annotations

import pytest

from observer.kube.answers import Outcome
from observer.kube.pacing import BackOff, Bucket
from observer.kube.watching import (
    LIST_ENDED,
    LOOK_ENDED,
    WATCH_ENDED,
    Ending,
    Phase,
    WatchTuning,
    direction,
    ended,
    plan,
)

BACK_OFF = BackOff(first=0.8, longest=30.0)

CASES = {
    # phase, ending, failures before -> next phase, pauses, failures after
    "a list is watched": (Phase.LIST, Outcome.OK, 0, Phase.WATCH, False, 0),
    "a good list forgives nothing": (Phase.LIST, Outcome.OK, 3, Phase.WATCH, False, 3),
    "a list's token ran out": (Phase.LIST, Outcome.EXPIRED, 0, Phase.LIST, False, 1),
    "a list's token ran out again": (Phase.LIST, Outcome.EXPIRED, 1, Phase.LIST, True, 2),
    "not installed": (Phase.LIST, Outcome.NOT_FOUND, 0, Phase.LIST, True, 1),
    "forbidden": (Phase.LIST, Outcome.FORBIDDEN, 0, Phase.LIST, True, 1),
    "the API is down": (Phase.LIST, Outcome.NO_ANSWER, 5, Phase.LIST, True, 6),
    "a watch served its time": (Phase.WATCH, Ending.SERVED, 0, Phase.WATCH, False, 0),
    "watch ends silently": (Phase.WATCH, Ending.CUT, 0, Phase.LOOK, True, 1),
    "410 as status and as event, first": (Phase.WATCH, Outcome.EXPIRED, 0, Phase.LIST, False, 1),
    "410 as status and as event, again": (Phase.WATCH, Outcome.EXPIRED, 1, Phase.LIST, True, 2),
    "future version named by the server": (Phase.WATCH, Outcome.TOO_NEW, 0, Phase.LIST, True, 1),
    "an ERROR event 500": (Phase.WATCH, Ending.ERROR_EVENT, 0, Phase.LIST, True, 1),
    "half-open connection": (Phase.WATCH, Outcome.SILENT, 0, Phase.LOOK, False, 1),
    "half-open connection again": (Phase.WATCH, Outcome.SILENT, 1, Phase.LOOK, True, 2),
    "the connection broke": (Phase.WATCH, Outcome.NO_ANSWER, 0, Phase.LOOK, True, 1),
    "throttled": (Phase.WATCH, Outcome.THROTTLED, 0, Phase.WATCH, True, 1),
    "the right was taken away": (Phase.WATCH, Outcome.FORBIDDEN, 0, Phase.LIST, True, 1),
    "a line cannot be read": (Phase.WATCH, Outcome.MALFORMED, 0, Phase.LIST, True, 1),
    "the server is where we were": (Phase.LOOK, Ending.FORWARD, 2, Phase.WATCH, False, 2),
    "future resourceVersion": (Phase.LOOK, Ending.BACKWARD, 0, Phase.LIST, False, 0),
    "versions cannot be compared": (Phase.LOOK, Ending.INCOMPARABLE, 0, Phase.LIST, False, 0),
    "a look is refused": (Phase.LOOK, Outcome.FORBIDDEN, 0, Phase.LIST, True, 1),
    "still down": (Phase.LOOK, Outcome.NO_ANSWER, 1, Phase.LOOK, True, 2),
}


@pytest.mark.parametrize(("phase", "ending", "before", "after", "pauses", "failures"), CASES.values(), ids=CASES.keys())
def test_each_ending_has_its_next_phase(
    phase: Phase, ending: Outcome | Ending, before: int, after: Phase, pauses: bool, failures: int
) -> None:
    step = plan(phase, ending, failures=before, retry_after=None, back_off=BACK_OFF, chance=0.5)
    assert (step.phase, step.pause > 0, step.failures) == (after, pauses, failures)


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("ending", [*Outcome, *Ending])
def test_no_row_lets_a_loop_run_hot(phase: Phase, ending: Outcome | Ending) -> None:
    """Two failures in a row always pause, and what is no failure leads from a list to a watch, never to itself."""
    step = plan(phase, ending, failures=1, retry_after=None, back_off=BACK_OFF, chance=0.0)
    if step.failures > 1:
        assert step.pause >= 0.1
    else:
        assert step.phase is not phase or ending is Ending.SERVED


def test_a_pause_that_the_server_asks_for_is_kept_within_reason() -> None:
    def pause(retry_after: float) -> float:
        return plan(
            Phase.WATCH, Outcome.THROTTLED, failures=0, retry_after=retry_after, back_off=BACK_OFF, chance=0.0
        ).pause

    assert pause(7.0) == 7.0
    assert pause(1e9) == 300.0


def test_pauses_double_to_their_bound_and_never_vanish() -> None:
    assert [BACK_OFF.pause(n, 1.0) for n in (1, 2, 3, 6, 7, 100)] == [0.8, 1.6, 3.2, 25.6, 30.0, 30.0]
    assert BACK_OFF.pause(9, 0.0) == pytest.approx(0.1)


def test_a_bucket_lends_its_burst_and_then_its_rate() -> None:
    bucket = Bucket.full(5.0, 2.0, 100.0)
    pauses = []
    for _ in range(4):
        bucket, pause = bucket.take(100.0)
        pauses.append(round(pause, 3))
    assert pauses == [0.0, 0.0, 0.2, 0.4]
    bucket, pause = bucket.take(1000.0)
    assert (pause, bucket.tokens) == (0.0, 1.0)
    assert bucket.take(999.0)[0].at == 1000.0, "a clock that steps back mints nothing"


@pytest.mark.parametrize(
    ("asked", "lasted", "ending"),
    [
        (300.0, 300.2, Ending.SERVED),
        (300.0, 271.0, Ending.SERVED),
        (300.0, 269.0, Ending.CUT),
        (300.0, 0.0, Ending.CUT),
        (1.0, 0.0, Ending.SERVED),
    ],
)
def test_a_watch_that_ends_before_its_time_was_cut(asked: float, lasted: float, ending: Ending) -> None:
    assert ended(asked, lasted) is ending


@pytest.mark.parametrize(
    ("ours", "theirs", "found"),
    [
        ("100", "100", Ending.FORWARD),
        ("100", "101", Ending.FORWARD),
        ("99", "100", Ending.FORWARD),
        ("100", "99", Ending.BACKWARD),
        ("abc", "abc", Ending.FORWARD),
        ("abc", "100", Ending.INCOMPARABLE),
        ("100", "", Ending.INCOMPARABLE),
    ],
)
def test_versions_are_opaque_but_for_their_direction(ours: str, theirs: str, found: Ending) -> None:
    assert direction(ours, theirs) is found


def test_watches_of_replicas_end_apart() -> None:
    tuning = WatchTuning()
    assert [tuning.duration(chance) for chance in (0.0, 0.5, 0.999999)] == [240, 300, 360]
    assert tuning.silence > 60, "bookmarks come about each minute"


def test_tables_name_no_ending_of_another_phase() -> None:
    assert not WATCH_ENDED.keys() & {Ending.FORWARD, Ending.BACKWARD, Ending.INCOMPARABLE}
    assert not (LOOK_ENDED.keys() | LIST_ENDED.keys()) & {Ending.SERVED, Ending.CUT, Ending.ERROR_EVENT}
