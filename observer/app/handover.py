"""What a replica that ends hands to the next owner of its shard: the last read of each target and the window before it.

So the next owner's first read already closes a pair, and no window is lost. One message of at most `MOST_BYTES`; what
does not fit begins anew there, which is said in numbers.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterable, Mapping

import msgspec

from observer.last_read import LastRead
from observer.store import Store
from router_contract.readings import Instant
from router_contract.targets import DeploymentKey, TargetKey

MOST_BYTES = 1 << 20
"""The longest message, compressed."""
MOST_UNPACKED = 64 << 20
"""The longest message, unpacked; a longer one is refused before it is there."""
MOST_KEPT = 32 << 20
"""How many bytes of bodies one hand-over takes along."""
_PRESET = 1


class BadHandoverError(ValueError):
    """A message that is none of ours; the text says why."""


class _Read(msgspec.Struct, frozen=True, kw_only=True):
    """One target's last read. ``age`` is in seconds at the moment of sending: clocks of two machines are not compared."""

    namespace: str
    deployment: str
    member: str
    component: str
    port: int
    url: str
    version: str | None
    content_type: str
    body: bytes
    age: float
    duration: float
    moved: tuple[float, ...]
    seconds: float


class _Message(msgspec.Struct, frozen=True, kw_only=True):
    version: int = 1
    reads: tuple[_Read, ...]


class Packed(msgspec.Struct, frozen=True):
    """A message, how many targets it has, and how many were left out because it would be too long."""

    data: bytes
    targets: int
    left_out: int


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Message).decode


def kept_reads(store: Store, span: float) -> dict[TargetKey, LastRead]:
    """What the store kept for the next owner, each with the window (of ``span`` seconds) that it ends.

    A target that failed since, or whose window cannot be told as one earlier read, goes without one.
    """
    found = {}
    for key, last in (store.kept or {}).items():
        record = store.record(key)
        if record is None or record.read_at != last.at:
            continue
        moved, seconds = record.chain.newest(span) or (None, 0.0)
        told = () if moved is None else tuple(moved.tolist())
        found[key] = msgspec.structs.replace(last, moved=told, seconds=seconds)
    return found


def pack(reads: Mapping[TargetKey, LastRead], now: Instant, most: int = MOST_BYTES, kept: int = MOST_KEPT) -> Packed:
    """The message of these reads, in order of their keys; as many as fit."""
    made: list[_Read] = []
    size = 0
    for key in sorted(reads):
        last = reads[key]
        size += len(last.data)
        if size > kept:
            break
        made.append(_of(key, last, now))
    while True:
        data = lzma.compress(_encode(_Message(reads=tuple(made))), preset=_PRESET)
        if len(data) <= most or not made:
            return Packed(data, len(made), len(reads) - len(made))
        # Bodies of one program are much alike, so the share that is too long is about the share of targets.
        made = made[: min(len(made) - 1, int(len(made) * most / len(data) * 0.95))]


def unpack(data: bytes, now: Instant) -> dict[TargetKey, LastRead]:
    """The reads of a message, their times on our clocks. Raises `BadHandoverError`."""
    try:
        unpacker = lzma.LZMADecompressor(memlimit=64 << 20)
        raw = unpacker.decompress(data, MOST_UNPACKED)
        if not unpacker.eof:
            raise BadHandoverError(f"the message is cut, or longer than {MOST_UNPACKED} bytes unpacked")
        message = _decode(raw)
    except (lzma.LZMAError, msgspec.DecodeError, UnicodeDecodeError, EOFError) as error:
        raise BadHandoverError(f"the message cannot be read: {error}") from error
    if message.version != 1:
        raise BadHandoverError(f"found version {message.version} of the message, wanted 1")
    return dict(_pairs(message.reads, now))


def _of(key: TargetKey, last: LastRead, now: Instant) -> _Read:
    return _Read(
        namespace=key.deployment.namespace,
        deployment=key.deployment.name,
        member=key.member_uid,
        component=key.component,
        port=key.port,
        url=last.url,
        version=last.version,
        content_type=last.content_type,
        body=last.data,
        age=max(0.0, now.mono - last.at.mono),
        duration=last.duration,
        moved=last.moved,
        seconds=last.seconds,
    )


def _pairs(reads: Iterable[_Read], now: Instant) -> Iterable[tuple[TargetKey, LastRead]]:
    for each in reads:
        if not 0.0 <= each.age < 3600.0 or not 0.0 <= each.seconds < 3600.0:
            raise BadHandoverError(f"found an age of {each.age:g} s and a window of {each.seconds:g} s")
        key = TargetKey(DeploymentKey(each.namespace, each.deployment), each.member, each.component, each.port)
        yield (
            key,
            LastRead(
                url=each.url,
                data=each.body,
                content_type=each.content_type,
                version=each.version,
                at=Instant(now.mono - each.age, now.wall - each.age),
                duration=each.duration,
                moved=each.moved,
                seconds=each.seconds,
            ),
        )
