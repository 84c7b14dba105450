"""KV-event messages as engines publish them: frames, batches and events of every recorded encoding, damage named.

An engine publishes batches ``[ts, [events], rank?]`` in msgpack. Events are maps or arrays, block hashes integers or
bytes; optional and future fields are normal. Token ids (and every other field nobody counts) stay undecoded msgpack
until `neutral` is asked for them. One event that cannot be read costs that event only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, final

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

Hash = int | bytes
BlockSize = Annotated[int, Meta(ge=0, le=1 << 24)]
"""Tokens of one block; an event with another number is damaged."""
Rank = Annotated[int, Meta(ge=0, le=65_535)]
"""A data-parallel rank; another number is not believed, and costs no event."""
MAX_SEQUENCE = 2**63 - 1
"""Publishers write signed 64-bit sequences, of which -1 is the end marker."""
MAX_TOPIC = 4096
"""Bytes of a topic."""
MAX_FRAMES = 16
"""Frames of one message; no publisher sends as many."""
END_SEQUENCE = b"\xff" * 8
"""The sequence frame of the message that ends a replay."""


class BlockStored(msgspec.Struct, frozen=True, gc=False):
    """Blocks are now held; each hash's parent is the one before it, the first one's is ``parent_block_hash``.

    The order of fields is the order of the array encoding. ``Raw`` fields are msgpack as received.
    """

    block_hashes: list[Hash]
    parent_block_hash: Hash | None = None
    token_ids: Raw | UnsetType = UNSET
    block_size: BlockSize | UnsetType = UNSET
    lora_id: Raw | UnsetType = UNSET
    medium: str | UnsetType | None = UNSET
    lora_name: Raw | UnsetType = UNSET
    extra_keys: Raw | UnsetType = UNSET
    group_idx: int | UnsetType | None = UNSET
    kv_cache_spec_kind: Raw | UnsetType = UNSET
    kv_cache_spec_sliding_window: Raw | UnsetType = UNSET


class BlockRemoved(msgspec.Struct, frozen=True, gc=False):
    """Blocks are no longer held on ``medium`` in ``group_idx``."""

    block_hashes: list[Hash]
    medium: str | UnsetType | None = UNSET
    group_idx: int | UnsetType | None = UNSET


class AllBlocksCleared(msgspec.Struct, frozen=True, gc=False):
    """Every block of the publishing rank is gone."""


class MapStored(BlockStored, frozen=True, gc=False, tag="BlockStored"):
    """`BlockStored` as a map, with the fields that only maps have."""

    locality: Raw | UnsetType = UNSET
    ownership: Raw | UnsetType = UNSET
    session_id: Raw | UnsetType = UNSET
    cache_salt: Raw | UnsetType = UNSET
    lookahead_token_ids: Raw | UnsetType = UNSET


class MapRemoved(BlockRemoved, frozen=True, gc=False, tag="BlockRemoved"):
    """`BlockRemoved` as a map."""

    locality: Raw | UnsetType = UNSET
    ownership: Raw | UnsetType = UNSET


class MapCleared(AllBlocksCleared, frozen=True, gc=False, tag="AllBlocksCleared"):
    """`AllBlocksCleared` as a map."""


class ArrayStored(BlockStored, frozen=True, gc=False, array_like=True, tag="BlockStored"):
    """`BlockStored` as an array."""


class ArrayRemoved(BlockRemoved, frozen=True, gc=False, array_like=True, tag="BlockRemoved"):
    """`BlockRemoved` as an array."""


class ArrayCleared(AllBlocksCleared, frozen=True, gc=False, array_like=True, tag="AllBlocksCleared"):
    """`AllBlocksCleared` as an array."""


class Damage(msgspec.Struct, frozen=True, gc=False):
    """An event of a good batch that was skipped: its place, whether its kind is merely unknown to us, and why."""

    index: int
    unknown_kind: bool
    detail: str


Event = BlockStored | BlockRemoved | AllBlocksCleared


class Batch(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One decoded batch. ``ts`` is the publisher's wall time; ``rank`` is what it says of itself, or ``None``."""

    ts: float
    events: Sequence[Event]
    rank: Rank | None = None

    @property
    def skipped(self) -> tuple[Damage, ...]:
        """The events that could not be read."""
        return ()


