"""The scheduler of a simulated engine: ranks with slots and a queue, prefill and decode that take time, KV blocks."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from observer.clock import Clock
from observer.simulate.behaviour import Behaviour
from observer.simulate.kv_hook import KvEventHook
from observer.simulate.prefix_cache import VOCABULARY_SIZE, PrefixCache
from observer.simulate.spec import EngineSpec

STEPS_PER_ANSWER = 4


@dataclass
class Work:
    """One request inside an engine. Times are monotonic seconds, tokens are counts."""

    prompt: Sequence[int]
    max_tokens: int
    streaming: bool = False
    rank: int = 0
    transferred: bool = False
    cached: int = 0
    generated: int = 0
    reason: str = "length"
    arrived: float = 0.0
    started: float = 0.0
    first_token: float = 0.0
    ended: float = 0.0
    output: list[int] = field(default_factory=list)


class Meter(Protocol):
    """Turns what happens inside an engine into its own metrics."""

    def levels(self, rank: int, running: int, waiting: int, used_blocks: int) -> None:
        """Running and waiting requests and blocks in use of one rank, now."""
        ...

    def prefilled(self, work: Work) -> None:
        """The prompt is computed and the first token is out."""
        ...

    def decoded(self, work: Work, tokens: int, seconds: float) -> None:
        """Some further tokens came out in equal steps."""
        ...

    def finished(self, work: Work) -> None:
        """The request ended by itself."""
        ...

    def encoded(self, work: Work) -> None:
        """An encoder ran; tokens come out elsewhere."""
        ...

    def aborted(self, work: Work) -> None:
        """The client went away before the end."""
        ...


class Rank:
    """One data-parallel rank: slots, a first-in first-out queue, blocks and a prefix cache."""

    def __init__(self, index: int, spec: EngineSpec, hook: KvEventHook) -> None:
        self.index = index
        self.running = 0
        self.used_blocks = 0
        self.queue: deque[asyncio.Event] = deque()
        self.cache = PrefixCache(index, spec.block_size, spec.num_blocks, signed=spec.software == "sglang", hook=hook)

    @property
    def load(self) -> int:
        """Running and waiting requests."""
        return self.running + len(self.queue)


class EngineCore:
    """One process life of an engine: it starts empty and is thrown away when the process ends."""

    def __init__(self, spec: EngineSpec, meter: Meter, behaviour: Behaviour, hook: KvEventHook, clock: Clock) -> None:
        self._spec = spec
        self._meter = meter
        self._behaviour = behaviour
        self._clock = clock
        self.ranks = [Rank(index, spec, hook) for index in range(spec.dp_size)]

    def _pick(self, wanted: int | None) -> Rank:
        if wanted is not None and wanted < len(self.ranks):
            return self.ranks[wanted]
        return min(self.ranks, key=lambda rank: rank.load)

    def _show(self, rank: Rank) -> None:
        self._meter.levels(rank.index, rank.running, len(rank.queue), rank.used_blocks)

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self._spec.block_size)

    def plan(self, work: Work) -> None:
        """Decide, as a function of the prompt alone, how long the answer is and why it ends."""
        seed = sum(work.prompt) % 97
        if seed % 5 == 0 and work.max_tokens > 2:
            work.reason = "stop"
            work.max_tokens = max(2, work.max_tokens * (seed + 3) // 100)
        work.output = [(seed * 31 + index) % VOCABULARY_SIZE for index in range(work.max_tokens)]

    async def serve(self, work: Work, rank: int | None = None) -> AsyncIterator[int]:
        """Run a request; yields how many tokens just came out. Closing the iterator early is an abort."""
        self.plan(work)
        chosen = self._pick(rank)
        work.rank = chosen.index
        work.arrived = self._clock.now().mono
        try:
            await self._enter(chosen)
        except asyncio.CancelledError:
            self._meter.aborted(work)
            raise
        blocks = 0
        done = False
        try:
            work.started = self._clock.now().mono
            blocks = min(self._blocks(len(work.prompt) + work.max_tokens), self._spec.num_blocks)
            chosen.used_blocks += blocks
            self._show(chosen)
            await self._prefill(chosen, work)
            yield 1
            async for tokens in self._decode(work):
                yield tokens
            chosen.cache.store([*work.prompt, *work.output])
            done = True
        finally:
            work.ended = self._clock.now().mono
            self._leave(chosen, blocks)
            (self._meter.finished if done else self._meter.aborted)(work)
            self._show(chosen)

    async def _enter(self, rank: Rank) -> None:
        if rank.running < self._spec.max_running and not rank.queue:
            rank.running += 1
            return
        turn = asyncio.Event()
        rank.queue.append(turn)
        self._show(rank)
        try:
            await turn.wait()
        except asyncio.CancelledError:
            if turn.is_set():
                self._leave(rank, 0)
            else:
                rank.queue.remove(turn)
            self._show(rank)
            raise

    def _leave(self, rank: Rank, blocks: int) -> None:
        rank.used_blocks -= blocks
        if rank.queue:
            rank.queue.popleft().set()
        else:
            rank.running -= 1

    async def _prefill(self, rank: Rank, work: Work) -> None:
        work.cached = rank.cache.match(work.prompt)
        computed = 1 if work.transferred else len(work.prompt) - work.cached
        await self._behaviour.pause(computed / self._spec.prefill_rate + self._spec.token_seconds)
        rank.cache.store(work.prompt)
        work.first_token = self._clock.now().mono
        work.generated = 1
        self._meter.prefilled(work)

    async def _decode(self, work: Work) -> AsyncIterator[int]:
        left = work.max_tokens - 1
        while left > 0:
            step = min(left, max(1, (work.max_tokens - 1) // STEPS_PER_ANSWER))
            before = self._clock.now().mono
            await self._behaviour.pause(step * self._spec.token_seconds)
            left -= step
            work.generated += step
            self._meter.decoded(work, step, self._clock.now().mono - before)
            yield step

    async def encode(self, work: Work) -> None:
        """Run the encoder for a request that another role prefills: no token comes out here."""
        chosen = self._pick(None)
        work.rank = chosen.index
        work.arrived = self._clock.now().mono
        await self._enter(chosen)
        work.started = self._clock.now().mono
        self._show(chosen)
        try:
            await self._behaviour.pause(len(work.prompt) / self._spec.prefill_rate + self._spec.token_seconds)
            work.ended = self._clock.now().mono
            self._meter.encoded(work)
        finally:
            self._leave(chosen, 0)
            self._show(chosen)

    def account(self, work: Work) -> None:
        """Book a whole request at once without spending its time, for fleets too large to serve for real."""
        self.plan(work)
        rank = self._pick(None)
        work.rank = rank.index
        work.cached = rank.cache.match(work.prompt)
        prefill = (len(work.prompt) - work.cached) / self._spec.prefill_rate + self._spec.token_seconds
        decode = (work.max_tokens - 1) * self._spec.token_seconds
        work.ended = self._clock.now().mono
        work.first_token = work.ended - decode
        work.arrived = work.started = work.first_token - prefill
        work.generated = 1
        self._meter.levels(rank.index, rank.running, len(rank.queue), rank.used_blocks)
        self._meter.prefilled(work)
        if work.max_tokens > 1:
            work.generated = work.max_tokens
            self._meter.decoded(work, work.max_tokens - 1, decode)
        rank.cache.store([*work.prompt, *work.output])
        self._meter.finished(work)

    def reset_cache(self, *, at_next_step: bool) -> None:
        """Forget every cached block on every rank."""
        for rank in self.ranks:
            rank.cache.clear(at_next_step=at_next_step)
