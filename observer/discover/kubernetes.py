"""Discovery in a cluster: follows the objects of each platform and says what they add up to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from observer.clock import Clock
from observer.discover.platforms import Platform
from observer.kube.client import ApiClient
from observer.kube.records import Document
from observer.supervise import Supervisor
from router_contract.discovered import Discovered, ObjectReference
from router_contract.platform_facts import SourceFault

IGNORE = "observer.modeldeployment.io/ignore"
"""Annotation of a target (or Pod) that is not to be watched: `"true"`."""


class KubernetesDiscovery:
    """Run `run` as a supervised child; it starts one child for each informer."""

    def __init__(
        self,
        client: ApiClient,
        platforms: Sequence[Platform],
        *,
        namespaces: tuple[str, ...] = (),
        label_selector: str = "",
        clock: Clock,
        supervisor: Supervisor,
        allow: Sequence[str] = (),
        sources: Sequence[str] | None = None,
        apply: Callable[[Sequence[Discovered]], Awaitable[None]],
        on_object: Callable[[ObjectReference], None] = lambda _: None,
    ) -> None:
        self._apply = apply
        self.synced = False

    async def run(self) -> None:
        """Follow for ever."""

    def sources(self) -> tuple[SourceFault, ...]:
        """Every kind that cannot be read now, of all platforms."""
        return ()

    def target(self, reference: ObjectReference) -> Document | None:
        """The target object as last heard of, ``None`` when there is none (any more) of this UID."""
        return None