class _MapBatch(Batch, frozen=True, gc=False, array_like=True):
    events: list[MapStored | MapRemoved | MapCleared]


class _ArrayBatch(Batch, frozen=True, gc=False, array_like=True):
    events: list[ArrayStored | ArrayRemoved | ArrayCleared]


@final
class DamagedBatch(Batch, frozen=True, gc=False, array_like=True):
    """A batch of which some events were skipped."""

    damage: tuple[Damage, ...] = ()

    @property
    def skipped(self) -> tuple[Damage, ...]:
        """The events that could not be read."""
        return self.damage


class _LooseBatch(msgspec.Struct, frozen=True, gc=False, array_like=True):
    ts: float
    events: list[Raw]
    rank: Raw | UnsetType = UNSET


@final
class Undecodable(msgspec.Struct, frozen=True, gc=False):
    """A payload of which no event can be read."""

    detail: str


# Nesting deeper than the interpreter's limit raises RecursionError; it is damage like any other.
UNREADABLE = (msgspec.DecodeError, RecursionError)
_MAPS: msgspec.msgpack.Decoder[Batch] = msgspec.msgpack.Decoder(_MapBatch)
_ARRAYS: msgspec.msgpack.Decoder[Batch] = msgspec.msgpack.Decoder(_ArrayBatch)
_LOOSE = msgspec.msgpack.Decoder(_LooseBatch)
_ONE_MAP: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(MapStored | MapRemoved | MapCleared)
_ONE_ARRAY: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ArrayStored | ArrayRemoved | ArrayCleared)
_RANK = msgspec.msgpack.Decoder(Rank | None)
_KINDS = frozenset({"BlockStored", "BlockRemoved", "AllBlocksCleared"})
# Where the first event begins, by the msgpack header of the event list: fixarray, array 16, array 32.
_FIRST_EVENT = {0xDC: 13, 0xDD: 15}
_LIST_HEADER = 10


def decode_batch(payload: bytes) -> Batch | Undecodable:
    """Read one batch, in whichever encoding its events are; never raises."""
    decoder = _MAPS
    if len(payload) > 15:
        header = payload[_LIST_HEADER]
        first = payload[_LIST_HEADER + 1 if header < 0xA0 else _FIRST_EVENT.get(header, _LIST_HEADER + 1)]
        if first >= 0x90 and (first <= 0x9F or first in (0xDC, 0xDD)):
            decoder = _ARRAYS
    try:
        return decoder.decode(payload)
    except UNREADABLE:
        return _decode_loosely(payload)


def decoder_like(batch: Batch | None) -> Callable[[bytes], Batch]:
    """What reads batches whose events are written as those of this one (``None``: as maps), and raises one of `UNREADABLE`
    for all others.

    What it reads is what `decode_batch` gives, without looking first at how the events are written.
    """
    return _ARRAYS.decode if type(batch) is _ArrayBatch else _MAPS.decode


def _decode_loosely(payload: bytes) -> Batch | Undecodable:
    """Read event by event, so that one bad event does not cost its neighbours."""
    try:
        wire = _LOOSE.decode(payload)
    except UNREADABLE as error:
        return Undecodable(str(error))
    events: list[Event] = []
    skipped: list[Damage] = []
    for index, raw in enumerate(wire.events):
        event = _decode_event(index, bytes(raw))
        if isinstance(event, Damage):
            skipped.append(event)
        else:
            events.append(event)
    rank: int | None = None
    if isinstance(wire.rank, Raw):
        try:
            rank = _RANK.decode(wire.rank)
        except UNREADABLE:
            rank = None
    return DamagedBatch(wire.ts, events, rank, tuple(skipped))


