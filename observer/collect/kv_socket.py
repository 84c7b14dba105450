"""The receiving thread: every SUB, monitor and replay socket in one place, drained without waiting, handed over in lots.

Sockets live and die in the thread. The event loop gives commands and takes lots; a lot is everything that arrived in
one round, monitor events first, so that a lost connection is known before what came after it. When the loop does not
keep up, reading stops at a bound in bytes: the rest waits in ZMQ, and what ZMQ drops shows as a gap.
"""

from __future__ import annotations

import contextlib
import select
import socket as sockets
import threading
from collections import deque
from collections.abc import Callable

import msgspec
import zmq

from observer.clock import Clock
from observer.collect.kv_zmq import SocketLimits, monitor_event, replay_request, subscriber
from router_contract.kv_events import MAX_FRAMES
from router_contract.kv_streams import ReceiverSummary
from router_contract.readings import Instant

_SCAN_ROUNDS = 512
_POLLIN = int(zmq.POLLIN)
_ROUND_MESSAGES = 512
_LEAST_SHARE = 16
"""Messages of all sockets in a round, some milliseconds of work, and at least as many of one where many have some."""
_FRAME_BYTES = 64
"""What a frame costs beside its bytes, so that empty ones count too."""


def held_bytes(frames: list[bytes]) -> int:
    """What a message occupies while it waits: every frame of it, whatever it is for."""
    return sum(map(len, frames)) + _FRAME_BYTES * len(frames)


class ReceiverLimits(msgspec.Struct, frozen=True, kw_only=True):
    """``capacity_bytes`` may wait for the loop; ``linger`` seconds gather a lot; ``share`` messages of a socket in a round at most."""

    capacity_bytes: int = 64 << 20
    linger: float = 0.050
    share: int = 512
    sockets: SocketLimits = SocketLimits()


class Lot(msgspec.Struct, frozen=True, gc=False):
    """What one round received, in order.

    ``changes`` are (stream id, monitor word or ``failed``, detail), ``live`` (stream id, messages as frames) and
    ``replies`` (stream id, token, messages as frames).
    """

    at: Instant
    changes: list[tuple[int, str, str]]
    live: list[tuple[int, list[list[bytes]]]]
    replies: list[tuple[int, int, list[list[bytes]]]]
    size: int


class _Stream:
    __slots__ = ("monitor", "replay", "sid", "sub", "token")

    def __init__(self, sid: int) -> None:
        self.sid = sid
        self.sub: zmq.Socket[bytes] | None = None
        self.monitor: zmq.Socket[bytes] | None = None
        self.replay: zmq.Socket[bytes] | None = None
        self.token = 0


class Receiver:
    """Owns the thread. All methods but the thread's own are called from one other thread, the event loop's."""

    def __init__(self, clock: Clock, notify: Callable[[], None], limits: ReceiverLimits) -> None:
        self._clock = clock
        self._notify = notify
        self._limits = limits
        self._commands: deque[tuple[str, int, str, int, int]] = deque()
        self._lots: deque[Lot] = deque()
        self._streams: dict[int, _Stream] = {}
        self._by_fd: dict[int, tuple[str, _Stream]] = {}
        self._again: dict[int, None] = {}
        self._changes: list[tuple[int, str, str]] = []
        self._room = threading.Event()
        self._room.set()
        self._end = threading.Event()
        self._stopping = False
        self._rounds = 0
        self._given_bytes = self._taken_bytes = self._given = self._taken = 0
        self._pauses = self._discarded = 0
        self._wake_in, self._wake_out = sockets.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="kv-receive", daemon=True)

    # -- the loop's side ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and every socket; waits for it."""
        self._stopping = True
        self._end.set()
        self._room.set()
        self._wake()
        self._thread.join()
        self._wake_in.close()
        self._wake_out.close()

    @property
    def alive(self) -> bool:
        """Whether the thread runs; one that ended without `stop` failed."""
        return self._thread.is_alive()

    def open(self, sid: int, endpoint: str) -> None:
        """Subscribe. ``sid`` is never used twice, so nothing of a closed stream can reach another."""
        self._command("open", sid, endpoint)

    def close(self, sid: int) -> None:
        """Close all sockets of a stream."""
        self._command("close", sid)

    def ask(self, sid: int, endpoint: str, token: int, start: int) -> None:
        """Ask a replay on a new socket, closing a former one."""
        self._command("ask", sid, endpoint, token, start)

    def drop_ask(self, sid: int) -> None:
        """Close the replay socket."""
        self._command("drop-ask", sid)

    def take(self) -> Lot | None:
        """The oldest lot, or ``None``."""
        if not self._lots:
            return None
        lot = self._lots.popleft()
        self._taken_bytes += lot.size
        self._taken += 1
        # Well below the bound, so that one time of being slow is one pause.
        if 4 * (self._given_bytes - self._taken_bytes) <= 3 * self._limits.capacity_bytes:
            self._room.set()
        return lot

    def discard(self, messages: int) -> None:
        """Count messages that arrived for a stream that is gone."""
        self._discarded += messages

    def summary(self) -> ReceiverSummary:
        """What waits, and what was held back."""
        return ReceiverSummary(
            streams=len(self._streams),
            queued_messages=sum(len(messages) for lot in list(self._lots) for _, messages in lot.live),
            queued_bytes=self._given_bytes - self._taken_bytes,
            capacity_bytes=self._limits.capacity_bytes,
            pauses=self._pauses,
            received_messages=self._given,
            received_bytes=self._given_bytes,
            discarded_messages=self._discarded,
        )

    def _command(self, what: str, sid: int, endpoint: str = "", token: int = 0, start: int = 0) -> None:
        self._commands.append((what, sid, endpoint, token, start))
        self._wake()

    def _wake(self) -> None:
        try:
            self._wake_out.send(b"\0")
        except BlockingIOError:
            return  # enough wake-ups are waiting already

    # -- the thread's side -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        context.set(zmq.MAX_SOCKETS, self._limits.sockets.max_sockets)
        poll = select.epoll()
        poll.register(self._wake_in.fileno(), select.EPOLLIN)
        try:
            while not self._stopping:
                ready = poll.poll(0 if self._again else 1.0)
                if self._given_bytes - self._taken_bytes > self._limits.capacity_bytes:
                    self._hold_back()
                self._round(context, poll, [fd for fd, _ in ready])
        finally:
            for stream in list(self._streams.values()):
                self._close(stream, poll)
            poll.close()
            context.term()
            self._notify()

    def _hold_back(self) -> None:
        self._pauses += 1
        self._room.clear()
        if self._given_bytes - self._taken_bytes > self._limits.capacity_bytes and not self._stopping:
            self._room.wait()

    def _round(self, context: zmq.Context[zmq.Socket[bytes]], poll: select.epoll, ready: list[int]) -> None:
        at = self._clock.now()
        self._changes = []
        found = self._again | dict.fromkeys(ready)
        self._again = {}
        self._rounds += 1
        if not found or self._rounds % _SCAN_ROUNDS == 0:
            # A ZMQ descriptor tells of a change only once, and using a socket can swallow it: now and then ask all.
            found = dict.fromkeys(self._by_fd) | found
        if self._wake_in.fileno() in found:
            self._obey(context, poll)
        streams = [(fd, *self._by_fd[fd]) for fd in found if fd in self._by_fd]
        for _, kind, stream in streams:
            if kind == "monitor":
                self._read_monitor(stream)
        live: list[tuple[int, list[list[bytes]]]] = []
        replies: list[tuple[int, int, list[list[bytes]]]] = []
        size, room = 0, _ROUND_MESSAGES
        share = min(self._limits.share, max(_ROUND_MESSAGES // max(len(streams), 1), _LEAST_SHARE))
        for number, (fd, kind, stream) in enumerate(streams):
            if room <= 0:
                # Those not read in this round come first in the next one.
                self._again = dict.fromkeys(fd for fd, _, _ in streams[number:]) | self._again
                break
            socket = stream.sub if kind == "sub" else stream.replay if kind == "replay" else None
            if socket is None:
                continue
            messages, held = self._drain(socket, fd, share)
            if not messages:
                continue
            room -= len(messages)
            size += held
            self._given += len(messages)
            if kind == "sub":
                live.append((stream.sid, messages))
            else:
                replies.append((stream.sid, stream.token, messages))
        if live or replies or self._changes:
            self._given_bytes += size
            self._lots.append(Lot(at, self._changes, live, replies, size))
            self._notify()
            # With more waiting, as long as reading took: the loop's thread needs the interpreter as much as this one.
            busy = self._clock.now().mono - at.mono
            self._end.wait(min(busy, self._limits.linger) if self._again else self._limits.linger)

    def _obey(self, context: zmq.Context[zmq.Socket[bytes]], poll: select.epoll) -> None:
        with contextlib.suppress(BlockingIOError):  # raised for a wake-up that an earlier round already answered
            self._wake_in.recv(4096)
        while self._commands:
            what, sid, endpoint, token, start = self._commands.popleft()
            stream = self._streams.get(sid)
            if what == "open" and stream is None:
                stream = self._streams[sid] = _Stream(sid)
            if stream is None:
                continue
            try:
                if what == "open":
                    self._open(stream, context, poll, endpoint)
                elif what == "ask":
                    self._drop_replay(stream, poll)
                    stream.token = token
                    stream.replay = replay_request(context, endpoint, start, self._limits.sockets)
                    self._watch(stream.replay, "replay", stream, poll)
                elif what == "drop-ask":
                    self._drop_replay(stream, poll)
                else:
                    self._close(stream, poll)
            except zmq.ZMQError as error:
                self._changes.append((sid, "failed", f"{endpoint}: {error}"))

    def _open(
        self, stream: _Stream, context: zmq.Context[zmq.Socket[bytes]], poll: select.epoll, endpoint: str
    ) -> None:
        stream.sub, stream.monitor = subscriber(context, endpoint, self._limits.sockets)
        self._watch(stream.monitor, "monitor", stream, poll)
        self._watch(stream.sub, "sub", stream, poll)

    def _watch(self, socket: zmq.Socket[bytes], kind: str, stream: _Stream, poll: select.epoll) -> None:
        fd = int(socket.getsockopt(zmq.FD))
        self._by_fd[fd] = (kind, stream)
        self._again[fd] = None
        poll.register(fd, select.EPOLLIN)

    def _unwatch(self, socket: zmq.Socket[bytes], poll: select.epoll) -> None:
        fd = int(socket.getsockopt(zmq.FD))
        self._by_fd.pop(fd, None)
        self._again.pop(fd, None)
        poll.unregister(fd)

    def _drop_replay(self, stream: _Stream, poll: select.epoll) -> None:
        if stream.replay is not None:
            self._unwatch(stream.replay, poll)
            stream.replay.close(linger=0)
            stream.replay = None

    def _close(self, stream: _Stream, poll: select.epoll) -> None:
        self._drop_replay(stream, poll)
        if stream.sub is not None and stream.monitor is not None:
            self._unwatch(stream.monitor, poll)
            self._unwatch(stream.sub, poll)
            stream.sub.disable_monitor()
            stream.monitor.close(linger=0)
            stream.sub.close(linger=0)
        stream.sub = stream.monitor = None
        self._streams.pop(stream.sid, None)

    def _read_monitor(self, stream: _Stream) -> None:
        if stream.monitor is None:
            return
        while True:
            try:
                word = monitor_event(stream.monitor.recv_multipart(zmq.NOBLOCK))
            except zmq.Again:
                return
            if word is not None:
                self._changes.append((stream.sid, word, ""))

    def _drain(self, socket: zmq.Socket[bytes], fd: int, share: int) -> tuple[list[list[bytes]], int]:
        """Up to ``share`` messages and what they occupy, no more bytes than may wait at once. One message alone is the
        usual case, and asking whether another waits costs less than being refused it.
        """
        messages: list[list[bytes]] = []
        receive = socket.recv
        capacity, held = self._limits.capacity_bytes, 0
        try:
            for number in range(share):
                # As frames, since asking a frame whether another follows costs half as much as asking the socket.
                frame = receive(zmq.NOBLOCK, copy=False, track=False)
                frames = [frame.bytes]
                while frame.more:
                    frame = receive(zmq.NOBLOCK, copy=False, track=False)
                    if len(frames) <= MAX_FRAMES:  # one more than there may be is enough to be rejected for it
                        frames.append(frame.bytes)
                messages.append(frames)
                held += held_bytes(frames)
                if held > capacity:
                    break
                if number == 0 and not int(socket.getsockopt(zmq.EVENTS)) & _POLLIN:
                    return messages, held
        except zmq.Again:
            return messages, held
        self._again[fd] = None
        return messages, held
