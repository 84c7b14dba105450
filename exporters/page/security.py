"""What a browser is told and asked: a strict content policy, and that a request that does something is the page's own."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from aiohttp import web

_SOURCES = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'{nonce}",
    "img-src": "'self' data:",
    "connect-src": "'self'",
    "form-action": "'self'",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
}
_POLICY = "; ".join(f"{name} {sources}" for name, sources in _SOURCES.items())
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": _POLICY.format(nonce=""),
    # Not "no-referrer": browsers then call the origin of the page's own forms "null".
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def headers(nonce: str) -> dict[str, str]:
    """The headers of a page one of whose scripts may write style elements: those that carry this nonce."""
    return {**HEADERS, "Content-Security-Policy": _POLICY.format(nonce=f" 'nonce-{nonce}'")}


def foreign(request: web.Request) -> str:
    """Why a request that does something is not taken; empty when it may be.

    Browsers name the origin of every POST. What names none is no browser, and can be led nowhere by a foreign page.
    """
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None and site not in {"same-origin", "none"}:
        return f"this request came from another site (Sec-Fetch-Site: {site[:40]}); only this page's own are taken"
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc != request.host:
        return f"this request came from {origin[:200]!r}; only this page's own, from {request.host!r}, are taken"
    return ""
