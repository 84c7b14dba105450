"""Subscriptions to every KV-event publisher: sockets on one side, streams and the block index on the other.

`KvCollector` needs one thread (the receiving one, started by the context) and one task (`run`). Everything else,
the block index included, is touched by the loop's thread only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

import msgspec

from observer.clock import Clock
from observer.collect.kv_socket import Lot, Receiver, ReceiverLimits
from observer.collect.kv_zmq import CONNECTED, DISCONNECTED, RETRIED
from observer.measure.blocks import StreamBlocks
from observer.measure.ledger import Ledger
from observer.measure.stream_values import Ask, StreamLimits
from observer.measure.streams import Stream
from router_contract.kv_events import Hash, LiveMessage, Rejected, read_live, read_reply
from router_contract.kv_streams import (
    KvIndexSummary,
    KvLookup,
    KvStreamSummary,
    ReceiverSummary,
    StreamKey,
    StreamSource,
    StreamState,
    also_unknown,
    not_followed,
)
from router_contract.readings import Instant
from router_contract.targets import DeploymentKey

_SLICE_BYTES = 64 << 10
"""Of payloads between two turns of other tasks: a millisecond or two of work."""
_LONGEST_SLICE_BYTES = 384 << 10
"""The same where the other tasks took long themselves."""
_BYTES_A_SECOND = 48 << 20
"""How much is applied in a second of work, roughly."""
_MESSAGE_BYTES = 256
"""What a message costs beside its payload, so that empty ones end a slice too."""
_SLICE_STREAMS = 500
_CLEAN_ENTRIES = 4_000


class KvLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Everything bounded in collecting KV events: byte budgets of the index, streams, times, queues and sockets."""

    streams: int = 20_000
    deployment_bytes: int = 512 << 20
    process_bytes: int = 2 << 30
    tick: float = 0.25
    stream: StreamLimits = StreamLimits()
    receiver: ReceiverLimits = ReceiverLimits()


class _Subscription:
    __slots__ = ("blocks", "sid", "stream")

    def __init__(self, sid: int, stream: Stream, blocks: StreamBlocks) -> None:
        self.sid = sid
        self.stream = stream
        self.blocks = blocks


