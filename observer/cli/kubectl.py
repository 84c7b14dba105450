"""Asking an observer through kubectl: by the aggregated API, else through its Service, else by a forwarded port.

Everything goes through kubectl, so its kubeconfig, contexts and credentials are the user's own. The way that answered
once is kept for the rest of a command.
"""

from __future__ import annotations

import contextlib
import re
import subprocess  # nosec B404 - it hands over to kubectl, with a list of arguments and no shell
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
import orjson

from observer.cli.client import Client
from observer.cli.exits import CommandFailed, Exit

GROUP = "metrics.modeldeployment.io"
BASE = f"/apis/{GROUP}/v1"
SELECTOR = "app.kubernetes.io/name=observer"
PORT_NAME = "http"
FORWARD_SECONDS = 15.0
LINE = 4096
"""Bytes of what kubectl says that are read at once."""
_DEPLOYMENT = re.compile(
    r"/api/v1/namespaces/([^/]+)/modeldeployments/([^/]+)/(metrics|status|explain|contract|kv|kv/lookup)"
)
_FORWARDED = re.compile(r"Forwarding from 127\.0\.0\.1:([0-9]+) ->")


class Service(msgspec.Struct, frozen=True):
    """The observer's Service and its plain port."""

    namespace: str
    name: str
    port: str

    @classmethod
    def parse(cls, text: str) -> Service:
        """Of ``NAMESPACE/NAME`` or ``NAMESPACE/NAME:PORT``. Raises `CommandFailed`."""
        found = re.fullmatch(r"([a-z0-9-]+)/([a-z0-9-]+)(?::([a-z0-9-]+))?", text)
        if found is None:
            raise CommandFailed(f"--observer is {text!r}; want NAMESPACE/SERVICE or NAMESPACE/SERVICE:PORT", Exit.USAGE)
        return cls(found[1], found[2], found[3] or PORT_NAME)


class Said(msgspec.Struct, frozen=True):
    """What kubectl said: its output, or its complaint."""

    code: int
    out: bytes
    complaint: str

    @property
    def no_such_path(self) -> bool:
        """Whether the API server does not know the path at all."""
        return self.code != 0 and "the server could not find the requested resource" in self.complaint

    @property
    def away(self) -> bool:
        """Whether who stands behind the path does not answer now."""
        return self.code != 0 and any(
            word in self.complaint for word in ("ServiceUnavailable", "unable to handle the request", "no endpoints", "InternalError")
        )  # fmt: skip

    @property
    def refused_us(self) -> bool:
        """Whether who stands behind the path asks for a token."""
        return self.code != 0 and ("You must be logged in" in self.complaint or "Unauthorized" in self.complaint)


class Kubectl:
    """How kubectl is called, and where the observer is when it is named. The context object of the plugin."""

    def __init__(self) -> None:
        self.program = "kubectl"
        self.kubeconfig: str | None = None
        self.context: str | None = None
        self.observer: str | None = None
        self.closing = contextlib.ExitStack()

    def client(self, token_file: Path | None, seconds: float) -> KubectlClient:
        """A client through kubectl."""
        return KubectlClient(self, token_file, seconds)

    def namespace(self) -> str:
        """The namespace of the kubeconfig's context."""
        said = self.run(["config", "view", "--minify", "-o", "jsonpath={..namespace}"], 10.0)
        return said.out.decode("utf-8", "replace").strip() or "default"

    def run(self, arguments: Sequence[str], seconds: float) -> Said:
        """Run kubectl. Raises `CommandFailed` when it is not there, does not end in time or finds no API server."""
        try:
            done = subprocess.run(  # noqa: S603 - the user's own kubectl with arguments of ours
                self.command(*arguments), capture_output=True, timeout=seconds + 5.0, check=False
            )
        except FileNotFoundError as error:
            raise CommandFailed(
                f"{self.program} is not on the PATH. Install it, or name the observer with --server", Exit.USAGE
            ) from error
        except subprocess.TimeoutExpired as error:
            raise CommandFailed(
                f"kubectl {arguments[0]} did not end within {seconds + 5.0:g} s. Try --timeout, or look at the API server",
                Exit.UNREACHABLE,
            ) from error
        complaint = done.stderr.decode("utf-8", "replace").strip()
        if done.returncode and ("Unable to connect" in complaint or "was refused" in complaint):
            raise CommandFailed(
                f"kubectl reaches no API server: {complaint}. Check --context and the kubeconfig", Exit.UNREACHABLE
            )
        return Said(done.returncode, done.stdout, complaint)

    def command(self, *arguments: str) -> list[str]:
        """The whole command line."""
        options = {"--kubeconfig": self.kubeconfig, "--context": self.context}
        return [self.program, *(f"{name}={value}" for name, value in options.items() if value), *arguments]


