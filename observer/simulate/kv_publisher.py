"""A KV-event publisher with real sockets, as engines have them: PUB for batches, ROUTER for replays, and faults.

One `KvPublisher` is one rank. It numbers batches from 0 in each life, keeps the last ones, and answers replays from the
oldest it holds, end marker last. It can lose, hold back and reorder batches, go silent, change its encoding, and
connect where it should bind.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

import msgspec
import zmq

from observer.simulate.ports import HeldPort
from router_contract.kv_events import END_SEQUENCE


class Encoding(StrEnum):
    """How events are written."""

    MAP = "map"
    ARRAY = "array"


class PublisherOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One rank's sockets and words. Port 0 lets the system choose at the first start; it is held for later lives.

    ``replay_topic_frame`` is how later engines answer. High-water marks are messages, 0 unlimited; buffers bytes.
    """

    host: str = "127.0.0.1"
    port: int = 0
    replay_port: int = 0
    replay: bool = True
    topic: str = "kv-events"
    rank: int = 0
    buffer_steps: int = 10_000
    high_water_mark: int = 100_000
    replay_high_water_mark: int = 0
    kernel_buffer: int = -1
    encoding: Encoding = Encoding.MAP
    byte_hashes: bool = False
    replay_topic_frame: bool = True
    connect: bool = False


