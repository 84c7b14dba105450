"""Which publishers are followed, and that those which nobody can dial are not passed over in silence."""

from __future__ import annotations

import json

from observer.app.kv import KvJudging, KvPart
from observer.clock import SystemClock
from observer.settings import Settings
from router_contract.kv_sources import from_sglang, from_vllm
from router_contract.kv_streams import StreamKey, StreamState
from router_contract.probes import EventSourcesTold, MemberProbe
from router_contract.verdicts import Status
from tests.fleets import KEY, at, deployment, store


def told(uid: str, body: object, *, read=from_vllm) -> MemberProbe:
    found = read(json.dumps(body).encode(), "127.0.0.9")
    events = EventSourcesTold(
        at=at(5), path="/p", sources=found.sources, notes=found.problems, undialable=found.undialable
    )
    return MemberProbe(deployment=KEY, uid=uid, member="a", software="vllm", events=events)


def publisher(endpoint: str) -> dict[str, object]:
    return {"enable_kv_cache_events": True, "publisher": "zmq", "endpoint": endpoint}


async def test_a_publisher_that_cannot_be_dialled_is_a_detached_stream_and_its_events_are_not_live():
    fleet = store()
    fleet.set_deployments([deployment("a")], at(1))
    clock = SystemClock()
    part = KvPart(fleet, clock, Settings())
    async with part.collector:
        part.on_probe(told("uid-a", {"0": publisher("tcp://*:1"), "1": publisher("tcp://127.0.0.1:2")}))
        part.sync()
        first, second = part.kv_streams(KEY)
        assert (first.key.rank, first.state) == (0, StreamState.CONNECTING)
        assert (second.key, second.state, second.synced) == (StreamKey(KEY, "uid-a", 1), StreamState.DETACHED, False)
        assert "cannot be dialled" in second.detail
        assert part.kv_lookup(KEY, [1], None).unknown == (first.key, second.key)
        (found,) = fleet.deployments()
        condition = KvJudging(fleet, Settings(), lambda _: 1).conditions(found, (second,), clock.now())[1]
        assert (condition.status, condition.reason) == (Status.UNKNOWN, "NotSubscribed")
        assert "tcp://127.0.0.1:2" in condition.message
        part.on_probe(told("uid-a", {"0": publisher("tcp://*:1"), "1": publisher("tcp://*:2")}))
        part.sync()
        assert [each.state for each in part.kv_streams(KEY)] == [StreamState.CONNECTING] * 2
        part.close()


async def test_ports_that_cannot_be_are_a_detached_stream():
    fleet = store()
    fleet.set_deployments([deployment("a")], at(1))
    part = KvPart(fleet, SystemClock(), Settings())
    async with part.collector:
        body = {"kv_events": {"publisher": "zmq", "endpoint_port_base": 65_535, "dp_size": 2}}
        part.on_probe(told("uid-a", body, read=from_sglang))
        part.sync()
        (stream,) = part.kv_streams()
        assert (stream.state, stream.key.rank) == (StreamState.DETACHED, 0)
        assert "65535" in stream.detail
        part.close()
