"""The objects that the group serves, made from reports: metrics documents with their labels, and what is observed.

An object of a deployment of which nothing could be read is still listed, with what is missing said in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from exporters.aggregated.refusals import RefusalError
from exporters.aggregated.resources import API_VERSION, METRICS, METRICS_KIND, OBSERVED_KIND
from exporters.document import metrics_document
from exporters.status import NOT_JUDGED, status_fields
from exporters.timestamps import rfc3339
from router_contract.documents import Metadata, Missing, ModelDeploymentMetrics, Unavailable
from router_contract.readings import MissingCode
from router_contract.targets import Deployment, DeploymentKey
from router_contract.verdicts import DeploymentReport

Json = dict[str, Any]


Described = Callable[[DeploymentKey], Mapping[str, str]]
"""The labels of the platform's own object of a deployment."""


class ObjectMeta(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Name, namespace, labels and creation time of the deployment that the object is about."""

    name: str
    namespace: str
    labels: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    creation_timestamp: str | msgspec.UnsetType = msgspec.UNSET


class ObservedModelDeployment(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is concluded about a deployment at this moment: the status that the observer publishes, with its evidence."""

    api_version: str = API_VERSION
    kind: str = OBSERVED_KIND
    metadata: ObjectMeta
    timestamp: str
    platform: str
    model: str | msgspec.UnsetType = msgspec.UNSET
    awaiting: str | msgspec.UnsetType = msgspec.UNSET
    status: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


def no_labels(_: DeploymentKey) -> Mapping[str, str]:
    """For fleets whose deployments have none."""
    return {}


def observed(report: DeploymentReport, described: Described) -> Json:
    """One `ObservedModelDeployment`; until it was judged it has ``awaiting`` and no ``status``."""
    judged = report.judged
    made = ObservedModelDeployment(
        metadata=meta(report.deployment, described),
        timestamp=rfc3339(report.at.wall),
        platform=report.deployment.platform,
        model=report.deployment.model or msgspec.UNSET,
        awaiting=msgspec.UNSET if judged else (report.awaiting or NOT_JUDGED),
        status=status_fields(report) if judged else msgspec.UNSET,
    )
    return _json(made)


def metrics(report: DeploymentReport, described: Described, pods: int = 0) -> Json:
    """One `ModelDeploymentMetrics`. Raises `RefusalError` (503) when no Pod of the deployment could be read."""
    made = metrics_document(report, pods)
    if isinstance(made, Unavailable):
        raise RefusalError(503, made.message, plural=METRICS, name=report.key.name, retry_after=5)
    return _dressed(made, report, described)


def listed_metrics(report: DeploymentReport, described: Described, pods: int = 0) -> Json:
    """As `metrics` for a list: a deployment without any value is an object that says why, not a row left out."""
    made = metrics_document(report, pods)
    if isinstance(made, Unavailable):
        gap = Missing(pod="", source="scrape", reason=made.message, code=MissingCode.NEVER_READ.value)
        made = ModelDeploymentMetrics(
            metadata=Metadata(name=report.key.name, namespace=report.key.namespace),
            timestamp=rfc3339(report.at.wall),
            missing=(gap,),
            partial=True,
        )
    return _dressed(made, report, described)


def unrendered(namespace: str, name: str, why: str) -> Json:
    """The listed object of a deployment whose report could not be rendered."""
    gap = {"pod": "", "source": "report", "reason": why}
    return {
        "apiVersion": API_VERSION,
        "kind": METRICS_KIND,
        "metadata": {"name": name, "namespace": namespace},
        "missing": [gap],
        "partial": True,
    }


def foreign(found: Json, kind: str, report: DeploymentReport, described: Described) -> Json:
    """A document of another part of the API as an object of this group (subresources ``explain``, ``contract``, ``kv``)."""
    return found | {"apiVersion": API_VERSION, "kind": kind, "metadata": _json(meta(report.deployment, described))}


def _dressed(made: ModelDeploymentMetrics, report: DeploymentReport, described: Described) -> Json:
    return _json(made) | {"metadata": _json(meta(report.deployment, described))}


def _json(value: object) -> Json:
    found: Json = msgspec.to_builtins(value)
    return found


def meta(of: Deployment, described: Described) -> ObjectMeta:
    """What every object about a deployment has as its ``metadata``."""
    created = of.created_at
    return ObjectMeta(
        name=of.key.name,
        namespace=of.key.namespace,
        labels=dict(described(of.key)) or msgspec.UNSET,
        # Kubernetes' own times have whole seconds; clients compute ages from them.
        creation_timestamp=msgspec.UNSET if created is None else rfc3339(created).partition(".")[0] + "Z",
    )
