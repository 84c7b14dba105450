"""What the collector's tests share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from observer.clock import SystemClock
from observer.collect.fetch import Fetcher
from observer.collect.options import BodyLimits

LIMITS = BodyLimits(body=1 << 20, own=64 << 10, shared=4 << 20)


@pytest.fixture
async def fetcher() -> AsyncIterator[Fetcher]:
    async with Fetcher(SystemClock(), LIMITS) as made:
        yield made
