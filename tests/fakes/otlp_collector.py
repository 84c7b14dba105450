"""Small OTLP collectors on loopback, gRPC and HTTP: real sockets in threads of their own, which keep what arrives."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import (
    MetricsServiceServicer,
    add_MetricsServiceServicer_to_server,
)


class Collected:
    """What arrived, decoded, with the headers of each request; ``refuse`` answers that it cannot be taken."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[ExportMetricsServiceRequest] = []
        self.headers: list[dict[str, str]] = []
        self.refuse = False
        self.hold = threading.Event()
        self.hold.set()
        self.entered = threading.Event()

    def take(self, body: bytes | ExportMetricsServiceRequest, headers: dict[str, str]) -> bool:
        self.entered.set()
        self.hold.wait(30)
        request = (
            body if isinstance(body, ExportMetricsServiceRequest) else ExportMetricsServiceRequest.FromString(body)
        )
        if not self.refuse:
            self.requests.append(request)
            self.headers.append(headers)
        return not self.refuse


class _Grpc(MetricsServiceServicer):
    def __init__(self, collected: Collected) -> None:
        self._collected = collected

    def Export(self, request, context):
        headers = {str(name): str(value) for name, value in context.invocation_metadata()}
        if not self._collected.take(request, headers):
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "no token")
        return ExportMetricsServiceResponse()


@contextmanager
def grpc_collector() -> Iterator[Collected]:
    collected = Collected()
    server = grpc.server(futures.ThreadPoolExecutor(2))
    add_MetricsServiceServicer_to_server(_Grpc(collected), server)
    collected.url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield collected
    finally:
        collected.hold.set()
        server.stop(None).wait()


@contextmanager
def http_collector() -> Iterator[Collected]:
    collected = Collected()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            headers = {name.lower(): value for name, value in self.headers.items()}
            good = self.path == "/v1/metrics" and collected.take(body, headers)
            self.send_response(200 if good else 403)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    collected.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield collected
    finally:
        collected.hold.set()
        server.shutdown()
        thread.join()
        server.server_close()