class KvCollector:
    """Use as an async context; run `run` as a task while it is open; tell it what exists with `sync`."""

    def __init__(self, clock: Clock, limits: KvLimits | None = None) -> None:
        self._clock = clock
        self._limits = limits or KvLimits()
        self._ledger = Ledger(deployment_bytes=self._limits.deployment_bytes, process_bytes=self._limits.process_bytes)
        self._by_key: dict[StreamKey, _Subscription] = {}
        self._by_sid: dict[int, _Subscription] = {}
        self._next_sid = 0
        self._woken = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._receiver = Receiver(clock, self._notify, self._limits.receiver)
        self._stopping = False
        self._slice = _SLICE_BYTES
        self._shed: dict[StreamKey, KvStreamSummary] = {}

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._receiver.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        await asyncio.to_thread(self._receiver.stop)

    def stop(self) -> None:
        """Let `run` return; the thread and its sockets end with the context."""
        self._stopping = True
        self._woken.set()

    def _notify(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            try:
                self._loop.call_soon_threadsafe(self._woken.set)
            except RuntimeError:
                return  # the loop closed between the two lines; nobody waits any more

    # -- what exists -------------------------------------------------------------------------------------------------

    def sync(self, sources: Iterable[StreamSource]) -> None:
        """Subscribe to exactly these publishers; a source that changed is a new subscription.

        Past the limit of streams the rest is not subscribed to: answers have each of them as detached or unknown.
        """
        wanted = {source.key: source for source in sources}
        for key, subscription in list(self._by_key.items()):
            if wanted.get(key) != subscription.blocks.source:
                self._leave(subscription)
        missing = [source for key, source in sorted(wanted.items()) if key not in self._by_key]
        room = max(self._limits.streams - len(self._by_key), 0)
        now = self._clock.now()
        self._shed = {source.key: self._detached(source, now) for source in missing[room:]}
        for source in missing[:room]:
            self._join(source)

    def _detached(self, source: StreamSource, now: Instant) -> KvStreamSummary:
        """What is known of a publisher that there is no room to follow."""
        before = self._shed.get(source.key)
        why = f"not subscribed to: {self._limits.streams} streams are followed, and there is room for no more"
        return not_followed(source, before.since if before is not None else now, why)

    @property
    def shed(self) -> int:
        """How many publishers are not followed because the limit of streams was reached."""
        return len(self._shed)

    def _join(self, source: StreamSource) -> None:
        now = self._clock.now()
        blocks = self._ledger.join(source)
        replay = source.source.replay_endpoint is not None
        subscription = _Subscription(0, Stream(blocks, now, replay=replay, limits=self._limits.stream), blocks)
        self._by_key[source.key] = subscription
        subscription.stream.attach(now)
        self._perform(subscription)

    def _leave(self, subscription: _Subscription) -> None:
        del self._by_key[subscription.blocks.source.key]
        self._by_sid.pop(subscription.sid, None)
        self._receiver.close(subscription.sid)
        self._ledger.leave(subscription.blocks)
        self._woken.set()

    def restarted(self, deployment: DeploymentKey, uid: str) -> None:
        """A member is known to have restarted: what its streams hold is of a former life unless they prove otherwise."""
        now = self._clock.now()
        for subscription in list(self._by_key.values()):
            key = subscription.blocks.source.key
            if key.deployment == deployment and key.member_uid == uid:
                subscription.stream.restarted(now)
                self._perform(subscription)
        self._woken.set()

    # -- answers -----------------------------------------------------------------------------------------------------

    def summaries(self, deployment: DeploymentKey | None = None) -> tuple[KvStreamSummary, ...]:
        """Every stream (of one deployment) at this instant, sorted by key."""
        now = self._clock.now()
        asked = [(key, each) for key, each in self._by_key.items() if deployment in (None, key.deployment)]
        shares = {index: index.share() for index in {each.blocks.index for _, each in asked}}
        found = [
            each.blocks.summary(each.stream, now, shares[each.blocks.index])
            for _, each in sorted(asked, key=lambda item: item[0])
        ]
        if self._shed:
            found += [each for key, each in self._shed.items() if deployment in (None, key.deployment)]
            found.sort(key=lambda each: each.key)
        return tuple(found)

    def index_summary(self, deployment: DeploymentKey) -> KvIndexSummary:
        """Residency and size of one deployment's index."""
        return self._ledger.index_summary(deployment, self._pairs(deployment))

    def index_size(self, deployment: DeploymentKey) -> KvIndexSummary:
        """Its size alone, which takes no time."""
        return self._ledger.index_size(deployment)

    def _pairs(self, deployment: DeploymentKey) -> list[tuple[StreamBlocks, Stream]]:
        found = (each for key, each in self._by_key.items() if key.deployment == deployment)
        return [(each.blocks, each.stream) for each in found]

    def lookup(self, deployment: DeploymentKey, hashes: Sequence[Hash], *, model: str | None = None) -> KvLookup:
        """Who holds how long a prefix of these hashes (all integers or all bytes), longest first."""
        found = self._ledger.lookup(deployment, hashes, self._pairs(deployment), self._clock.now(), model=model)
        return also_unknown(found, (key for key in self._shed if key.deployment == deployment))

    def receiver_summary(self) -> ReceiverSummary:
        """What waits between the sockets and the index."""
        return self._receiver.summary()

    # -- the task ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Apply what arrives until `stop`. Raises ``RuntimeError`` when the receiving thread ended by itself."""
        loop = asyncio.get_running_loop()
        tick_due = loop.time() + self._limits.tick
        timer = loop.call_at(tick_due, self._woken.set)
        try:
            while not self._stopping:
                await self._woken.wait()
                self._woken.clear()
                await self._take(tick_due)
                if loop.time() >= tick_due:
                    await self._tick()
                    self._woken.set()
                    tick_due = loop.time() + self._limits.tick
                    timer = loop.call_at(tick_due, self._woken.set)
                if self._ledger.clean(_CLEAN_ENTRIES):
                    self._woken.set()
                    await asyncio.sleep(0)
                if not self._receiver.alive and not self._stopping:
                    raise RuntimeError("the KV receiving thread ended by itself")
        finally:
            timer.cancel()

    async def _take(self, until: float) -> None:
        """Apply what waits. Until the next tick at most: times pass, and `stop` is heard, also when more comes than that."""
        time = asyncio.get_running_loop().time
        while not self._stopping and time() < until and (lot := self._receiver.take()) is not None:
            await self._apply(lot)

    async def _tick(self) -> None:
        now = self._clock.now()
        for number, subscription in enumerate(list(self._by_sid.values()), 1):
            subscription.stream.tick(now)
            self._perform(subscription)
            if number % _SLICE_STREAMS == 0:
                await asyncio.sleep(0)

    async def _apply(self, lot: Lot) -> None:
        for sid, word, detail in lot.changes:
            if (subscription := self._by_sid.get(sid)) is not None:
                self._change(subscription, word, detail, lot.at)
        for sid, messages in lot.live:
            for number, frames in enumerate(messages):
                subscription = self._by_sid.get(sid)
                if subscription is None:
                    self._receiver.discard(len(messages) - number)
                    break
                self._live(subscription, frames, lot.at)
                self._slice -= _MESSAGE_BYTES + len(frames[-1])
                if self._slice < 0:
                    await self._let_others()
        for sid, token, messages in lot.replies:
            for frames in messages:
                self._reply(sid, token, frames, lot.at)
                self._slice -= _MESSAGE_BYTES + len(frames[-1])
                if self._slice < 0:
                    await self._let_others()

    async def _let_others(self) -> None:
        """The end of a slice, so that a burst never keeps the loop from its other tasks for long. The next one lasts about
        as long as the others took, within bounds: each side gets half of a loop that has too much to do.
        """
        left = self._clock.now().mono
        await asyncio.sleep(0)
        away = self._clock.now().mono - left
        self._slice = max(_SLICE_BYTES, min(int(away * _BYTES_A_SECOND), _LONGEST_SLICE_BYTES))

    def _live(self, subscription: _Subscription, frames: list[bytes], at: Instant) -> None:
        message = read_live(frames)
        stream = subscription.stream
        if type(message) is Rejected:
            stream.malformed[message.reason] += 1
            return
        stream.message(message.sequence, message.payload, at)
        if stream.outbox:
            self._perform(subscription)

    def _reply(self, sid: int, token: int, frames: list[bytes], at: Instant) -> None:
        subscription = self._by_sid.get(sid)
        if subscription is None:
            self._receiver.discard(1)
            return
        answer = read_reply(frames)
        stream = subscription.stream
        if isinstance(answer, Rejected):
            stream.malformed[f"replay-{answer.reason}"] += 1
        elif isinstance(answer, LiveMessage):
            stream.reply(token, answer.sequence, answer.payload, at)
        else:
            stream.reply_end(token, at)
        if stream.outbox:
            self._perform(subscription)

    def _change(self, subscription: _Subscription, word: str, detail: str, at: Instant) -> None:
        stream = subscription.stream
        if word == CONNECTED:
            stream.connected(at)
        elif word == DISCONNECTED:
            stream.disconnected(at)
        elif word == RETRIED:
            if stream.state is StreamState.CONNECTING and not stream.detail:
                stream.detail = "nothing answers there; trying again"
        else:
            stream.socket_failed(detail, at)
        self._perform(subscription)

    def _perform(self, subscription: _Subscription) -> None:
        source, sid = subscription.blocks.source.source, subscription.sid
        for output in subscription.stream.outbox:
            if isinstance(output, Ask):
                if source.replay_endpoint is not None:
                    self._receiver.ask(sid, source.replay_endpoint, output.token, output.start)
            elif output.what == "open":
                sid = self._renumber(subscription)
                self._receiver.open(sid, source.endpoint)
            elif output.what == "close":
                self._receiver.close(sid)
            else:
                self._receiver.drop_ask(sid)
        subscription.stream.outbox.clear()

    def _renumber(self, subscription: _Subscription) -> int:
        """A new id for new sockets: what the former ones left waiting can then reach no stream."""
        self._by_sid.pop(subscription.sid, None)
        self._next_sid += 1
        subscription.sid = self._next_sid
        self._by_sid[subscription.sid] = subscription
        return subscription.sid
