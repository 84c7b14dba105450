"""One row of the doctor's table: a cause, how it is told apart, and what to change. Texts are filled from the facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from router_contract.diagnosis import Certainty, Facts

When = Callable[[Facts], Mapping[str, object] | None]
"""Whether a row holds: ``None`` when not, else what its texts need beyond the facts (may be empty)."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """``told`` says by what the cause is told apart; ``said`` and ``change`` are format strings over the facts."""

    cause: str
    certainty: Certainty = Certainty.CERTAIN
    said: str
    told: str
    change: tuple[str, ...]
    when: When


POLICY = (
    "kubectl -n {namespace} get networkpolicy  # which of them select the Pod {member}",
    (
        "in one that does: ingress: [{{from: [{{namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: "
        "OBSERVER_NAMESPACE}}}}}}], ports: [{{protocol: TCP, port: {port}}}]}}]"
    ),
    "where the observer's namespace limits egress, allow TCP {port} to namespace {namespace} there too",
)
"""How a policy is opened for a port."""
MESH = (
    (
        "keep the port out of the mesh, Istio: annotate the Pod's template with "
        'traffic.sidecar.istio.io/excludeInboundPorts: "{port}"'
    ),
    "or allow plaintext on this port only, Istio: PeerAuthentication spec.portLevelMtls: {{{port}: {{mode: PERMISSIVE}}}}",
    'Linkerd: annotate the Pod\'s template with config.linkerd.io/skip-inbound-ports: "{port}"',
)
"""How a mesh lets us read."""


def yes(holds: bool) -> Mapping[str, object] | None:
    """A condition as what `When` gives."""
    return {} if holds else None
