"""The life of one KV-event stream as a literal table: (state, event) → (next state, actions).

`streams` names what happened as one of these events and performs the actions; `docs/kv-streams.md` is drawn from this
table. A pair that is not listed changes nothing.
"""

from __future__ import annotations

from enum import StrEnum

from router_contract.kv_streams import StreamState as S


class Event(StrEnum):
    """What can happen to a stream. "Known" sequences are those whose payload's checksum is kept."""

    ATTACHED = "attached"
    RETRY_DUE = "retry due"
    SOCKET_FAILED = "socket failed"
    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    NEXT = "next batch"
    DUPLICATE = "known batch again"
    AHEAD = "batch beyond the next"
    OTHER = "other batch at or below the last"
    REPLY_NEXT = "replay: next batch"
    REPLY_KNOWN = "replay: known batch"
    REPLY_LATER = "replay: batch beyond the next"
    REPLY_TOO_OLD = "replay: begins beyond the next"
    REPLY_OTHER = "replay: other batch at or below the last"
    ENDED = "replay ended"
    ENDED_EMPTY = "replay ended, asked batch gone"
    TIMED_OUT = "replay silent"
    GAVE_UP = "replay given up"
    SETTLED = "nothing missing"
    SETTLED_LOST = "nothing more to get, batches lost"
    MISSING = "still missing"
    SILENT = "no batch for long"
    TAIL_DUE = "replayed tail not arrived live"
    CLEARED = "all blocks cleared"
    STUCK = "not connected for long"
    APART = "not confirmed since the connection was lost"
    RESTARTED = "member known to have restarted"


class Action(StrEnum):
    """What a transition does. `OPEN`, `REOPEN`, `CLOSE` and `ASK` leave the machine; the rest stays inside."""

    OPEN = "open socket"
    REOPEN = "close and open new sockets"
    CLOSE = "close sockets"
    BACK_OFF = "set back-off"
    ASK = "ask replay from last"
    ASK_AGAIN = "ask replay again"
    DROP_ASK = "drop request"
    HOLD = "hold batch"
    DROP_HELD = "drop held"
    APPLY = "apply batch"
    SETTLE = "apply held in order"
    SKIP = "apply held, skip what is missing"
    JUMP = "skip to the replay's begin"
    FORGET = "forget this life"
    DOUBT = "mark unverified"
    VERIFY = "unmark unverified"
    SUSPECT = "mark disconnected"
    CONFIRM = "note confirmed"
    WAIT_TAIL = "wait for the tail"
    REPAIR = "apply the tail"
    GAP = "count gap"
    DUPLICATE = "count duplicate"
    PROBE_FAILED = "count failed probe"


E, A = Event, Action
Transition = tuple[S, tuple[Action, ...]]

