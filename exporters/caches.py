"""The cache tiers of one Pod as `cacheHits` entries, or why each is missing."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET

from exporters.combine import Gap, Moved, add, moved
from exporters.entries import PodValues
from exporters.expectation_tables import TIERS
from exporters.expectations import Tier, has_flag
from exporters.pods import missing
from exporters.timestamps import rfc3339
from router_contract.documents import CacheHit, Missing
from router_contract.readings import MissingCode, SignalValue, State
from router_contract.targets import RoleKind


def cache_entries(values: PodValues) -> Iterator[CacheHit | Missing]:
    """One entry for each tier that is expected of the Pod.

    Where no prompt is prefilled for generation (encode halves, embeddings, rerank) a tier is shown when it was used
    and not missed when it was not.
    """
    place = values.pod.place
    needed = place.generates
    for tier in TIERS:
        if tier.software == place.software and not (tier.not_half and place.half == tier.not_half):
            found = _tier(values, tier)
            if isinstance(found, CacheHit) or needed:
                yield found


def _tier(values: PodValues, tier: Tier) -> CacheHit | Missing:
    unsupported = _unsupported(values, tier)
    if unsupported is not None:
        return missing(values.name, tier.scope, unsupported, name=tier.scope)
    if tier.modes:
        return _by_mode(values, tier)
    return _hit(values, tier, values.window(tier.hits), values.window(tier.queries))


def _unsupported(values: PodValues, tier: Tier) -> MissingCode | None:
    """Why the tier cannot be there: nothing configures it and nothing was ever counted, or it measures no store."""
    if tier.without is None:
        return None
    if not has_flag(values.pod.arguments, tier.flags) and not _ever(values, tier):
        return tier.without
    if tier.store and (not values.pod.stores or values.pod.place.half == RoleKind.DECODE):
        return MissingCode.NOT_THE_STORE
    return None


def _ever(values: PodValues, tier: Tier) -> bool:
    """Whether the tier's counter is above zero: that proves the tier, whatever the arguments show."""
    proof = _mode(values, tier.hits, tier.mode) if tier.mode else values.of(tier.queries)
    return any((value.value or 0) > 0 for value in proof)


def _mode(values: PodValues, signal: str, mode: str) -> list[SignalValue]:
    return [value for value in values.of(signal) if dict(value.labels).get("mode") == mode]


def _by_mode(values: PodValues, tier: Tier) -> CacheHit | Missing:
    """Hits of one mode among all modes, each of which must be there."""
    parts = [moved(_mode(values, tier.queries, mode)) for mode in tier.modes]
    hits = values.explained(tier.hits, moved(_mode(values, tier.hits, tier.mode)))
    return _hit(values, tier, hits, values.explained(tier.queries, add(parts)))


def _hit(values: PodValues, tier: Tier, hits: Moved | Gap, queries: Moved | Gap) -> CacheHit | Missing:
    gap = next((part for part in (queries, hits) if isinstance(part, Gap)), None)
    if gap is not None:
        return missing(values.name, tier.scope, gap.code, name=tier.scope)
    if isinstance(hits, Gap) or isinstance(queries, Gap) or hits.span != queries.span:
        return missing(values.name, tier.scope, MissingCode.INCOMPATIBLE_DENOMINATOR, name=tier.scope)
    if hits.increase > queries.increase:
        return missing(values.name, tier.scope, MissingCode.INCOMPATIBLE_DENOMINATOR, name=tier.scope)
    if queries.increase == 0:
        return missing(
            values.name, tier.scope, MissingCode.IDLE if values.idle else MissingCode.NO_QUERIES, name=tier.scope
        )
    stale = State.STALE in {hits.state, queries.state}
    return CacheHit(
        pod=values.name,
        source=_stem(hits.source, queries.source),
        scope=tier.scope,
        unit="tokens",
        hits=hits.increase,
        queries=queries.increase,
        rate=hits.increase / queries.increase,
        window_seconds=queries.seconds,
        pod_count=1,
        observed_at=rfc3339(queries.observed_at),
        age_seconds=max(hits.age, queries.age),
        state=(State.STALE if stale else State.FRESH).value,
        lossy=(hits.lossy or queries.lossy) or UNSET,
    )


def _stem(left: str, right: str) -> str:
    """What two wire names have in common at their beginning: the name of what they count together."""
    same = next((index for index, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), None)
    return left if same is None else left[:same].rstrip("_") or f"{left}+{right}"
