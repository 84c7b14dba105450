"""CanaryAnalysis objects at the API server: each one's state and status, read and replaced by compare-and-set.

The stored version of the object is the guard: an apply that carries another one is a conflict, so that two replicas
never both count a sample. The state itself is one text, because only the observer reads it back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from observer.kube.answers import Answer, Outcome, no_answer
from observer.kube.client import APPLY, ApiClient
from observer.kube.intent import MANAGER, WantedCondition, bounded, rfc3339
from observer.kube.resources import Resource
from router_contract.canary_results import CanaryState, CanaryStatus

CANARIES: Final = Resource(
    group="observer.modeldeployment.io", version="v1alpha1", plural="canaryanalyses", kind="CanaryAnalysis"
)
SECRETS: Final = Resource(version="v1", plural="secrets", kind="Secret")
_TIMES: Final = frozenset(
    {"stepEnteredTime", "lastEvaluationTime", "lastConclusiveEvaluationTime", "time", "windowStart", "windowEnd"}
)


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """One object as stored. ``state`` is ``None`` where none was stored; ``damaged`` says why one cannot be read."""

    version: str
    generation: int
    status: Mapping[str, Any]
    state: CanaryState | None = None
    damaged: str = ""


async def read(client: ApiClient, namespace: str, name: str) -> Held | Answer:
    """The object now, from the server itself and not from any cache; the answer where that failed."""
    answer = await client.request("GET", CANARIES.path(name, namespace))
    return _held(answer)


def _held(answer: Answer) -> Held | Answer:
    if not answer.ok:
        return answer
    try:
        return held(answer.document())
    except msgspec.DecodeError as error:
        return no_answer(f"the object cannot be read: {error}", Outcome.MALFORMED)


def held(document: Mapping[str, Any]) -> Held:
    """What an object holds. A state that cannot be read is no state, and named."""
    meta, status = document.get("metadata") or {}, document.get("status") or {}
    state, damaged = None, ""
    text = status.get("stored")
    if isinstance(text, str) and text:
        try:
            state = msgspec.json.decode(text, type=CanaryState)
        except msgspec.MsgspecError as error:
            damaged = f"the stored state of {meta.get('namespace')}/{meta.get('name')} cannot be read: {error}"
    return Held(
        version=str(meta.get("resourceVersion", "")),
        generation=int(meta.get("generation") or 0),
        status=status,
        state=state,
        damaged=damaged,
    )


async def swap(client: ApiClient, namespace: str, name: str, version: str, status: Mapping[str, Any]) -> Held | Answer:
    """Replace the whole status over exactly this version: the object as stored then, or the answer that failed.

    An answer with outcome Conflict: somebody else stored one in between, and nothing was changed.
    """
    if not version:
        return Answer(outcome=Outcome.CONFLICT, message="no version is known to write over")
    body = {
        "apiVersion": CANARIES.api_version,
        "kind": CANARIES.kind,
        "metadata": {"name": name, "namespace": namespace, "resourceVersion": version},
        "status": dict(status),
    }
    answer = await client.request(
        "PATCH",
        CANARIES.path(name, namespace, "status"),
        query={"fieldManager": MANAGER},
        body=body,
        content_type=APPLY,
    )
    return _held(answer)


async def ensure(
    client: ApiClient, namespace: str, name: str, spec: Mapping[str, Any], owner: Mapping[str, Any]
) -> Answer:
    """Create or renew an object of ours that stands for another platform's run; it goes when its owner does."""
    body = {
        "apiVersion": CANARIES.api_version,
        "kind": CANARIES.kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"observer.modeldeployment.io/mirrors": str(owner["kind"])},
            "ownerReferences": [dict(owner)],
        },
        "spec": dict(spec),
    }
    path = CANARIES.path(name, namespace)
    return await client.request("PATCH", path, query={"fieldManager": MANAGER}, body=body, content_type=APPLY)


async def read_secret(client: ApiClient, namespace: str, name: str) -> Mapping[str, bytes] | None:
    """The data of one Secret, by its name alone; ``None`` where it is not there, forbidden or not readable."""
    answer = await client.request("GET", SECRETS.path(name, namespace))
    if not answer.ok:
        return None
    try:
        return msgspec.convert(answer.document().get("data") or {}, dict[str, bytes])
    except msgspec.MsgspecError:
        return None


def published(status: CanaryStatus, state: CanaryState, conditions: list[dict[str, Any]]) -> dict[str, Any]:
    """The status as the API has it: times in its form, nothing that is not known, no number that JSON lacks."""
    fields = _plain(msgspec.to_builtins(status))
    steps = status.steps or 0
    step = min((status.current_step or 0) + 1, steps)
    summary = {"step": f"{step}/{steps}"}
    if status.failure_limit is not None:
        summary["failed"] = f"{status.failed_checks}/{status.failure_limit}"
    stored = msgspec.json.encode(state).decode()
    # Zero is a step and a count here, and OME's readers want both to be there.
    fields |= {"currentStep": status.current_step or 0, "analysisFailedChecks": status.failed_checks}
    return {**fields, "summary": summary, "conditions": conditions, "stored": stored}


def _plain(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        found = {key: _plain(each, key) for key, each in value.items()}
        return {key: each for key, each in found.items() if each is not None}
    if name == "worst":
        return {str(key): str(each) for key, each in value}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return rfc3339(value) if name in _TIMES and isinstance(value, int | float) else value


def standing(
    wanted: list[WantedCondition], before: Mapping[str, Any], generation: int, wall: float
) -> list[dict[str, Any]]:
    """Conditions whose transition time moves only with their status, compared with the stored ones."""
    known = {str(each.get("type")): each for each in before.get("conditions") or () if isinstance(each, dict)}
    made = []
    for each in wanted:
        old = known.get(each.type, {})
        same = old.get("status") == each.status and old.get("lastTransitionTime")
        made.append(
            {
                "type": each.type,
                "status": each.status,
                "reason": each.reason,
                "message": bounded(each.message),
                "observedGeneration": generation,
                "lastTransitionTime": old["lastTransitionTime"] if same else rfc3339(wall),
            }
        )
    return made