TABLE: dict[tuple[S, Event], Transition] = {
    (S.DETACHED, E.ATTACHED): (S.CONNECTING, (A.OPEN,)),
    (S.BROKEN, E.RETRY_DUE): (S.CONNECTING, (A.OPEN,)),
    (S.BROKEN, E.APART): (S.BROKEN, (A.SUSPECT,)),
    (S.BROKEN, E.RESTARTED): (S.BROKEN, (A.FORGET,)),
    (S.CONNECTING, E.SOCKET_FAILED): (S.BROKEN, (A.CLOSE, A.BACK_OFF)),
    (S.CONNECTING, E.CONNECTED): (S.SYNCING, (A.ASK,)),
    # What arrives now was sent on the lost connection, perhaps by another life: only another life is learnt from it.
    (S.CONNECTING, E.DUPLICATE): (S.CONNECTING, (A.DUPLICATE,)),
    (S.CONNECTING, E.OTHER): (S.CONNECTING, (A.FORGET,)),
    # A socket whose peer once broke the protocol never connects again and says nothing: wait no longer than a bound.
    (S.CONNECTING, E.STUCK): (S.CONNECTING, (A.REOPEN,)),
    (S.CONNECTING, E.APART): (S.CONNECTING, (A.SUSPECT,)),
    (S.CONNECTING, E.RESTARTED): (S.CONNECTING, (A.FORGET,)),
    # Reading everything again, at the start, after a reconnection or for a new life. Live batches wait.
    (S.SYNCING, E.SOCKET_FAILED): (S.BROKEN, (A.CLOSE, A.BACK_OFF)),
    (S.SYNCING, E.DISCONNECTED): (S.CONNECTING, (A.DROP_ASK, A.DROP_HELD)),
    (S.SYNCING, E.NEXT): (S.SYNCING, (A.HOLD,)),
    (S.SYNCING, E.AHEAD): (S.SYNCING, (A.HOLD,)),
    (S.SYNCING, E.DUPLICATE): (S.SYNCING, (A.DUPLICATE,)),
    (S.SYNCING, E.OTHER): (S.SYNCING, (A.FORGET, A.DROP_HELD, A.HOLD, A.ASK)),
    (S.SYNCING, E.REPLY_NEXT): (S.SYNCING, (A.APPLY,)),
    (S.SYNCING, E.REPLY_KNOWN): (S.SYNCING, (A.VERIFY,)),
    (S.SYNCING, E.REPLY_LATER): (S.SYNCING, (A.HOLD, A.ASK_AGAIN)),
    (S.SYNCING, E.REPLY_TOO_OLD): (S.SYNCING, (A.JUMP, A.APPLY)),
    (S.SYNCING, E.REPLY_OTHER): (S.SYNCING, (A.FORGET, A.DROP_HELD, A.ASK)),
    (S.SYNCING, E.ENDED): (S.SYNCING, (A.SETTLE,)),
    (S.SYNCING, E.ENDED_EMPTY): (S.SYNCING, (A.FORGET, A.ASK)),
    (S.SYNCING, E.TIMED_OUT): (S.SYNCING, (A.ASK_AGAIN,)),
    (S.SYNCING, E.MISSING): (S.SYNCING, (A.ASK_AGAIN,)),
    (S.SYNCING, E.GAVE_UP): (S.SYNCING, (A.DOUBT, A.SKIP)),
    (S.SYNCING, E.APART): (S.SYNCING, (A.SUSPECT,)),
    (S.SYNCING, E.RESTARTED): (S.SYNCING, (A.FORGET, A.DROP_HELD, A.ASK)),
    (S.SYNCING, E.SETTLED): (S.LIVE, (A.CONFIRM,)),
    (S.SYNCING, E.SETTLED_LOST): (S.UNREPAIRED, ()),
    # Live: everything up to the last batch was applied. Silence is asked about; what the answer adds waits a moment.
    (S.LIVE, E.SOCKET_FAILED): (S.BROKEN, (A.CLOSE, A.BACK_OFF)),
    (S.LIVE, E.DISCONNECTED): (S.CONNECTING, (A.DROP_ASK, A.DROP_HELD)),
    (S.LIVE, E.NEXT): (S.LIVE, (A.APPLY,)),
    (S.LIVE, E.DUPLICATE): (S.LIVE, (A.DUPLICATE,)),
    (S.LIVE, E.AHEAD): (S.GAP, (A.GAP, A.HOLD, A.ASK)),
    (S.LIVE, E.OTHER): (S.SYNCING, (A.FORGET, A.DROP_HELD, A.HOLD, A.ASK)),
    (S.LIVE, E.SILENT): (S.LIVE, (A.ASK,)),
    (S.LIVE, E.RESTARTED): (S.LIVE, (A.DOUBT, A.ASK)),
    (S.LIVE, E.REPLY_KNOWN): (S.LIVE, (A.VERIFY,)),
    (S.LIVE, E.REPLY_NEXT): (S.LIVE, (A.HOLD,)),
    (S.LIVE, E.REPLY_LATER): (S.LIVE, (A.HOLD,)),
    (S.LIVE, E.REPLY_TOO_OLD): (S.LIVE, (A.HOLD,)),
    (S.LIVE, E.REPLY_OTHER): (S.SYNCING, (A.FORGET, A.DROP_HELD, A.ASK)),
    (S.LIVE, E.ENDED): (S.LIVE, (A.WAIT_TAIL,)),
    (S.LIVE, E.ENDED_EMPTY): (S.SYNCING, (A.FORGET, A.ASK)),
    (S.LIVE, E.TIMED_OUT): (S.LIVE, (A.ASK_AGAIN,)),
    (S.LIVE, E.GAVE_UP): (S.LIVE, (A.PROBE_FAILED,)),
    (S.LIVE, E.TAIL_DUE): (S.LIVE, (A.REPAIR,)),
    (S.LIVE, E.MISSING): (S.GAP, (A.GAP, A.ASK)),
    (S.LIVE, E.SETTLED): (S.LIVE, (A.CONFIRM,)),
    # A gap: live batches wait while the missing ones are asked for, from the last good one so that it can be compared.
    (S.GAP, E.SOCKET_FAILED): (S.BROKEN, (A.CLOSE, A.BACK_OFF)),
    (S.GAP, E.DISCONNECTED): (S.CONNECTING, (A.DROP_ASK, A.DROP_HELD)),
    (S.GAP, E.NEXT): (S.GAP, (A.HOLD,)),
    (S.GAP, E.AHEAD): (S.GAP, (A.HOLD,)),
    (S.GAP, E.DUPLICATE): (S.GAP, (A.DUPLICATE,)),
    (S.GAP, E.OTHER): (S.SYNCING, (A.FORGET, A.DROP_HELD, A.HOLD, A.ASK)),
    (S.GAP, E.RESTARTED): (S.SYNCING, (A.FORGET, A.DROP_HELD, A.ASK)),
    (S.GAP, E.REPLY_NEXT): (S.REPLAYING, (A.APPLY,)),
    (S.GAP, E.REPLY_KNOWN): (S.REPLAYING, (A.VERIFY,)),
    (S.GAP, E.REPLY_LATER): (S.REPLAYING, (A.HOLD, A.ASK_AGAIN)),
    (S.GAP, E.REPLY_TOO_OLD): (S.REPLAYING, (A.JUMP, A.APPLY)),
    (S.GAP, E.REPLY_OTHER): (S.SYNCING, (A.FORGET, A.DROP_HELD, A.ASK)),
    (S.GAP, E.ENDED): (S.GAP, (A.SETTLE,)),
    (S.GAP, E.ENDED_EMPTY): (S.SYNCING, (A.FORGET, A.ASK)),
    (S.GAP, E.TIMED_OUT): (S.GAP, (A.ASK_AGAIN,)),
    (S.GAP, E.MISSING): (S.GAP, (A.ASK_AGAIN,)),
    (S.GAP, E.GAVE_UP): (S.GAP, (A.SKIP,)),
    (S.GAP, E.SETTLED): (S.LIVE, (A.CONFIRM,)),
    (S.GAP, E.SETTLED_LOST): (S.UNREPAIRED, ()),
    (S.REPLAYING, E.SOCKET_FAILED): (S.BROKEN, (A.CLOSE, A.BACK_OFF)),
    (S.REPLAYING, E.DISCONNECTED): (S.CONNECTING, (A.DROP_ASK, A.DROP_HELD)),
    (S.REPLAYING, E.NEXT): (S.REPLAYING, (A.HOLD,)),
    (S.REPLAYING, E.AHEAD): (S.REPLAYING, (A.HOLD,)),
    (S.REPLAYING, E.DUPLICATE): (S.REPLAYING, (A.DUPLICATE,)),
    (S.REPLAYING, E.OTHER): (S.SYNCING, (A.FORGET, A.DROP_HELD, A.HOLD, A.ASK)),
    (S.REPLAYING, E.RESTARTED): (S.SYNCING, (A.FORGET, A.DROP_HELD, A.ASK)),
    (S.REPLAYING, E.REPLY_NEXT): (S.REPLAYING, (A.APPLY,)),
    (S.REPLAYING, E.REPLY_KNOWN): (S.REPLAYING, (A.VERIFY,)),
    (S.REPLAYING, E.REPLY_LATER): (S.REPLAYING, (A.HOLD, A.ASK_AGAIN)),
    (S.REPLAYING, E.REPLY_TOO_OLD): (S.REPLAYING, (A.JUMP, A.APPLY)),
    (S.REPLAYING, E.REPLY_OTHER): (S.SYNCING, (A.FORGET, A.DROP_HELD, A.ASK)),
    (S.REPLAYING, E.ENDED): (S.REPLAYING, (A.SETTLE,)),
    (S.REPLAYING, E.ENDED_EMPTY): (S.SYNCING, (A.FORGET, A.ASK)),
    (S.REPLAYING, E.TIMED_OUT): (S.REPLAYING, (A.ASK_AGAIN,)),
    (S.REPLAYING, E.MISSING): (S.REPLAYING, (A.ASK_AGAIN,)),
    (S.REPLAYING, E.GAVE_UP): (S.REPLAYING, (A.SKIP,)),
    (S.REPLAYING, E.SETTLED): (S.LIVE, (A.CONFIRM,)),
    (S.REPLAYING, E.SETTLED_LOST): (S.UNREPAIRED, ()),
    # Unrepaired is Live after a loss: the blocks are approximate until a clear or a new life.
    (S.UNREPAIRED, E.SOCKET_FAILED): (S.BROKEN, (A.CLOSE, A.BACK_OFF)),
    (S.UNREPAIRED, E.DISCONNECTED): (S.CONNECTING, (A.DROP_ASK, A.DROP_HELD)),
    (S.UNREPAIRED, E.NEXT): (S.UNREPAIRED, (A.APPLY,)),
    (S.UNREPAIRED, E.DUPLICATE): (S.UNREPAIRED, (A.DUPLICATE,)),
    (S.UNREPAIRED, E.AHEAD): (S.GAP, (A.GAP, A.HOLD, A.ASK)),
    (S.UNREPAIRED, E.OTHER): (S.SYNCING, (A.FORGET, A.DROP_HELD, A.HOLD, A.ASK)),
    (S.UNREPAIRED, E.SILENT): (S.UNREPAIRED, (A.ASK,)),
    (S.UNREPAIRED, E.RESTARTED): (S.UNREPAIRED, (A.DOUBT, A.ASK)),
    (S.UNREPAIRED, E.REPLY_KNOWN): (S.UNREPAIRED, (A.VERIFY,)),
    (S.UNREPAIRED, E.REPLY_NEXT): (S.UNREPAIRED, (A.HOLD,)),
    (S.UNREPAIRED, E.REPLY_LATER): (S.UNREPAIRED, (A.HOLD,)),
    (S.UNREPAIRED, E.REPLY_TOO_OLD): (S.UNREPAIRED, (A.HOLD,)),
    (S.UNREPAIRED, E.REPLY_OTHER): (S.SYNCING, (A.FORGET, A.DROP_HELD, A.ASK)),
    (S.UNREPAIRED, E.ENDED): (S.UNREPAIRED, (A.WAIT_TAIL,)),
    (S.UNREPAIRED, E.ENDED_EMPTY): (S.SYNCING, (A.FORGET, A.ASK)),
    (S.UNREPAIRED, E.TIMED_OUT): (S.UNREPAIRED, (A.ASK_AGAIN,)),
    (S.UNREPAIRED, E.GAVE_UP): (S.UNREPAIRED, (A.PROBE_FAILED,)),
    (S.UNREPAIRED, E.TAIL_DUE): (S.UNREPAIRED, (A.REPAIR,)),
    (S.UNREPAIRED, E.MISSING): (S.GAP, (A.GAP, A.ASK)),
    (S.UNREPAIRED, E.SETTLED_LOST): (S.UNREPAIRED, (A.CONFIRM,)),
    (S.UNREPAIRED, E.SETTLED): (S.LIVE, (A.CONFIRM,)),
    (S.UNREPAIRED, E.CLEARED): (S.LIVE, ()),
}
"""Every transition; detaching ends a stream from any state and is not an event of it."""
