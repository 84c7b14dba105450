"""The canary runs of an OME InferenceService: its object to analyses, and to how each rollout stands.

While a run is open its plan is the one pinned in ``status.rollout``; ``spec.rollout`` is only for the next run, so that
an edit in the middle changes nothing. Each group is a unit with a state of its own, kept on its entry component: the
router if it is in the group, else the engine.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from router_contract.canary import CanaryAnalysis, TargetRef
from router_contract.canary_decode import read_steps
from router_contract.canary_inputs import Run
from router_contract.canary_source import read_source
from router_contract.fields import FieldFault, Fields, parse_seconds
from router_contract.targets import DeploymentKey

KIND: Final = "InferenceService"
_PROMOTE: Final = ("ome.io/rollout-promote", "ome.io/rollout-promote-force")
_ROLLBACK: Final = "ome.io/rollout-rollback"
_READY_TIMEOUT: Final = "ome.io/rollout-ready-timeout"
_PROGRESSIONS: Final = ("canary", "blueGreen", "rollingUpdate")
_LAST: Final = 253_402_300_800.0
"""The end of the year 9999 in wall seconds."""
_NO_CAPACITY: Final = frozenset({"Pending"})


class OmeUnit(msgspec.Struct, frozen=True, kw_only=True):
    """One open canary: what is analysed, how OME's own step machine stands, and the analysis as a CanaryAnalysis spec."""

    definition: CanaryAnalysis
    run: Run
    spec: Mapping[str, Any]

    @property
    def key(self) -> DeploymentKey:
        """The analysis's namespace and name."""
        return DeploymentKey(self.definition.namespace, self.definition.name)


class OmeCanaries(msgspec.Struct, frozen=True, kw_only=True):
    """What one service says. ``problems`` are sentences about plans that cannot be judged, the next one included."""

    units: tuple[OmeUnit, ...] = ()
    problems: tuple[str, ...] = ()


def ome_canaries(service: Mapping[str, Any], policies: Mapping[str, Mapping[str, Any]]) -> OmeCanaries:
    """The open canaries of a service. ``policies`` are the RolloutPolicies of its namespace by name."""
    active = _map(_map(_map(service, "status"), "rollout"), "activeRun")
    problems: list[str] = []
    if not active:
        for place, group in enumerate(_list(_map(_map(service, "spec"), "rollout"), "groups")):
            where = f"spec.rollout.groups[{place}]"
            body = _progression(group, policies, where, problems)
            if body:
                _plan(body, where, problems)
        return OmeCanaries(problems=tuple(problems))
    units = []
    for place, pinned in enumerate(_list(_map(active, "plan"), "groups")):
        group = _map(pinned, "group")
        canary = _map(group, "canary")
        where = f"status.rollout.activeRun.plan.groups[{place}].group"
        unit = _unit(service, group, canary, where, problems) if canary else None
        if unit is not None:
            units.append(unit)
    return OmeCanaries(units=tuple(units), problems=tuple(problems))


def analysis_name(service: str, component: str) -> str:
    """What our analysis of a unit's run is called; ``component`` is its entry."""
    return f"ome-{service}-{component}"


def _progression(
    group: Mapping[str, Any], policies: Mapping[str, Mapping[str, Any]], where: str, problems: list[str]
) -> Mapping[str, Any]:
    """The canary body that the next run would pin: an inline progression outranks a policy."""
    if any(name in group for name in _PROGRESSIONS):
        return _map(group, "canary")
    reference = _map(group, "policyRef")
    name = str(reference.get("name", ""))
    if not name:
        return {}
    policy = policies.get(name)
    if policy is None:
        problems.append(
            f"{where}.policyRef: PolicyNotFound: found no RolloutPolicy {name!r}, wanted one in the namespace"
        )
        return {}
    spec, wanted = _map(policy, "spec"), str(reference.get("progression", "canary"))
    if wanted not in spec:
        has = ", ".join(each for each in _PROGRESSIONS if each in spec) or "none"
        problems.append(
            f"{where}.policyRef: ProgressionMismatch: found {has} in RolloutPolicy {name!r}, wanted {wanted}"
        )
        return {}
    body = _map(spec, "canary")
    source = _map(body, "prometheus")
    gates = any("analysis" in each for each in _list(body, "steps"))
    if wanted == "canary" and gates and (set(source) - {"providerRef"} or not source):
        problems.append(
            f"RolloutPolicy {name!r}: RolloutPolicyInvalid: wanted a prometheus block with providerRef alone"
        )
    return body