class KvPublisher:
    """One rank's publisher. Not safe between threads: `publish` and `pump` are called by one."""

    def __init__(self, options: PublisherOptions, wall: Callable[[], float]) -> None:
        self.options = options
        self.encoding = options.encoding
        self.silent = False
        self.lose_next = 0
        self.swap_next = False
        self.connect = options.connect
        self.endpoint = ""
        self.replay_endpoint: str | None = None
        self._held: HeldPort | None = None
        self._held_replay: HeldPort | None = None
        self._wall = wall
        self._context: zmq.Context[zmq.Socket[bytes]] | None = None
        self._pub: zmq.Socket[bytes] | None = None
        self._router: zmq.Socket[bytes] | None = None
        self._sequence = -1
        self._buffer: deque[tuple[int, bytes]] = deque(maxlen=options.buffer_steps)
        self._delayed: tuple[bytes, bytes, bytes] | None = None

    @property
    def sequence(self) -> int:
        """The last sequence of this life, -1 before any."""
        return self._sequence

    def hold(self, live: HeldPort, replay: HeldPort) -> None:
        """Use these ports, which are closed with this, instead of the options'. Before the first life."""
        self._held, self._held_replay = live, replay

    def start(self) -> None:
        """Begin a life: nothing is remembered, sequence 0 comes next, addresses stay.

        Raises ``OSError`` or ``zmq.ZMQError`` where a port cannot be had; then nothing of this life is left open.
        """
        self.stop()
        self._sequence = -1
        self._buffer.clear()
        self._delayed = None
        started = False
        try:
            self._open()
            started = True
        finally:
            if not started:
                self.close()

    def _open(self) -> None:
        options = self.options
        if self._held is None:
            self._held = HeldPort(options.host, options.port)
        self._context = zmq.Context()
        self._pub = self._context.socket(zmq.PUB)
        self._pub.setsockopt(zmq.SNDHWM, options.high_water_mark)
        self.endpoint = self._reach(self._pub, self._held, options.kernel_buffer, connect=self.connect)
        if options.replay:
            if self._held_replay is None:
                self._held_replay = HeldPort(options.host, options.replay_port)
            self._router = self._context.socket(zmq.ROUTER)
            self._router.setsockopt(zmq.SNDHWM, options.replay_high_water_mark)
            self.replay_endpoint = self._reach(self._router, self._held_replay, -1)

    def _reach(self, socket: zmq.Socket[bytes], held: HeldPort, buffer: int, *, connect: bool = False) -> str:
        """Bind at the port, or connect to it; the address."""
        host = self.options.host
        socket.setsockopt(zmq.LINGER, 0)
        if ":" in host:
            socket.setsockopt(zmq.IPV6, 1)
            host = f"[{host}]"
        endpoint = f"tcp://{host}:{held.port}"
        if connect:
            socket.setsockopt(zmq.SNDBUF, buffer)
            socket.connect(endpoint)
            return endpoint
        listening = held.listen(send_buffer=buffer)
        listening.setblocking(False)
        try:
            # ZMQ binds by itself without SO_REUSEPORT; a listener that is given to it is its own from then on.
            socket.setsockopt(zmq.USE_FD, listening.fileno())
            socket.bind(endpoint)
        except zmq.ZMQError:
            listening.close()
            raise
        listening.detach()
        return endpoint

    def stop(self) -> None:
        """End this life at once: what was not sent is gone. The ports stay held for the next one."""
        if self._context is not None:
            self._context.destroy(linger=0)  # with every socket, also those of a start that did not come to its end
        self._pub = self._router = self._context = None

    def close(self) -> None:
        """End for good and give the ports back."""
        self.stop()
        for held in (self._held, self._held_replay):
            if held is not None:
                held.close()
        self._held = self._held_replay = None

    def replay_fd(self) -> int | None:
        """The descriptor that becomes readable when a replay is asked; call `pump` then."""
        return None if self._router is None else int(self._router.getsockopt(zmq.FD))

    def stored(
        self,
        hashes: Sequence[int],
        parent: int | None,
        token_ids: Sequence[int],
        block_size: int,
        *,
        medium: str = "GPU",
        group: int | None = None,
    ) -> None:
        """Announce blocks in a batch of their own."""
        self.publish([self.stored_event(hashes, parent, token_ids, block_size, medium=medium, group=group)])

    def removed(self, hashes: Sequence[int], *, medium: str = "GPU") -> None:
        """Announce evictions in a batch of their own."""
        names = [self._hash(value) for value in hashes]
        if self.encoding is Encoding.ARRAY:
            self.publish([["BlockRemoved", names, medium]])
        else:
            self.publish([{"type": "BlockRemoved", "block_hashes": names, "medium": medium}])

    def cleared(self) -> None:
        """Announce that nothing is held any more."""
        self.publish([["AllBlocksCleared"] if self.encoding is Encoding.ARRAY else {"type": "AllBlocksCleared"}])

    def stored_event(
        self,
        hashes: Sequence[int],
        parent: int | None,
        token_ids: Sequence[int],
        block_size: int,
        *,
        medium: str = "GPU",
        group: int | None = None,
    ) -> Any:
        """A stored event in the present encoding."""
        names = [self._hash(value) for value in hashes]
        above = None if parent is None else self._hash(parent)
        if self.encoding is Encoding.ARRAY:
            return ["BlockStored", names, above, list(token_ids), block_size, None, medium, None, None, group]
        event = {
            "type": "BlockStored",
            "block_hashes": names,
            "parent_block_hash": above,
            "token_ids": list(token_ids),
            "block_size": block_size,
            "lora_id": None,
            "medium": medium,
            "lora_name": None,
        }
        return event if group is None else {**event, "group_idx": group}

    def _hash(self, value: int) -> int | bytes:
        return value.to_bytes(32, "big", signed=value < 0) if self.options.byte_hashes else value

    def publish(self, events: Sequence[Any]) -> None:
        """Send one batch, unless a fault is on: losing keeps it for replay, silence does not even number it."""
        if self._pub is None or self.silent:
            return
        self._sequence += 1
        payload = msgspec.msgpack.encode([self._wall(), list(events), self.options.rank])
        self._buffer.append((self._sequence, payload))
        message = (self.options.topic.encode(), self._sequence.to_bytes(8, "big"), payload)
        if self.lose_next > 0:
            self.lose_next -= 1
        elif self.swap_next:
            self.swap_next = False
            self._delayed = message
        else:
            self._pub.send_multipart(message, zmq.NOBLOCK)
            if self._delayed is not None:
                self._pub.send_multipart(self._delayed, zmq.NOBLOCK)
                self._delayed = None
        self.pump()

    def pump(self) -> None:
        """Answer the replay requests that wait."""
        while self._router is not None:
            try:
                request = self._router.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            if len(request) == 3:
                self._answer(request[0], int.from_bytes(request[2], "big"))

    def _answer(self, client: bytes, start: int) -> None:
        router = self._router
        if router is None:
            return
        topic = (self.options.topic.encode(),) if self.options.replay_topic_frame else ()
        for sequence, payload in self._buffer:
            if sequence >= start:
                router.send_multipart((client, b"", *topic, sequence.to_bytes(8, "big"), payload))
        end = (b"",) if self.options.replay_topic_frame else ()
        router.send_multipart((client, b"", *end, END_SEQUENCE, b""))
