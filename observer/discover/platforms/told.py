"""What a reader of records of a form of their own hands back."""

from __future__ import annotations

import msgspec

from router_contract.platform_facts import SourceFault
from router_contract.platform_records import PlatformRecords
from router_contract.targets import Role, RouterDeclaration


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader of records makes of a deployment. ``declared`` is `PlatformFacts.declared`.

    ``elsewhere`` says that its Pods are in other clusters, so that none here means nothing.
    """

    roles: tuple[Role, ...]
    router: RouterDeclaration | None
    records: PlatformRecords
    declared: bool
    elsewhere: tuple[SourceFault, ...] = ()
