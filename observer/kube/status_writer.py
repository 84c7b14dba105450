"""Writes statuses by server-side apply, never forced: the latest intent of each object, at the pace of `writing`.

It asks the informer what is stored, so it reads nothing itself, and an object's own event brings its next decision.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
from collections.abc import Callable

import msgspec

from observer.clock import Clock
from observer.kube.answers import Answer, Outcome
from observer.kube.client import APPLY, ApiClient
from observer.kube.intent import MANAGER, Intent, Key, Stored
from observer.kube.pacing import Bucket
from observer.kube.records import VersionOnly
from observer.kube.writing import NEVER, Action, Ledger, WritingRules, answered, decide, observed

_log = logging.getLogger(__name__)

_ASKED_AGAIN = 1.0
"""After this (s) it is asked again whether we may write."""


class WriterTuning(msgspec.Struct, frozen=True, kw_only=True):
    """``rate`` and ``burst`` are writes (per second) of this replica; times are seconds.

    The first write comes at a moment drawn from ``start``: after a failover replicas must not write all at once.
    """

    rate: float = 5.0
    burst: float = 20.0
    start: float = 5.0
    seconds: float = 10.0
    rules: WritingRules = WritingRules()


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How writing one object stands. ``reason`` says why nothing is written now, ``stopped`` that nothing will be."""

    reason: str
    outcome: Outcome
    stopped: bool
    written_at: float | None