class KubectlClient:
    """Answers like an observer (`observer.cli.client.Asks`), through kubectl."""

    def __init__(self, kubectl: Kubectl, token_file: Path | None, seconds: float) -> None:
        self._kubectl = kubectl
        self._token_file = token_file
        self._seconds = seconds
        self._service: Service | None = None
        self._forwarded: Client | None = None
        self._told = False

    def get(self, path: str, query: Mapping[str, str] | None = None, *, waiting: Callable[[str], None]) -> Any:
        """The JSON at a path of the observer. Raises `CommandFailed`."""
        asked = dict(query or {})
        found = _DEPLOYMENT.fullmatch(path)
        # The aggregated API answers from memory: an extra read is asked of the observer itself.
        if found is not None and self._kubectl.observer is None and "fresh" not in asked:
            answer = self._aggregated(found[1], found[2], found[3], asked)
            if answer is not None:
                return answer
        return self._through_service(path, asked, waiting)

    def _aggregated(self, namespace: str, name: str, part: str, query: dict[str, str]) -> Any:
        """The aggregated API's answer; ``None`` where there is no such API or nobody behind it."""
        tail = {"status": "", "kv/lookup": "/kv"}.get(part, f"/{part}")
        said = self._raw(f"{BASE}/namespaces/{namespace}/modeldeployments/{name}{tail}", query)
        if said.code == 0:
            answer = _json(said.out)
            if not isinstance(answer, dict):
                raise CommandFailed(
                    "what answers is no observer: found no JSON object. Check the API group", Exit.UNREACHABLE
                )
            if part == "status" and "status" not in answer:
                raise CommandFailed(f"{namespace}/{name} is not judged yet: {answer.get('awaiting', '')}")
            return answer
        if said.no_such_path or said.away:
            return None
        if "(Forbidden)" in said.complaint:
            resource = f"modeldeployments{tail}"
            raise CommandFailed(
                f"{_words(said.complaint)}. Ask for the right to get {resource} in the API group {GROUP}, or name the "
                "observer with --server"
            )
        if f'"{name}" not found' in said.complaint:
            raise CommandFailed(
                f"no deployment {name} is observed in namespace {namespace}. `kubectl get mdm -A` lists all; name its "
                "namespace with -n"
            )
        raise CommandFailed(_words(said.complaint))

    def _through_service(self, path: str, query: dict[str, str], waiting: Callable[[str], None]) -> Any:
        if self._forwarded is not None:
            return self._forwarded.get(path, query, waiting=waiting)
        service = self._found_service()
        if self._token_file is None:
            place = f"/api/v1/namespaces/{service.namespace}/services/http:{service.name}:{service.port}/proxy"
            said = self._raw(place + path, query)
            if said.code == 0:
                return _json(said.out)
            if said.refused_us:
                raise CommandFailed(
                    f"the observer {service.namespace}/{service.name} asks for a token, which the API server's proxy does "
                    "not pass on. Give --token-file: then its port is forwarded"
                )
            if not said.away and "(Forbidden)" not in said.complaint:
                raise CommandFailed(_words(said.complaint))
        self._forwarded = self._forward(service)
        return self._forwarded.get(path, query, waiting=waiting)

    def _found_service(self) -> Service:
        """The Service that was named, or the only one with the chart's labels."""
        if self._service is not None:
            return self._service
        if self._kubectl.observer is not None:
            self._service = Service.parse(self._kubectl.observer)
            return self._service
        said = self._kubectl.run(["get", "services", "-A", "-l", SELECTOR, "-o", "json"], self._seconds)
        if said.code:
            raise CommandFailed(
                f"looking for the observer's Service: {_words(said.complaint)}. Name it with --observer NAMESPACE/SERVICE, "
                "or the observer with --server"
            )
        listed = _json(said.out)
        found = [
            Service(item["metadata"]["namespace"], item["metadata"]["name"], PORT_NAME)
            for item in (listed.get("items") or () if isinstance(listed, dict) else ())
            if any(port.get("name") == PORT_NAME for port in item["spec"].get("ports") or ())
        ]
        if len(found) != 1:
            names = ", ".join(f"{each.namespace}/{each.name}" for each in found) or "none"
            raise CommandFailed(
                f"the API group {GROUP} does not answer, and of Services with {SELECTOR} and a port {PORT_NAME} found "
                f"{names}, wanted one. Name it with --observer NAMESPACE/SERVICE, or the observer with --server",
                Exit.UNREACHABLE,
            )
        self._service = found[0]
        return self._service

    def _forward(self, service: Service) -> Client:
        """A forwarded port, open until the command ends."""
        url = self._kubectl.closing.enter_context(forwarded(self._kubectl, service))
        return Client(server=url, token_file=self._token_file, seconds=self._seconds)

    def _raw(self, path: str, query: dict[str, str]) -> Said:
        whole = f"{path}?{urlencode(query)}" if query else path
        return self._kubectl.run(["get", "--raw", whole, f"--request-timeout={self._seconds:g}s"], self._seconds)


