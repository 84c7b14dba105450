"""`CanaryAnalysis` documents of files: composed nodes to plain values, and each fault at its file, line and column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from observer.yamldoc.decode import Tracker
from observer.yamldoc.faults import Fault, did_you_mean, shown
from observer.yamldoc.nodes import Document
from router_contract.canary import CanaryAnalysis
from router_contract.canary_decode import decode
from router_contract.targets import Deployment, DeploymentKey

MAX_VISITS: Final = 20_000
"""Nodes of one document, aliases counted at each use."""
_MAX_DEPTH: Final = 32


def canaries(
    documents: Iterable[Document], deployments: Iterable[Deployment] | None, faults: list[Fault]
) -> tuple[CanaryAnalysis, ...]:
    """Every analysis that can be judged. What is wrong is appended to ``faults``: also a target that no file names, and
    a second analysis of one name. ``deployments`` ``None``: any target may be named.
    """
    known = None if deployments is None else {deployment.key for deployment in deployments}
    first: dict[DeploymentKey, str] = {}
    made = []
    for document in documents:
        plain = _Plain(document)
        value = plain.value(document.root, "", 0)
        faults += plain.faults
        if plain.faults:
            continue
        found = decode(value)
        if isinstance(found, tuple):
            faults += [plain.fault(each.field, each.found, each.wanted) for each in found]
            continue
        target, own = DeploymentKey(found.namespace, found.target.name), DeploymentKey(found.namespace, found.name)
        if known is not None and target not in known:
            wanted = "a deployment of a `Fleet` document in the same namespace"
            faults.append(plain.fault("spec.targetRef.name", str(target), wanted))
        if own in first:
            hint = f"First at {first[own]}."
            faults.append(plain.fault("metadata.name", f"{own} a second time", "each analysis once", hint))
        first.setdefault(own, f"{document.file}:{document.line}")
        made.append(found)
    return tuple(made)


def check_providers(names: Sequence[str], default: str | None, tracker: Tracker) -> None:
    """Providers have names of their own, and the default is one of them."""
    for place, name in enumerate(names):
        if name in names[:place]:
            where = f"canary.providers[{place}].name"
            tracker.fault_at(where, f"the provider {shown(name)} a second time", "each name once")
    if default is not None and default not in names:
        wanted = "the name of one of `canary.providers`"
        tracker.fault_at("canary.defaultProvider", shown(default), wanted, did_you_mean(default, names))


class _Plain:
    """One document as plain values, remembering where each stands."""

    def __init__(self, document: Document) -> None:
        self._file = document.file
        self._marks: dict[str, tuple[int, int]] = {}
        self._visits = 0
        self.faults: list[Fault] = []

    def fault(self, path: str, found: str, wanted: str, hint: str = "") -> Fault:
        """A fault at a path, or at its nearest parent that is there."""
        place = path
        while place not in self._marks and place:
            place = place[: max(place.rfind("."), place.rfind("["), 0)]
        line, column = self._marks.get(place, (0, 0))
        return Fault(file=self._file, line=line, column=column, path=path, found=found, wanted=wanted, hint=hint)

    def value(self, node: Node, path: str, depth: int) -> Any:
        """The plain value of a node."""
        self._marks[path] = node.start_mark.line + 1, node.start_mark.column + 1
        self._visits += 1
        if depth > _MAX_DEPTH or self._visits > MAX_VISITS:
            if not self.faults:
                self.faults.append(self.fault(path, "very deep nesting or very many values", "a plain document"))
            return None
        if isinstance(node, MappingNode):
            return self._mapping(node, path, depth)
        if isinstance(node, SequenceNode):
            return [self.value(each, f"{path}[{place}]", depth + 1) for place, each in enumerate(node.value)]
        return _scalar(node) if isinstance(node, ScalarNode) else None

    def _mapping(self, node: MappingNode, path: str, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, each in node.value:
            name = str(key.value)
            where = f"{path}.{name}" if path else name
            if name in found or not isinstance(key, ScalarNode):
                self._marks[where] = key.start_mark.line + 1, key.start_mark.column + 1
                self.faults.append(self.fault(where, "this key a second time", "each key once, as a plain text"))
                continue
            found[name] = self.value(each, where, depth + 1)
        return found


def _scalar(node: ScalarNode) -> Any:
    """A scalar as YAML 1.2 reads it; what its tag promises and its text does not keep stays a text."""
    kind, text = str(node.tag).rpartition(":")[2], str(node.value)
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() == "true"
    try:
        return int(text) if kind == "int" else float(text) if kind == "float" else text
    except ValueError:
        return text
