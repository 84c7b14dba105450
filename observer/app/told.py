"""What settings and this build tell the parts of one running observer: ageing, the reader's limits, the listener."""

from __future__ import annotations

import math
from importlib.metadata import version

import msgspec

from exporters.listening import Listen, ListenError, ServerTls, read_token
from observer.app.budget import FEW, Budget, budget
from observer.collect.view_sources import ViewOptions
from observer.fleet import Policy
from observer.measure.exposition import Limits
from observer.settings import Settings
from observer.yamldoc.quantities import parse_listen


def package_version() -> str:
    """This distribution's version."""
    return version("modeldeployment-observer")


def policy_of(settings: Settings) -> Policy:
    """The ageing and windows that settings ask for."""
    return Policy(
        fresh=settings.scrape.fresh_seconds,
        expire=settings.windows.expire_after,
        span=settings.windows.span,
        longest=settings.windows.max,
        # Twice, because each period may have one extra read; and some, because no read is exactly on time.
        links=2 * math.ceil(settings.windows.span / settings.scrape.period) + 8,
    )


def view_options(settings: Settings) -> ViewOptions:
    """How routers' views are read."""
    told = settings.routers
    return ViewOptions(
        period=told.view_period,
        timeout=told.view_timeout,
        valid=told.view_valid,
        series_fresh=settings.scrape.fresh_seconds,
    )


def limits_of(settings: Settings) -> Limits:
    """The reader's limits that settings ask for."""
    told = settings.limits
    return Limits(
        body_bytes=told.body,
        family_bytes=told.family,
        line_bytes=told.line,
        family_series=told.series,
        labels=told.labels,
        label_value=told.label_value,
    )


def listen_of(settings: Settings, listen: str | None, share: Budget | None = None) -> Listen:
    """Where to listen: what the command line says, else what settings say. Raises `ListenError` for neither, and for a
    token that cannot be read. ``share`` is what the listener may use of the process's descriptors.
    """
    limits, tls = settings.limits, settings.http.tls
    share = share or budget(settings, FEW)
    told = listen or settings.http.listen
    try:
        host, _, port = parse_listen(told).rpartition(":")
    except ValueError:
        raise ListenError(f"cannot listen on {told!r}: want host:port, as 127.0.0.1:9480 or [::1]:9480") from None
    return Listen(
        host=host.strip("[]"),
        port=int(port),
        token=read_token(settings.http.token_file),
        tls=None if tls is None else ServerTls(**msgspec.structs.asdict(tls)),
        answer_seconds=settings.http.request_timeout,
        response_bytes=limits.response,
        body_bytes=limits.request_body,
        connections=share.connections,
        in_flight=share.requests,
    )
