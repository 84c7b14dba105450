"""Held ports: nobody else is given one, whether its process lives, is down or failed to start."""

from __future__ import annotations

import gc
import socket
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, closing

import aiohttp
import pytest
from aiohttp import web

from observer.simulate.kv_engine import KvEventPublishers
from observer.simulate.kv_publisher import KvPublisher, PublisherOptions
from observer.simulate.node import Listener
from observer.simulate.ports import HeldPort, held_run

LOOPBACK = "127.0.0.1"


def taken(port: int) -> bool:
    """Whether a stranger is refused the port, also one that is content to share it with lingering connections."""
    for reuse in (0, 1):
        with socket.socket() as stranger:
            stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
            try:
                stranger.bind((LOOPBACK, port))
            except OSError:
                continue
            return False
    return True


def refuses(port: int) -> bool:
    """Whether nobody listens."""
    with socket.socket() as client:
        return client.connect_ex((LOOPBACK, port)) != 0


@pytest.fixture
def held() -> Iterator[HeldPort]:
    made = HeldPort()
    yield made
    made.close()


def test_a_held_port_is_taken_and_refuses_before_during_and_after_each_life(held: HeldPort) -> None:
    assert taken(held.port)
    assert refuses(held.port)
    for _ in range(3):
        with closing(held.listen()) as listening, socket.create_connection((LOOPBACK, held.port)) as client:
            assert taken(held.port)
            accepted, _ = listening.accept()
            # The server's end closes first, so that a connection of the former life lingers on the port.
            accepted.close()
            assert client.recv(1) == b""
        assert taken(held.port)
        assert refuses(held.port)


def test_a_port_that_was_given_back_can_be_held_again_at_once(held: HeldPort) -> None:
    with closing(held.listen()) as listening, socket.create_connection((LOOPBACK, held.port)) as client:
        listening.accept()[0].close()
        assert client.recv(1) == b""
    held.close()
    with closing(HeldPort(LOOPBACK, held.port)) as again:
        assert again.port == held.port


def test_a_stated_port_that_is_held_is_an_error_and_leaves_nothing_open(held: HeldPort) -> None:
    with pytest.raises(OSError, match="in use"):
        HeldPort(LOOPBACK, held.port)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_run_is_consecutive_and_held_and_no_two_runs_share_a_port(count: int) -> None:
    with ExitStack() as stack:
        runs = [held_run(count) for _ in range(5)]
        for each in (port for run in runs for port in run):
            stack.callback(each.close)
        for run in runs:
            assert [port.port for port in run] == list(range(run[0].port, run[0].port + count))
            assert all(taken(port.port) for port in run)
        assert len({port.port for run in runs for port in run}) == 5 * count


async def test_a_listener_keeps_its_port_while_it_is_down() -> None:
    listener = Listener(web.Application)
    try:
        for _ in range(2):
            await listener.start()
            assert taken(listener.port)
            async with aiohttp.ClientSession() as session, session.get(listener.url) as answer:
                assert answer.status == 404
            await listener.die()
            assert taken(listener.port)
            assert refuses(listener.port)
    finally:
        await listener.close()


def test_a_publisher_keeps_its_ports_while_it_is_down_also_when_it_connects_outwards() -> None:
    publisher = KvPublisher(PublisherOptions(), time.time)
    publisher.start()
    try:
        ports = [int(str(each).rpartition(":")[2]) for each in (publisher.endpoint, publisher.replay_endpoint)]
        assert not any(refuses(port) for port in ports)
        publisher.stop()
        assert all(taken(port) and refuses(port) for port in ports)
        publisher.connect = True
        publisher.start()
        assert taken(ports[0])
        assert refuses(ports[0])
        publisher.connect = False
        publisher.start()
        assert publisher.endpoint.endswith(f":{ports[0]}")
        assert not any(refuses(port) for port in ports)
    finally:
        publisher.close()


async def test_ranks_have_runs_of_ports_that_stay_theirs() -> None:
    engine = KvEventPublishers.for_engine(3, time.time)
    engine.started()
    try:
        before = engine.sources()
        for told in ([each.endpoint for each in before], [str(each.replay_endpoint) for each in before]):
            ports = [int(each.rpartition(":")[2]) for each in told]
            assert ports == list(range(ports[0], ports[0] + 3))
        engine.stopped()
        engine.started()
        assert engine.sources() == before
    finally:
        engine.closed()


async def test_a_start_that_fails_half_way_leaves_no_socket_and_no_port(held: HeldPort) -> None:
    # The second rank's replay port is taken: three sockets were opened by then, and a context of each rank.
    options = [PublisherOptions(), PublisherOptions(replay_port=held.port)]
    engine = KvEventPublishers(options, time.time)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(OSError, match="in use"):
            engine.started()
        endpoint = engine.publishers[0].endpoint
        del engine
        gc.collect()
    assert not [str(each.message) for each in told if issubclass(each.category, ResourceWarning)]
    assert refuses(int(endpoint.rpartition(":")[2]))
