"""What the aggregated API can be told: where it listens and which certificate it shows. `observer.settings` has it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from observer.yamldoc.decode import Tracker
from observer.yamldoc.quantities import Duration, Listen, Name


class AggregatedSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The aggregated API. With two files it shows their certificate; without, replicas share one that they make."""

    enabled: Annotated[
        bool,
        Meta(description="Whether it is served. While it does not answer, no namespace of the cluster can be deleted."),
    ] = False
    listen: Annotated[Listen, Meta(description="Where it is served, over HTTPS.")] = "0.0.0.0:10250"
    cert_file: Annotated[
        str | None, Meta(description="Serving certificate with its chain in PEM; followed while we run.")
    ] = None
    key_file: Annotated[str | None, Meta(description="Its key in PEM, without a password.")] = None
    service: Annotated[Name, Meta(description="Our Service that the APIService names.")] = "observer-api"
    secret: Annotated[
        Name, Meta(description="The Secret of the certificate that replicas make, without `certFile`.")
    ] = "observer-api-certificate"  # noqa: S105 - a Secret's name
    audiences: Annotated[
        tuple[str, ...],
        Meta(description="Audiences of tokens that direct callers may bring; none means those of the API server."),
    ] = ()
    in_flight: Annotated[
        int, Meta(ge=1, le=65_536, description="Requests that are answered at once; those beyond get 429.")
    ] = 256
    drain_grace: Annotated[
        Duration,
        Meta(ge=0.0, le=300.0, description="How long it is unready and still answers before it closes."),
    ] = 10.0
    reread: Annotated[
        Duration, Meta(ge=0.1, le=3600.0, description="Certificate files and the Secret are read again this often.")
    ] = 10.0


def check_files_together(settings: AggregatedSettings, tracker: Tracker) -> None:
    """A certificate without its key, or a key without its certificate, is a fault."""
    if (settings.cert_file is None) == (settings.key_file is None):
        return
    given, other = ("certFile", "keyFile") if settings.key_file is None else ("keyFile", "certFile")
    tracker.fault_at(f"aggregated.{given}", f"`{given}` alone", f"`{other}` too, or neither")
