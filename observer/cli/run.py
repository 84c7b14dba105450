"""The verbs that run the observer itself: ``demo``, ``serve``, ``record``, ``replay``, and ``check`` of their files.

The application is imported only when one of them runs, so that the others start at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec
from rich.text import Text

from exporters.listening import ListenError
from exporters.live import console, deployments_picture, width
from exporters.otlp_options import OtlpError
from observer.cli.exits import EPILOG, CommandFailed
from observer.cli.output import Format, dumped, grouped, tell
from observer.cli.platform import check_platform
from observer.cli.replayed import chosen, pictures
from observer.collect.recording import RecordingError
from observer.persist import StateError
from observer.settings import SettingsError, load_files
from observer.yamldoc.faults import Fault, did_you_mean

_FILES = click.Path(path_type=Path)
_CONFIG = click.option("--config", "-c", "config", type=_FILES, multiple=True, required=True, metavar="FILE", help="A settings or fleet file, or a folder of them; may be repeated.")  # fmt: skip
_STATE = click.option("--state", type=_FILES, metavar="FILE", help="Keep here what a restart must not lose (SQLite).")
_LISTEN = click.option("--listen", metavar="HOST:PORT", help="Where to answer; port 0 takes a free one.")


@click.command(epilog=EPILOG)
@click.option("--scenario", metavar="NAME", help="The scenario the simulated fleet begins with.")
@click.option("--once", is_flag=True, help="Print one table when every target was read, and exit.")
@click.option("--duration", type=click.FloatRange(min=0.1), metavar="SECONDS", help="Stop after this long.")
@_LISTEN
def demo(scenario: str | None, once: bool, duration: float | None, listen: str | None) -> None:
    """Start a simulated fleet on loopback and the observer on it, and show a live table."""
    from observer.app import run_demo  # noqa: PLC0415 - the application is loaded only where it runs
    from observer.simulate.scenarios import SCENARIOS  # noqa: PLC0415 - loaded only where it runs

    if scenario is not None and scenario not in SCENARIOS:
        hint = did_you_mean(scenario, SCENARIOS)
        raise click.UsageError(f"--scenario is {scenario!r}; want one of {', '.join(SCENARIOS)}. {hint}".rstrip())
    with explained():
        run_demo(scenario=scenario, once=once, duration=duration, listen=listen)


@click.command(epilog=EPILOG)
@click.option("--config", "-c", "config", type=_FILES, multiple=True, metavar="FILE", help="A settings or fleet file, or a folder of them; may be repeated.")  # fmt: skip
@click.option("--kubernetes", is_flag=True, help="Watch a cluster: the one we run in, or that of --kubeconfig.")
@click.option("--kubeconfig", metavar="FILE", help="Credentials of the cluster, instead of those of the Pod we run in.")
@click.option("--context", metavar="NAME", help="The kubeconfig's context, instead of its current one.")
@_LISTEN
@click.option("--record", type=_FILES, metavar="FILE", help="Also keep all that is read in this .obsrec file.")
@_STATE
def serve(
    config: tuple[Path, ...],
    kubernetes: bool,
    kubeconfig: str | None,
    context: str | None,
    listen: str | None,
    record: Path | None,
    state: Path | None,
) -> None:
    """Watch the targets that files name, or a cluster, and answer over HTTP until stopped."""
    _check_source(config, kubernetes=kubernetes, cluster=kubeconfig or context, state=state)
    if kubernetes:
        _serve_cluster(config, kubeconfig=kubeconfig, context=context, listen=listen, record=record)
        return
    from observer.app import run_serve  # noqa: PLC0415 - the application is loaded only where it runs

    with explained():
        run_serve(config, listen=listen, record=record, state=state)


def _serve_cluster(
    config: tuple[Path, ...], *, kubeconfig: str | None, context: str | None, listen: str | None, record: Path | None
) -> None:
    from observer.app import ClusterError, run_serve_cluster  # noqa: PLC0415 - the application is loaded only where it runs

    with explained():
        try:
            run_serve_cluster(config, kubeconfig=kubeconfig, context=context, listen=listen, record=record)
        except ClusterError as error:
            raise CommandFailed(str(error)) from error


def _check_source(config: tuple[Path, ...], *, kubernetes: bool, cluster: str | None, state: Path | None) -> None:
    """Raises `click.UsageError` for options that do not go together."""
    if not kubernetes and not config:
        raise click.UsageError("found neither --config nor --kubernetes; want at least one")
    if not kubernetes and cluster:
        raise click.UsageError("--kubeconfig and --context belong to --kubernetes")
    if kubernetes and state is not None:
        raise click.UsageError("with --kubernetes nothing is kept in a file: observations keep it in the cluster")


@click.command(epilog=EPILOG)
@click.argument("file", type=_FILES)
@_CONFIG
@_LISTEN
@_STATE
def record(file: Path, config: tuple[Path, ...], listen: str | None, state: Path | None) -> None:
    """Watch as `serve` does and keep all that is read in FILE, for `observer replay`."""
    from observer.app import run_serve  # noqa: PLC0415 - the application is loaded only where it runs

    with explained():
        run_serve(config, listen=listen, record=file, state=state)


@click.command(epilog=EPILOG)
@click.argument("file", type=_FILES)
@click.option("--speed", type=click.FloatRange(min=0, min_open=False), default=0.0, show_default="as fast as it goes", metavar="TIMES", help="How many times faster than it was recorded; 0 does not wait.")  # fmt: skip
@click.option("--deployment", metavar="NAMESPACE/NAME", help="Only this one, with its status, explanation and metrics.")
@click.option("-o", "--output", type=click.Choice([form.value for form in Format]), default=Format.TABLE.value, show_default=True, help="How to print; json and yaml have every document.")  # fmt: skip
def replay(file: Path, speed: float, deployment: str | None, output: str) -> None:
    """Run a recording through the same pipeline, offline, and show what it came to."""
    from observer.app import run_replay  # noqa: PLC0415 - the application is loaded only where it runs

    with explained():
        outcome = run_replay(file, speed=speed)
    form = Format(output)
    target = console()
    if form not in {Format.JSON, Format.YAML} and deployment is None:
        target.print(deployments_picture(outcome.summaries(), target, outcome.note, wide=form is Format.WIDE))
        return
    told = chosen(outcome.documents(), deployment)
    if form in {Format.JSON, Format.YAML}:
        click.echo(dumped({"recording": outcome.note, "deployments": told}, form))
    else:
        shown = pictures(told[0], wide=form is Format.WIDE, width=width(target))
        target.print(grouped([Text(outcome.note), *shown]))


@click.command(epilog=EPILOG)
@click.argument("files", type=_FILES, nargs=-1, metavar="FILE...")
@click.option("--platform", metavar="FILE", help="Check a platform document instead (or one of ours, by its name).")
@click.option("--dump", type=_FILES, metavar="FOLDER", help="Explain what the platform finds in this cluster dump.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True, help="How to print.")  # fmt: skip
def check(files: tuple[Path, ...], platform: str | None, dump: Path | None, output: str) -> None:
    """Check settings and fleet files; every fault with its line. With --platform and --dump: what would be discovered.

    Fails too for programs that no table knows, with which `serve` starts and shows them as unknown. What may come right
    by itself, as a file that is not there yet, is a notice.
    """
    if platform is not None:
        check_platform(platform, dump, Format(output))
        return
    if dump is not None or not files:
        raise click.UsageError("--dump needs --platform" if dump is not None else "Missing argument 'FILE...'.")
    faults: Sequence[Fault] = ()
    good = ""
    try:
        configuration = load_files(files)
    except SettingsError as error:
        faults, notices = error.faults, error.notices
    else:
        notices = configuration.notices
    refused = [notice for notice in notices if notice.refused]
    notices = tuple(notice for notice in notices if not notice.refused)
    faults = sorted([*faults, *refused], key=lambda fault: fault.order)
    if not faults:
        targets = sum(1 for deployment in configuration.deployments for _ in deployment.targets())
        good = f"{_count(len(configuration.deployments), 'deployment')}, {_count(targets, 'target')}"
    if output == "table":
        lines = [*(str(fault) for fault in faults), *(f"notice: {notice}" for notice in notices)]
        click.echo("\n".join([*lines, f"well: {good}"] if good else lines))
    else:
        answer = {"faults": msgspec.to_builtins(faults), "notices": msgspec.to_builtins(notices)}
        click.echo(dumped(answer, Format(output)))
    if faults:
        raise CommandFailed(_count(len(faults), "fault"))


@contextmanager
def explained() -> Iterator[None]:
    """Turns what can be expected to go wrong in a run into a sentence and an exit code."""
    try:
        yield
    except SettingsError as error:
        for fault in error.faults:
            tell(str(fault))
        raise CommandFailed(f"{_count(len(error.faults), 'fault')}; `observer check` prints them alone") from error
    except (ListenError, OtlpError, RecordingError, StateError) as error:
        raise CommandFailed(str(error)) from error
    except KeyboardInterrupt as interrupt:
        raise click.exceptions.Abort from interrupt


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
