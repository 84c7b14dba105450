"""A publisher, its network and a consumer in one thread: everything that can happen to a KV-event stream, by hand.

The publisher numbers batches, buffers the last ones and answers replays as the real ones do (from the oldest it holds,
end marker last). The network may lose, repeat and reorder live messages. Truth is what the publisher holds.
"""

from __future__ import annotations

from collections import Counter, deque

import msgspec

from observer.measure.blocks import StreamBlocks
from observer.measure.ledger import Ledger
from observer.measure.stream_values import Ask, Order, StreamLimits
from observer.measure.streams import Stream
from router_contract.kv_streams import StreamKey, StreamSource
from router_contract.readings import Instant
from router_contract.targets import DeploymentKey, KvEventSource

DEPLOYMENT = DeploymentKey("default", "demo")
Key = tuple[int, str, int]


def source(name: str = "pod-0", rank: int = 0, *, replay: bool = True, engine: str = "vllm") -> StreamSource:
    """A source as discovery would give it."""
    endpoints = KvEventSource(
        endpoint="tcp://127.0.0.1:1", replay_endpoint="tcp://127.0.0.1:2" if replay else None, rank=rank
    )
    return StreamSource(
        key=StreamKey(DEPLOYMENT, f"uid-{name}", rank),
        member=name,
        role="server",
        source=endpoints,
        engine=engine,
        version="0.32.0",
        model="tiny",
        seeded=True,
    )


class Publisher:
    """One engine process: what it holds, what it sent, what it can still send again."""

    def __init__(self, buffer_steps: int) -> None:
        self.buffer_steps = buffer_steps
        self.life = -1
        self.restart()

    def restart(self) -> None:
        self.life += 1
        self.sequence = -1
        self.held: Counter[Key] = Counter()
        self.snapshots: dict[int, dict[Key, int]] = {-1: {}}
        self.buffer: deque[tuple[int, bytes]] = deque(maxlen=self.buffer_steps)

    def publish(self, events: list[dict[str, object]]) -> tuple[int, bytes]:
        self.sequence += 1
        payload = msgspec.msgpack.encode([self.life + self.sequence / 1000, events, 0])
        self.buffer.append((self.sequence, payload))
        self.snapshots[self.sequence] = dict(self.held)
        return self.sequence, payload

    def store(self, hashes: list[int], parent: int | None, medium: str = "GPU", group: int = 0) -> tuple[int, bytes]:
        for value in hashes:
            self.held[value, medium, group] += 1
        event = {
            "type": "BlockStored",
            "block_hashes": hashes,
            "parent_block_hash": parent,
            "token_ids": [1] * 4 * len(hashes),
            "block_size": 4,
            "medium": medium,
            "group_idx": group,
        }
        return self.publish([event])

    def remove(self, hashes: list[int], medium: str = "GPU", group: int = 0) -> tuple[int, bytes]:
        for value in hashes:
            if self.held[value, medium, group] <= 1:
                self.held.pop((value, medium, group), None)
            else:
                self.held[value, medium, group] -= 1
        event = {"type": "BlockRemoved", "block_hashes": hashes, "medium": medium, "group_idx": group}
        return self.publish([event])

    def clear(self) -> tuple[int, bytes]:
        self.held.clear()
        return self.publish([{"type": "AllBlocksCleared"}])


class World:
    """A publisher and a stream that consumes it. Time moves only by `wait`."""

    def __init__(self, *, replay: bool = True, buffer_steps: int = 100, limits: StreamLimits | None = None) -> None:
        self.mono = 1000.0
        self.publisher = Publisher(buffer_steps)
        self.ledger = Ledger()
        self.blocks: StreamBlocks = self.ledger.join(source(replay=replay))
        self.stream = Stream(self.blocks, self.now, replay=replay, limits=limits or StreamLimits())
        self.wire: deque[tuple[int, bytes]] = deque()
        self.asks: list[Ask] = []
        self.orders: list[str] = []
        self.connected = False
        self.stream.attach(self.now)
        self.settle()

    @property
    def now(self) -> Instant:
        return Instant(self.mono, 1.8e9 + self.mono)

    def settle(self) -> None:
        for output in self.stream.outbox:
            if isinstance(output, Ask):
                self.asks.append(output)
            elif isinstance(output, Order):
                self.orders.append(output.what)
        self.stream.outbox.clear()

    def connect(self) -> None:
        self.connected = True
        self.stream.connected(self.now)
        self.settle()

    def disconnect(self) -> None:
        """The connection goes with everything that was on it."""
        if self.connected:
            self.connected = False
            self.wire.clear()
            self.stream.disconnected(self.now)
            self.settle()

    def straggle(self, message: tuple[int, bytes]) -> None:
        """A message of a connection that is lost is only read now."""
        self.stream.message(*message, self.now)
        self.settle()

    def tell_restarted(self) -> None:
        """Somebody else noticed that the member restarted."""
        self.stream.restarted(self.now)
        self.settle()

    def send(self, message: tuple[int, bytes]) -> None:
        if self.connected:
            self.wire.append(message)

    def deliver(self) -> None:
        if self.wire:
            self.stream.message(*self.wire.popleft(), self.now)
            self.settle()

    def answer(self, *, keep: int | None = None, end: bool = True) -> None:
        """Answer the newest replay request; ``keep`` is how many batches reach a slow reader."""
        if not self.asks:
            return
        ask = self.asks.pop()
        self.asks.clear()
        answers = [(sequence, payload) for sequence, payload in self.publisher.buffer if sequence >= ask.start]
        for sequence, payload in answers[:keep]:
            self.stream.reply(ask.token, sequence, payload, self.now)
            self.settle()
        if end:
            self.stream.reply_end(ask.token, self.now)
            self.settle()

    def wait(self, seconds: float, *, answer: bool = False) -> None:
        """Let time pass in steps of a quarter of a second, answering replay requests if told to."""
        for _ in range(int(seconds * 4)):
            if answer:
                self.answer()
            self.mono += 0.25
            self.stream.tick(self.now)
            self.settle()

    def come_to_rest(self) -> None:
        """Deliver and answer everything, let silence be asked about, until nothing moves."""
        if not self.connected:
            self.connect()
        for _ in range(6):
            while self.wire:
                self.deliver()
            self.wait(62, answer=True)

    def held(self) -> dict[Key, int]:
        """What the index says this stream holds, with copies."""
        found: dict[Key, int] = {}
        for (_, medium, group), hold in self.blocks.holder.holds.items():
            for key, mask in hold.plane.masks.items():
                if mask & hold.bit:
                    found[key, medium, group] = hold.copies.get(key, 1)
        return found
