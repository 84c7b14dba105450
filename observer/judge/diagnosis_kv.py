"""The doctor's rows about KV-event sockets. They are judged for each socket; ``facts.port`` is the socket's."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from observer.judge.diagnosis_reach import is_zmq
from observer.judge.diagnosis_row import POLICY, Row, yes
from router_contract.diagnosis import Certainty, Facts, Reach

_LOOPBACK = ("tcp://127.0.0.1", "tcp://localhost", "tcp://[::1]")


def _is(*reaches: Reach) -> Callable[[Facts], Mapping[str, object] | None]:
    return lambda facts: yes(facts.dial is not None and facts.dial.reach in reaches)


def _loopback(facts: Facts) -> Mapping[str, object] | None:
    if facts.dial is None or facts.dial.reach is not Reach.REFUSED:
        return None
    told = next((word for word in facts.arguments for start in _LOOPBACK if start in word), "")
    if told:
        return {"evidence": "its command line binds loopback"}
    if facts.loopback is not None and facts.loopback.reach is Reach.CONNECTED:
        return {"evidence": f"127.0.0.1:{facts.port} on the same machine accepts"}
    return None


def _not_zmq(facts: Facts) -> Mapping[str, object] | None:
    connected = facts.dial is not None and facts.dial.reach is Reach.CONNECTED
    return yes(connected and facts.dial is not None and not is_zmq(facts.dial.greeting))


ROWS: tuple[Row, ...] = (
    Row(
        cause="KvPortDropped",
        certainty=Certainty.LIKELY,
        said="packets to the {kv_what} socket {kv_endpoint} are dropped: a network policy leaves port {port} out",
        told="The connection times out (nobody refuses it).",
        change=POLICY,
        when=_is(Reach.TIMEOUT, Reach.FORBIDDEN),
    ),
    Row(
        cause="KvLoopbackOnly",
        said="the {kv_what} socket {kv_endpoint} listens only on loopback: {evidence}",
        told="The connection is refused, and loopback accepts on the same machine or the command line binds there.",
        change=(
            'give vLLM `--kv-events-config` with "endpoint": "tcp://*:{port}" (and "replay_endpoint" likewise)',
            "give SGLang the same in `--kv-events-config`",
        ),
        when=_loopback,
    ),
    Row(
        cause="KvPortClosed",
        certainty=Certainty.LIKELY,
        said="nothing listens at the {kv_what} socket {kv_endpoint}: KV events are off, or the port is wrong",
        told="The connection is refused at once.",
        change=(
            (
                'start the engine with `--kv-events-config` \'{{"enable_kv_cache_events": true, "publisher": "zmq", '
                '"endpoint": "tcp://*:5557", "replay_endpoint": "tcp://*:5558"}}\''
            ),
            "data-parallel rank n publishes on the port plus n: give each rank its own `kvEvents` entry",
            "or correct `kvEvents` of the member",
        ),
        when=_is(Reach.REFUSED),
    ),
    Row(
        cause="KvUnreachable",
        certainty=Certainty.LIKELY,
        said="the {kv_what} socket {kv_endpoint} cannot be reached: {dial_detail}",
        told="The operating system says why: no route, or an address that cannot be used.",
        change=("correct the host in `kvEvents` (`*` stands for the member's own host)",),
        when=_is(Reach.NO_ROUTE, Reach.FAILED),
    ),
    Row(
        cause="KvNotZmq",
        said="port {port} does not greet as ZeroMQ does: {kv_endpoint} is another program's port",
        told="The connection succeeds and the other side does not send ZeroMQ's greeting.",
        change=("correct the port in `kvEvents` of the member",),
        when=_not_zmq,
    ),
)
