"""Packing loses nothing, and takes as little as the numbers allow; moments of growth are those of plain arrays."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from observer.measure.packed import pack
from observer.measure.pairs import Moved

USUAL = st.one_of(st.integers(0, 300), st.integers(0, 2**33), st.floats(0, 1e19))
ANY = st.one_of(USUAL, st.floats(allow_nan=True, allow_infinity=True))


@given(st.one_of(st.lists(USUAL, max_size=60), st.lists(ANY, max_size=60)))
def test_what_was_packed_is_the_same(numbers: list[float]) -> None:
    given_ = np.array(numbers, np.float64)
    packed = pack(given_.copy())
    assert packed.width == len(numbers)
    np.testing.assert_array_equal(packed.floats(), given_)


@pytest.mark.parametrize(
    ("numbers", "most"),
    [
        pytest.param([0.0] * 100, 0, id="nothing"),
        pytest.param([200.0] * 100, 100, id="a byte each"),
        pytest.param([200.0] * 99 + [0.5], 112, id="a fraction apart"),
        pytest.param([200.0] * 99 + [1e12], 112, id="a large one apart"),
        pytest.param([60_000.0] * 100, 200, id="two bytes each"),
        pytest.param([1e6] * 99 + [2.0**40], 412, id="four bytes each, a larger one apart"),
        pytest.param([0.5] * 100, 800, id="fractions as they are"),
        pytest.param([1e12] * 100, 800, id="large ones as they are"),
        pytest.param([math.nan] + [1.0] * 99, 800, id="with one that is none, as they are"),
        pytest.param([-1.0] + [1.0] * 99, 800, id="with one below 0, as they are"),
    ],
)
def test_bytes(numbers: list[float], most: int) -> None:
    assert pack(np.array(numbers)).nbytes == most


@given(st.lists(st.lists(st.booleans(), min_size=5, max_size=5), max_size=30))
def test_moments_of_growth(steps: list[list[bool]]) -> None:
    moved, plain = Moved.never(5), np.full(5, np.nan)
    for number, grew in enumerate(steps):
        moved = moved.after(np.array(grew), 10.0 + number)
        plain = np.where(grew, 10.0 + number, plain)
    np.testing.assert_array_equal([moved.at(place) for place in range(5)], plain)


def test_many_moments_of_growth_take_no_more_and_more() -> None:
    moved, plain = Moved.never(50), np.full(50, np.nan)
    for number in range(2000):
        grew = np.arange(50) == number % 49
        moved = moved.after(grew, float(number))
        plain = np.where(grew, float(number), plain)
        assert len(moved.times) <= 64 + 16
    np.testing.assert_array_equal([moved.at(place) for place in range(50)], plain)


def test_more_moments_than_are_told_apart() -> None:
    moments = [float(number) for number in range(1000)]
    moved = Moved.of(moments)
    assert [moved.at(place) for place in range(800, 1000)] == moments[800:]
    assert moved.at(0) == 800.0
