"""What OME says of each component: how it is deployed, its Instances, what holds its rollout, its autoscaler, its homes.

The InferenceReplica is the authority for Instances; the InferenceService only sums them up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from observer.discover.platforms import loose
from observer.discover.platforms.loose import Json
from observer.discover.platforms.ome_rows import RowsError, rows
from router_contract.platform_records import (
    HoldRecord,
    HomeRecord,
    HomeState,
    InstanceRow,
    PlacementRecord,
    RetryRecord,
    ScalerRecord,
)

COMPONENTS: Final = ("engine", "decoder", "router", "predictor")
NATIVE: Final = "OMENative"
RAW: Final = "RawDeployment"
MODE: Final = "ome.io/deploymentMode"
MAX_HOMES: Final = 256
"""Most homes that are kept."""


def mode(service: Json, component: str, *, native: bool) -> str:
    """How a component is deployed: its annotation, the service's, what its scale target is; empty when nothing says."""
    spec = loose.part(service, "spec")
    notes = loose.part(loose.part(service, "metadata"), "annotations")
    own = loose.word(loose.part(loose.part(spec, component), "annotations"), MODE)
    said = own or loose.word(spec, "deploymentMode") or loose.word(notes, MODE)
    if said:
        return said
    target = loose.part(component_status(service, component), "scaleTargetRef")
    by_target = {"InferenceReplica": NATIVE, "Deployment": RAW}.get(loose.word(target, "kind"), "")
    return by_target or (NATIVE if native else "")


def component_status(service: Json, component: str) -> Json:
    """A component's part of the service's status."""
    return loose.part(loose.part(loose.part(service, "status"), "components"), component)


def referenced(service: Json, component: str) -> tuple[str, ...]:
    """The standalone InferenceReplicas that the service fronts for a role instead of rendering it."""
    return loose.names(loose.part(loose.part(service, "spec"), "replicaRefs"), component)


def declared(service: Json) -> tuple[str, ...]:
    """The components that a service has."""
    spec = loose.part(service, "spec")
    return tuple(each for each in COMPONENTS if isinstance(spec.get(each), Mapping) or referenced(service, each))


class Instances:
    """The Instances of one component, of one InferenceReplica or of all that a service refers to for the role."""

    def __init__(self, objects: Iterable[Json]) -> None:
        self.objects = tuple(objects)
        self.encoding = ""
        self.faults: list[str] = []
        self.rows: dict[tuple[str, int], InstanceRow] = {}
        self.current = bool(self.objects)
        """Whether every object's rows are of its current generation and could be read."""
        self.leaving: list[str] = []
        """Objects that are being deleted, and all their Instances with them."""
        for found in self.objects:
            self._add(found)

    def _add(self, found: Json) -> None:
        meta, status = loose.part(found, "metadata"), loose.part(found, "status")
        name = loose.word(meta, "name")
        if meta.get("deletionTimestamp") is not None:
            self.leaving.append(name)
        seen, generation = loose.number(status, "observedGeneration"), loose.number(meta, "generation")
        try:
            self.encoding, read = rows(status)
        except RowsError as error:
            self.faults.append(f"{name}: {error}")
            self.current = False
            return
        if seen is None or (generation is not None and seen < generation):
            self.current = False
        self.rows |= {(name, row.index): row for row in read}

    @property
    def phases(self) -> tuple[tuple[str, int], ...]:
        """How many Instances are in each phase."""
        return tuple(sorted(Counter(row.phase for row in self.rows.values()).items()))

    @property
    def desired(self) -> int | None:
        """Wanted Instances of all objects; a count that is absent or 0 runs one."""
        counts = [loose.number(loose.part(found, "spec"), "replicas") or 1 for found in self.objects]
        return sum(counts) if counts else None

    @property
    def size(self) -> int | None:
        """Pods of one Instance, where the rendered runners say it and all objects agree."""
        sizes = {_size(found) for found in self.objects}
        return sizes.pop() if len(sizes) == 1 else None

    def row(self, ordinal: int | None, name: str = "") -> InstanceRow | None:
        """The Instance of an ordinal (of the object ``name`` where several are)."""
        if ordinal is None:
            return None
        held = [row for (own, index), row in self.rows.items() if index == ordinal and name in {"", own}]
        return held[0] if len(held) == 1 else None


