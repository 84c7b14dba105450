"""How many blocks the members of a deployment hold: of connected streams in numbers, of the others as they last said.

A stream apart from its publisher says nothing of now: its blocks are listed by themselves, and counted in nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from observer.measure.blocks import StreamBlocks
from observer.measure.planes import Hold, Plane
from observer.measure.residency import BlockIndex
from router_contract.kv_streams import Residency, StaleBlocks
from router_contract.readings import Instant

MOST_COMPARED = 50_000
"""Blocks of streams apart that are compared with those of the others, to tell which of them nobody else holds."""


def residency(index: BlockIndex, plane: Plane, apart: Mapping[StreamBlocks, Instant]) -> Residency | None:
    """One plane; ``apart`` has the streams without a connection, and since when. ``None`` of a plane that only departed
    lives told of: its entries await removal, and nobody says that nothing is held.
    """
    live = [(hold, hold.holder.name) for hold in plane.holds.values() if index.alive(hold.bit)]
    gone = {hold: apart[name] for hold, name in live if isinstance(name, StreamBlocks) and name in apart}
    here = [(hold, name) for hold, name in live if hold not in gone]
    if not live:
        return None
    stale = tuple(sorted(_stale(hold, since) for hold, since in gone.items() if hold.held))
    if not here:
        return Residency(space=plane.space, medium=plane.medium, group=plane.group, stale=stale)
    # Blocks of a departed life stay in the plane until they are cleaned; what nobody holds is not shown.
    total = sum(hold.held for hold, _ in here)
    distinct, shared = _without(plane, [hold for hold in gone if hold.held], sum(hold.bit for hold, _ in here))
    unique = None if distinct is None else min(distinct, total)
    names = [name for _, name in here]
    # A hash that a departed life and the next one of the same member have in common proves nothing of two members.
    alike = len(names) < 2 or (bool(shared) and not index.cleaning)
    alike = alike or all(isinstance(name, StreamBlocks) and name.source.seeded is True for name in names)
    exact = distinct is not None and total >= distinct
    return Residency(
        space=plane.space,
        medium=plane.medium,
        group=plane.group,
        unique=unique,
        total=total,
        shared=None if shared is None else min(shared, total // 2),
        redundancy=total / unique if alike and unique and exact else None,
        stale=stale,
    )


def _stale(hold: Hold, since: Instant) -> StaleBlocks:
    name = hold.holder.name
    if not isinstance(name, StreamBlocks):
        raise TypeError(f"a holder named {name!r}; want a stream")
    return StaleBlocks(key=name.source.key, member=name.source.member, blocks=hold.held, since=since)


def _without(plane: Plane, gone: list[Hold], here: int) -> tuple[int | None, int | None]:
    """Distinct and shared blocks without what only ``gone`` hold; ``None`` where that is too much to compare.

    ``here`` is the mask of the holders that count.
    """
    if not gone:
        return len(plane.masks), plane.shared
    if sum(len(hold.log) + len(hold.old_log) for hold in gone) > MOST_COMPARED:
        return None, None
    bits = sum(hold.bit for hold in gone)
    distinct, shared = len(plane.masks), plane.shared
    for key in {key for hold in gone for log in (hold.log, hold.old_log) for key in log}:
        mask = plane.masks.get(key, 0)
        if not mask & bits:
            continue
        left = mask & here
        distinct -= not left
        shared -= bool(mask & (mask - 1)) and not left & (left - 1)
    return distinct, shared
