"""Values made from vectors are those of windows asked for one by one; numbers without series are those of the series."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from observer.measure.extract import Extractor, Frame
from observer.measure.histograms import estimates, mean, summary
from observer.measure.making import Made, Maker
from observer.measure.window import Chain
from router_contract.catalog import lookup
from router_contract.readings import Histogram, Instant, Moment, State, Window
from router_contract.targets import Component

RECORDINGS = Path(__file__).parents[1] / "recordings"
TABLE = lookup(Component.ENGINE, "vllm")
NAMES = ("metrics-02-warm", "metrics-05-load")
INF = math.inf


def bodies() -> list[bytes]:
    return [(RECORDINGS / "vllm-0.32.0" / f"{name}.prom").read_bytes() for name in NAMES]


def two_engines(body: bytes) -> bytes:
    """The body with a second engine in it."""
    lines = [
        each
        for line in body.split(b"\n")
        for each in ((line, line.replace(b'engine="0"', b'engine="1"')) if b'engine="0"' in line else (line,))
    ]
    return b"\n".join(lines)


def frames(*given_: bytes) -> list[Frame]:
    extractor = Extractor(TABLE)
    found = []
    for body in given_:
        frame = extractor.read(body)
        assert isinstance(frame, Frame)
        found.append(frame)
    return found


NUMBERS = st.one_of(st.floats(allow_nan=True, allow_infinity=True), st.integers(0, 40).map(float))


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=6), NUMBERS, st.booleans())
def test_a_summary_is_the_mean_and_the_estimates(rows: list[tuple[float, float]], total: float, ordered: bool) -> None:
    bounds, counts = [row[0] for row in rows], [row[1] for row in rows]
    if ordered:
        bounds, counts = [*sorted(bounds[:-1]), INF][: len(rows)], sorted(counts)
    histogram = Histogram(bounds=tuple(bounds), counts=tuple(counts), sum=total)
    assert summary(histogram) == (mean(histogram), estimates(histogram))


@pytest.mark.parametrize("times", [1, 2], ids=["one engine", "two engines"])
def test_numbers_are_those_of_the_series(times: int) -> None:
    for frame in frames(*(body if times == 1 else two_engines(body) for body in bodies())):
        assert frame.signals()
        for signal in frame.plan.terms:
            assert frame.numbers(signal) == tuple((each.labels, each.value) for each in frame.series(signal))


def test_what_is_no_number_is_in_neither() -> None:
    broken = bodies()[0].split(b"\n")
    place = next(index for index, line in enumerate(broken) if line.startswith(b"vllm:num_requests_running{"))
    broken[place] = broken[place].rpartition(b" ")[0] + b" NaN"
    (frame,) = frames(b"\n".join(broken))
    assert frame.numbers("requests-running") == ()
    assert frame.series("requests-running") == ()
    assert [code.value for _, code in frame.gaps("requests-running")] == ["NotFinite"]


@pytest.mark.parametrize("times", [1, 2], ids=["one engine", "two engines"])
def test_values_are_those_of_windows_and_totals_asked_for_one_by_one(times: int) -> None:
    chain, at = Chain(), Instant(0.0, 0.0)
    read = frames(*(body if times == 1 else two_engines(body) for body in bodies()))
    for number, frame in enumerate(read):
        at = Instant(15.0 * number, 15.0 * number)
        chain = chain.push(frame, at)
    frame = read[-1]
    maker = Maker(
        frame, chain, at, Moment(read=0, state=State.FRESH, windows=True, age_seconds=1.0), span=60, longest=300
    )
    windows = 0
    for signal in frame.plan.terms:
        values = maker.signal(signal, "name")
        told = [value for value in values if value.missing is None]
        assert [(value.labels, value.value, value.histogram) for value in told] == [
            (each.labels, each.value, each.histogram) for each in frame.series(signal)
        ]
        assert all(value.age_seconds == 1.0 for value in values)
        for value in told:
            total = chain.total(signal, value.labels)
            assert (value.running_histogram or value.running_total) == total
            if total is not None:
                window = chain.window(signal, value.labels, at, 60, 300)
                assert (value.window or value.window_missing) == window
                windows += isinstance(window, Window)
    assert windows > 30


def test_what_was_made_is_aged_and_loses_its_windows_but_keeps_them_for_who_looks_earlier() -> None:
    chain, at = Chain(), Instant(0.0, 0.0)
    read = frames(*map(two_engines, bodies()))
    for number, frame in enumerate(read):
        at = Instant(15.0 * number, 15.0 * number)
        chain = chain.push(frame, at)
    made, asked = Made(), {"time-to-first-token": "name", "prompt-tokens": "name", "requests-running": "name"}

    def shown(age: float, state: State, *, windows: bool):  # type: ignore[no-untyped-def]  # values and merged ones
        moment = Moment(read=0, state=state, windows=windows, age_seconds=age)
        maker = Maker(read[-1], chain, at, moment, span=60, longest=300)
        known, new = made.shown(maker, asked, None, merges=True), Made().shown(maker, asked, None, merges=True)
        assert known == new
        for part in ({"prompt-tokens"}, {"time-to-first-token", "no such signal"}, set()):
            some = made.shown(maker, asked, frozenset(part), merges=True)
            assert some == Made().shown(maker, asked, frozenset(part), merges=True)
            assert some[0] == tuple(value for value in known[0] if value.signal in part)
        return known

    made.shown(
        Maker(
            read[-1], chain, at, Moment(read=0, state=State.FRESH, windows=True, age_seconds=0.5), span=60, longest=300
        ),
        asked,
        frozenset({"prompt-tokens"}),
        merges=True,
    )
    first = shown(1.0, State.FRESH, windows=True)
    assert len(first[1]) == 1
    assert first[1][0].window is not None
    late = shown(400.0, State.STALE, windows=False)
    assert all(value.window is None for value in (*late[0], *late[1]))
    assert {value.state for value in late[0]} == {State.STALE}
    assert shown(1.0, State.FRESH, windows=True) == first
