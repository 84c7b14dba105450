"""What the client asks about who we are to the API server. Any loader that answers these questions may be used."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Protocol


class CredentialsError(Exception):
    """Credentials cannot be read. The text names the file or variable, what was found and what was wanted."""


class Credentials(Protocol):
    """Five questions of the client, asked before each request; answers may change when files do."""

    @property
    def server(self) -> str:
        """The API server's base URL without a trailing slash."""
        ...

    @property
    def proxy(self) -> str | None:
        """An HTTP proxy's URL, ``None`` for none."""
        ...

    def tls(self) -> tuple[ssl.SSLContext | None, str | None]:
        """The context (``None`` over plain HTTP) and the name to check instead of the URL's, ``None`` for that.

        The same context object is returned until a file behind it changes, so connections are kept until then.
        """
        ...

    async def headers(self) -> Mapping[str, str]:
        """The headers that carry a token, empty with a client certificate. Raises `CredentialsError`."""
        ...

    async def refresh(self) -> None:
        """Read everything anew: the server said 401. Raises `CredentialsError`."""
        ...
