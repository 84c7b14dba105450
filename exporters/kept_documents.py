"""Metrics documents as bytes, put together of what was kept of each Pod since its last read.

Between two reads of a Pod nothing of its entries changes but their age, and their state when the age passes a bound. So
each Pod's entries are kept as bytes with a place for the age, and only sums over Pods are made anew. The bytes equal
those of `exporters.document.metrics_document` at the same instant.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import msgspec
import orjson

from exporters.document import expected_pods, gauges, metrics_document, not_found, role_latencies
from exporters.encoding import encode
from exporters.expectation_tables import ROLE_LATENCY
from exporters.kept_parts import KeptParts, listed, write
from exporters.pods import seen
from exporters.protocols import Sights, SightSource
from exporters.signals_read import DOCUMENT_SIGNALS
from exporters.timestamps import rfc3339
from router_contract.documents import Metadata, ModelDeploymentMetrics, Unavailable
from router_contract.targets import Deployment, DeploymentKey, TargetKey
from router_contract.verdicts import DeploymentReport, TargetReport, TargetState

KEPT_PODS = 2_048
"""Of how many Pods parts are kept, over all documents; one takes about 6 kB. The document asked for longest ago goes."""
_ROLE_SIGNALS = frozenset(signal for _, signal in ROLE_LATENCY)
_EMPTY = ModelDeploymentMetrics(metadata=Metadata(name="", namespace=""), timestamp="", partial=False)
_VERSION, _KIND = encode(_EMPTY.api_version), encode(_EMPTY.kind)
_NAMES = dict(
    zip(ModelDeploymentMetrics.__struct_fields__, ModelDeploymentMetrics.__struct_encode_fields__, strict=True)
)

Meta = Callable[[Deployment], object]


def _metadata(of: Deployment) -> Metadata:
    return Metadata(name=of.key.name, namespace=of.key.namespace)


class KeptDocuments:
    """Documents over one source; ``pods`` bounds the Pods of one (0 does not). For one event loop."""

    def __init__(self, source: SightSource, pods: int = 0) -> None:
        self._source = source
        self._pods = pods
        self._kept: OrderedDict[DeploymentKey, KeptParts] = OrderedDict()

    def document(self, key: DeploymentKey, meta: Meta | None = None) -> bytes | Unavailable:
        """One deployment's document of this moment as JSON, or why there is none; ``meta`` makes its ``metadata``."""
        sights = self._source.sights(key)
        if sights is None:
            self._kept.pop(key, None)
            return not_found(key)
        kept = self._current(key, sights)
        made = {} if kept.plain else self._renewed(kept, sights)
        if kept.plain or TargetState.UP not in kept.states:
            return self._whole(key, meta)  # whether anything can be shown is then a question to every value
        ages = kept.ages(sights)
        levels = gauges(kept.people, kept.columns(ages), sights.at)
        told = {
            "api_version": _VERSION,
            "kind": _KIND,
            "metadata": encode((meta or _metadata)(sights.deployment)),
            "timestamp": encode(rfc3339(sights.at.wall)),
            **{section.value: listed(several, brackets=True) for section, several in levels.items()},
            **kept.arrays(ages),
            **kept.lacking(),
            "coverage": encode(kept.people.covered(kept.states)),
            "skipped": kept.skipped,
            "roles": listed(role_latencies(self._source.role_windows(sights, _ROLE_SIGNALS, made)), brackets=True),
        }
        return orjson.dumps({wire: orjson.Fragment(told[name]) for name, wire in _NAMES.items() if told.get(name)})

    def _current(self, key: DeploymentKey, sights: Sights) -> KeptParts:
        kept = self._kept.get(key)
        if kept is None or kept.deployment is not sights.deployment:
            people = expected_pods(DeploymentReport(deployment=sights.deployment, at=sights.at), self._pods)
            kept = self._kept[key] = KeptParts(sights.deployment, people, kept)
        self._kept.move_to_end(key)
        while len(self._kept) > 1 and sum(len(each.states) for each in self._kept.values()) > KEPT_PODS:
            self._kept.popitem(last=False)
        return kept

    def _renewed(self, kept: KeptParts, sights: Sights) -> dict[TargetKey, TargetReport]:
        """Make the parts of the Pods that changed anew; the reports of their targets."""
        made: dict[TargetKey, TargetReport] = {}
        for place, written in enumerate(kept.written):
            sight = kept.sight(place, sights)
            if written is not None and written.sight is sight:
                continue
            pod = kept.people.pods[place]
            if sight is not None:
                made[sight.key] = self._source.target(sight, sights.at, DOCUMENT_SIGNALS)
                pod = seen(pod, made[sight.key])
            kept.put(place, write(pod, sight))
        return made

    def _whole(self, key: DeploymentKey, meta: Meta | None) -> bytes | Unavailable:
        """The document made of a whole report."""
        report = self._source.deployment(key)
        if report is None:
            return not_found(key)
        made = metrics_document(report, self._pods)
        if isinstance(made, Unavailable):
            return made
        plain = msgspec.to_builtins(made)
        return encode(plain | {"metadata": msgspec.to_builtins((meta or _metadata)(report.deployment))})
