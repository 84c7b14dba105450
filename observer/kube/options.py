"""What watching a cluster can be told: what is watched, what may be written. `observer.settings` puts it in its tree."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from observer.kube.replica_options import LeaseSettings
from observer.yamldoc.quantities import Duration


class OnTarget(StrEnum):
    """Whether conditions of ours may stand in the status of the object that we observe."""

    WHERE_MERGED = "WhereMerged"
    NEVER = "Never"


class WatchScope(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where we look. A list of namespaces needs only Roles in them; none needs a ClusterRole."""

    namespaces: Annotated[
        tuple[str, ...], Meta(description="Only these namespaces are watched; empty means all of the cluster.")
    ] = ()
    label_selector: Annotated[
        str, Meta(max_length=4096, description="Only deployments with these labels are watched, as `team=chat`.")
    ] = ""


class StatusSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is written into the cluster. Durations in seconds."""

    enabled: Annotated[
        bool, Meta(description="Whether observations are written at all; without, a restart forgets what it knew.")
    ] = True
    conditions_on_target: Annotated[
        OnTarget,
        Meta(description="Whether our conditions also stand on the observed object, where its conditions merge."),
    ] = OnTarget.WHERE_MERGED
    events: Annotated[bool, Meta(description="Whether transitions are told as Events.")] = True
    rate: Annotated[float, Meta(ge=0.1, le=1000.0, description="Status writes per second of one replica.")] = 5.0
    burst: Annotated[int, Meta(ge=1, le=10_000, description="Status writes that may come at once.")] = 20
    interval: Annotated[
        Duration, Meta(ge=0.1, le=3600.0, description="Two writes of one object are this far apart, flips aside.")
    ] = 30.0
    dwell_to_true: Annotated[
        Duration, Meta(ge=0.0, le=3600.0, description="A condition is True for this long before that is written.")
    ] = 15.0
    dwell_from_true: Annotated[
        Duration,
        Meta(ge=0.0, le=3600.0, description="A condition left True for this long before that is written."),
    ] = 60.0
    start_spread: Annotated[
        Duration, Meta(ge=0.0, le=300.0, description="The first write comes at a random moment of this time.")
    ] = 5.0
    orphan_after: Annotated[
        Duration,
        Meta(ge=1.0, le=3600.0, description="An observation of an object that is gone is deleted after this."),
    ] = 30.0


class KubernetesSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Watching a cluster, with `observer serve --kubernetes`."""

    watch: Annotated[WatchScope, Meta(description="Where we look.")] = WatchScope()
    platforms: Annotated[
        tuple[str, ...], Meta(description="Files of platforms beside those that come with the observer.")
    ] = ()
    optional: Annotated[
        tuple[str, ...] | None,
        Meta(description="Which optional kinds are read, as `workloads`; unset means each that a platform names."),
    ] = None
    namespace: Annotated[
        str,
        Meta(max_length=63, description="Our own namespace, where Leases are; empty means the Pod's, else `default`."),
    ] = ""
    identity: Annotated[
        str, Meta(max_length=253, description="Our name among replicas; empty means the host's name.")
    ] = ""
    shards: Annotated[int, Meta(ge=1, le=256, description="Into how many shards deployments are divided.")] = 1
    lease: Annotated[LeaseSettings, Meta(description="How replicas share deployments.")] = LeaseSettings()
    status: Annotated[StatusSettings, Meta(description="What is written into the cluster.")] = StatusSettings()
