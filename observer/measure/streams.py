"""One KV-event stream: names what happens as an event of `stream_table.TABLE` and performs the table's actions.

A `Stream` is a deterministic fold: the same inputs at the same instants give the same outputs. It opens no socket and
reads no clock. Batches go to its `Sink` in order; what sockets must do is left in ``outbox``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from zlib import crc32

from observer.measure.stream_memory import Checksums, Held
from observer.measure.stream_table import TABLE, Action, Event
from observer.measure.stream_values import CLOSE, DROP_ASK, OPEN, Applied, Ask, Output, Sink, StreamLimits
from router_contract.kv_streams import Approximation, History, StreamState
from router_contract.readings import Instant

_LIVE = frozenset({StreamState.LIVE, StreamState.UNREPAIRED})


class Stream:
    """The state of one stream. Feed it with the methods below `tick`; take ``outbox`` after each."""

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
        self._probed = now.mono
        self._current: tuple[int, int, bytes] = (0, 0, b"")
        self._actions: dict[Action, Callable[[], Event | None]] = {
            action: getattr(self, "_do_" + action.name.lower()) for action in Action
        }

    @property
    def last(self) -> int:
        """The last applied sequence, -1 before any."""
        return self._sums.last

    # -- inputs ------------------------------------------------------------------------------------------------------

    def attach(self, now: Instant) -> None:
        """Begin: open the socket."""
        self._fire(Event.ATTACHED, now)

    def socket_failed(self, detail: str, now: Instant) -> None:
        """The socket could not be made or connected to such an address."""
        self.detail = detail
        self._fire(Event.SOCKET_FAILED, now)

    def connected(self, now: Instant) -> None:
        """The monitor reports a finished handshake."""
        self.detail = ""
        self._back_off = self.limits.back_off
        self._fire(Event.CONNECTED, now)

    def disconnected(self, now: Instant) -> None:
        """The monitor reports a lost connection."""
        self.counts["disconnects"] += 1
        self._fire(Event.DISCONNECTED, now)

    def message(self, sequence: int, payload: bytes, now: Instant) -> None:
        """A live batch."""
        checksum = crc32(payload)
        if sequence == self._sums.last + 1 and self.state is StreamState.LIVE and not self._held:
            # The table's (LIVE, NEXT) row, taken here because it is nearly every message.
            self._now = now
            self._note(sequence, checksum)
            if (applied := self._sink.apply(payload, now)) is not None:
                self._judge(applied)
            return
        self._current = (sequence, checksum, payload)
        self._fire(self._classify(sequence, checksum), now)

    def reply(self, token: int, sequence: int, payload: bytes, now: Instant) -> None:
        """A replayed batch."""
        if token != self._token or self._asked is None:
            return
        checksum = crc32(payload)
        self._current = (sequence, checksum, payload)
        self._answers += 1
        if self._answers == 1 and sequence != self._asked and self._asked >= 0 and self.state is StreamState.SYNCING:
            # After a reconnection the batch we know is gone from the buffer, so the life cannot be compared.
            self.approximate.add(Approximation.UNVERIFIED)
            self._doubted = None
        self._deadline = now.mono + self.limits.replay_timeout
        self._fire(self._classify_reply(sequence, checksum), now)

    def reply_end(self, token: int, now: Instant) -> None:
        """The marker that ends a replay."""
        if token != self._token or self._asked is None:
            return
        self._deadline = None
        self._ended_well = True
        empty = self._answers == 0 and self._asked >= 0 and self.last >= 0
        self._asked = None
        self.replays["empty" if empty else "ended"] += 1
        self._fire(Event.ENDED_EMPTY if empty else Event.ENDED, now)

    def tick(self, now: Instant) -> None:
        """Let time pass: silence, replay timeouts, the tail's wait, back-off. Call at least four times a second."""
        mono = now.mono
        if self._retry_due is not None and mono >= self._retry_due:
            self._retry_due = None
            self._fire(Event.RETRY_DUE, now)
        if self._deadline is not None and mono >= self._deadline:
            self._deadline = None
            self.replays["timed-out"] += 1
            self._fire(Event.TIMED_OUT, now)
        if self._tail_due is not None and mono >= self._tail_due:
            self._tail_due = None
            self._fire(Event.TAIL_DUE, now)
        if self.replay and self._asked is None and self._tail_due is None and mono >= self._probe_due():
            self._probed = mono
            self._settle_due = None
            self._attempts = 0
            self._fire(Event.SILENT, now)

    def _probe_due(self) -> float:
        if self._settle_due is not None:
            return self._settle_due
        quiet_since = max(self._probed, self.last_batch.mono if self.last_batch else 0.0)
        return quiet_since + self.limits.silence

    # -- naming ------------------------------------------------------------------------------------------------------

    def _classify(self, sequence: int, checksum: int) -> Event:
        if sequence <= self.last:
            return Event.DUPLICATE if self._sums.of(sequence) == checksum else Event.OTHER
        held = self._held.checksum(sequence)
        if held is not None and held != checksum:
            return Event.OTHER
        if sequence == self.last + 1:
            return Event.NEXT if held is None or self.state in _LIVE else Event.DUPLICATE
        return Event.AHEAD if held is None else Event.DUPLICATE

    def _classify_reply(self, sequence: int, checksum: int) -> Event:
        if sequence <= self.last:
            return Event.REPLY_KNOWN if self._sums.of(sequence) in (checksum, None) else Event.REPLY_OTHER
        held = self._held.checksum(sequence)
        if held is not None and held != checksum:
            return Event.REPLY_OTHER
        if sequence == self.last + 1:
            return Event.REPLY_NEXT
        return Event.REPLY_TOO_OLD if self._answers == 1 else Event.REPLY_LATER

    # -- the machine -------------------------------------------------------------------------------------------------

    def _fire(self, event: Event, now: Instant) -> None:
        self._now = now
        self._cleared = False
        following: Event | None = event
        while following is not None:
            found = TABLE.get((self.state, following))
            if found is None:
                return
            state, actions = found
            if state is not self.state:
                self.state = state
                self.since = now
            following = None
            for action in actions:
                following = self._actions[action]() or following
            if following is None and self._cleared:
                following, self._cleared = Event.CLEARED, False

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
        self.counts["batches"] += 1

    def _apply(self, sequence: int, checksum: int, payload: bytes) -> None:
        self._note(sequence, checksum)
        self._held.pop(sequence)
        if (applied := self._sink.apply(payload, self._now)) is not None:
            self._judge(applied)

    def _do_open(self) -> None:
        self.outbox.append(OPEN)

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

    def _do_hold(self) -> None:
        # A full buffer drops all, which is safe: the next live batch, or the silence after, shows what is missing.
        self.counts["held_dropped"] += self._held.put(*self._current)

    def _do_drop_held(self) -> None:
        self._held.clear()
        self._tail_due = None

    def _do_apply(self) -> None:
        if self.state not in _LIVE:
            self.counts["synced" if self.state is StreamState.SYNCING else "repaired"] += 1
            self._progress = True
            self._run += 1
            self._sums.grow(self._run)
        self._apply(*self._current)

    def _drain(self, counter: str) -> None:
        while (found := self._held.pop(self.last + 1)) is not None:
            self._apply(self.last + 1, *found)
            self.counts[counter] += 1

    def _settled(self) -> Event:
        self._settle_due = self._now.mono + self.limits.settle
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
            self.counts["missed"] += until - self.last - 1
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
        self.history = History.PARTIAL
        self.approximate.clear()
        self._sink.forget()

    def _do_doubt(self) -> None:
        if self.last >= 0:
            self.approximate.add(Approximation.UNVERIFIED)
            self._doubted = self.last

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
        lost = Approximation.UNREPAIRED in self.approximate
        return Event.SETTLED_LOST if lost else Event.SETTLED

    def _do_repair(self) -> Event:
        self._drain("repaired")
        return Event.MISSING if self._held else self._settled()

    def _do_gap(self) -> None:
        self.counts["gaps"] += 1

    def _do_duplicate(self) -> None:
        self.counts["duplicates"] += 1

    def _do_probe_failed(self) -> None:
        self.probe_failures += 1
        if self._held:
            self._tail_due = self._now.mono
