"""Running totals: what was seen to grow, over restarts, gaps, series that vanish and bounds that change."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from observer.measure.extract import Extractor
from observer.measure.totals import added, onto
from observer.measure.window import Chain
from router_contract.readings import Histogram, MissingCode, Window
from tests.measure.table import TABLE
from tests.measure.test_window import at, chain, done, prompt, ttft

INF = math.inf


def test_a_total_begins_at_the_first_read_and_adds_every_delta() -> None:
    reads = [(0, prompt(100)), (15, prompt(175)), (30, prompt(20)), (45, prompt(35))]
    found = [chain(*reads[:count]).total("prompt-tokens", ()) for count in range(5)]
    assert found == [None, 0.0, 75.0, 95.0, 110.0]


def test_an_absent_series_has_no_total_and_goes_on_where_it_stopped() -> None:
    length = (("reason", "length"),)
    reads = [
        (0, done(stop=3, length=1)),
        (15, done(stop=4, length=3)),
        (30, done(stop=5)),
        (45, done(stop=6, length=9)),
    ]
    totals = [chain(*reads[:count]).total("requests-finished", length) for count in (2, 3, 4)]
    assert totals == [2.0, None, 2.0]
    later = chain(*reads, (60, done(stop=6, length=10)))
    assert later.total("requests-finished", length) == 3.0
    assert later.total("requests-finished", (("reason", "stop"),)) == 3.0


def test_a_number_that_falls_at_every_read_does_not_add_up_for_ever() -> None:
    falling = [(10 * step, prompt(1000 - step)) for step in range(6)]
    assert [chain(*falling[:count]).total("prompt-tokens", ()) for count in (2, 3, 4, 6)] == [
        999.0,
        1997.0,
        1997.0,
        1997.0,
    ]
    assert chain(*falling, (60, prompt(1005))).total("prompt-tokens", ()) == 2007.0


def test_a_program_that_restarts_again_and_again_is_counted_each_time() -> None:
    found = chain(*((10 * step, prompt(9 - step), {"incarnation": step}) for step in range(6)))
    assert found.total("prompt-tokens", ()) == 8.0 + 7.0 + 6.0 + 5.0 + 4.0


def test_a_family_that_is_unreadable_for_one_body_loses_nothing() -> None:
    found = chain((0, ttft(1, 2, 3)), (15, prompt(1, ttft(3, 2, 1))), (30, ttft(2, 4, 6)))
    total = found.total("time-to-first-token", ())
    assert isinstance(total, Histogram)
    assert total.counts == (1.0, 2.0, 3.0)
    torn = chain((0, ttft(1, 2, 3)), (15, ttft(2, 3, 5)), (30, prompt(1)))
    assert torn.totals is not None
    assert torn.totals.histograms()["time-to-first-token"].counts == (1.0, 1.0, 2.0)


def test_changed_bounds_keep_what_is_certainly_in_each_bucket() -> None:
    reads = [(0, ttft(0, 0, 0, 0.0)), (15, ttft(1, 4, 5, 9.0)), (30, ttft(1, 2, 6, 12.0, bounds=("1", "3", "+Inf")))]
    total = chain(*reads).total("time-to-first-token", ())
    assert total == Histogram(bounds=(1.0, 3.0, INF), counts=(1.0, 4.0, 5.0), sum=9.0)
    back = chain(*reads, (45, ttft(2, 4, 8, 13.0, bounds=("1", "3", "+Inf")))).total("time-to-first-token", ())
    assert back == Histogram(bounds=(1.0, 3.0, INF), counts=(2.0, 6.0, 7.0), sum=10.0)


@pytest.mark.parametrize(
    ("bounds", "counts"),
    [
        ((1.0, 2.0, INF), (1.0, 4.0, 5.0)),
        ((0.5, 1.5, 2.0, INF), (0.0, 1.0, 4.0, 5.0)),
        ((3.0, INF), (4.0, 5.0)),
        ((INF,), (5.0,)),
    ],
    ids=["same", "finer", "coarser", "only-the-count"],
)
def test_onto_other_bounds_never_says_more_than_is_known(bounds: tuple[float, ...], counts: tuple[float, ...]) -> None:
    whole = Histogram(bounds=(1.0, 2.0, INF), counts=(1.0, 4.0, 5.0), sum=7.0)
    assert onto(whole, bounds) == Histogram(bounds=bounds, counts=counts, sum=7.0)


def test_added_has_the_bounds_of_all() -> None:
    one = Histogram(bounds=(1.0, INF), counts=(1.0, 2.0), sum=3.0)
    other = Histogram(bounds=(2.0, INF), counts=(4.0, 4.0), sum=5.0)
    assert added([one, other]) == Histogram(bounds=(1.0, 2.0, INF), counts=(1.0, 5.0, 6.0), sum=8.0)
    many = [Histogram(bounds=(float(n), INF), counts=(1.0, 1.0), sum=1.0) for n in range(600)]
    whole = added(many)
    assert len(whole.bounds) <= 512
    assert (whole.count, whole.sum) == (600.0, 600.0)


BOUNDS = (("1", "2", "+Inf"), ("1", "3", "+Inf"), ("0.5", "+Inf"))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 12))
def test_totals_are_the_sum_of_the_windows_and_never_fall(seed: int, steps: int) -> None:
    """A process that works, restarts, hides a series, tears a family and changes its bounds."""
    rng = random.Random(seed)
    extractor, found = Extractor(TABLE), Chain.empty()
    tokens, low, high, life, bounds = rng.randrange(50), 0, 0, 0, BOUNDS[0]
    grown, ever = 0.0, 0.0
    before: dict[float, float] = {}
    for step in range(steps):
        if rng.random() < 0.2:
            life, tokens, low, high = life + 1, rng.randrange(5), 0, 0
        tokens += rng.choice([0, 1, 300, 0.5])
        low, high = low + rng.randrange(3), high + rng.randrange(4)
        if rng.random() < 0.15:
            bounds = rng.choice(BOUNDS)
        counts = (low, *[low + high // 2] * (len(bounds) - 2), low + high)
        family = ttft(*counts, float(low + high), bounds=bounds) if len(bounds) == 3 else b""
        if rng.random() < 0.15:
            family = ttft(3, 2, 1)
        shown = prompt(tokens, family) if rng.random() < 0.85 else (family or b"toy:running 1\n")
        found = found.push(extractor.read(shown), at(15 * step), life)
        # One pair at a time is exactly what the newest read added.
        newest = found.window("prompt-tokens", (), at(15 * step), 1.0, 1e9)
        if isinstance(newest, Window):
            grown += newest.increase
        total = found.total("prompt-tokens", ())
        assert total is None or total == pytest.approx(grown)
        assert found.totals is not None
        whole = found.totals.histograms().get("time-to-first-token")
        if whole is not None:
            assert whole.count >= ever
            assert all(whole.counts[place] >= before.get(bound, 0.0) for place, bound in enumerate(whole.bounds))
            assert list(whole.counts) == sorted(whole.counts)
            ever, before = whole.count, dict(zip(whole.bounds, whole.counts, strict=True))
        else:
            assert not ever


def test_what_was_never_there_has_no_total() -> None:
    assert Chain.empty().total("prompt-tokens", ()) is None
    found = chain((0, prompt(1)))
    assert found.total("time-to-first-token", ()) is None
    assert found.window("prompt-tokens", (), at(0)) is MissingCode.AWAITING_SECOND_SAMPLE


STEPS = st.lists(
    st.one_of(st.integers(0, 300), st.floats(0, 70_000), st.sampled_from([2**32, 2**40, 0.1, -1e-13])),
    min_size=1,
    max_size=25,
)


@given(st.floats(0, 1e6), STEPS)
def test_a_total_is_the_plain_sum_of_what_was_added_whatever_holds_it(first: float, steps: list[float]) -> None:
    number, total = first, 0.0
    reads = [(0, prompt(repr(first)))]
    for place, step in enumerate(steps, 1):
        # a fall in the last digits, of a fraction, is none: nothing was added
        now = number * (1 + step) if step < 0 and number != math.floor(number) else number + max(step, 0.0)
        total += max(now - number, 0.0)
        number = now
        reads.append((15 * place, prompt(repr(number))))
    found = [chain(*reads[:count]).total("prompt-tokens", ()) for count in range(1, len(reads) + 1)]
    assert found[-1] == total
    assert found == sorted(found)
