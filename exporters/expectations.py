"""What it means that a `ModelDeploymentMetrics` document expects an entry: of which program, in which place.

An entry is expected of a Pod by its software, the kind of its role, whether prefill and decode are separate (a pair)
and what the model answers. Nothing here looks at a value.
The tables themselves are in `exporters.expectation_tables`.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from router_contract.readings import MissingCode
from router_contract.targets import Deployment, EndpointType, RoleKind


class Section(StrEnum):
    """The array of the document that an entry stands in."""

    PROCESSING = "processing"
    QUEUEING = "queueing"
    LATENCY = "latency"
    TRAFFIC = "traffic"
    TRANSFER = "transfer"


LEVELS = frozenset({Section.PROCESSING, Section.QUEUEING})
HISTOGRAM_NAMES = frozenset({"transfer-latency", "transfer-speed", "transfer-size"})


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a Pod stands: its software's table name, its role's kind, whether it is half of a pair, what is answered."""

    software: str
    kind: str = ""
    pair: bool = False
    endpoint_type: EndpointType = EndpointType.CHAT

    @property
    def half(self) -> str:
        """The kind when prefill and decode are separate, else empty."""
        return self.kind if self.pair else ""

    @property
    def generates(self) -> bool:
        """Whether tokens are generated here at all."""
        return self.kind != RoleKind.ENCODE and self.endpoint_type is EndpointType.CHAT


def is_pair(deployment: Deployment) -> bool:
    """Whether prefill and decode run apart: both kinds of role are declared."""
    return {role.kind for role in deployment.roles} >= {RoleKind.PREFILL, RoleKind.DECODE}


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One expected entry.

    ``signals`` are tried in order and the first that the Pod has is used. ``software`` empty means any. ``only_half``
    and ``not_half`` name a half of a pair, ``generates`` asks for a place where tokens are generated, ``pair`` (for
    routers) asks for a deployment with or without a pair. ``optional`` entries are shown when there and not missed
    when the Pod does not export them. ``companion`` is the signal whose presence in the same answer tells that an
    absent one has not begun yet. ``at_least`` keeps samples whose label, a number from 100 to 599, is at least that.
    ``unsupported`` is set where the place can never have the entry, ``absent_as`` is what its absence means where it
    does not depend on the place whether it is there.
    """

    section: Section
    name: str
    unit: str
    signals: tuple[str, ...]
    software: tuple[str, ...] = ()
    only_half: str = ""
    not_half: str = ""
    generates: bool = False
    pair: bool | None = None
    optional: bool = False
    companion: str = ""
    at_least: tuple[str, int] | None = None
    unsupported: MissingCode | None = None
    absent_as: MissingCode | None = None

    def holds(self, place: Place) -> bool:
        """Whether the entry is expected at a place."""
        return (
            (not self.software or place.software in self.software)
            and (not self.only_half or place.half == self.only_half)
            and not (self.not_half and place.half == self.not_half)
            and (place.generates or not self.generates)
            and (self.pair is None or self.pair is place.pair)
        )

    @property
    def histogram(self) -> bool:
        """Whether the value is a mean of observations and not a rate."""
        return self.section is Section.LATENCY or self.name in HISTOGRAM_NAMES


class Tier(msgspec.Struct, frozen=True, kw_only=True):
    """One tier of a prefix cache.

    Hits are ``hits`` (with this ``mode`` where one is named), queries the sum over ``queries``; with ``modes`` every
    one of them must be there and queries are their sum. ``flags`` are the arguments, any of which configures the tier;
    ``without`` is what the entry is when none is there and the tier never hit. ``store`` marks the tier that measures
    an attached store.
    """

    scope: str
    software: str
    hits: str
    queries: str
    mode: str = ""
    modes: tuple[str, ...] = ()
    not_half: str = ""
    flags: tuple[str, ...] = ()
    without: MissingCode | None = None
    store: bool = False


class Part(msgspec.Struct, frozen=True):
    """One signal of a tally: the samples whose ``label`` is one of ``only``, or all of them without a label.

    ``larger_of`` names a label over which the largest counts because one event moves each of them.
    """

    signal: str
    label: str = ""
    only: tuple[str, ...] = ()
    larger_of: str = ""


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """How a router's requests and failures are counted.

    Requests are the sum of ``requests`` (which name the failures too where the router does not count those), failures
    the sum of ``failed``. Where the router counts refusals (4xx) among its failures, as many of them may be refusals as
    ``unclear`` moved by beyond ``cleared``: then the failures are an upper bound and the entry says what is certain.
    """

    software: str
    pair: bool | None
    requests: tuple[Part, ...]
    failed: tuple[Part, ...]
    unclear: tuple[Part, ...] = ()
    cleared: tuple[Part, ...] = ()

    @property
    def signals(self) -> frozenset[str]:
        """Every signal it reads."""
        return frozenset(part.signal for part in (*self.requests, *self.failed, *self.unclear, *self.cleared))

    def holds(self, place: Place) -> bool:
        """Whether a router at this place counts like this."""
        return self.software == place.software and (self.pair is None or self.pair is place.pair)


def has_flag(stream: tuple[str, ...], flags: tuple[str, ...], shortest: int = 12) -> bool:
    """Whether an argument stream sets one of these long flags, whole or abbreviated.

    Engines accept an unambiguous beginning of a flag; one of at least ``shortest`` characters is taken for it. A flag
    written ``--name=value`` in ``flags`` also needs that value. Everything past a bare ``--`` is not an argument.
    """
    words = stream[: stream.index("--")] if "--" in stream else stream
    for index, word in enumerate(words):
        if not word.startswith("--"):
            continue
        spelled, glued, value = word.partition("=")
        following = words[index + 1] if index + 1 < len(words) else ""
        for flag in flags:
            name, _, wanted = flag.partition("=")
            named = spelled == name or (len(spelled) >= shortest and name.startswith(spelled))
            if named and (not wanted or (value if glued else following) == wanted):
                return True
    return False
