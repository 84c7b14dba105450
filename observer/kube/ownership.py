"""Which deployments are this replica's: it alone reads, judges, publishes and writes them.

The default owns everything. Replicas that share the work bring an owner of their own, which asks Leases.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Ownership(Protocol):
    """Who owns what. An answer holds until the callback is called."""

    def owns(self, uid: str) -> bool:
        """Whether the deployment of this UID is ours now."""
        ...

    def writes(self) -> bool:
        """Whether anything may be written into the cluster at this very moment; asked before each write."""
        ...

    def subscribe(self, changed: Callable[[], None]) -> None:
        """Call this whenever an answer may have changed. A loss is told before the other replica may begin."""
        ...


class AlwaysOwner:
    """The only replica."""

    def owns(self, uid: str) -> bool:
        """Everything is ours."""
        del uid
        return True

    def writes(self) -> bool:
        """Always."""
        return True

    def subscribe(self, changed: Callable[[], None]) -> None:
        """Nothing ever changes."""
        del changed
