"""Readers of records that have a form of their own, by the name that `facts.records` of a platform's document gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from observer.discover.platforms import ome
from observer.discover.platforms.document import PlatformDocument
from observer.discover.platforms.told import Told
from observer.discover.platforms.world import Reader
from observer.kube.records import Document, Pod
from router_contract.targets import Role, RouterDeclaration

Read = Callable[[Document, tuple[Role, ...], RouterDeclaration | None, Sequence[Pod], Reader], Told]

READERS: Final[dict[str, Read]] = {"ome": ome.read}
SOURCES: Final[dict[str, str]] = {"ome": ome.SOURCE}
"""The source that a reader looks into; a document that names the reader must declare it."""


def told_by(
    document: PlatformDocument,
    target: Document,
    roles: tuple[Role, ...],
    router: RouterDeclaration | None,
    pods: Sequence[Pod],
    reader: Reader,
) -> Told | None:
    """What the platform's reader makes of a deployment, ``None`` where it has none."""
    read = READERS.get(document.facts.records)
    return None if read is None else read(target, roles, router, pods, reader)
