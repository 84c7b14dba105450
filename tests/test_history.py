"""Rings of an hour: what is kept, for how long, at which pace, and that unknown stays unknown."""

from __future__ import annotations

from observer.history import Rings
from router_contract.history import SERIES
from router_contract.targets import DeploymentKey
from tests.fleets import KEY, at


def test_a_number_that_is_not_known_is_none_and_not_zero() -> None:
    rings = Rings()
    rings.sample(KEY, at(0), {"running": 0.0, "waiting": None})
    past = rings.past(KEY, at(1))
    assert past.series["running"] == (0.0,)
    assert past.series["waiting"] == (None,)
    assert set(past.series) == set(SERIES)
    assert past.series["ttft"] == (None,)


def test_samples_come_no_closer_than_a_step() -> None:
    rings = Rings(step=10.0)
    for second in range(25):
        rings.sample(KEY, at(second), {"running": float(second)})
    assert rings.past(KEY, at(25)).series["running"] == (0.0, 10.0, 20.0)


def test_an_hour_is_kept_in_order_and_no_more() -> None:
    rings = Rings(span=60.0, step=10.0)
    for second in range(0, 200, 10):
        rings.sample(KEY, at(second), {"running": float(second)})
    past = rings.past(KEY, at(190))
    assert past.series["running"] == (140.0, 150.0, 160.0, 170.0, 180.0, 190.0)
    assert list(past.times) == sorted(past.times)
    assert rings.past(KEY, at(225)).series["running"] == (170.0, 180.0, 190.0)
    assert rings.past(KEY, at(1000)).times == ()


def test_a_deployment_that_is_gone_leaves_nothing() -> None:
    rings = Rings(most=1)
    other = DeploymentKey("default", "other")
    rings.sample(KEY, at(0), {"running": 1.0})
    rings.sample(other, at(0), {"running": 2.0})
    assert rings.past(other, at(1)).times == ()
    rings.forget([other])
    assert len(rings) == 0
    rings.sample(other, at(1), {"running": 2.0})
    assert rings.past(other, at(1)).series["running"] == (2.0,)
