"""What takes a verdict back: Pods that were not read or are not warm, and revisions that were asked different things."""

from __future__ import annotations

from observer.judge.canary.display import number
from observer.judge.canary.finding import Finding, unknown
from router_contract.canary import NativeKind, NativeMetric
from router_contract.canary_inputs import Mix, NativeObservation
from router_contract.canary_results import Reason, Verdict

_SHOWN = 3


def guarded(measure: NativeMetric, seen: NativeObservation, found: Finding) -> Finding:
    """The finding that may stand. A failure stands although Pods are missing: more Pods cannot undo it."""
    if measure.relative is not None and measure.kind in {NativeKind.QUANTILE, NativeKind.MEAN}:
        found = _same_mix(measure, seen, found)
    if found.verdict is Verdict.FAILED:
        return found
    if not seen.expected and found.verdict is Verdict.PASSED:
        lost = f": {_names(seen.unattributed)} could not be given to a revision" if seen.unattributed else ""
        return unknown(Reason.MISSING_PODS, f"no Pod of the canary is there any more{lost}", found)
    if seen.missing and len(seen.missing) > measure.max_missing * max(seen.expected, len(seen.missing)):
        said = f"{len(seen.missing)} of {seen.expected} Pods could not be read: {_names(seen.missing)}"
        return unknown(Reason.MISSING_PODS, said, found)
    if seen.warming and (found.verdict is Verdict.PASSED or found.reason is Reason.NO_DATA):
        said = f"{len(seen.warming)} of {seen.expected} Pods are not warm yet: {_names(seen.warming)}"
        return unknown(Reason.WARMING_UP, said, found)
    return found


def _same_mix(measure: NativeMetric, seen: NativeObservation, found: Finding) -> Finding:
    """A cold prefix cache or longer prompts make first tokens late for reasons that are not the build's."""
    guard = measure.cache_guard
    if not guard.enabled or found.verdict is Verdict.INCONCLUSIVE:
        return found
    stable = None if seen.stable is None else seen.stable.mix
    hits, prompts = _pair(seen.mix, stable, "hit_rate"), _pair(seen.mix, stable, "prompt_tokens")
    if hits is None or prompts is None:
        return unknown(Reason.CACHE_MIX_UNKNOWN, "cache hits or prompt lengths of a revision are not known", found)
    if abs(hits[0] - hits[1]) > guard.hit_rate:
        said = f"cache hit rates differ: canary {number(hits[0])}, stable {number(hits[1])}"
        return unknown(Reason.CACHE_MIX_DIFFERS, said, found)
    longer, shorter = max(prompts), min(prompts)
    if longer > guard.prompt_length * shorter:
        said = f"prompts differ: canary {number(prompts[0])} tokens, stable {number(prompts[1])}"
        return unknown(Reason.CACHE_MIX_DIFFERS, said, found)
    return found


def _pair(one: Mix | None, other: Mix | None, field: str) -> tuple[float, float] | None:
    values = (getattr(one, field, None), getattr(other, field, None))
    return None if values[0] is None or values[1] is None else (float(values[0]), float(values[1]))


def _names(pods: tuple[str, ...]) -> str:
    more = f" and {len(pods) - _SHOWN} more" if len(pods) > _SHOWN else ""
    return ", ".join(pods[:_SHOWN]) + more
