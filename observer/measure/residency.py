"""Which member holds which KV block: one dictionary hash → holders' bit mask for each hash space, medium and group.

A holder is one life of one stream and owns one bit. Beside the dictionaries each holder keeps a log of the keys it
ever stored, so that dropping it visits its own blocks only, in slices of the caller's choice; until then its bit is
out of the live mask that every answer starts from. Copies above one and blocks whose parent is unknown are side
tables. Sizes are estimates in bytes; past ``limit`` (the budget, or -1 to take none) new blocks are refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice, repeat
from typing import Any

from observer.measure.planes import Hold, Holder, Plane, scan_prefixes
from router_contract.kv_events import Hash
from router_contract.kv_streams import HashSpace

UNIQUE_BYTES = 96
"""A dictionary entry with its 64-bit key, at the dictionary's mean fill; measured by ``benchmarks/kv_events.py``."""
LOG_BYTES = 8
COPY_BYTES = 100
LOOSE_BYTES = 320
_REBUILD_SLACK = 4096


class BlockIndex:
    """The block index of one deployment. Owned by one task; nothing in it is safe to share between threads."""

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.limit = budget_bytes
        self.bytes = 0
        self.planes: dict[tuple[HashSpace, str, int], Plane] = {}
        self._live = 0
        self._by_bit: dict[int, Holder] = {}
        self._free: list[int] = []
        self._used_bits = 0
        self._retired: deque[Holder] = deque()

    def join(self, name: object) -> Holder:
        """A new holder with a bit of its own; ``name`` comes back in answers."""
        if self._free:
            self._free.sort(reverse=True)
            bit = self._free.pop()
        else:
            bit = 1 << self._used_bits
            self._used_bits += 1
        holder = Holder(name, bit)
        self._live |= bit
        self._by_bit[bit] = holder
        return holder

    def retire(self, holder: Holder) -> None:
        """Forget a holder: no answer sees it from now on; `clean` takes its blocks out."""
        self._live &= ~holder.bit
        self._by_bit.pop(holder.bit, None)
        self.bytes -= LOOSE_BYTES * len(holder.loose)
        self.bytes += LOG_BYTES * sum(len(hold.seen) for hold in holder.holds.values())
        holder.loose.clear()
        holder.children.clear()
        self._retired.append(holder)

    def hold(self, holder: Holder, space: HashSpace, medium: str, group: int, *, signed: bool) -> Hold:
        """The holder's part of a plane, made where it does not exist."""
        key = (space, medium, group)
        found = holder.holds.get(key)
        if found is None:
            plane = self.planes.get(key)
            if plane is None:
                plane = self.planes[key] = Plane(space, medium, group, signed=signed)
            found = holder.holds[key] = plane.holds[holder.bit] = Hold(holder, plane)
        return found

    def store(self, hold: Hold, hashes: list[Hash], parent: Hash | None) -> bool:
        """Add blocks, each the parent of the next; False when the budget refused them."""
        if self.bytes > self.limit:
            return False
        log, masks = hold.log, hold.masks
        keys: Sequence[int]
        try:
            log.fromlist(hashes)  # type: ignore[arg-type]  # proves integers of the right range; leaves it as it was if not
            keys = hashes  # type: ignore[assignment]  # the line above proved it
        except (TypeError, OverflowError):
            keys = hold.plane.keys(hashes)
            log.extend(keys)
        count = len(keys)
        if len(log) > hold.log_limit:
            self._maintain(hold, 4 * count + 64)
        if parent is not None:
            if hold.loose or not masks.get(parent, 0) & hold.bit:  # type: ignore[arg-type]  # bytes are simply not found
                self._link(hold, keys, hold.plane.key(parent))
        elif hold.holder.children:
            self._anchor_all(hold, keys)
        before = len(masks)
        # All keys in one call, without a step of the interpreter for each: most events have new blocks only.
        all(map(hold.put, keys, hold.bits))
        fresh = len(masks) - before
        if fresh == count:
            hold.held += count
            self.bytes += count * (UNIQUE_BYTES + LOG_BYTES)
        else:
            hold.held += fresh + self._store_known(hold, keys, list(map(masks.__getitem__, keys)), fresh)
            self.bytes += fresh * UNIQUE_BYTES + count * LOG_BYTES
        return True

    def _store_known(self, hold: Hold, keys: Sequence[int], found: Sequence[int], fresh: int) -> int:
        """Add blocks of which only ``fresh`` were in nobody's hold; ``found`` are the masks of all, with the fresh ones
        set. The number of blocks that others held and this holder did not.
        """
        plane, masks, bit, first = hold.plane, hold.masks, hold.bit, found[0]
        if not fresh and not first & bit and found.count(first) == len(keys):
            # A prefix that the same others hold as a whole: one new mask for all of it.
            joining = dict.fromkeys(keys, first | bit)
            if len(joining) == len(keys):
                masks.update(joining)
                if not first & (first - 1):
                    plane.shared += len(keys)
                return len(keys)
        # A dictionary keeps its order, so the fresh ones are its last.
        new = set(islice(reversed(masks), fresh))
        joined = 0
        for key in keys:
            if key in new:
                new.discard(key)
                continue
            mask = masks[key]
            if mask & bit:
                self._copy(hold, key)
                continue
            joined += 1
            if not mask & (mask - 1):
                plane.shared += 1
            masks[key] = mask | bit
        return joined

    def _maintain(self, hold: Hold, entries: int) -> None:
        """Keep the log near the size of what is held: begin to shorten it, go on with that, or let it grow."""
        if hold.cursor < len(hold.old_log):
            self._rebuild(hold, entries)
        elif len(hold.log) > 2 * hold.held + _REBUILD_SLACK:
            hold.old_log, hold.log = hold.log, hold.log[:0]
            hold.cursor, hold.log_limit = 0, -1
        else:
            hold.log_limit = 2 * hold.held + _REBUILD_SLACK

    def _rebuild(self, hold: Hold, entries: int) -> None:
        """One slice of shortening a log: keep each key that is still held, once."""
        old, bit, get, seen = hold.old_log, hold.bit, hold.plane.masks.get, hold.seen
        for key in old[hold.cursor : hold.cursor + entries]:
            if get(key, 0) & bit and key not in seen:
                seen[key] = None
                hold.log.append(key)
        hold.cursor += entries
        if hold.cursor >= len(old):
            self.bytes -= LOG_BYTES * (len(old) - len(seen))
            hold.old_log = old[:0]
            hold.cursor, hold.log_limit = 0, _REBUILD_SLACK
            hold.seen = {}

    def _copy(self, hold: Hold, key: int) -> None:
        if key not in hold.copies:
            self.bytes += COPY_BYTES
        hold.copies[key] = hold.copies.get(key, 1) + 1

    def remove(self, hold: Hold, hashes: Sequence[Hash]) -> int:
        """Take blocks away, one copy each; unknown ones are no error. The number of blocks no longer held."""
        masks, bit = hold.masks, hold.bit
        if hold.copies or hold.holder.loose:
            gone, deleted = self._remove_slowly(hold, hashes)
        else:
            keys: Sequence[Any] = hold.plane.keys(hashes) if hashes and isinstance(hashes[0], bytes) else hashes
            found: list[int | None] = list(map(masks.pop, keys, repeat(None)))
            gone = deleted = found.count(bit)
            if gone < len(keys):
                for key, old in zip(keys, found, strict=True):
                    if old != bit:
                        gone, deleted = self._take_back(hold, key, old, gone, deleted)
        hold.held -= gone
        self.bytes -= deleted * UNIQUE_BYTES
        return gone

    def _take_back(self, hold: Hold, key: Hash, old: int | None, gone: int, deleted: int) -> tuple[int, int]:
        """What a block that was taken out means, where it was not this holder's alone or not found as it was written."""
        number = hold.plane.key(key)
        if old is None:
            old = hold.plane.masks.pop(number, None)
        return (gone, deleted) if old is None else self._let_go(hold, number, old, gone, deleted)

    def _let_go(self, hold: Hold, key: int, old: int, gone: int, deleted: int) -> tuple[int, int]:
        """Put back what other holders keep of a block that was taken out of the dictionary."""
        rest = old & ~hold.bit
        if rest:
            hold.plane.masks[key] = rest
            if rest != old and not rest & (rest - 1):
                hold.plane.shared -= 1
        return gone + (rest != old), deleted + (not rest)

    def _remove_slowly(self, hold: Hold, hashes: Sequence[Hash]) -> tuple[int, int]:
        """The same with copies or loose blocks about: (no longer held here, no longer held by anyone)."""
        masks, bit = hold.plane.masks, hold.bit
        gone = deleted = 0
        for value in hashes:
            key = hold.plane.key(value)
            if not masks.get(key, 0) & bit:
                continue
            if key in hold.copies:
                self._uncopy(hold, key)
                continue
            gone, deleted = self._let_go(hold, key, masks.pop(key), gone, deleted)
            if hold.holder.loose:
                self._unlink(hold, key)
        return gone, deleted

    def _uncopy(self, hold: Hold, key: int) -> None:
        left = hold.copies[key] - 1
        if left > 1:
            hold.copies[key] = left
        else:
            del hold.copies[key]
            self.bytes -= COPY_BYTES

    def _link(self, hold: Hold, keys: Sequence[int], above: int) -> None:
        """Keep blocks whose chain does not reach a known start as loose; tie loose ones to parents that arrive."""
        holder, space, masks = hold.holder, hold.plane.space, hold.plane.masks
        known = masks.get(above, 0) & hold.bit or self._held_elsewhere(hold, above)
        if known and (space, above) not in holder.loose:
            self._anchor_all(hold, keys)
            return
        for key in keys:
            if (space, key) not in holder.loose and not masks.get(key, 0) & hold.bit:
                holder.loose[space, key] = above
                holder.children.setdefault((space, above), []).append(key)
                self.bytes += LOOSE_BYTES
            above = key

    def _anchor_all(self, hold: Hold, keys: Sequence[int]) -> None:
        if hold.holder.children:
            for key in keys:
                self._anchor(hold.holder, hold.plane.space, key)

    def _held_elsewhere(self, hold: Hold, key: int) -> bool:
        return any(
            other.plane.masks.get(key, 0) & hold.bit
            for (space, _, _), other in hold.holder.holds.items()
            if space == hold.plane.space
        )

    def _anchor(self, holder: Holder, space: HashSpace, key: int) -> None:
        self._untie(holder, space, key)
        waiting = list(holder.children.pop((space, key), ()))
        while waiting:
            child = waiting.pop()
            del holder.loose[space, child]
            self.bytes -= LOOSE_BYTES
            waiting.extend(holder.children.pop((space, child), ()))

    def _unlink(self, hold: Hold, key: int) -> None:
        """A loose block left; what hangs below it keeps waiting for it."""
        if not self._held_elsewhere(hold, key):
            self._untie(hold.holder, hold.plane.space, key)

    def _untie(self, holder: Holder, space: HashSpace, key: int) -> None:
        above = holder.loose.pop((space, key), None)
        if above is None:
            return
        self.bytes -= LOOSE_BYTES
        siblings = holder.children[space, above]
        siblings.remove(key)
        if not siblings:
            del holder.children[space, above]

    @property
    def cleaning(self) -> int:
        """Log entries of departed holders that `clean` has not visited yet."""
        return sum(len(hold.log) + len(hold.old_log) for holder in self._retired for hold in holder.holds.values())

    def clean(self, entries: int) -> bool:
        """Take up to ``entries`` blocks of departed holders out; True while more remain."""
        while self._retired and entries > 0:
            holder = self._retired[0]
            for key, hold in list(holder.holds.items()):
                entries -= self._clean_hold(hold, entries)
                if hold.log or hold.old_log:
                    return True
                self.bytes -= COPY_BYTES * len(hold.copies)
                del holder.holds[key]
                hold.plane.holds.pop(hold.bit, None)
                if not hold.plane.holds and not hold.plane.masks:
                    del self.planes[key]
            if not holder.holds:
                self._retired.popleft()
                self._free.append(holder.bit)
        return bool(self._retired)

    def _clean_hold(self, hold: Hold, entries: int) -> int:
        if not hold.log and hold.old_log:
            hold.log, hold.old_log = hold.old_log, hold.log
        plane, masks, bit = hold.plane, hold.plane.masks, hold.bit
        keys = hold.log[-entries:]
        del hold.log[-entries:]
        deleted = 0
        for key in keys:
            old = masks.get(key, 0)
            if old & bit:
                rest = old ^ bit
                if rest:
                    masks[key] = rest
                    if not rest & (rest - 1):
                        plane.shared -= 1
                else:
                    del masks[key]
                    deleted += 1
        self.bytes -= deleted * UNIQUE_BYTES + len(keys) * LOG_BYTES
        return max(len(keys), 1)

    def prefixes(self, planes: Sequence[Plane], hashes: Sequence[Hash]) -> Iterator[tuple[object, int]]:
        """Each live holder of the first hash with the number of leading hashes it holds on any of the planes.

        The planes are of one space and group. Names come as given to `join`, longest last.
        """
        if not hashes or not planes:
            return
        keys = planes[0].keys(hashes)
        for length, lost in scan_prefixes([plane.masks for plane in planes], keys, self._live):
            left = lost if length else 0
            while left:
                bit = left & -left
                left ^= bit
                yield self._by_bit[bit].name, length

    def share(self) -> float:
        """What the index takes over what its live holders' blocks would take apart from each other: below 1 where blocks are
        shared, above where chains wait for parents, copies are kept or departed lives await removal.
        """
        alive = (hold for plane in self.planes.values() for hold in plane.holds.values() if self.alive(hold.bit))
        apart = sum(hold.held for hold in alive) * (UNIQUE_BYTES + LOG_BYTES)
        return self.bytes / apart if apart else 1.0

    def alive(self, bit: int) -> bool:
        """Whether a holder's bit is of a life that answers are made from."""
        return bool(bit & self._live)
