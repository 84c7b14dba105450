from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from observer.collect.allocator import raise_file_limit, tune_allocator
from observer.collect.schedule import moment, offset, slot_after
from router_contract.targets import DeploymentKey, TargetKey


def key(index: int) -> TargetKey:
    return TargetKey(DeploymentKey("ns", "d"), f"static:{index:016x}", "engine", 8000)


@given(st.floats(0, 1e9), st.floats(0, 1), st.floats(0.2, 300))
def test_the_next_slot_begins_later_and_within_a_period(now: float, fraction: float, period: float) -> None:
    shift = fraction * period
    slot = slot_after(now, shift, period)
    assert moment(slot, shift, period) > now - 1e-6
    assert moment(slot - 1, shift, period) <= now + 1e-6


def test_targets_are_spread_evenly_over_the_period() -> None:
    tenths = [0] * 10
    for index in range(5000):
        shift = offset(key(index), 5.0)
        assert 0 <= shift < 5.0
        tenths[int(shift / 0.5)] += 1
    assert min(tenths) > 400
    assert max(tenths) < 600


def test_an_offset_is_the_same_everywhere() -> None:
    assert round(offset(key(1), 5.0), 6) == round(offset(key(1), 10.0) / 2, 6)
    assert offset(key(1), 5.0) != offset(key(2), 5.0)
    assert f"{offset(key(1), 5.0):.6f}" == "0.104203"


def test_the_process_is_prepared() -> None:
    assert tune_allocator() in {True, False}
    assert raise_file_limit() >= 256
