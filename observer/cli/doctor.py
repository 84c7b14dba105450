"""The verb ``doctor``: why a target is silent, and the exact setting or command that changes it."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
from rich.console import RenderableType
from rich.text import Text

from exporters.live import console
from observer.cli.exits import EPILOG, CommandFailed, Exit
from observer.cli.output import Format, dumped, grouped, understood
from observer.cli.run import explained
from observer.cli.show import Asked, asking
from router_contract import catalog
from router_contract.targets import Address, Component, DeploymentKey, KvEventSource, Target, TargetKey, Tls

_FILES = click.Path(path_type=Path)
_ENDPOINT = re.compile(r"tcp://[^/\s]+:[0-9]{1,5}")
_PORTS = {"http": 80, "https": 443}


@click.command(epilog=EPILOG)
@click.argument("name", required=False)
@click.option("--target", metavar="URL", help="Examine this address from here, without an observer.")
@click.option("--config", "-c", "config", type=_FILES, multiple=True, metavar="FILE", help="Examine every target of fleet files from here; may be repeated.")  # fmt: skip
@click.option("--engine", metavar="NAME", help="With --target: it should be this engine.")
@click.option("--router", metavar="NAME", help="With --target: it should be this router.")
@click.option("--store", metavar="NAME", help="With --target: it should be this cache store.")
@click.option("--version", metavar="VERSION", help="With --target: the program's version.")
@click.option("--kv-events", "kv", multiple=True, metavar="tcp://HOST:PORT", help="With --target: a KV-event socket of it; may be repeated.")  # fmt: skip
@click.option("--ca-file", type=_FILES, metavar="FILE", help="With --target: the authorities to trust.")
@click.option("--cert-file", type=_FILES, metavar="FILE", help="With --target: our client certificate (with its key, or give --key-file).")  # fmt: skip
@click.option("--key-file", type=_FILES, metavar="FILE", help="With --target: the client certificate's key.")
@click.option("--bearer-token-file", type=_FILES, metavar="FILE", help="With --target: a file with its bearer token.")
@click.option("--step", type=click.FloatRange(min=0.1, max=60), default=3.0, show_default=True, metavar="SECONDS", help="With --target or --config: how long one step may take.")  # fmt: skip
@asking(all_namespaces=False)
def doctor(asked: Asked, name: str | None, target: str | None, config: tuple[Path, ...], step: float, **told: Any) -> None:  # fmt: skip
    """Say why a target is silent: policy, mesh, TLS, listener, port, path, credentials, registry, program, version.

    With NAME a running observer examines that deployment's targets from where it runs, which is what counts in a
    cluster. --target and --config examine from this machine. Exits 1 when anything was found.
    """
    if sum((name is not None, target is not None, bool(config))) != 1:
        raise click.UsageError("want one of NAME, --target URL, --config FILE")
    if asked.watch is not None:
        raise click.UsageError("doctor examines once; --watch is for the other verbs")
    if target is None and any(told.values()):
        wrong = next(key for key, value in told.items() if value)
        option = "kv-events" if wrong == "kv" else wrong.replace("_", "-")
        raise click.UsageError(f"--{option} goes with --target URL")
    if name is not None:
        answer = asked.get(f"/api/v1/namespaces/{asked.namespace}/modeldeployments/{name}/doctor")
        place = "from where the observer runs"
    else:
        answer = _from_here(target, config, step, told)
        place = "from this machine"
    with understood():
        if asked.form in {Format.JSON, Format.YAML}:
            click.echo(dumped(answer, asked.form))
        else:
            console().print(picture(answer, place, wide=asked.form is Format.WIDE))
        well = all(each["well"] for each in answer["targets"])
    if not well:
        click.get_current_context().exit(int(Exit.FAILED))


def _from_here(target: str | None, config: tuple[Path, ...], step: float, told: dict[str, Any]) -> dict[str, Any]:
    from observer.app.doctor import run_doctor, run_doctor_files  # noqa: PLC0415 - loaded only where it runs
    from observer.collect.doctor import Subject  # noqa: PLC0415 - loaded only where it runs

    if target is None:
        with explained():
            return run_doctor_files(config, step)
    for endpoint in told["kv"]:
        if not _ENDPOINT.fullmatch(endpoint):
            raise CommandFailed(f"--kv-events is {endpoint!r}; want tcp://HOST:PORT", Exit.USAGE)
    sources = tuple(KvEventSource(endpoint=endpoint) for endpoint in told["kv"])
    return run_doctor([Subject(target=_target(target, told), kv=sources)], step)


def _target(url: str, told: dict[str, Any]) -> Target:
    named = {Component.ENGINE: told["engine"], Component.ROUTER: told["router"], Component.STORE: told["store"]}
    chosen = [(component, name) for component, name in named.items() if name is not None]
    if len(chosen) > 1:
        raise click.UsageError("want at most one of --engine NAME, --router NAME, --store NAME")
    component, software = chosen[0] if chosen else (Component.ENGINE, "")
    if software:
        try:
            software = catalog.lookup(component, software).name
        except catalog.UnknownSoftware as error:
            raise CommandFailed(str(error), Exit.USAGE) from error
    address = _address(url, told)
    key = TargetKey(DeploymentKey("default", ""), "", component, address.port)
    return Target(key=key, component=component, software=software, version=told["version"], address=address)


def _address(url: str, told: dict[str, Any]) -> Address:
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    host = parts.hostname
    if parts.scheme not in _PORTS or not host or any(char.isspace() for char in url):
        raise CommandFailed(f"--target is {url!r}; want an address like http://10.0.0.7:8000/metrics", Exit.USAGE)
    files = {name: str(told[name]) if told[name] is not None else None for name in ("ca_file", "cert_file", "key_file")}
    if files["cert_file"] is None and files["key_file"] is not None:
        raise click.UsageError("--key-file goes with --cert-file")
    if any(files.values()) and parts.scheme != "https":
        raise click.UsageError(f"--ca-file and --cert-file are for https; --target is {url}")
    token = told["bearer_token_file"]
    path = parts.path if parts.path not in {"", "/"} else "/metrics"
    return Address(
        scheme=parts.scheme,
        host=_plain(host),
        port=port if port is not None else _PORTS[parts.scheme],
        path=path + (f"?{parts.query}" if parts.query else ""),
        tls=Tls(ca_file=files["ca_file"], cert_file=files["cert_file"], key_file=files["key_file"])
        if any(files.values())
        else None,
        bearer_token_file=str(token) if token is not None else None,
    )


def _plain(host: str) -> str:
    """A host without the zone that a URL writes percent-encoded."""
    try:
        return str(ipaddress.ip_address(host.replace("%25", "%")))
    except ValueError:
        return host


def picture(answer: dict[str, Any], place: str, *, wide: bool) -> RenderableType:
    """Every target with what was found; ``wide`` adds what was tried where all is well."""
    targets = answer["targets"]
    well = sum(each["well"] for each in targets)
    noun = "target" if len(targets) == 1 else "targets"
    parts: list[RenderableType] = [
        Text(f"{len(targets)} {noun} examined {place}: {well} well, {len(targets) - well} not")
    ]
    if answer["leftOut"]:
        parts.append(Text(f"{answer['leftOut']} more were left out: too many at once", "yellow"))
    parts.append(Text("\n").join(_one(each, wide=wide) for each in targets))
    return grouped(parts)


def _one(each: dict[str, Any], *, wide: bool) -> Text:
    who = " ".join(part for part in (each["member"], each["software"], each["url"]) if part)
    if each["well"]:
        return Text.assemble(("well ", "green"), who)
    text = Text.assemble(("ill  ", "red"), who)
    for found in each["findings"]:
        likely = " (likely)" if found["certainty"] == "Likely" else ""
        text.append(f"\n     {found['cause']}{likely}", "bold").append(f": {found['said']}")
        for line in found["change"]:
            text.append(f"\n       → {line}")
        for line in found["seen"] if wide else ():
            text.append(f"\n       saw {line}", "dim")
    return text
