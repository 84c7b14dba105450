"""KV events of a simulated engine: one publisher for each rank behind the engine's hook, and its faults by name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from observer.simulate.kv_publisher import Encoding, KvPublisher, PublisherOptions
from observer.simulate.ports import held_run
from router_contract.targets import KvEventSource


class KvEventPublishers:
    """A `KvEventHook`: announces a simulated engine's cache on real sockets, all ranks, from the event loop."""

    def __init__(self, options: Sequence[PublisherOptions], wall: Callable[[], float]) -> None:
        self.publishers = tuple(KvPublisher(option, wall) for option in options)
        self._readers: list[tuple[asyncio.AbstractEventLoop, int]] = []
        self._held = False

    @classmethod
    def for_engine(
        cls, ranks: int, wall: Callable[[], float], options: PublisherOptions | None = None
    ) -> KvEventPublishers:
        """One publisher a rank; stated ports are those of rank 0 and count upwards, as the engines do it."""
        base = options or PublisherOptions()
        return cls(
            [
                msgspec.structs.replace(
                    base,
                    rank=rank,
                    port=base.port + rank if base.port else 0,
                    replay_port=base.replay_port + rank if base.replay_port else 0,
                )
                for rank in range(ranks)
            ],
            wall,
        )

    def started(self) -> None:
        """A new process life: sockets open at the former addresses, sequences begin at 0.

        Raises ``OSError`` or ``zmq.ZMQError`` where a port cannot be had; then no rank's socket is left open.
        """
        self.stopped()
        started = False
        try:
            self._hold()
            for publisher in self.publishers:
                publisher.start()
                self._serve(publisher)
            started = True
        finally:
            if not started:
                self.closed()

    def _hold(self) -> None:
        """Before the first life: SGLang tells the first rank's port only and the others follow it, so they are a run."""
        chosen = [each for each in self.publishers if not (each.options.port or each.options.replay_port)]
        if self._held or len(chosen) < 2:
            return
        live = held_run(len(chosen), chosen[0].options.host)
        try:
            replay = held_run(len(chosen), chosen[0].options.host)
        except OSError:
            for port in live:
                port.close()
            raise
        for publisher, one, other in zip(chosen, live, replay, strict=True):
            publisher.hold(one, other)
        self._held = True

    def _serve(self, publisher: KvPublisher) -> None:
        descriptor = publisher.replay_fd()
        if descriptor is not None:
            loop = asyncio.get_running_loop()
            loop.add_reader(descriptor, publisher.pump)
            self._readers.append((loop, descriptor))
            publisher.pump()

    def stopped(self) -> None:
        """The process is gone; its ports stay held."""
        for loop, descriptor in self._readers:
            if not loop.is_closed():
                loop.remove_reader(descriptor)
        self._readers.clear()
        for publisher in self.publishers:
            publisher.stop()

    def closed(self) -> None:
        """No life follows; every port is given back."""
        self.stopped()
        self._held = False
        for publisher in self.publishers:
            publisher.close()

    def stored(
        self, rank: int, hashes: Sequence[int], parent: int | None, token_ids: Sequence[int], block_size: int
    ) -> None:
        """Blocks are now held."""
        self.publishers[rank].stored(hashes, parent, token_ids, block_size)

    def removed(self, rank: int, hashes: Sequence[int]) -> None:
        """Blocks were evicted."""
        self.publishers[rank].removed(hashes)

    def cleared(self, rank: int) -> None:
        """Every block of the rank is gone."""
        self.publishers[rank].cleared()

    def sources(self) -> Sequence[KvEventSource]:
        """Where each rank's publisher can be reached, once started."""
        return tuple(
            KvEventSource(
                endpoint=publisher.endpoint,
                replay_endpoint=publisher.replay_endpoint,
                topic=publisher.options.topic,
                rank=publisher.options.rank,
            )
            for publisher in self.publishers
        )


def _lose(engine: KvEventPublishers) -> None:
    for publisher in engine.publishers:
        publisher.lose_next = 3


def _reorder(engine: KvEventPublishers) -> None:
    for publisher in engine.publishers:
        publisher.swap_next = True


def _silent(engine: KvEventPublishers) -> None:
    for publisher in engine.publishers:
        publisher.silent = True


def _clear(engine: KvEventPublishers) -> None:
    for publisher in engine.publishers:
        publisher.cleared()


def _encoding(engine: KvEventPublishers) -> None:
    for publisher in engine.publishers:
        publisher.encoding = Encoding.ARRAY if publisher.encoding is Encoding.MAP else Encoding.MAP


def _connect(engine: KvEventPublishers) -> None:
    for publisher in engine.publishers:
        publisher.connect = True
    engine.started()


def _heal(engine: KvEventPublishers) -> None:
    connected = any(publisher.connect for publisher in engine.publishers)
    for publisher in engine.publishers:
        publisher.silent = publisher.swap_next = publisher.connect = False
        publisher.lose_next = 0
    if connected:
        engine.started()


FAULTS: dict[str, Callable[[KvEventPublishers], None]] = {
    "kv-lose": _lose,
    "kv-reorder": _reorder,
    "kv-restart": KvEventPublishers.started,
    "kv-silent": _silent,
    "kv-clear": _clear,
    "kv-encoding": _encoding,
    "kv-connect": _connect,
    "kv-heal": _heal,
}
"""Faults by scenario name: the next three batches lost live, the next two swapped, a restart without a word, silence,
a clear, the other encoding, a publisher that connects outwards so that nothing listens, and an end to all of these."""
