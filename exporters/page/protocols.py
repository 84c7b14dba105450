"""What the page needs from whoever runs it, beyond reports: raw bodies, one more read, history, a trial of a table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from typing import Protocol, TypeVar

import msgspec

from exporters.canary import CanarySource
from exporters.kv import KvSource
from exporters.protocols import ReportSource
from router_contract.history import Past
from router_contract.readings import Instant, Problem, SignalValue
from router_contract.targets import Component, DeploymentKey, TargetKey

Key_contra = TypeVar("Key_contra", bound=Hashable, contravariant=True)
CanaryMetric = tuple[DeploymentKey, str]
"""An analysis by its own namespace and name, and one of its metrics."""


class RawBody(msgspec.Struct, frozen=True, kw_only=True):
    """A target's last body as it came: ``text`` are its first ``kept`` bytes of ``size``, bad UTF-8 replaced."""

    at: Instant
    text: str
    kept: int
    size: int
    content_type: str

    @property
    def cut(self) -> bool:
        """Whether the body was longer than what is kept."""
        return self.size > self.kept


class Mapped(msgspec.Struct, frozen=True, kw_only=True):
    """What a table reads in a body: every signal with its value or why not, and what the table does not know."""

    version: str | None
    values: tuple[SignalValue, ...] = ()
    unknown_families: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    samples_kept: int = 0
    samples_dropped: int = 0
    unreadable: str = ""


class BodySource(Protocol):
    """Keeps raw bodies of few targets: those that somebody looks at, and those whose body could not be understood."""

    def body(self, key: TargetKey) -> RawBody | None:
        """The last body that is kept; asking also means that the next ones are kept for a while."""
        ...


class Fetch(Protocol):
    """Reads one target once more now, at most once in a period; returns when it was read or the budget is spent."""

    async def __call__(self, key: TargetKey) -> None:
        """Raises nothing for a target that is not there."""
        ...


class Mapper(Protocol):
    """Reads a pasted body by a table."""

    def __call__(self, component: Component, software: str, version: str | None, body: bytes) -> Mapped:
        """Raises `LookupError` when no table has the name."""
        ...


class History(Protocol[Key_contra]):
    """An hour of numbers of each deployment, or of each metric of a canary, in memory."""

    def sample(self, key: Key_contra, at: Instant, numbers: Mapping[str, float | None]) -> None:
        """Keep the numbers of a moment; one that comes too soon after the last is not kept."""
        ...

    def past(self, key: Key_contra, now: Instant) -> Past:
        """What is kept of the last hour; empty for what was never sampled."""
        ...

    def forget(self, alive: Collection[Key_contra]) -> None:
        """Drop everything that is not in the list."""
        ...


def _at_once(_: DeploymentKey) -> Iterator[None]:
    """Nothing is worked out beforehand."""
    return iter(())


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a page is made from.

    ``prepare`` works a deployment's next report out in small steps, so that asking for it is quick afterwards.
    """

    reports: ReportSource
    kv: KvSource
    bodies: BodySource
    fetch: Fetch
    mapper: Mapper
    canaries: CanarySource
    history: History[DeploymentKey]
    evidence: History[CanaryMetric]
    prepare: Callable[[DeploymentKey], Iterator[None]] = _at_once
    version: str = ""
    watchers: int = 64
