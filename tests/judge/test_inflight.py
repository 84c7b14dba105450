"""Requests that routers count, and what they may prove: a stall only where they stay and nothing moves."""

from __future__ import annotations

import pytest

from observer.judge.inflight import router_inflight
from observer.judge.standing import Standing, rank_progress
from router_contract.router_views import ViewSource
from tests.judge.build import (
    NOW,
    POLICY,
    ago,
    deployment,
    evidence,
    inputs,
    member,
    rank,
    replica,
    role,
    router,
    row,
    view,
)

PAIR = deployment(role(replica(), name="p", kind="Prefill"), with_router=True)


@pytest.mark.parametrize(
    ("views", "target", "expected"),
    [
        pytest.param((view(row(load=3.0)),), None, {"a": 3.0}, id="a load"),
        pytest.param((view(row(load=0.0)),), None, {}, id="0 under most policies means nothing"),
        pytest.param((view(row(load=None)),), None, {}, id="not told"),
        pytest.param(
            (view(row(load=0.0), source=ViewSource.OBSERVER_ENDPOINTS),), None, {"a": 0.0}, id="a lane's 0 is a number"
        ),
        pytest.param((view(row(load=3.0), read_at=ago(16)),), None, {}, id="an old view"),
        pytest.param((view(row(load=3.0, port=9)),), None, {}, id="nobody's"),
        pytest.param((view(row(load=1.0)), view(row(load=2.0), uid="s")), None, {"a": 3.0}, id="routers add"),
        pytest.param((view(row(load=3.0)),), PAIR, {}, id="one half of a pair waits for the other"),
    ],
)
def test_what_routers_count(views, target, expected):
    target = target or deployment(with_router=router("r", "s"))
    assert router_inflight(inputs(target, views=views), NOW, POLICY) == expected


def stand(*ranks, **changes):
    return rank_progress(ranks[0], evidence(ranks=ranks, **changes), NOW, POLICY)[0]


IDLE = rank(work=0.0, work_since=None, moved_at=ago(3600), watched_since=ago(7200))


@pytest.mark.parametrize(
    ("ranks", "given", "expected"),
    [
        pytest.param((IDLE,), {}, Standing.IDLE, id="nothing anywhere"),
        pytest.param(
            (IDLE,), {"router_inflight": 1.0, "inflight_since": ago(61)}, Standing.STALLED, id="it never arrives"
        ),
        pytest.param(
            (IDLE,),
            {"router_inflight": 1.0, "inflight_since": ago(5)},
            Standing.PROGRESSING,
            id="a request after an idle hour is no stall",
        ),
        pytest.param(
            (IDLE, rank("1")),
            {"router_inflight": 1.0, "inflight_since": ago(61)},
            Standing.IDLE,
            id="another rank's request is not this one's",
        ),
    ],
)
def test_requests_that_only_routers_count(ranks, given, expected):
    assert stand(*ranks, **given) is expected


def test_a_member_is_found_by_its_address_and_port():
    target = deployment(
        role(replica(member("a", ports=(8000, 8001))), replica(member("b", host="10.0.0.1", ports=(9000,)), ordinal=1)),
        with_router=True,
    )
    views = (view(row("a", load=1.0), row("a", port=9000, load=2.0), row("a", port=8001, load=4.0)),)
    assert router_inflight(inputs(target, views=views), NOW, POLICY) == {"a": 5.0, "b": 2.0}
