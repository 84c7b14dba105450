"""Reading a posted form of anybody: its fields, or a sentence that says why it is none."""

from __future__ import annotations

from urllib.parse import parse_qs

from aiohttp import web

FORM = "application/x-www-form-urlencoded"
MOST_FIELDS = 100


class BadFormError(ValueError):
    """A body that is no form; the text says what was found and what is wanted."""


async def form_of(request: web.Request) -> dict[str, str]:
    """The last value of each field of a URL-encoded form; a body of another type has none.

    Raises `BadFormError`; a body that is too large stays a 413. Multipart bodies are not read: nobody needs to send us
    files, and their parser is the one that strangers could feed.
    """
    body = await request.read()
    if request.content_type != FORM:
        return {}
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError as error:
        raise BadFormError(f"the form cannot be read: {str(error)[:200]}; want {FORM} in UTF-8") from None
    return {name: values[-1] for name, values in fields.items()}
