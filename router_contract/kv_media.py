"""What the media and hashes of KV events mean, by engine: tiers, the attached store's media, comparable hashes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from router_contract.vocabulary import parse_version

DEFAULT_MEDIUM = "GPU"
"""What an event without a medium is about: versions that name none publish device blocks only."""


class Tier(StrEnum):
    """Where a medium is, as seen from the engine."""

    DEVICE = "device"
    HOST = "host"
    DISK = "disk"
    STORE = "store"


class KvDialect(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One engine's events. ``fixed_seed_since`` is the first version known to hash alike on every member by default;
    before it ``seed_variable`` decides. Both ``None``: it is not known whether members hash alike.
    """

    engine: str
    signed_hashes: bool
    tiers: tuple[tuple[str, Tier], ...]
    fixed_seed_since: str | None = None
    seed_variable: str | None = None


DIALECTS = {
    dialect.engine: dialect
    for dialect in (
        KvDialect(
            engine="vllm",
            signed_hashes=False,
            tiers=(("GPU", Tier.DEVICE), ("CPU", Tier.HOST), ("STORAGE", Tier.STORE)),
            fixed_seed_since="0.32",
            seed_variable="PYTHONHASHSEED",
        ),
        KvDialect(
            engine="sglang",
            signed_hashes=True,
            tiers=(
                ("GPU", Tier.DEVICE),
                ("CPU_PINNED", Tier.HOST),
                ("DISK", Tier.DISK),
                ("EXTERNAL", Tier.STORE),
            ),
        ),
    )
}


def signed_hashes(engine: str) -> bool:
    """Whether the engine's integer hashes are signed 64-bit; engines we do not know count as unsigned."""
    dialect = DIALECTS.get(engine)
    return dialect is not None and dialect.signed_hashes


def tier_of(engine: str, medium: str) -> Tier | None:
    """The tier a medium stands for, ``None`` for one the engine's table does not name."""
    dialect = DIALECTS.get(engine)
    return dict(dialect.tiers).get(medium) if dialect is not None else None


def is_store_medium(engine: str, medium: str, *, pool_is_disk: bool = False) -> bool:
    """Whether a block on this medium is in the attached store. A disk is, only where the pool is that disk."""
    tier = tier_of(engine, medium)
    return tier is Tier.STORE or (tier is Tier.DISK and pool_is_disk)


def equal_hashes(engine: str, version: str | None, environment: Mapping[str, str]) -> bool | None:
    """Whether equal blocks hash equally on every member of a role; ``None`` when nobody knows."""
    dialect = DIALECTS.get(engine)
    if dialect is None or dialect.seed_variable is None or dialect.fixed_seed_since is None:
        return None
    if environment.get(dialect.seed_variable, "").isdigit():
        return True
    if version is None:
        return None
    return parse_version(version) >= parse_version(dialect.fixed_seed_since)