def _size(found: Json) -> int | None:
    """What the rendered runners add up to; ``None`` where the replica renders from references and stores none."""
    sizes = [loose.number(runner, "size") or 1 for runner in loose.parts(loose.part(found, "spec"), "runners")]
    return sum(sizes) if sizes else None


def hold(found: Json) -> HoldRecord | None:
    """Why the rollout does not advance, ``None`` while it does or none is in flight."""
    held = loose.part(found, "rolloutHold")
    if not held:
        return None
    return HoldRecord(
        gate=loose.word(held, "gate"),
        reason=loose.word(held, "reason"),
        target=loose.word(held, "target"),
        since=loose.time(held, "since"),
    )


def retries(status: Json) -> tuple[RetryRecord, ...]:
    """What may still be tried at each failed revision."""
    return tuple(
        RetryRecord(
            target=loose.word(each, "targetRevision"),
            state=loose.word(each, "state"),
            attempts=loose.number(each, "attemptsStarted") or 0,
            next_at=loose.time(each, "nextRetryAt"),
            reason=loose.word(each, "reason"),
        )
        for each in loose.parts(status, "retryBlocks")[:64]
    )


def scaler(status: Json) -> ScalerRecord | None:
    """A component's autoscaler. A count is a number only where OME manages the scaler and it has reported.

    A scaler that has reported shows conditions, a time of scaling, or a count above zero. Everywhere else OME writes zero
    for "not known", or nothing.
    """
    found = loose.part(status, "autoscaler")
    if not found:
        return None
    managed = loose.word(found, "managedBy")
    current, desired = loose.number(found, "currentReplicas"), loose.number(found, "desiredReplicas")
    conditions, scaled = loose.conditions(found), loose.time(found, "lastScaleTime")
    reported = bool(conditions) or scaled is not None or bool(current) or bool(desired)
    if managed != "ome":
        why = {"external": "somebody else's scaler: OME cannot read it", "none": "no scaler"}.get(managed, "")
        why = why or "nothing says who manages the scaler"
    else:
        why = "" if reported else "the scaler has not reported yet"
    return ScalerRecord(
        kind=loose.word(found, "class"),
        managed_by=managed,
        source=loose.word(found, "specSource"),
        current=None if why else current,
        desired=None if why else desired,
        why=why,
        last_scale=scaled,
        conditions=conditions,
    )


def placement(service: Json) -> PlacementRecord | None:
    """Where a service of several clusters lies; ``None`` where nothing places it."""
    found = loose.part(loose.part(service, "status"), "placement")
    if not found:
        return None
    listed = loose.parts(found, "candidates")
    return PlacementRecord(
        phase=loose.word(found, "phase"),
        cluster=loose.word(found, "cluster"),
        endpoint=loose.word(found, "endpoint"),
        homes=tuple(_home(each) for each in listed[:MAX_HOMES]),
        more=max(0, len(listed) - MAX_HOMES),
    )


def _home(found: Json) -> HomeRecord:
    """One home. A zero that nobody observed now is no evidence: OME writes one once its patience with reads is over."""
    known = found.get("observationKnown") is True
    admitted, ready = loose.number(found, "admittedReplicas"), loose.number(found, "readyReplicas")
    if not known:
        admitted, ready = admitted or None, ready or None
    stale = not known and not (admitted is None and ready is None)
    state = HomeState.FRESH if known else HomeState.STALE if stale else HomeState.UNKNOWN
    return HomeRecord(
        name=loose.word(found, "cluster"),
        phase=loose.word(found, "phase"),
        endpoint=loose.word(found, "endpoint"),
        state=state,
        since=None if known else loose.time(found, "observationFailingSince"),
        admitted=admitted,
        ready=ready,
        draining=loose.part(found, "allocation").get("drainRequested") is True,
    )
