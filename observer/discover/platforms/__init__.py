"""Platforms as data: each is one YAML document that says how its deployments are found and what its objects mean."""

from observer.discover.platforms.load import Platform, PlatformError, load_platforms

__all__ = ["Platform", "PlatformError", "load_platforms"]
