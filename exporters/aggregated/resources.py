"""What the group serves, as one table: resources, kinds, verbs and subresources. Discovery and OpenAPI are made from it.

Each kind is listed by one resource only: clients go from a kind to the first resource of that kind. Nobody is offered
`watch` or `delete`: generic caches follow everything that can be watched, and the deletion of a namespace everything
that can be deleted.
"""

from __future__ import annotations

import msgspec

GROUP = "metrics.modeldeployment.io"
VERSION = "v1"
API_VERSION = f"{GROUP}/{VERSION}"
BASE = f"/apis/{GROUP}/{VERSION}"

METRICS_KIND = "ModelDeploymentMetrics"
OBSERVED_KIND = "ObservedModelDeployment"
METRICS = "modeldeploymentmetrics"
OBSERVED = "modeldeployments"


class Subresource(msgspec.Struct, frozen=True, kw_only=True):
    """One part of an object, read on its own path and granted on its own."""

    name: str
    kind: str


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """One resource; all are namespaced and read only."""

    plural: str
    singular: str
    kind: str
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()

    @property
    def verbs(self) -> tuple[str, ...]:
        """What discovery advertises."""
        return ("get", "list") if self.list_kind else ("get",)

    def subresource(self, name: str) -> Subresource | None:
        """The part of this name."""
        return next((each for each in self.subresources if each.name == name), None)


RESOURCES = (
    Resource(
        plural=METRICS,
        singular="modeldeploymentmetrics",
        kind=METRICS_KIND,
        list_kind=f"{METRICS_KIND}List",
        short_names=("mdm",),
    ),
    Resource(
        plural=OBSERVED,
        singular="observedmodeldeployment",
        kind=OBSERVED_KIND,
        subresources=(
            Subresource(name="contract", kind="RouterContract"),
            Subresource(name="explain", kind="Explanation"),
            Subresource(name="kv", kind="KVResidency"),
            Subresource(name="metrics", kind=METRICS_KIND),
        ),
    ),
)


def resource(plural: str) -> Resource | None:
    """The resource of this plural."""
    return next((each for each in RESOURCES if each.plural == plural), None)
