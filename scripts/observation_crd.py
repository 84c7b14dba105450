"""Writes the definition of our own kind into the chart: ``observation_crd.py`` writes it, ``--check`` compares.

Whatever a status may hold must be declared, for server-side apply refuses a whole status over one undeclared field. What
is one piece to us is atomic, so that its owner is kept once and not for each field in it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

Json = dict[str, Any]

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "charts" / "observer" / "crds" / "modeldeploymentobservations.yaml"
GROUP = "observer.modeldeployment.io"
HEADER = "# Written by scripts/observation_crd.py; change that, not this.\n"
DEGREES = (
    "tensorParallel", "pipelineParallel", "dataParallel", "dataParallelLocal", "prefillContextParallel",
    "decodeContextParallel", "expertParallel", "attentionContextParallel", "moeDpSize", "dwdpSize",
)  # fmt: skip


def text(about: str = "") -> Json:
    return _about({"type": "string"}, about)


def time(about: str = "") -> Json:
    return _about({"type": "string", "format": "date-time"}, about)


def whole(about: str = "", *, nullable: bool = False) -> Json:
    return _about({"type": "integer", "format": "int64"} | ({"nullable": True} if nullable else {}), about)


def flag(about: str = "", *, nullable: bool = False) -> Json:
    return _about({"type": "boolean"} | ({"nullable": True} if nullable else {}), about)


def thing(about: str = "", *, atomic: bool = False, required: tuple[str, ...] = (), **properties: Json) -> Json:
    """An object with these properties."""
    made: Json = {"type": "object", "properties": properties}
    if required:
        made["required"] = list(required)
    if atomic:
        made["x-kubernetes-map-type"] = "atomic"
    return _about(made, about)


def listed(items: Json, about: str = "", *, by: str = "", nullable: bool = False) -> Json:
    """A list: atomic, or a map by one key."""
    made: Json = {"type": "array", "items": items, "x-kubernetes-list-type": "map" if by else "atomic"}
    if by:
        made["x-kubernetes-list-map-keys"] = [by]
    if nullable:
        made["nullable"] = True
    return _about(made, about)


def mapping(values: Json, about: str = "") -> Json:
    return _about({"type": "object", "additionalProperties": values}, about)


def _about(schema: Json, about: str) -> Json:
    return schema | ({"description": about} if about else {})


def condition() -> Json:
    return thing(
        required=("type", "status", "reason", "lastTransitionTime", "message"),
        type=text() | {"maxLength": 316},
        status=text() | {"enum": ["True", "False", "Unknown"]},
        reason=text(),
        message=text() | {"maxLength": 32768},
        lastTransitionTime=time("When the status flipped last."),
        observedGeneration=whole("The generation of the observed object that this was computed from."),
        provenance=text("Computed by us, Mirrored from an operator, or NotObservable from here."),
    )


def serving() -> Json:
    return thing(
        "What the routers together confirm. Only Confirmed has a value, and its 0 is a number.",
        state=text("Confirmed, NotConverged, Unknown or NotConfigured."),
        value=whole(),
        reason=text(),
    )


def group() -> Json:
    member = thing(name=text(), uid=text(), seat=whole(), ready=text(), standing=text(), detail=text())
    leg = thing(name=text(), state=text(), why=text(), source=text())
    return thing(
        role=text(),
        ordinal=whole("Null on platforms that number nothing.", nullable=True),
        generation=text("The members' UIDs, sorted."),
        state=text(),
        reason=text(),
        message=text(),
        qualifiedAt=time("The last transition into Eligible."),
        retained=flag(),
        elastic=flag(),
        members=listed(member),
        legs=listed(leg, "The five criteria of eligibility."),
    )


def parallelism() -> Json:
    return thing(
        "What the role's own arguments declare; a degree that is not declared is null.",
        atomic=True,
        declared=thing(**{name: whole(nullable=True) for name in DEGREES}),
        modes=mapping({"type": "boolean"}),
        loadBalance=text(),
        source=thing(kind=text(), complete=flag(), unreadableReason=text()),
        ranksSeen=whole(),
    )


def role() -> Json:
    return thing(
        required=("name",),
        name=text(),
        kind=text(),
        desired=whole("Replicas that the present spec asks for; 0 is parked."),
        ready=whole("Replicas that are ready; absent is not known."),
        quotaReserved=whole(),
        unmanaged=flag(),
        assignedFlavors=listed(text()),
        parallelism=parallelism(),
        endpoints=thing(
            atomic=True,
            eligible=whole("Null: the set was never observed. 0: it was, and is empty.", nullable=True),
            serving=serving(),
        ),
        readiness=thing("What Ready means on this role.", atomic=True, meaning=text(), why=text()),
        groups=listed(group(), "One entry for each serving group."),
    )


def view() -> Json:
    worker = thing(
        url=text(),
        pod=text(),
        rank=whole(),
        role=text(),
        registered=flag(nullable=True),
        healthy=flag(nullable=True),
        circuit=text(),
        inSelection=flag(nullable=True),
    )
    return thing(
        router=text(),
        podUID=text(),
        bootID=text(),
        source=text(),
        workers=listed(worker),
        passedOver=listed(thing(source=text(), why=text())),
        problems=listed(text()),
        failure=thing(kind=text(), detail=text()),
    )


def convergence() -> Json:
    people = thing(name=text(), uid=text())
    return thing(
        "What routers select against what is eligible. Null: not known.",
        atomic=True,
        serving=serving(),
        status=text(),
        reason=text(),
        message=text(),
        since=time(),
        viewsExpected=whole(),
        viewsUsable=whole(),
        wanted=listed(people),
        **{name: listed(people, nullable=True) for name in ("seen", "refused", "missing", "extra")},
        conflicts=listed(text()),
    )


def voice() -> Json:
    said = thing(status=text(), reason=text(), message=text(), observedGeneration=whole())
    return thing(
        type=text(),
        operator=said,
        observed=thing(status=text(), reason=text(), provenance=text()),
        disagrees=flag(),
        since=time(),
    )


def retirement() -> Json:
    return thing(
        "A running retirement as the operator records it.",
        atomic=True,
        roleName=text(),
        replicaOrdinal=whole(),
        state=text(),
        reason=text(),
        observedGeneration=whole(),
        targetMemberUIDs=listed(text()),
        targetWorkloadUID=text(),
        startedAt=time(),
        deadline=time(),
        phaseStartedAt=time(),
        lastConsumedRetryToken=text(),
        message=text(),
    )


def own_words() -> Json:
    """An object whose keys are the platform's."""
    return {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-map-type": "atomic"}


def transition() -> Json:
    return thing(time=time(), what=text(), **{"from": text(), "to": text()}, reason=text())


def status() -> Json:
    return thing(
        "What is observed, with its reasons. What is not known is absent, Unknown or null, never 0.",
        observedGeneration=whole("The generation of the observed object that all this was computed from."),
        phase=text("Starting, Ready, Degraded, Deleting or Unknown: the field to read first."),
        phaseMessage=text(),
        roleSummary=text("Ready instances by kind: R routers, S servers, E encoders, P prefillers, D decoders."),
        endpoint=text(),
        model=text(),
        summary=thing("The columns.", atomic=True, eligible=text(), serving=text(), cache=text(), canary=text()),
        conditions=listed(condition(), "Independent answers, each with its reason.", by="type"),
        roles=listed(role(), "One entry for each role.", by="name"),
        routerViews=listed(view(), "Each router Pod's own view of its workers."),
        convergence=convergence(),
        operator=listed(voice(), "What the operator says, beside what we observe."),
        sources=listed(
            thing(kind=text(), why=text(), since=time(), detail=text()), "Kinds of objects that could not be read."
        ),
        retirement=retirement(),
        scaler=thing("Who owns the replica count.", atomic=True, binding=text(), decision=text()),
        components=listed(own_words(), "What the platform says of each component. A count that is null is not known."),
        placement=_about(own_words(), "The clusters that hold a part of it, where the platform places it on several."),
        explanation=listed(text(), "What is the matter, in three sentences."),
        transitions=listed(transition(), "The last 20 changes, newest first."),
        memory={
            "type": "object",
            "description": "What judging must not forget over a restart. Not for reading: it changes between releases.",
            "x-kubernetes-preserve-unknown-fields": True,
            "x-kubernetes-map-type": "atomic",
        },
        omitted=listed(text(), "What was left out because the whole would be too large."),
        lastObserved=time("When this was written."),
        observer=text("Which replica wrote it."),
    )


def spec() -> Json:
    return thing(
        "What is observed. Written by the observer only.",
        platform=text(),
        deployment=thing(name=text(), uid=text()),
        targetRef=thing(apiVersion=text(), kind=text(), resource=text(), name=text(), uid=text()),
    )


def columns() -> list[Json]:
    def column(name: str, path: str, about: str, *, wide: bool = False, kind: str = "string") -> Json:
        made: Json = {"name": name, "type": kind, "jsonPath": path, "description": about}
        return made | ({"priority": 1} if wide else {})

    return [
        column("Phase", ".status.phase", "The field to read first."),
        column("Roles", ".status.roleSummary", "Ready instances by kind."),
        column(
            "Eligible", ".status.summary.eligible", "Endpoints that qualified; Unknown while not all were observed."
        ),
        column("Serving", ".status.summary.serving", "Endpoints that routers confirm, else why there is no number."),
        column("Cache", ".status.summary.cache", "Whether the KV cache is observed to be in effect."),
        column("Canary", ".status.summary.canary", "What the canary analysis says."),
        column("Age", ".metadata.creationTimestamp", "Since when it is observed.", kind="date"),
        column("Endpoint", ".status.endpoint", "Where it serves.", wide=True),
        column("Model", ".status.model", "The served model's name.", wide=True),
    ]


def definition() -> Json:
    """The whole CustomResourceDefinition."""
    schema = thing(
        "What the observer saw of one model deployment, and what it concludes.",
        apiVersion=text(),
        kind=text(),
        metadata={"type": "object"},
        spec=spec(),
        status=status(),
    )
    names = {
        "plural": "modeldeploymentobservations",
        "singular": "modeldeploymentobservation",
        "kind": "ModelDeploymentObservation",
        "listKind": "ModelDeploymentObservationList",
        "shortNames": ["mdo"],
    }
    version = {
        "name": "v1alpha1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns(),
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.{GROUP}"},
        "spec": {"group": GROUP, "names": names, "scope": "Namespaced", "versions": [version]},
    }


def main(arguments: list[str]) -> int:
    """Write the file, or say whether it is as it would be written."""
    yaml = YAML()
    yaml.width = 1000
    if arguments == ["--check"]:
        same = FILE.exists() and YAML(typ="safe").load(FILE) == definition()
        print(f"{FILE.relative_to(ROOT)} is {'as written by' if same else 'not what'} scripts/observation_crd.py")
        return 0 if same else 1
    FILE.parent.mkdir(parents=True, exist_ok=True)
    with FILE.open("w") as out:
        out.write(HEADER)
        yaml.dump(definition(), out)
    print(f"wrote {FILE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