def _decode_event(index: int, raw: bytes) -> Event | Damage:
    is_array = 0x90 <= raw[0] <= 0x9F or raw[0] in (0xDC, 0xDD)
    is_map = 0x80 <= raw[0] <= 0x8F or raw[0] in (0xDE, 0xDF)
    if not is_array and not is_map:
        return Damage(index, unknown_kind=False, detail="an event is neither a map nor an array")
    try:
        event: Event = _ONE_ARRAY.decode(raw) if is_array else _ONE_MAP.decode(raw)
    except UNREADABLE as error:
        kind = _kind_of(raw, is_array=is_array)
        unknown = isinstance(kind, str) and kind not in _KINDS
        return Damage(index, unknown_kind=unknown, detail=f"{kind or 'no kind'}: {error}")
    return event


def _kind_of(raw: bytes, *, is_array: bool) -> Any:
    try:
        value = msgspec.msgpack.decode(raw)
    except UNREADABLE:
        return None
    if is_array:
        return value[0] if value else None
    return value.get("type")


class LiveMessage(msgspec.Struct, frozen=True, gc=False):
    """A live or replayed batch before decoding."""

    sequence: int
    payload: bytes


@final
class Rejected(msgspec.Struct, frozen=True, gc=False):
    """A message that is no batch: it is counted under ``reason`` and dropped."""

    reason: str


class ReplayEnd(msgspec.Struct, frozen=True, gc=False):
    """The marker that ends a replay."""


def read_live(frames: Sequence[bytes]) -> LiveMessage | Rejected:
    """Frames of a SUB socket: exactly topic, 8-byte sequence (not the end marker), payload."""
    if len(frames) != 3:
        return Rejected("frames")
    if len(frames[0]) > MAX_TOPIC:
        return Rejected("topic")
    sequence = frames[1]
    if len(sequence) != 8:
        return Rejected("sequence")
    if sequence == END_SEQUENCE:
        return Rejected("end-marker")
    number = int.from_bytes(sequence, "big")
    return LiveMessage(number, frames[2]) if number <= MAX_SEQUENCE else Rejected("sequence")


def read_reply(frames: Sequence[bytes]) -> LiveMessage | ReplayEnd | Rejected:
    """Frames of a replay socket, read from the end: a topic frame came before the sequence in later versions."""
    if not 2 <= len(frames) <= MAX_FRAMES:
        return Rejected("frames")
    if any(len(frame) > MAX_TOPIC for frame in frames[:-2]):
        return Rejected("topic")
    sequence, payload = frames[-2], frames[-1]
    if len(sequence) != 8:
        return Rejected("sequence")
    if sequence == END_SEQUENCE:
        return ReplayEnd() if not payload else Rejected("end-marker")
    number = int.from_bytes(sequence, "big")
    return LiveMessage(number, payload) if number <= MAX_SEQUENCE else Rejected("sequence")


def neutral(event: Event, *, tokens: bool = False) -> dict[str, Any]:
    """The event as one map whatever its encoding: ``type`` and the fields that were sent, ints and bytes as they are.

    ``token_ids`` are decoded only with ``tokens``; without, ``token_count`` stands in their place.
    """
    if isinstance(event, AllBlocksCleared):
        return {"type": "AllBlocksCleared"}
    found: dict[str, Any] = {"type": "BlockStored" if isinstance(event, BlockStored) else "BlockRemoved"}
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if value is UNSET:
            continue
        if isinstance(value, Raw):
            value = msgspec.msgpack.decode(value)
        if name == "token_ids" and not tokens:
            found["token_count"] = len(value) if isinstance(value, list) else None
        elif name == "lora_name" and isinstance(value, dict):
            found.update(value)  # the salted array form puts a map of further fields in this place
        else:
            found[name] = value
    return found


def hash_text(value: Hash) -> str:
    """A block hash for JSON, where integers above 2^53 would lose digits: decimal, or ``hex:`` for bytes."""
    return f"hex:{value.hex()}" if isinstance(value, bytes) else str(value)


def parse_hash(text: str) -> Hash:
    """The hash that `hash_text` wrote. Raises ``ValueError`` naming the text."""
    try:
        return bytes.fromhex(text[4:]) if text.startswith("hex:") else int(text)
    except ValueError:
        raise ValueError(f"block hash {text[:80]!r}: wanted a decimal integer or hex: and hexadecimal digits") from None