def _unit(
    service: Mapping[str, Any], group: Mapping[str, Any], canary: Mapping[str, Any], where: str, problems: list[str]
) -> OmeUnit | None:
    """One group's run, ``None`` while it is not armed or its plan cannot be judged."""
    named = group.get("components")
    members = {str(each).lower() for each in (named if isinstance(named, list) else ())}
    component = "router" if "router" in members else "engine"
    held = _map(_map(_map(service, "status"), "components"), component)
    state = _map(held, "canary")
    revision, stable = str(state.get("canaryRevisionHash", "")), str(state.get("stableRevisionHash", ""))
    plan = _plan(canary, where, problems)
    if plan is None or not revision:
        return None
    steps, source = plan
    step = _step(state, len(steps))
    if step is None:
        found = str(state["currentStep"])[:60]
        at = f"status.components.{component}.canary.currentStep"
        problems.append(f"{at}: found {found!r}, wanted a whole number from 0")
        return None
    meta = _map(service, "metadata")
    notes = _map(meta, "annotations")
    own = str(notes.get(_READY_TIMEOUT, ""))
    said = own if parse_seconds(own) else canary.get("readyTimeout")
    name, namespace = str(meta.get("name", "")), str(meta.get("namespace", ""))
    definition = CanaryAnalysis(
        namespace=namespace,
        name=analysis_name(name, component),
        target=TargetRef(kind=KIND, name=name),
        component=component,
        stable=stable,
        canary=revision,
        steps=steps,
        source=source,
        ready_timeout=parse_seconds(str(said)) if said else None,
    )
    promotes = [str(notes[key]) for key in _PROMOTE if notes.get(key)]
    rejected = str(state.get("rolledBackRevisionHash", ""))
    weight = state.get("observedTrafficWeight")
    run = Run(
        target=str(state.get("targetID") or revision),
        canary=revision,
        stable=stable or None,
        step=step,
        step_entered=_seconds(state.get("stepEnteredTime")),
        serving=str(held.get("rolloutPhase", "")) not in _NO_CAPACITY and not state.get("capacityWaitSince"),
        pre_step_hold=state.get("preStepHold") is True,
        promote=promotes[0] if promotes else "",
        rollback=notes.get(_ROLLBACK) == "true" or rejected == revision,
        weight=weight if isinstance(weight, int) and not isinstance(weight, bool) and 0 <= weight <= 100 else None,
    )
    spec = {
        "targetRef": {"kind": KIND, "name": name},
        "component": component,
        "stable": {"revision": stable},
        "canary": {"revision": revision},
        "steps": list(canary.get("steps") or ()),
    }
    spec |= {"source": canary["prometheus"]} if canary.get("prometheus") else {}
    spec |= {"readyTimeout": str(said)} if definition.ready_timeout else {}
    return OmeUnit(definition=definition, run=run, spec=spec)


def _plan(canary: Mapping[str, Any], where: str, problems: list[str]) -> Any:
    """Steps and source of a canary body; ``None`` where they cannot be judged."""
    faults: list[FieldFault] = []
    fields = Fields(canary, f"{where}.canary", faults)
    steps = read_steps(fields)
    prometheus = fields.child("prometheus")
    source = None if prometheus is None else read_source(prometheus)
    problems += [str(fault) for fault in faults]
    return None if faults else (steps, source)


def _step(state: Mapping[str, Any], steps: int) -> int | None:
    """The step of the run. The first is a 0, which its writer may leave out; ``None`` where what is written is no step."""
    told = state.get("currentStep")
    if told is None:
        return 0
    return min(told, steps) if isinstance(told, int) and not isinstance(told, bool) and told >= 0 else None


def _seconds(text: Any) -> float | None:
    """Wall seconds of a time as Kubernetes writes it; a time of the year 1 or 1970 is how programs write that they have none."""
    try:
        found = dt.datetime.fromisoformat(str(text)) if text else None
    except ValueError:
        return None
    wall = found.timestamp() if found is not None and found.tzinfo is not None else 0.0
    return wall if 0.0 < wall < _LAST else None


def _map(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name)
    return found if isinstance(found, Mapping) else {}


def _list(value: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = value.get(name)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []
