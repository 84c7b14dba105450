"""ZMQ sockets as KV-event streams need them: options stated, monitored, IPv6 where the address is, nothing unbounded."""

from __future__ import annotations

import contextlib
import errno

import msgspec
import zmq
from zmq.utils.monitor import parse_monitor_message

from router_contract.kv_events import MAX_FRAMES

CONNECTED, DISCONNECTED, RETRIED = "connected", "disconnected", "retried"
_EVENTS = {
    int(zmq.Event.HANDSHAKE_SUCCEEDED): CONNECTED,
    int(zmq.Event.DISCONNECTED): DISCONNECTED,
    int(zmq.Event.CONNECT_RETRIED): RETRIED,
    int(zmq.Event.HANDSHAKE_FAILED_NO_DETAIL): RETRIED,
    int(zmq.Event.HANDSHAKE_FAILED_PROTOCOL): RETRIED,
    int(zmq.Event.HANDSHAKE_FAILED_AUTH): RETRIED,
}
_GIVEN_UP = int(zmq.Event.CONNECT_RETRIED)
_POLLIN = int(zmq.POLLIN)
_NEVER_MS = 86_400_000
"""A day: before that, a subscriber that lost its connection was connected again by us."""
_FRAME_BYTES = 64
"""What a frame costs beside its bytes, so that empty ones count too."""


class SocketLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of the sockets. ``high_water_mark`` and ``replay_high_water_mark`` are messages, ``kernel_buffer`` bytes
    (-1: the system's own), intervals milliseconds: reconnection waits ``reconnect`` and doubles up to its maximum; of
    subscribers that is kept by `kv_redial`, since libzmq up to 4.3.5 can abort the process when it connects a socket
    again whose connection it ended with the queue full (its issue 3937).

    A peer's machine that vanished is noticed by TCP: after ``keepalive_seconds`` of silence, asked as often again as
    ``keepalive_probes`` says. Not by heartbeats of ZMQ: a socket whose queue is full reads no answers to them, so they
    would end a good connection just when we are slow.
    """

    high_water_mark: int = 10_000
    replay_high_water_mark: int = 20_000
    max_message_bytes: int = 64 << 20
    kernel_buffer: int = -1
    reconnect_ms: int = 200
    reconnect_max_ms: int = 10_000
    connect_timeout_ms: int = 5_000
    keepalive_seconds: int = 10
    keepalive_probes: int = 3
    max_sockets: int = 65_536


def _common(socket: zmq.Socket[bytes], endpoint: str, limits: SocketLimits) -> None:
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.MAXMSGSIZE, limits.max_message_bytes)
    socket.setsockopt(zmq.RECONNECT_IVL, limits.reconnect_ms)
    socket.setsockopt(zmq.RECONNECT_IVL_MAX, limits.reconnect_max_ms)
    socket.setsockopt(zmq.CONNECT_TIMEOUT, limits.connect_timeout_ms)
    socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
    socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, limits.keepalive_seconds)
    socket.setsockopt(zmq.TCP_KEEPALIVE_INTVL, limits.keepalive_seconds)
    socket.setsockopt(zmq.TCP_KEEPALIVE_CNT, limits.keepalive_probes)
    if limits.kernel_buffer >= 0:
        socket.setsockopt(zmq.RCVBUF, limits.kernel_buffer)
    if "[" in endpoint:
        socket.setsockopt(zmq.IPV6, 1)


def _dialable(endpoint: str) -> bool:
    """Whether an endpoint can be connected to; libzmq itself would go on trying some that never can."""
    if endpoint.startswith("ipc://"):
        return True
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    return (
        endpoint.startswith("tcp://") and bool(host) and "*" not in host and port.isdigit() and 0 < int(port) < 65_536
    )


def subscriber(
    context: zmq.Context[zmq.Socket[bytes]], endpoint: str, limits: SocketLimits
) -> tuple[zmq.Socket[bytes], zmq.Socket[bytes]]:
    """A SUB socket that takes every topic, connecting once, and its monitor. Raises ``zmq.ZMQError`` for a bad endpoint.

    Identity comes from the connection: a publisher has one topic, and filtering by it could only hide batches.
    """
    if not _dialable(endpoint):
        raise zmq.ZMQError(errno.EINVAL, "want tcp://HOST:PORT, a port from 1 to 65535 and no wildcard, or ipc://PATH")
    socket = context.socket(zmq.SUB)
    monitor: zmq.Socket[bytes] | None = None
    try:
        _common(socket, endpoint, limits)
        # Not "never": that would throw away what a lost connection left in the queue.
        socket.setsockopt(zmq.RECONNECT_IVL, _NEVER_MS)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, 0)
        socket.setsockopt(zmq.RCVHWM, limits.high_water_mark)
        monitor = socket.get_monitor_socket(sum(_EVENTS))
        monitor.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.SUBSCRIBE, b"")
        socket.connect(endpoint)
    except zmq.ZMQError:
        if monitor is not None:
            socket.disable_monitor()
            monitor.close(linger=0)
        socket.close(linger=0)
        raise
    return socket, monitor


def connect_again(socket: zmq.Socket[bytes], endpoint: str) -> bool:
    """Connect a subscriber whose connection is lost anew, with a queue of its own; ``False`` while the former queue
    still holds messages, which would be lost. Raises ``zmq.ZMQError``.
    """
    if int(socket.getsockopt(zmq.EVENTS)) & _POLLIN:
        return False
    with contextlib.suppress(zmq.ZMQError):  # raised when libzmq itself has forgotten the connection
        socket.disconnect(endpoint)
    socket.connect(endpoint)
    return True


def replay_request(
    context: zmq.Context[zmq.Socket[bytes]], endpoint: str, start: int, limits: SocketLimits
) -> zmq.Socket[bytes]:
    """A DEALER socket that has asked for every batch from ``start``. A new one each time: late answers die with it."""
    socket = context.socket(zmq.DEALER)
    try:
        _common(socket, endpoint, limits)
        socket.setsockopt(zmq.RCVHWM, limits.replay_high_water_mark)
        socket.connect(endpoint)
        socket.send_multipart((b"", start.to_bytes(8, "big")), zmq.NOBLOCK)
    except zmq.ZMQError:
        socket.close(linger=0)
        raise
    return socket


def monitor_event(frames: list[bytes]) -> tuple[str | None, bool]:
    """What a monitor message says: one of the three words above, or ``None``; and whether the socket is without a
    connection until `connect_again`, with all that the former one brought in its queue.
    """
    event = int(parse_monitor_message(frames)["event"])
    return _EVENTS.get(event), event == _GIVEN_UP


def held_bytes(frames: list[bytes]) -> int:
    """What a message occupies while it waits: every frame of it, whatever it is for."""
    return sum(map(len, frames)) + _FRAME_BYTES * len(frames)


def drain(socket: zmq.Socket[bytes], share: int, capacity: int) -> tuple[list[list[bytes]], int, bool]:
    """Up to ``share`` messages, what they occupy (``capacity`` bytes and one message at most), and whether more may wait.

    One message alone is the usual case, and asking whether another waits costs less than being refused it.
    """
    messages: list[list[bytes]] = []
    receive = socket.recv
    held = 0
    try:
        for number in range(share):
            # As frames, since asking a frame whether another follows costs half as much as asking the socket.
            frame = receive(zmq.NOBLOCK, copy=False, track=False)
            frames = [frame.bytes]
            while frame.more:
                frame = receive(zmq.NOBLOCK, copy=False, track=False)
                if len(frames) <= MAX_FRAMES:  # one more than there may be is enough to be rejected for it
                    frames.append(frame.bytes)
            messages.append(frames)
            held += held_bytes(frames)
            if held > capacity:
                break
            if number == 0 and not int(socket.getsockopt(zmq.EVENTS)) & _POLLIN:
                return messages, held, False
    except zmq.Again:
        return messages, held, False
    return messages, held, True
