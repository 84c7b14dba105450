"""Evidence for `attachment`: from an engine's or a store's report to accounts, levels that grew, tokens without events."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from observer.judge.attachment import SUCCESSES, EngineAccount, StoreLevel
from router_contract.readings import Instant, SignalValue
from router_contract.verdicts import TargetReport

_STORE_OPERATIONS = "store-operations"
_TENANT_LEVELS = ("store-tenant-charged-bytes", "store-tenant-used-bytes", "store-tenant-objects")
_WHOLE_LEVELS = ("store-keys", "store-allocated-bytes")
_TENANTS_UNPROVEN = "no recording has tenants"


def engine_account(report: TargetReport, *, measures_store: bool) -> EngineAccount:
    """One leader's account. ``measures_store`` says that its external (vLLM) or storage (SGLang) hit series are of the
    attached store: a pool is attached, the Pod is not the decode half of a pair, and SGLang runs a storage backend.
    """
    operations = _operations(report.of(_STORE_OPERATIONS))
    hits = [value for value in report.of("external-cache-hits") if value.window is not None]
    hits += [
        value
        for value in report.of("effective-prefill-tokens")
        if value.window is not None and ("mode", "storage_hit") in value.labels
    ]
    return EngineAccount(
        replica=report.status.member,
        operations=tuple(sorted(operations.items())) if operations else None,
        hit_tokens=_increase(hits) if measures_store and hits else None,
        age=report.status.age_seconds,
    )


def _operations(values: Iterable[SignalValue]) -> dict[str, float]:
    """Operations in the window by status, over all ranks.

    None at all while one of them has no window and no other succeeded: what is not known may be the successes.
    """
    found: dict[str, float] = {}
    whole = True
    for value in values:
        status = dict(value.labels).get("status", "")
        if value.window is None:
            whole = False
        else:
            found[status] = found.get(status, 0.0) + value.window.increase
    return found if whole or any(found.get(status, 0.0) > 0 for status in SUCCESSES) else {}


def _increase(values: Iterable[SignalValue]) -> float:
    return sum(value.window.increase for value in values if value.window is not None)


def store_levels(report: TargetReport, tenant: str | None) -> tuple[tuple[str, float, str], ...]:
    """(name, value, why unproven) of what a store holds for a tenant, or as a whole where it has no tenants.

    Capacity is no level: a restarted store has capacity and holds nothing.
    """
    if tenant:
        return tuple(
            (signal, value.value, _TENANTS_UNPROVEN)
            for signal in _TENANT_LEVELS
            for value in report.of(signal)
            if value.value is not None and ("tenant", tenant) in value.labels
        )
    return tuple(
        (signal, value.value, "") for signal in _WHOLE_LEVELS for value in report.of(signal) if value.value is not None
    )


def follow_levels(
    before: Iterable[StoreLevel], source: str, levels: Iterable[tuple[str, float, str]], now: Instant
) -> tuple[StoreLevel, ...]:
    """The levels with the instant each last grew while watched. A first reading grew at no known time."""
    known = {(level.source, level.name): level for level in before}
    followed = []
    for name, value, unproven in levels:
        old = known.get((source, name))
        grew = now if old is not None and value > old.value else old.grew_at if old is not None else None
        followed.append(StoreLevel(source=source, name=name, value=value, grew_at=grew, unproven=unproven))
    return tuple(followed)


class ComputedSince(msgspec.Struct, frozen=True):
    """Tokens a rank computed since its last batch: the counter when the batch came, and the growth since."""

    batches: int
    base: float
    last: float

    @property
    def tokens(self) -> float:
        """The growth."""
        return self.last - self.base


def follow_computed(before: ComputedSince | None, batches: int, total: float) -> ComputedSince:
    """Go on counting; a new batch or a counter that went back begins again."""
    if before is None or before.batches != batches or total < before.last:
        return ComputedSince(batches, total, total)
    return ComputedSince(batches, before.base, total)
