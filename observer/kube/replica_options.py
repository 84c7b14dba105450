"""How replicas share the work: names and times of their Leases. `observer.settings` puts it in its tree."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from observer.kube.electing import Timing
from observer.yamldoc.decode import Tracker
from observer.yamldoc.quantities import Duration, Name


class LeaseSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Replicas that are told their shard (`OBSERVER_SHARD`) share deployments by Leases; one that is not is alone."""

    name: Annotated[
        Name, Meta(description="Leases are `<name>-<shard>`, and `<name>-<shard>-<identity>` for each replica.")
    ] = "observer"
    duration: Annotated[
        Duration,
        Meta(ge=2.0, le=300.0, description="A replica that is silent for this long has lost its shard. Whole seconds."),
    ] = 15.0
    deadline: Annotated[
        Duration,
        Meta(ge=1.0, le=300.0, description="A replica that could not renew for this long writes no more."),
    ] = 10.0
    retry: Annotated[Duration, Meta(ge=0.1, le=60.0, description="How often a Lease is renewed or asked for.")] = 2.0

    @property
    def timing(self) -> Timing:
        """The same as the elector takes it."""
        return Timing(duration=self.duration, deadline=self.deadline, retry=self.retry)


def check_lease(settings: LeaseSettings, tracker: Tracker) -> None:
    """Times under which two replicas could write at once are a fault."""
    try:
        settings.timing  # noqa: B018 - its making is the check
    except ValueError as error:
        found, _, wanted = str(error).removeprefix("found ").partition(", wanted ")
        known = [f"kubernetes.lease.{key}" for key in ("duration", "deadline", "retry")]
        tracker.fault_at(next((each for each in known if tracker.knows(each)), known[0]), found, wanted)
