"""ZMQ sockets as KV-event streams need them: options stated, monitored, IPv6 where the address is, nothing unbounded."""

from __future__ import annotations

import errno

import msgspec
import zmq
from zmq.utils.monitor import parse_monitor_message

CONNECTED, DISCONNECTED, RETRIED = "connected", "disconnected", "retried"
_EVENTS = {
    int(zmq.Event.HANDSHAKE_SUCCEEDED): CONNECTED,
    int(zmq.Event.DISCONNECTED): DISCONNECTED,
    int(zmq.Event.CONNECT_RETRIED): RETRIED,
    int(zmq.Event.HANDSHAKE_FAILED_NO_DETAIL): RETRIED,
    int(zmq.Event.HANDSHAKE_FAILED_PROTOCOL): RETRIED,
    int(zmq.Event.HANDSHAKE_FAILED_AUTH): RETRIED,
}


class SocketLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of the sockets. ``high_water_mark`` and ``replay_high_water_mark`` are messages, ``kernel_buffer`` bytes
    (-1: the system's own), intervals milliseconds: reconnection waits ``reconnect`` and doubles up to its maximum.

    A peer's machine that vanished is noticed by TCP: after ``keepalive_seconds`` of silence, asked as often again as
    ``keepalive_probes`` says. Not by heartbeats of ZMQ: a socket whose queue is full reads no answers to them, so they
    would end a good connection just when we are slow, and libzmq up to 4.3.5 aborts the process when a socket with a
    full queue connects again (its issue 3937).
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
    """A SUB socket that takes every topic, connecting, and its monitor. Raises ``zmq.ZMQError`` for a bad endpoint.

    Identity comes from the connection: a publisher has one topic, and filtering by it could only hide batches.
    """
    if not _dialable(endpoint):
        raise zmq.ZMQError(errno.EINVAL, "want tcp://HOST:PORT, a port from 1 to 65535 and no wildcard, or ipc://PATH")
    socket = context.socket(zmq.SUB)
    monitor: zmq.Socket[bytes] | None = None
    try:
        _common(socket, endpoint, limits)
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


def monitor_event(frames: list[bytes]) -> str | None:
    """What a monitor message says: one of the three words above, or ``None``."""
    return _EVENTS.get(int(parse_monitor_message(frames)["event"]))
