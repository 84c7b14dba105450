"""Numbers that cannot be what they are said to be: too large, below zero, not decimal, of another type."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from observer.app.told import limits_of
from observer.measure.exposition import Limits
from observer.measure.extract import Extractor, Frame
from observer.measure.lines import ProblemKind
from observer.measure.numbers import LARGEST, number_in
from observer.measure.window import Chain
from observer.settings import Settings
from router_contract.readings import Histogram, MissingCode, Window
from tests.measure.table import TABLE, histogram, read, values
from tests.measure.test_window import at, prompt

RUNNING = b"# TYPE toy:running gauge\n"
TTFT = b"# TYPE toy:ttft_seconds histogram\n"


def ttft(low: object, count: object, total: object) -> bytes:
    return TTFT + histogram("toy:ttft_seconds", {"1": low, "+Inf": count}, total)  # type: ignore[arg-type]  # any text


IMPOSSIBLE = {
    "a gauge below zero": (RUNNING + b"toy:running -3\n", "requests-running", MissingCode.NOT_FINITE),
    "a fraction below zero": (b"# TYPE toy:usage gauge\ntoy:usage -0.5\n", "kv-cache-usage", MissingCode.NOT_FINITE),
    "a huge gauge": (RUNNING + b"toy:running 1e308\n", "requests-running", MissingCode.NOT_FINITE),
    "past the largest": (RUNNING + b"toy:running 1e400\n", "requests-running", MissingCode.NOT_FINITE),
    "a counter below zero": (prompt(-1), "prompt-tokens", MissingCode.NOT_FINITE),
    "a huge counter": (prompt("1e308"), "prompt-tokens", MissingCode.NOT_FINITE),
    "below zero hidden in a sum": (
        b'# TYPE toy:prompt_total counter\ntoy:prompt_total{p="1"} 9\ntoy:prompt_total{p="2"} -3\n',
        "prompt-tokens",
        MissingCode.NOT_FINITE,
    ),
    "below zero hidden among copies": (
        RUNNING + b'toy:running{tp="0"} -3\ntoy:running{tp="1"} 3\n',
        "requests-running",
        MissingCode.NOT_FINITE,
    ),
    "a huge sum of ranks that are not": (
        b'# TYPE toy:prompt_total counter\ntoy:prompt_total{p="1"} 9e18\ntoy:prompt_total{p="2"} 9e18\n',
        "prompt-tokens",
        MissingCode.NOT_FINITE,
    ),
    "a huge count": (ttft(1, "1e308", 5), "time-to-first-token", MissingCode.UNREADABLE),
    "a count below zero": (ttft(-1, 1, 5), "time-to-first-token", MissingCode.UNREADABLE),
    "a huge bucket without a count": (
        TTFT + b'toy:ttft_seconds_bucket{le="1"} 1\ntoy:ttft_seconds_bucket{le="+Inf"} +Inf\n',
        "time-to-first-token",
        MissingCode.UNREADABLE,
    ),
    "a huge time": (ttft(1, 2, "1e308"), "time-to-first-token", MissingCode.UNREADABLE),
    "a time below zero": (ttft(1, 2, "-0.1"), "time-to-first-token", MissingCode.UNREADABLE),
}


@pytest.mark.parametrize(("body", "signal", "code"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_number_that_cannot_be_is_missing_with_its_code(body: bytes, signal: str, code: MissingCode) -> None:
    frame = read(body)
    assert (frame.series(signal), frame.missing(signal)) == ((), code)
    assert [found for _, found in frame.gaps(signal)] == [code]


@pytest.mark.parametrize("body", [RUNNING + b"toy:running -3\n", prompt(-1), prompt("1e308"), ttft(-1, 1, 5)])
def test_what_cannot_be_is_said_with_its_line(body: bytes) -> None:
    extractor = Extractor(TABLE)
    frame = None
    for _ in range(3):
        frame = extractor.read(body, previous=frame)
        assert isinstance(frame, Frame)
        assert [each.line for each in frame.problems] == [2]
        assert frame.problems[0].kind in {ProblemKind.OUT_OF_RANGE, ProblemKind.TORN}
        assert "a number from 0 to 2^63 is wanted" in frame.problems[0].detail


def test_a_sentinel_and_a_nan_are_no_problem() -> None:
    frame = read(RUNNING + b'toy:running{engine="0"} -1\ntoy:running{engine="1"} NaN\ntoy:running{engine="2"} 2\n')
    assert values(frame, "requests-running") == {("2",): 2.0}
    assert not frame.problems


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=8))
def test_windows_and_totals_hold_finite_numbers_whatever_is_read(numbers: list[float]) -> None:
    extractor, chain = Extractor(TABLE), Chain.empty()
    before = 0.0
    for step, number in enumerate([*numbers, 1e308, 5, 1e308, 5]):
        body = prompt(repr(number)) + ttft(0, repr(number), repr(number))
        frame = extractor.read(body)
        assert isinstance(frame, Frame)
        chain = chain.push(frame, at(5 * step))
        found = chain.window("prompt-tokens", (), at(5 * step))
        assert not isinstance(found, Window) or 0 <= found.increase < math.inf
        total = chain.total("prompt-tokens", ())
        assert total is None or (isinstance(total, float) and before <= total < math.inf)
        before = total if isinstance(total, float) else before
        timed = chain.window("time-to-first-token", (), at(5 * step))
        assert not isinstance(timed, Window) or math.isfinite(timed.increase)
        for each in chain.totals.histograms().values() if chain.totals is not None else ():
            assert all(map(math.isfinite, each.counts))


def test_a_count_that_is_impossible_for_one_read_loses_nothing() -> None:
    extractor, chain = Extractor(TABLE), Chain.empty()
    for step, (count, huge) in enumerate([(4, 5), ("1e308", "1e308"), (8, 9)]):
        frame = extractor.read(prompt(count) + ttft(0, huge, 3))
        assert isinstance(frame, Frame)
        chain = chain.push(frame, at(10 * step))
    found = chain.window("prompt-tokens", (), at(20))
    assert isinstance(found, Window)
    assert (found.increase, found.seconds, found.lossy) == (4.0, 20.0, False)
    timed = chain.total("time-to-first-token", ())
    assert isinstance(timed, Histogram)
    assert timed.count == 4.0


def blocks(text: str) -> bytes:
    return f'# TYPE toy:config_info gauge\ntoy:config_info{{blocks="{text}"}} 1\n'.encode()


@pytest.mark.parametrize(
    "text", ["nan", "inf", "+Inf", "1e400", "0x10", "1_0", "\u0661\u0662", " 7", "-7", "1e300", "many", "1e", "."]
)
def test_a_label_that_is_no_decimal_number_is_not_finite_and_said(text: str) -> None:
    frame = read(blocks(text))
    assert frame.missing("kv-capacity-blocks") is MissingCode.NOT_FINITE
    assert frame.gaps("kv-capacity-blocks") == (((), MissingCode.NOT_FINITE),)
    assert [(each.kind, each.family, each.line) for each in frame.problems] == [
        (ProblemKind.OUT_OF_RANGE, "toy:config_info", 2)
    ]


@pytest.mark.parametrize("text", ["", "None", "none", "null"])
def test_a_label_that_says_none_is_an_absent_number(text: str) -> None:
    frame = read(blocks(text))
    assert (frame.missing("kv-capacity-blocks"), frame.problems) == (MissingCode.ABSENT, ())


def test_one_bad_label_among_several_spoils_their_sum() -> None:
    body = b'toy:config_info{blocks="3",p="1"} 1\ntoy:config_info{blocks="x",p="2"} 1\n'
    frame = read(b"# TYPE toy:config_info gauge\n" + body)
    assert frame.missing("kv-capacity-blocks") is MissingCode.NOT_FINITE


@pytest.mark.parametrize(
    ("text", "value"),
    [("7", 7.0), ("+7", 7.0), ("-7.5", -7.5), ("1e+06", 1e6), (".5", 0.5), ("5.", 5.0), ("+Inf", None), ("", None)],
)
def test_a_decimal_number_in_a_label(text: str, value: float | None) -> None:
    assert number_in(text) == value
    assert number_in("+Inf", infinite=True) == number_in("inf", infinite=True) == math.inf
    assert LARGEST == 2**63


@pytest.mark.parametrize("declared", ["gauge", "counter", "untyped", "unknown", "info"])
def test_a_histogram_declared_as_something_else_is_unreadable_and_said(declared: str) -> None:
    body = f"# TYPE toy:ttft_seconds {declared}\n".encode() + histogram("toy:ttft_seconds", {"1": 1, "+Inf": 3}, 2)
    frame = read(body + RUNNING + b"toy:running 1\n")
    assert frame.missing("time-to-first-token") is MissingCode.UNREADABLE
    assert "time-to-first-token" not in frame.absent
    assert [(each.kind, each.family) for each in frame.problems] == [(ProblemKind.WRONG_TYPE, "toy:ttft_seconds")]
    assert values(frame, "requests-running") == {(): 1.0}


def test_a_level_and_a_histogram_of_other_names_are_not_confused() -> None:
    frame = read(b"# TYPE toy:transfer_ms gauge\ntoy:transfer_ms 3\n", version="0.5.0")
    assert (values(frame, "transfer-latency"), frame.problems) == ({(): 3.0}, ())


def test_the_reader_of_one_file_has_the_limits_of_the_settings() -> None:
    assert limits_of(Settings()) == Limits()
