"""Bounds on what others can make us hold: the section ``limits`` of the settings."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from observer.yamldoc.quantities import Size


class LimitSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Bounds on what others can make us hold. Reaching one is a visible state. Sizes in bytes."""

    body: Annotated[Size, Meta(ge=1024, le=1 << 30, description="One exposition, decoded.")] = 16 << 20
    shared_bodies: Annotated[
        Size, Meta(ge=1 << 20, le=64 << 30, description="All bodies in flight together, beyond 1 MiB of each.")
    ] = 256 << 20
    family: Annotated[Size, Meta(ge=1024, le=1 << 30, description="One metric family in an exposition.")] = 1 << 20
    line: Annotated[Size, Meta(ge=256, le=1 << 30, description="One line of an exposition.")] = 64 << 10
    label_value: Annotated[Size, Meta(ge=16, le=1 << 20, description="One label value.")] = 4096
    labels: Annotated[int, Meta(ge=1, le=1024, description="Labels of one series.")] = 64
    series: Annotated[int, Meta(ge=1, le=1_000_000, description="Wanted series kept of one target.")] = 20_000
    targets: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Targets read; those beyond are shown as shed, in order of identity.")
    ] = 10_000
    response: Annotated[
        Size, Meta(ge=64 << 10, le=1 << 30, description="One answer of ours; a larger one is refused.")
    ] = 32 << 20
    reads: Annotated[
        int,
        Meta(ge=0, le=100_000, description="Reads of targets under way at once; 0: as many as descriptors allow."),
    ] = 0
    connections: Annotated[
        int,
        Meta(ge=8, le=100_000, description="Clients connected to us at once; past it the longest idle one is closed."),
    ] = 512
    requests: Annotated[
        int, Meta(ge=4, le=10_000, description="Requests of ours answered at once; more get 429, probes never.")
    ] = 256
    watchers: Annotated[
        int, Meta(ge=1, le=10_000, description="Pages followed live at once; more are told to load again.")
    ] = 64
    request_body: Annotated[Size, Meta(ge=1024, le=16 << 20, description="One request's body.")] = 64 << 10
    pods_per_document: Annotated[
        int, Meta(ge=0, le=1_000_000, description="Pods shown in one metrics document; 0 is no limit.")
    ] = 0
