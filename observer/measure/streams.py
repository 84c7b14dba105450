"""One KV-event stream: names what happens as an event of `stream_table.TABLE` and performs the table's actions.

A `Stream` is a deterministic fold: the same inputs at the same instants give the same outputs. It opens no socket and
reads no clock. Batches go to its `Sink` in order; what sockets must do is left in ``outbox``.
"""

from __future__ import annotations

from zlib import crc32

from observer.measure.stream_actions import CONNECTED_STATES, LIVE_STATES, StreamActions
from observer.measure.stream_table import TABLE, Event
from router_contract.kv_streams import Approximation, History, StreamState
from router_contract.readings import Instant


class Stream(StreamActions):
    """The state of one stream. Feed it with the methods below; take ``outbox`` after each."""

    # -- inputs ------------------------------------------------------------------------------------------------------

    def attach(self, now: Instant) -> None:
        """Begin: open the socket."""
        self._fire(Event.ATTACHED, now)

    def socket_failed(self, detail: str, now: Instant) -> None:
        """The socket could not be made or connected to such an address."""
        self.detail = detail
        self._lost_touch(now)
        self._fire(Event.SOCKET_FAILED, now)

    def connected(self, now: Instant) -> None:
        """The monitor reports a finished handshake."""
        self.detail = ""
        self._back_off = self.limits.back_off
        self._stuck = self.limits.stuck
        self._fire(Event.CONNECTED, now)

    def disconnected(self, now: Instant) -> None:
        """The monitor reports a lost connection."""
        self.counts["disconnects"] += 1
        if self.state is StreamState.CONNECTING:
            self.detail = "what answers there ended the connection before a handshake; trying again"
        self._lost_touch(now)
        self._fire(Event.DISCONNECTED, now)

    def _lost_touch(self, now: Instant) -> None:
        if self._apart is None and self.synced:
            self._apart = now

    @property
    def stale_since(self) -> Instant | None:
        """When the connection was lost, of a stream that nothing has confirmed for long since; ``None`` of any other."""
        return self._apart if Approximation.DISCONNECTED in self.approximate else None

    def restarted(self, now: Instant) -> None:
        """The member is known to have restarted: by its metrics, its Pod, not by this stream.

        Not connected, its blocks are forgotten at once. Connected, the life is compared by replay, unless a life that
        began within the last ``silence`` shows that this stream saw the restart itself.
        """
        seen = self._forgot is not None and now.mono - self._forgot < self.limits.silence
        if self.synced and not (seen and self.state in CONNECTED_STATES):
            self._fire(Event.RESTARTED, now)

    def message(self, sequence: int, payload: bytes, now: Instant) -> None:
        """A live batch."""
        checksum = crc32(payload)
        if sequence == self._sums.last + 1 and self.state is StreamState.LIVE and not self._held:
            # The table's (LIVE, NEXT) row, taken here because it is nearly every message.
            self._sums.note(sequence, checksum)
            self.last_batch = now
            self.batches += 1
            if sequence == 0:
                self.history = History.COMPLETE
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
        """Let time pass: silence, replay timeouts, the tail's wait, back-off, sockets that stay dead. Call at least four times a second."""
        mono = now.mono
        if self._retry_due is not None and mono >= self._retry_due:
            self._retry_due = None
            self._fire(Event.RETRY_DUE, now)
        marked = Approximation.DISCONNECTED in self.approximate
        if self._apart is not None and mono >= self._apart.mono + self.limits.apart and not marked:
            self._fire(Event.APART, now)
        if self.state is StreamState.CONNECTING and mono >= max(self._opened, self.since.mono) + self._stuck:
            self._fire(Event.STUCK, now)
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
            return Event.NEXT if held is None or self.state in LIVE_STATES else Event.DUPLICATE
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
