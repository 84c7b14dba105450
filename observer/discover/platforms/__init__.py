"""Platforms as data: each is one YAML document that says how its deployments are found and what its objects mean."""

from observer.discover.platforms.load import Platform, PlatformError, built_in, load_platforms, read_platform

__all__ = ["Platform", "PlatformError", "built_in", "load_platforms", "read_platform"]
