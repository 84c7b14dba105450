"""What a stream remembers of batches: checksums of those applied, and those held until their turn comes."""

from __future__ import annotations

from array import array

_NONE = 2**64 - 1  # as a sequence this is the replay's end marker, so no batch has it


class Checksums:
    """(sequence, checksum) of the last applied batches: ``window`` of them, doubled on demand up to ``window_max``.

    ``last`` is the last applied sequence, -1 before any. What was applied before a skip stays known.
    """

    __slots__ = ("_max", "_sequences", "_sums", "last")

    def __init__(self, window: int, window_max: int) -> None:
        self._sums = array("I", bytes(4 * window))
        self._sequences = array("Q", [_NONE]) * window
        self._max = window_max
        self.last = -1

    def note(self, sequence: int, checksum: int) -> None:
        """The next batch was applied."""
        place = sequence % len(self._sums)
        self._sums[place] = checksum
        self._sequences[place] = sequence
        self.last = sequence

    def of(self, sequence: int) -> int | None:
        """The checksum of an applied batch, or ``None`` when it is not kept."""
        place = sequence % len(self._sums)
        return self._sums[place] if self._sequences[place] == sequence else None

    def skip(self, until: int) -> None:
        """Go on at ``until``: batches before it were never seen."""
        self.last = until - 1

    def forget(self) -> None:
        """Another life: nothing was applied."""
        self._sequences = array("Q", [_NONE]) * len(self._sums)
        self.last = -1

    def grow(self, run: int) -> None:
        """Keep more while a replay of ``run`` batches runs, so that live copies of what it brought are recognised."""
        size = len(self._sums)
        if run < size or size >= self._max:
            return
        sums, sequences = self._sums, self._sequences
        self._sums = array("I", bytes(8 * size))
        self._sequences = array("Q", [_NONE]) * (2 * size)
        for sequence, checksum in zip(sequences, sums, strict=True):
            if sequence != _NONE:
                self._sums[sequence % (2 * size)] = checksum
                self._sequences[sequence % (2 * size)] = sequence


class Held:
    """Batches by sequence that wait for the ones before them, bounded in number and bytes."""

    __slots__ = ("_batches", "_bytes", "_max_batches", "_max_bytes")

    def __init__(self, max_batches: int, max_bytes: int) -> None:
        self._batches: dict[int, tuple[int, bytes]] = {}
        self._bytes = 0
        self._max_batches = max_batches
        self._max_bytes = max_bytes

    def __len__(self) -> int:
        return len(self._batches)

    def checksum(self, sequence: int) -> int | None:
        """The checksum of a held batch."""
        found = self._batches.get(sequence)
        return None if found is None else found[0]

    def put(self, sequence: int, checksum: int, payload: bytes) -> int:
        """Hold a batch; the number of batches dropped because a bound was reached (all of them, or none)."""
        self.pop(sequence)
        self._batches[sequence] = (checksum, payload)
        self._bytes += len(payload)
        if len(self._batches) <= self._max_batches and self._bytes <= self._max_bytes:
            return 0
        dropped = len(self._batches)
        self.clear()
        return dropped

    def pop(self, sequence: int) -> tuple[int, bytes] | None:
        """Take a batch out: checksum and payload."""
        found = self._batches.pop(sequence, None)
        if found is not None:
            self._bytes -= len(found[1])
        return found

    def sequences(self) -> list[int]:
        """What is held, in order."""
        return sorted(self._batches)

    def clear(self) -> None:
        """Hold nothing."""
        self._batches.clear()
        self._bytes = 0
