"""Every secret that settings and deployments name, so that it can be hidden by its value wherever it turns up."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from observer.collect.redaction import is_secret_name
from observer.settings import Settings
from router_contract.targets import Address, Deployment

MAX_FILE_BYTES = 64 * 1024


def known_secrets(settings: Settings, deployments: Iterable[Deployment]) -> set[str]:
    """Every secret that settings and deployments name: values of headers, contents of token files, secret variables."""
    found: set[str] = set()
    files: set[str] = set()
    for provider in settings.canary.providers:
        found.update(value for _, value in provider.headers)
        files |= {provider.token_file or "", provider.password_file or ""}
    files |= {settings.http.token_file or "", settings.http.tls.key_file if settings.http.tls is not None else ""}
    for deployment in deployments:
        for role in deployment.roles:
            found.update(value for name, value in role.environment if is_secret_name(name))
        for target in deployment.targets():
            files.update(_of_address(target.address, found))
    for file in files - {""}:
        found.update(_content(Path(file)))
    return found | {value.split(None, 1)[1] for value in found if len(value.split(None, 1)) == 2}


def _of_address(address: Address, found: set[str]) -> set[str]:
    found.update(value for _, value in address.headers)
    key = address.tls.key_file if address.tls is not None else None
    return {address.bearer_token_file or "", key or ""}


def _content(file: Path) -> list[str]:
    """The words of a small secret file, whole lines of a key; nothing of one that cannot be read."""
    try:
        with file.open("rb") as opened:
            text = opened.read(MAX_FILE_BYTES).decode("utf-8", "replace").strip()
    except OSError:
        return []
    return [text, *(line.strip() for line in text.splitlines() if not line.startswith("-----"))]
