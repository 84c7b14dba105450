"""What the actions of `stream_table` do to a stream: its fields and one method for each action.

`streams` names events and fires transitions; nothing here decides which action is due.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from observer.measure.stream_memory import Checksums, Held
from observer.measure.stream_table import Action, Event
from observer.measure.stream_values import CLOSE, DROP_ASK, OPEN, Applied, Ask, Output, Sink, StreamLimits
from router_contract.kv_streams import MAX_COUNTED, Approximation, History, StreamState
from router_contract.readings import Instant

LIVE_STATES = frozenset({StreamState.LIVE, StreamState.UNREPAIRED})
CONNECTED_STATES = LIVE_STATES | {StreamState.SYNCING, StreamState.GAP, StreamState.REPLAYING}


class StreamActions:
    """The fields of a stream and what each action does; an action may name the event that follows from it."""

    def __init__(self, sink: Sink, now: Instant, *, replay: bool, limits: StreamLimits) -> None:
        self._sink = sink
        self.limits = limits
        self.replay = replay
        self.state = StreamState.DETACHED
        self.since = now
        self.history = History.PARTIAL
        self.approximate: set[Approximation] = set()
        self.detail = ""
        self.last_batch: Instant | None = None
        self.confirmed: Instant | None = None
        self.probe_failures = 0
        self.batches = 0
        self.counts: Counter[str] = Counter()
        self.replays: Counter[str] = Counter()
        self.malformed: Counter[str] = Counter()
        self.outbox: list[Output] = []
        self._now = now
        self._sums = Checksums(limits.window, limits.window_max)
        self._held = Held(limits.held_batches, limits.held_bytes)
        self._token = 0
        self._asked: int | None = None
        self._answers = 0
        self._progress = False
        self._attempts = 0
        self._ended_well = False
        self._cleared = False
        self._doubted: int | None = None
        self._run = 0
        self._deadline: float | None = None
        self._tail_due: float | None = None
        self._settle_due: float | None = None
        self._retry_due: float | None = None
        self._back_off = limits.back_off
        self._opened = now.mono
        self._stuck = limits.stuck
        self._apart: Instant | None = None
        self._forgot: float | None = None
        self._probed = now.mono
        self._current: tuple[int, int, bytes] = (0, 0, b"")
        self._actions: dict[Action, Callable[[], Event | None]] = {
            action: getattr(self, "_do_" + action.name.lower()) for action in Action
        }

    @property
    def last(self) -> int:
        """The last applied sequence, -1 before any."""
        return self._sums.last

    @property
    def synced(self) -> bool:
        """Whether anything is known of the life that runs: a batch of it, or that it had sent none."""
        return self._sums.last >= 0 or self.confirmed is not None

    def _judge(self, applied: Applied) -> None:
        if applied.cleared:
            self.approximate.clear()
            self.history = History.COMPLETE
            self._cleared = True
        self.approximate.update(applied.spoiled)

    def _note(self, sequence: int, checksum: int) -> None:
        if sequence == 0:
            self.history = History.COMPLETE
        self._sums.note(sequence, checksum)
        self.last_batch = self._now
        self.batches += 1

    def _apply(self, sequence: int, checksum: int, payload: bytes, *, late: bool = True) -> None:
        self._note(sequence, checksum)
        self._held.pop(sequence)
        if (applied := self._sink.apply(payload, self._now, late=late)) is not None:
            self._judge(applied)

    def _do_open(self) -> None:
        self._opened = self._now.mono
        self.outbox.append(OPEN)

    def _do_reopen(self) -> None:
        self.counts["reconnects"] += 1
        self.detail = ""
        self._stuck = min(2 * self._stuck, self.limits.stuck_max)
        self.outbox.append(CLOSE)
        self._do_open()

    def _do_close(self) -> None:
        self._do_drop_held()
        self._asked = self._deadline = self._tail_due = self._settle_due = None
        self.outbox.append(CLOSE)

    def _do_back_off(self) -> None:
        self._retry_due = self._now.mono + self._back_off
        self._back_off = min(2 * self._back_off, self.limits.back_off_max)

    def _do_ask(self) -> Event | None:
        self._attempts = 0
        self._run = 0
        self._progress = False
        return self._request()

    def _do_ask_again(self) -> Event | None:
        self._attempts = 0 if self._progress else self._attempts + 1
        self._progress = False
        if self._attempts >= self.limits.replay_attempts:
            self.replays["given-up"] += 1
            self._do_drop_ask()
            return Event.GAVE_UP
        return self._request()

    def _request(self) -> Event | None:
        self._ended_well = False
        if not self.replay:
            return Event.GAVE_UP
        self._token += 1
        self._asked = self.last
        self._answers = 0
        self._deadline = self._now.mono + self.limits.replay_timeout
        self._tail_due = None
        self.replays["asked"] += 1
        self.outbox.append(Ask(self._token, max(self.last, 0)))
        return None

    def _do_drop_ask(self) -> None:
        if self._asked is not None:
            self.outbox.append(DROP_ASK)
        self._asked = self._deadline = None

    def _do_hold(self) -> Event | None:
        # A full buffer drops all. Live batches are no loss: the next one, or the silence after, shows what is missing.
        # A replayed tail that was dropped is missing: the end of that replay would say that there was none.
        dropped = self._held.put(*self._current)
        self.counts["held_dropped"] += dropped
        return Event.MISSING if dropped and self.state in LIVE_STATES else None

    def _do_drop_held(self) -> None:
        self._held.clear()
        self._tail_due = None

    def _do_apply(self) -> None:
        late = self.state not in LIVE_STATES
        if late:
            self.counts["synced" if self.state is StreamState.SYNCING else "repaired"] += 1
            self._progress = True
            self._run += 1
            self._sums.grow(self._run)
        self._apply(*self._current, late=late)

    def _drain(self, counter: str) -> None:
        while (found := self._held.pop(self.last + 1)) is not None:
            self._apply(self.last + 1, *found)
            self.counts[counter] += 1

    def _settled(self) -> Event:
        self._settle_due = self._now.mono + self.limits.settle
        return self._rejoined()

    def _rejoined(self) -> Event:
        """Everything the publisher has was compared or read: a lost connection is no reason for doubt any more."""
        self._apart = None
        self.approximate.discard(Approximation.DISCONNECTED)
        return Event.SETTLED_LOST if Approximation.UNREPAIRED in self.approximate else Event.SETTLED

    def _do_settle(self) -> Event:
        self._drain("drained")
        if self._held:
            return Event.MISSING
        return self._settled()

    def _do_skip(self) -> Event:
        for sequence in self._held.sequences():
            found = self._held.pop(sequence)
            if found is None or sequence <= self.last:
                continue
            if sequence != self.last + 1:
                self._lose(sequence)
            self._apply(sequence, *found)
        return self._settled()

    def _lose(self, until: int) -> None:
        """Go on at ``until``. Before anything was known this is a late join, afterwards a loss."""
        if self.last < 0:
            self.history = History.PARTIAL
        else:
            self.counts["missed"] = min(self.counts["missed"] + until - self.last - 1, MAX_COUNTED)
            self.approximate.add(Approximation.UNREPAIRED)
        self._cleared = False
        self._sums.skip(until)

    def _do_jump(self) -> None:
        self.replays["too-old"] += 1
        self._lose(self._current[0])

    def _do_forget(self) -> None:
        self._do_drop_ask()
        self.counts["resets"] += 1
        self._sums.forget()
        self._forgot = self._now.mono
        self.confirmed = None
        self.history = History.PARTIAL
        self.approximate.clear()
        self._sink.forget()

    def _do_doubt(self) -> None:
        if self.last >= 0:
            self.approximate.add(Approximation.UNVERIFIED)
            self._doubted = self.last
        else:
            # That nothing had been sent was true then, and no batch is there to compare: nothing is known any more.
            self.confirmed = None
            self.history = History.PARTIAL

    def _do_suspect(self) -> None:
        self.approximate.add(Approximation.DISCONNECTED)

    def _do_verify(self) -> None:
        # Only the very batch after which the life became doubtful proves it; nothing was applied since.
        if self._doubted == self._current[0]:
            self.approximate.discard(Approximation.UNVERIFIED)
            self._doubted = None

    def _do_confirm(self) -> None:
        if self._ended_well:
            self.confirmed = self._now
            self.probe_failures = 0
            if self.last < 0:
                self.history = History.COMPLETE  # the publisher's buffer is empty: nothing was sent yet
        self._probed = self._now.mono

    def _do_wait_tail(self) -> Event | None:
        if self._held:
            self._tail_due = self._now.mono + self.limits.tail_wait
            return None
        return self._rejoined()

    def _do_repair(self) -> Event:
        self._drain("repaired")
        return Event.MISSING if self._held else self._settled()

    def _do_gap(self) -> None:
        # Before anything was applied this is a late join, not a gap.
        self.counts["gaps"] += self.last >= 0

    def _do_duplicate(self) -> None:
        self.counts["duplicates"] += 1

    def _do_probe_failed(self) -> None:
        self.probe_failures += 1
        if self._held:
            self._tail_due = self._now.mono
