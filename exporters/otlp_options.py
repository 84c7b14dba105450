"""What OTLP export can be told: our own keys, and what the standard ``OTEL_*`` environment says beside them.

Addresses, headers, certificates, compression and timeouts are read by the exporters themselves from the standard
variables; nothing here repeats them. Nothing here imports OpenTelemetry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

DEFAULT_PERIOD = 60.0
SHORTEST, LONGEST = 1.0, 3600.0
"""Seconds between two exports; the default and the bounds of what the environment may ask for."""
PROTOCOLS = ("grpc", "http/protobuf")
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


class OtlpSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Metrics pushed over OTLP. Where to and how is told by the standard ``OTEL_*`` environment variables."""

    enabled: Annotated[
        bool | None,
        Meta(description="Whether metrics are pushed; when not said, they are if the environment names an endpoint."),
    ] = None
    gen_ai_names: Annotated[
        bool, Meta(description="Whether `gen_ai.server.*` histograms are sent too, where a signal means exactly that.")
    ] = False


class OtlpPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What will be done: the protocol, the seconds between two exports, whether the GenAI names are sent."""

    protocol: str
    period: float
    gen_ai_names: bool = False


class OtlpError(Exception):
    """The environment asks for something that cannot be done; the text says what was found and what is wanted."""


def plan(settings: OtlpSettings, environ: Mapping[str, str]) -> OtlpPlan | None:
    """The plan, or ``None`` when nothing is to be pushed. Raises `OtlpError`.

    Settings win over the environment; ``OTEL_SDK_DISABLED=true`` and ``OTEL_METRICS_EXPORTER=none`` turn off what no
    setting turned on.
    """
    if not _wanted(settings, environ):
        return None
    return OtlpPlan(protocol=_protocol(environ), period=_period(environ), gen_ai_names=settings.gen_ai_names)


def _wanted(settings: OtlpSettings, environ: Mapping[str, str]) -> bool:
    if settings.enabled is not None:
        return settings.enabled
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    named = {each.strip().lower() for each in environ.get("OTEL_METRICS_EXPORTER", "").split(",") if each.strip()}
    if named:
        return "otlp" in named
    return any(environ.get(name, "").strip() for name in _ENDPOINTS)


def _protocol(environ: Mapping[str, str]) -> str:
    for name in ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        told = environ.get(name, "").strip().lower()
        if told in PROTOCOLS:
            return told
        if told:
            raise OtlpError(f"{name} is {told!r}; want {' or '.join(PROTOCOLS)}")
    return PROTOCOLS[0]


def _period(environ: Mapping[str, str]) -> float:
    name = "OTEL_METRIC_EXPORT_INTERVAL"
    told = environ.get(name, "").strip()
    if not told:
        return DEFAULT_PERIOD
    try:
        seconds = float(told) / 1000
    except ValueError:
        seconds = float("nan")
    if not SHORTEST <= seconds <= LONGEST:
        bounds = f"{SHORTEST * 1000:.0f} to {LONGEST * 1000:.0f}"
        raise OtlpError(f"{name} is {told!r}; want milliseconds, {bounds}")
    return seconds
