"""Our own listener: the section ``http`` of the settings."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from observer.yamldoc.quantities import Duration, Listen


class HttpTls(msgspec.Struct, frozen=True, kw_only=True):
    """Files of our own certificate, and of the authority whose clients need no token."""

    cert_file: Annotated[str, Meta(min_length=1, description="PEM file of our certificate and what signed it.")] = (
        msgspec.field(name="certFile")
    )
    key_file: Annotated[str, Meta(min_length=1, description="PEM file of its key.")] = msgspec.field(name="keyFile")
    client_ca_file: Annotated[
        str | None, Meta(description="PEM file of the authority of clients: its certificates do instead of the token.")
    ] = msgspec.field(default=None, name="clientCAFile")


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Our own listener: plain on loopback, else with a token or with certificates of clients."""

    listen: Annotated[Listen, Meta(description="Where the page, the API and `/metrics` are served.")] = "127.0.0.1:9480"
    request_timeout: Annotated[
        Duration, Meta(ge=0.1, le=600.0, description="The longest that one answer may take.")
    ] = 30.0
    token_file: Annotated[
        str | None,
        Meta(description="File with the token that every request except probes must bear; read at start."),
    ] = None
    tls: Annotated[HttpTls | None, Meta(description="Serves HTTPS instead of plain HTTP; read at start.")] = None
