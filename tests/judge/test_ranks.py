"""Ranks of one Pod that are members by themselves: each answers for itself, and a router's rows name them."""

from __future__ import annotations

import msgspec
import pytest

from observer.judge.convergence import bind_row
from router_contract.router_views import ViewSource
from router_contract.targets import Address, Member, rank_uid
from tests.judge.build import (
    OTHER,
    ago,
    answer,
    deployment,
    evidence,
    group,
    inputs,
    leg,
    member,
    rank,
    record,
    refused,
    replica,
    role,
    row,
    run,
    view,
)
from tests.judge.build import kept as stored


def ranks(count=2, **changes) -> tuple[Member, ...]:
    """A Pod of so many ranks."""
    address = [Address(host="10.0.0.1", port=8000 + number) for number in range(count)]
    return tuple(
        member(
            rank_uid("a", number),
            name=f"pod-a-rank-{number}",
            seat=None,
            host="10.0.0.1",
            api=address[number],
            metrics=address[number],
            ports=(8000 + number,),
            rank=number,
            readiness_gated=True,
            declared_total=count,
            **changes,
        )
        for number in range(count)
    )


def pod(*members: Member):
    return deployment(role(replica(*members, ordinal=None), size=len(members), desired=1))


def seen(uid, **changes):
    return evidence(uid, ranks=(rank("0", moved_at=ago(1.0)),), **changes)


FIRST, SECOND = (each.uid for each in ranks())


def test_two_ranks_that_answer_and_move_are_eligible():
    judged = run(inputs(pod(*ranks()), facts=OTHER, members=(seen(FIRST), seen(SECOND))))
    assert group(judged).state.value == "Eligible"
    forward = leg(group(judged), "GroupForward")
    assert (forward.state.value, forward.why) == ("Verified", "2 of 2 ranks moved")


def test_a_rank_that_stopped_takes_its_replica_along_though_its_pod_is_ready():
    before = stored(record(f"{FIRST}/{SECOND}", ordinal=None))
    judged = run(inputs(pod(*ranks()), facts=OTHER, members=(seen(FIRST), refused(SECOND))), before)
    assert leg(group(judged), "MembersReady").state.value == "Failed"
    assert "pod-a-rank-1" in leg(group(judged), "MembersReady").why
    assert answer(judged, "EndpointEligibility").startswith("False/")


def test_a_rank_that_was_never_read_is_not_known():
    judged = run(inputs(pod(*ranks()), facts=OTHER, members=(seen(FIRST),)))
    assert leg(group(judged), "MembersReady").state.value == "Unknown"


@pytest.mark.parametrize(
    ("endpoint", "number", "wanted"),
    [
        pytest.param("pod-a", 1, SECOND, id="a Pod and its rank"),
        pytest.param("pod-a", 0, FIRST, id="the first"),
        pytest.param("pod-a", 7, None, id="a rank that is not there"),
        pytest.param("pod-a-rank-1", None, SECOND, id="its whole name"),
        pytest.param("pod-b", 0, None, id="another Pod"),
    ],
)
def test_a_row_of_series_names_a_rank(endpoint, number, wanted):
    told = row("a", url="", host="", port=None, endpoint=endpoint, rank=number)
    given = inputs(pod(*ranks()), facts=OTHER)
    found = bind_row(told, msgspec.structs.replace(view(told), source=ViewSource.SERIES), given)
    assert (found.uid if found is not None else None) == wanted


def test_a_row_with_an_address_is_the_rank_that_listens_there():
    told = row("a", url="http://10.0.0.1:8001", host="10.0.0.1", port=8001)
    found = bind_row(told, view(told), inputs(pod(*ranks()), facts=OTHER))
    assert found is not None
    assert found.uid == SECOND
