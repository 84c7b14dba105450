"""A prefix cache of KV blocks: chained hashes of full blocks, least recently used blocks leave first."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from zlib import crc32

from observer.simulate.kv_hook import KvEventHook

VOCABULARY_SIZE = 32000


def tokenize(text: str) -> list[int]:
    """One token for each word, the same on every engine."""
    return [crc32(word.encode()) % VOCABULARY_SIZE for word in text.split()]


def block_hashes(tokens: Sequence[int], block_size: int, *, signed: bool, parent: int | None = None) -> list[int]:
    """The chained 64-bit hashes of the full blocks of ``tokens``, continuing after ``parent``."""
    before = b"" if parent is None else parent.to_bytes(8, "big", signed=signed)
    hashes = []
    for start in range(0, len(tokens) - block_size + 1, block_size):
        before = blake2b(before + array("I", tokens[start : start + block_size]).tobytes(), digest_size=8).digest()
        hashes.append(int.from_bytes(before, "big", signed=signed))
    return hashes


class PrefixCache:
    """The blocks one rank holds, and the events that changing them causes."""

    def __init__(self, rank: int, block_size: int, capacity: int, *, signed: bool, hook: KvEventHook) -> None:
        self._rank = rank
        self._block_size = block_size
        self._capacity = capacity
        self._signed = signed
        self._hook = hook
        self._held: OrderedDict[int, None] = OrderedDict()
        self._clear_due = False

    def __len__(self) -> int:
        return len(self._held)

    def match(self, tokens: Sequence[int]) -> int:
        """How many leading tokens are held, in whole blocks and always leaving one token to compute."""
        matched = 0
        for block in block_hashes(tokens[: max(len(tokens) - 1, 0)], self._block_size, signed=self._signed):
            if block not in self._held:
                break
            self._held.move_to_end(block)
            matched += self._block_size
        return matched

    def store(self, tokens: Sequence[int]) -> None:
        """Hold the full blocks of ``tokens``, evicting the least recently used ones beyond the capacity."""
        self._announce_clear()
        blocks = block_hashes(tokens, self._block_size, signed=self._signed)
        new = [index for index, block in enumerate(blocks) if block not in self._held]
        if not new:
            return
        first = new[0]
        for block in blocks:
            self._held[block] = None
            self._held.move_to_end(block)
        evicted = []
        while len(self._held) > self._capacity:
            evicted.append(self._held.popitem(last=False)[0])
        if evicted:
            self._hook.removed(self._rank, evicted)
        parent = blocks[first - 1] if first else None
        size = self._block_size
        self._hook.stored(self._rank, blocks[first:], parent, tokens[first * size : len(blocks) * size], size)

    def clear(self, *, at_next_step: bool) -> None:
        """Forget everything. vLLM announces it only at its next scheduler step, SGLang at once."""
        self._held.clear()
        self._clear_due = True
        if not at_next_step:
            self._announce_clear()

    def _announce_clear(self) -> None:
        if self._clear_due:
            self._clear_due = False
            self._hook.cleared(self._rank)
