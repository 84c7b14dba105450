"""What a verdict says to the cluster: the observation's status, our conditions on the target, and what changed to tell.

Pure: a judged report and what is stored in, intents and notices out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from exporters.observation import (
    AT_WORK,
    bounded_fields,
    observation_fields,
    settled,
    settled_memory,
    settled_text,
    taken_back,
)
from observer.kube.events import Notice
from observer.kube.intent import Intent, Stored, WantedCondition, rfc3339
from observer.kube.observations import OBSERVATIONS, observation_name, resource_of
from router_contract.discovered import Discovered, ObjectReference
from router_contract.judging import Judged
from router_contract.judging import Stored as Memory
from router_contract.status import GroupState, Phase, Transition
from router_contract.verdicts import Condition, DeploymentReport, Provenance, Status

PREFIX = "observer.modeldeployment.io/"
PROMPT = frozenset({"EndpointEligibility", "RouterConverged"})
"""Conditions whose flips are never dwelt on: a revocation, and leaving what routers confirm."""

_FAULTS = frozenset({Status.FALSE.value, GroupState.NOT_READY.value, GroupState.INCOMPLETE.value})


def observation_intent(
    found: Discovered, report: DeploymentReport, memory: Memory, stored: Stored, observer: str
) -> Intent:
    """The whole status of the observation. Where only a duration in a text differs, the stored text stays."""
    if report.phase is Phase.DELETING:
        return _deleting(found, report, stored, observer)
    # As JSON gives it back: what is wanted must equal what is stored, lists and numbers included.
    kept = settled_memory(msgspec.json.decode(msgspec.json.encode(memory)), stored.status.get("memory"))
    fields = {**observation_fields(report), "memory": kept}
    fields = bounded_fields(settled(fields, stored.status))
    held = stored.conditions("")
    return Intent(
        resource=OBSERVATIONS,
        namespace=report.key.namespace,
        name=observation_name(found),
        uid=stored.uid,
        observed_generation=report.deployment.generation,
        conditions=tuple(_wanted(item, item.type, held, own=True) for item in report.conditions),
        fields=fields,
        riders=_riders(report, observer),
        pressing=taken_back(fields, stored.status),
    )


def target_intent(found: Discovered, report: DeploymentReport, stored: Stored) -> Intent | None:
    """Our conditions on the observed object: what we computed ourselves, under names that only we use."""
    target = found.target
    if target is None or not found.conditions_map or report.phase is Phase.DELETING:
        return None
    held = stored.conditions(PREFIX)
    return Intent(
        resource=resource_of(target),
        namespace=target.namespace,
        name=target.name,
        uid=target.uid,
        observed_generation=report.deployment.generation,
        conditions=tuple(
            _wanted(item, PREFIX + item.type, held, own=False)
            for item in report.conditions
            if item.provenance is Provenance.COMPUTED
        ),
        prefix=PREFIX,
    )


def gist_of(judged: Judged) -> tuple[object, ...]:
    """What of a verdict is worth a look at once when it changes; the texts around it may wait for a few seconds."""
    main = judged.explanation.main
    findings = judged.explanation.others if main is None else (main, *judged.explanation.others)
    return (
        judged.phase,
        judged.phase_message,
        judged.role_summary,
        judged.endpoint,
        judged.convergence.serving,
        [(role.name, role.desired, role.ready, role.endpoints) for role in judged.roles],
        [(item.type, item.reason) for item in findings],
        judged.retirement.record if judged.retirement is not None else None,
    )


def unseen(transitions: Sequence[Transition], seen: Sequence[Transition]) -> tuple[Transition, ...]:
    """The transitions that came after the last one seen; both are in order, and the oldest fall away."""
    if not seen:
        return tuple(transitions)
    last = seen[-1]
    places = [place for place, item in enumerate(transitions) if item == last]
    return tuple(transitions[places[-1] + 1 :]) if places else tuple(transitions)


def notices(
    fresh: Sequence[Transition], report: DeploymentReport, regarding: ObjectReference, related: ObjectReference | None
) -> tuple[Notice, ...]:
    """One notice for each change that we computed; what an operator says, it tells itself."""
    by_type = {item.type: item for item in report.conditions}
    made = []
    for item in fresh:
        condition = by_type.get(item.what)
        if condition is not None and condition.provenance is not Provenance.COMPUTED:
            continue
        why = condition.message if condition is not None and condition.reason == item.reason else ""
        made.append(
            Notice(
                regarding=regarding,
                related=related,
                kind=f"{item.what} {item.after}",
                reason=item.reason or "Changed",
                note=f"{item.what} was {item.before}, is {item.after}{': ' + why if why else ''}",
                warning=item.after in _FAULTS,
                at=item.at,
            )
        )
    return tuple(made)


def reference_to(found: Discovered, stored: Stored) -> ObjectReference:
    """The stored observation, as an Event names it."""
    return ObjectReference(
        group=OBSERVATIONS.group,
        version=OBSERVATIONS.version,
        kind=OBSERVATIONS.kind,
        plural=OBSERVATIONS.plural,
        namespace=found.deployment.key.namespace,
        name=observation_name(found),
        uid=stored.uid,
    )


def _wanted(item: Condition, kind: str, held: Mapping[str, Mapping[str, Any]], *, own: bool) -> WantedCondition:
    before = held.get(kind, {})
    reason, message = item.reason, settled_text(item.message, str(before.get("message", "")))
    if before.get("status") == item.status.value and {reason, before.get("reason")} <= AT_WORK:
        reason, message = str(before["reason"]), str(before.get("message", ""))
    return WantedCondition(
        type=kind,
        status=item.status.value,
        reason=reason,
        message=message,
        provenance=item.provenance.value if own else "",
        last_transition=item.last_transition,
        prompt=item.type in PROMPT,
    )


def _deleting(found: Discovered, report: DeploymentReport, stored: Stored, observer: str) -> Intent:
    """While the object is being deleted judging stops: what was said last stays, under the phase that says so."""
    fields = {
        key: value for key, value in stored.status.items() if key not in {"conditions", "lastObserved", "observer"}
    }
    summary = fields.get("summary")
    fields["summary"] = {**summary, "eligible": "Unknown", "serving": "Unknown"} if isinstance(summary, dict) else {}
    return Intent(
        resource=OBSERVATIONS,
        namespace=report.key.namespace,
        name=observation_name(found),
        uid=stored.uid,
        observed_generation=report.deployment.generation,
        conditions=tuple(
            WantedCondition(
                type=kind,
                status=str(held["status"]),
                reason=str(held["reason"]),
                message=str(held.get("message", "")),
                provenance=str(held.get("provenance", "")),
            )
            for kind, held in stored.conditions("").items()
        ),
        fields={**fields, "phase": report.phase.value, "phaseMessage": report.phase_message},
        riders=_riders(report, observer),
        pressing=stored.status.get("phase") != report.phase.value,
    )


def _riders(report: DeploymentReport, observer: str) -> dict[str, Any]:
    return {"lastObserved": rfc3339(report.at.wall), "observer": observer}
