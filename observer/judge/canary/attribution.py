"""Which revision a Pod's requests belong to: its label says, and the revision's endpoints must agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

import msgspec


class PodFact(msgspec.Struct, frozen=True, kw_only=True):
    """A Pod of the component: its revision label, and whether it answers for its Instance (a worker does not)."""

    uid: str
    name: str
    revision: str | None = None
    leads: bool = True


class Attribution(msgspec.Struct, frozen=True, kw_only=True):
    """Names of the Pods of each revision that may be counted, and of those that may not, with the reason."""

    canary: tuple[str, ...] = ()
    stable: tuple[str, ...] = ()
    unattributed: tuple[tuple[str, str], ...] = ()


def attribute(
    pods: Sequence[PodFact], canary: str, stable: str | None, endpoints: Mapping[str, AbstractSet[str]] | None
) -> Attribution:
    """Give each leading Pod to the revision of its label.

    ``endpoints`` are the Pod UIDs behind each revision's Service; ``None`` where there are none to compare. A Pod that a
    Service of the other revision selects, or that its own does not, belongs to nobody.
    """
    sides: dict[str, list[str]] = {canary: []}
    if stable is not None:
        sides.setdefault(stable, [])
    lost: list[tuple[str, str]] = []
    for pod in pods:
        if not pod.leads:
            continue
        why = _doubt(pod, sides, endpoints)
        if why or pod.revision is None:
            lost.append((pod.name, why))
        else:
            sides[pod.revision].append(pod.name)
    ours, theirs = tuple(sides[canary]), () if stable in {None, canary} else tuple(sides[str(stable)])
    return Attribution(canary=ours, stable=theirs, unattributed=tuple(lost))


def _doubt(pod: PodFact, sides: Mapping[str, Sequence[str]], endpoints: Mapping[str, AbstractSet[str]] | None) -> str:
    if pod.revision is None:
        return "it has no revision label"
    if pod.revision not in sides:
        return f"its revision {pod.revision[:63]} is neither canary nor stable"
    if endpoints is None:
        return ""
    others = sorted(rev for rev, uids in endpoints.items() if rev != pod.revision and pod.uid in uids)
    if others:
        return f"the Service of revision {others[0][:63]} selects it"
    return "" if pod.uid in endpoints.get(pod.revision, ()) else "the Service of its revision does not select it"
