"""What a client wants to be sent: its Accept header against the shapes that we have. Only JSON is spoken."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from exporters.aggregated.refusals import RefusalError

MEDIA_TYPE = "application/json"
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_LONGEST = 4096
_META = {"v1", "v1beta1"}


class As(StrEnum):
    """The shape of an answer."""

    PLAIN = ""
    TABLE = "Table"
    PARTIAL = "PartialObjectMetadata"
    PARTIAL_LIST = "PartialObjectMetadataList"
    DISCOVERY = "APIGroupDiscoveryList"


class Wanted(msgspec.Struct, frozen=True):
    """The shape and the version of ``meta.k8s.io`` it is asked in."""

    shape: As
    version: str = "v1"


class _Entry(msgspec.Struct, frozen=True):
    media: str
    parameters: dict[str, str]
    quality: float


def negotiate(header: str | None, possible: frozenset[As]) -> Wanted:
    """The first shape of the header that is possible here; a shape that nobody knows is passed over.

    Without a header it is plain JSON. Raises `RefusalError` (406) when nothing remains, as for protobuf alone.
    """
    if header is None or not header.strip():
        return Wanted(As.PLAIN)
    for entry in _entries(header[:_LONGEST]):
        found = _shape(entry, possible)
        if found is not None:
            return found
    raise RefusalError(406, f"only the following media types are accepted: {MEDIA_TYPE}")


def _entries(header: str) -> list[_Entry]:
    """The entries, best first; among equals in the order in which they stand."""
    found: list[_Entry] = []
    for text in header.split(","):
        media, *rest = (part.strip() for part in text.split(";"))
        pairs = dict(part.lower().partition("=")[::2] if part[:2] in {"q=", "Q="} else _pair(part) for part in rest)
        quality = _quality(pairs.pop("q", "1"))
        if media and quality > 0:
            found.append(_Entry(media.lower(), pairs, quality))
    return sorted(found, key=lambda entry: -entry.quality)


def _pair(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    return key.strip().lower(), value.strip().strip('"')


def _quality(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return value if 0 <= value <= 1 else 0.0


def _shape(entry: _Entry, possible: frozenset[As]) -> Wanted | None:
    if entry.media in {"*/*", "application/*"}:
        return Wanted(As.PLAIN)
    if entry.media != MEDIA_TYPE:
        return None
    name = entry.parameters.get("as", "")
    if not name:
        return Wanted(As.PLAIN)
    shape = next((each for each in possible if each.value == name), None)
    group, version = entry.parameters.get("g", ""), entry.parameters.get("v", "")
    if shape is As.DISCOVERY:
        return Wanted(shape, version) if (group, version) == ("apidiscovery.k8s.io", "v2") else None
    if shape is None or group != "meta.k8s.io" or version not in _META:
        return None
    return Wanted(shape, version)
