"""Cells of a canary step: from totals that never fall, each growth once, sums kept whatever is cut where."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from observer.measure.canary_cells import MAX_CELLS, Counted, Gathering, Part
from router_contract.readings import Histogram

PART = Part(what="errors", canary=True)
OTHER = Part(what="errors", canary=False)


def add(to: Gathering, total: float, *, pod: str = "a", counts: bool = True, from_zero: bool = False) -> None:
    to.add(PART, "target", pod, Counted(events=0.0, total=total), counts=counts, from_zero=from_zero)


def total(to: Gathering, end: float = 100.0) -> float:
    return math.fsum(cell.total for cell in to.whole(PART, end).cells)


def test_a_pod_that_was_there_before_counts_from_its_first_look() -> None:
    made = Gathering("p", 0.0)
    add(made, 500.0)
    assert total(made) == 0
    add(made, 530.0)
    assert total(made) == 30


def test_a_pod_that_started_since_counts_from_zero() -> None:
    made = Gathering("p", 0.0)
    add(made, 30.0, from_zero=True)
    assert total(made) == 30


def test_what_was_counted_before_it_was_warm_is_left_out() -> None:
    made = Gathering("p", 0.0)
    add(made, 30.0, counts=False, from_zero=True)
    add(made, 40.0, counts=False, from_zero=True)
    add(made, 45.0, from_zero=True)
    assert total(made) == 0, "some of this came before it was warm"
    add(made, 50.0, from_zero=True)
    assert total(made) == 5


def test_a_total_that_fell_is_another_life_and_says_so() -> None:
    made = Gathering("p", 0.0)
    for number in (10.0, 20.0, 3.0, 8.0):
        add(made, number)
    assert total(made) == 15
    assert made.whole(PART, 1.0).lossy
    assert not made.whole(OTHER, 1.0).lossy


def test_recent_is_what_came_after_the_last_conclusive_sample() -> None:
    made = Gathering("p", 0.0)
    add(made, 0.0)
    add(made, 10.0)
    made.sampled(10.0, conclusive=False)
    add(made, 30.0)
    assert math.fsum(cell.total for cell in made.recent(PART, 20.0).cells) == 30
    made.sampled(20.0, conclusive=True)
    add(made, 35.0)
    recent = made.recent(PART, 30.0)
    assert (recent.start, recent.end) == (20.0, 30.0)
    assert [(cell.start, cell.total) for cell in recent.cells] == [(20.0, 5.0)]
    assert total(made) == 35


def test_a_minute_begins_a_new_cell() -> None:
    made = Gathering("p", 30.0)
    add(made, 0.0)
    add(made, 1.0)
    made.tick(59.0)
    add(made, 2.0)
    made.tick(61.0)
    add(made, 4.0)
    assert [(cell.start, cell.total) for cell in made.whole(PART, 62.0).cells] == [(30.0, 2.0), (61.0, 2.0)]


def test_histograms_grow_by_bucket_and_other_bounds_begin_anew() -> None:
    made = Gathering("p", 0.0)

    def see(bounds: tuple[float, ...], counts: tuple[float, ...], spent: float) -> None:
        data = Histogram(bounds=bounds, counts=counts, sum=spent)
        made.add(PART, "t", "a", Counted(histogram=data), counts=True, from_zero=False)

    see((1.0, math.inf), (1.0, 2.0), 3.0)
    see((1.0, math.inf), (3.0, 6.0), 9.0)
    (cell,) = made.whole(PART, 1.0).cells
    assert cell.histogram == Histogram(bounds=(1.0, math.inf), counts=(2.0, 4.0), sum=6.0)
    see((2.0, math.inf), (9.0, 9.0), 9.0)
    assert made.whole(PART, 1.0).cells == (cell,)
    assert made.whole(PART, 1.0).lossy


def test_past_the_limit_the_oldest_minute_goes_and_the_window_starts_later() -> None:
    made = Gathering("p", 0.0)
    add(made, 0.0)
    for place in range(MAX_CELLS + 1):
        add(made, place + 1.0)
        made.sampled(60.0 * place + 30.0, conclusive=False)
    window = made.whole(PART, 60.0 * MAX_CELLS + 60)
    assert len(window.cells) <= MAX_CELLS
    assert window.start > 0
    assert min(cell.start for cell in window.cells) >= window.start


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("grow"), st.integers(0, 20)),
            st.tuples(st.just("wait"), st.integers(1, 90)),
            st.tuples(st.sampled_from(["sample", "pass"]), st.just(0)),
        ),
        max_size=60,
    )
)
def test_everything_that_was_counted_is_in_the_window_once(steps: list[tuple[str, int]]) -> None:
    made, now, seen, grown, since = Gathering("p", 0.0), 0.0, 100.0, 0, 0
    add(made, seen)
    for what, number in steps:
        if what == "grow":
            seen, grown, since = seen + number, grown + number, since + number
            add(made, seen)
        elif what == "wait":
            now += number
            made.tick(now)
        else:
            made.sampled(now, conclusive=what == "pass")
            since = 0 if what == "pass" else since
    assert total(made, now) == grown
    # A mark at the very start of the window parts nothing: cells of the same moment are on its other side.
    recent = math.fsum(cell.total for cell in made.recent(PART, now).cells)
    assert since <= recent <= grown