@contextlib.contextmanager
def forwarded(kubectl: Kubectl, service: Service, seconds: float = FORWARD_SECONDS) -> Iterator[str]:
    """The URL of a port of this machine that leads to a Service's. Raises `CommandFailed`."""
    arguments = ["port-forward", "-n", service.namespace, f"service/{service.name}", f":{service.port}"]
    command = kubectl.command(*arguments, "--address=127.0.0.1")
    with (
        tempfile.TemporaryFile() as complaints,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints) as process,  # noqa: S603 - as `Kubectl.run`
    ):
        # One that an API server keeps waiting says nothing for ever; its end ends the waiting for its first line.
        late = threading.Timer(seconds, process.kill)
        try:
            late.start()
            # The first line says the port; a kubectl that cannot forward says why and ends.
            line = process.stdout.readline(LINE).decode("utf-8", "replace") if process.stdout is not None else ""
            late.cancel()
            found = _FORWARDED.search(line)
            if found is None:
                process.kill()
                process.wait()
                complaints.seek(0)
                said = complaints.read(LINE).decode("utf-8", "replace").strip() or line.strip()
                raise CommandFailed(
                    f"forwarding a port of {service.namespace}/{service.name}: "
                    f"{said or f'kubectl said nothing within {seconds:g} s'}. Name the observer with --server",
                    Exit.UNREACHABLE,
                )
            # It says a line for each connection, and waits for ever once nobody reads them.
            threading.Thread(target=_drained, args=(process,), daemon=True).start()
            yield f"http://127.0.0.1:{found[1]}"
        finally:
            late.cancel()
            process.terminate()


def _drained(process: subprocess.Popen[bytes]) -> None:
    """Read what a process says until its end, and keep nothing."""
    with contextlib.suppress(OSError, ValueError):  # the pipe may be closed under it
        while process.stdout is not None and process.stdout.read(LINE):
            pass


def _json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise CommandFailed("what answers is no observer: found no JSON. Check --observer", Exit.UNREACHABLE) from error


def _words(complaint: str) -> str:
    """What kubectl complains of, without its preamble."""
    return re.sub(r"^Error from server \([A-Za-z]+\): ", "", complaint).strip().rstrip(".")
