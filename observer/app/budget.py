"""How the file descriptors of this process are shared out, so that no part of it can take those of another."""

from __future__ import annotations

import msgspec

from observer.settings import Settings

RESERVED = 56
"""Descriptors for files, the event loop, name servers and whatever a library opens for a moment."""
FEW = 4096
"""With more descriptors than this, reads are not bounded by them."""
LISTENER_SHARE = 0.25
PERIODS = 4
"""Every target is read at least once in so many periods, or shown as shed."""
READS_A_TARGET = 2.0
"""Reads that one target costs in a period at most, on average: its exposition, probes of its API, a router's view."""


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """What each part may use at once. ``reads`` 0 is unbounded."""

    descriptors: int
    connections: int
    requests: int
    watchers: int
    reads: int
    targets: int


def budget(settings: Settings, descriptors: int) -> Budget:
    """The budget under a limit of open files.

    Reads that hang hold their place for a whole timeout. So many targets are taken that, with every one of them
    hanging, each still has its turn within four periods; the others are shed.
    """
    told = settings.limits
    free = max(24, descriptors - RESERVED)
    connections = min(told.connections, max(8, int(free * LISTENER_SHARE)))
    requests = min(told.requests, max(4, connections // 2))
    watchers = min(told.watchers, max(1, connections // 4))
    reads = told.reads
    if descriptors < FEW:
        left = max(8, free - connections)
        reads = min(reads, left) if reads else left
    targets = told.targets
    if reads:
        turns = reads * PERIODS * settings.scrape.period / settings.scrape.timeout
        targets = min(targets, max(1, int(turns / READS_A_TARGET)))
    return Budget(
        descriptors=descriptors,
        connections=connections,
        requests=requests,
        watchers=watchers,
        reads=reads,
        targets=targets,
    )