class StatusWriter:
    """One replica's writer. ``lookup`` gives what the informer holds of an object, ``chance`` draws from [0, 1).

    ``told`` hears the kind and the result of each write: ``ok``, ``unchanged``, ``conflict`` or ``error``. ``may`` is asked
    before each write; what may not be written now is decided anew a little later.
    """

    def __init__(
        self,
        client: ApiClient,
        clock: Clock,
        *,
        lookup: Callable[[Key], Stored | None],
        chance: Callable[[], float],
        tuning: WriterTuning = WriterTuning(),  # noqa: B008 - frozen
        told: Callable[[str, str], None] = lambda _kind, _result: None,
        may: Callable[[], bool] = lambda: True,
    ) -> None:
        self._client = client
        self._clock = clock
        self._lookup = lookup
        self._chance = chance
        self._tuning = tuning
        self._told = told
        self._may = may
        self._bucket = Bucket.full(tuning.rate, tuning.burst, clock.now().mono)
        self._intents: dict[Key, Intent] = {}
        self._ledgers: dict[Key, Ledger] = {}
        self._reasons: dict[Key, str] = {}
        self._due: dict[Key, float] = {}
        self._queue: list[tuple[float, int, Key]] = []
        self._count = itertools.count()
        self._wake = asyncio.Event()
        self.outcomes: dict[Outcome, int] = dict.fromkeys(Outcome, 0)
        """How many writes had each outcome."""

    def submit(self, intent: Intent) -> None:
        """What an object's status should say from now on. A later intent takes the place of one not yet written."""
        key = intent.key
        ledger = self._ledgers.get(key)
        if ledger is None or ledger.uid != intent.uid:
            self._ledgers[key] = Ledger(uid=intent.uid)
        self._intents[key] = intent
        self._at(key, 0.0)

    def withdraw(self, key: Key) -> None:
        """Forget an object: it is gone, or another replica's. Its status is left as it is."""
        for held in (self._intents, self._ledgers, self._reasons, self._due):
            held.pop(key, None)

    def changed(self, key: Key) -> None:
        """The informer heard of an object. Call it for each version: a wiped condition may be there for one only."""
        if key in self._intents:
            self._observe(key)
            self._at(key, 0.0)

    def standing(self, key: Key) -> Standing | None:
        """How an object stands, ``None`` for one that nobody submitted."""
        ledger = self._ledgers.get(key)
        if ledger is None:
            return None
        return Standing(
            reason=ledger.stopped or ledger.trouble or self._reasons.get(key, ""),
            outcome=ledger.outcome,
            stopped=bool(ledger.stopped),
            written_at=ledger.written_at,
        )

    def stopped(self) -> tuple[Key, ...]:
        """The objects that are no longer written because somebody rewrites their status."""
        return tuple(sorted(key for key, ledger in self._ledgers.items() if ledger.stopped))

    async def run(self) -> None:
        """Write until cancelled. An apply that is cancelled half-way is harmless: it is bound to a version."""
        await asyncio.sleep(self._chance() * self._tuning.start)
        while True:
            key = await self._next()
            await self._settle(key)

    async def _next(self) -> Key:
        while True:
            now = self._clock.now().mono
            while self._queue:
                when, _, key = self._queue[0]
                if self._due.get(key) != when:
                    heapq.heappop(self._queue)
                    continue
                if when > now:
                    break
                heapq.heappop(self._queue)
                del self._due[key]
                return key
            self._wake.clear()
            pause = self._queue[0][0] - now if self._queue else None
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _at(self, key: Key, when: float) -> None:
        """Decide about an object at a monotonic moment (s), or sooner if that was already due."""
        known = self._due.get(key)
        if known is not None and known <= when:
            return
        self._due[key] = when
        heapq.heappush(self._queue, (when, next(self._count), key))
        self._wake.set()

    def _observe(self, key: Key) -> None:
        intent, ledger, stored = self._intents[key], self._ledgers[key], self._lookup(key)
        if stored is None or stored.uid != intent.uid:
            return
        after = observed(ledger, stored, intent.prefix, self._clock.now().mono, self._tuning.rules)
        if after.stopped and not ledger.stopped:
            _log.warning(
                "status of %s %s/%s: %s; it is not written any more", key[0].full_name, *key[1:], after.stopped
            )
        self._ledgers[key] = after

    async def _settle(self, key: Key) -> None:
        """Decide about one object and do it."""
        intent = self._intents.get(key)
        if intent is None:
            return
        now = self._clock.now()
        decision, self._ledgers[key] = decide(intent, self._lookup(key), self._ledgers[key], now, self._tuning.rules)
        self._reasons[key] = decision.reason
        if decision.wait != NEVER:
            self._at(key, now.mono + decision.wait)
        if decision.action is not Action.WRITE or decision.body is None:
            return
        if not self._may():
            self._at(key, now.mono + _ASKED_AGAIN)
            return
        bucket, pause = self._bucket.take(now.mono)
        if pause:
            # Decided anew when it is this write's turn: by then there may be something newer to say, or nothing.
            self._at(key, now.mono + pause)
            return
        self._bucket = bucket
        answer = await self._client.request(
            "PATCH",
            intent.resource.path(intent.name, intent.namespace, "status"),
            query={"fieldManager": MANAGER},
            body=decision.body,
            content_type=APPLY,
            seconds=self._tuning.seconds,
        )
        self.outcomes[answer.outcome] += 1
        version = _version(answer)
        self._told(intent.resource.kind, _result(answer, version == decision.body["metadata"]["resourceVersion"]))
        # While the answer was on its way the object may have been withdrawn, or be another one of the same name.
        ledger = self._ledgers.get(key)
        if ledger is None or ledger.uid != intent.uid:
            return
        after = answered(
            ledger, decision.body, answer, version, self._clock.now().mono, self._tuning.rules, self._chance()
        )
        if after.trouble and after.trouble != ledger.trouble:
            _log.warning("status of %s %s/%s: %s", key[0].full_name, *key[1:], after.trouble)
        self._ledgers[key] = after
        self._observe(key)
        self._at(key, max(after.hold_until, 0.0))


class _Versioned(msgspec.Struct):
    metadata: VersionOnly


_versioned = msgspec.json.Decoder(_Versioned).decode


_CONFLICTS = frozenset({Outcome.CONFLICT, Outcome.OWNED, Outcome.NOT_FOUND})


def _result(answer: Answer, same: bool) -> str:
    """The result of a write in the words of our metric; a write that is tried again with newer facts is no error."""
    if answer.ok:
        return "unchanged" if same else "ok"
    return "conflict" if answer.outcome in _CONFLICTS else "error"


def _version(answer: Answer) -> str:
    try:
        return _versioned(answer.body).metadata.resource_version if answer.ok else ""
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
