"""The ingestor's figures in the text format of Prometheus, served on loopback when a port is set."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from marketdata.errors import StateError

_MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Figure(NamedTuple):
    """A counter when its name ends with ``_total``, else a gauge; ``value`` may be one for each reason."""

    name: str
    about: str
    value: float | Mapping[str, float]


def rendered(figures: list[Figure]) -> str:
    lines = []
    for name, about, value in figures:
        kind = "counter" if name.endswith("_total") else "gauge"
        lines += [f"# HELP marketdata_ingestor_{name} {about}", f"# TYPE marketdata_ingestor_{name} {kind}"]
        if isinstance(value, Mapping):
            lines += [f'marketdata_ingestor_{name}{{reason="{each}"}} {count}' for each, count in sorted(value.items())]
        else:
            lines.append(f"marketdata_ingestor_{name} {value}")
    return "\n".join(lines) + "\n"


class MetricsServer:
    """Serves ``GET /metrics`` from its creation until ``stop``; ``figures`` is asked each time."""

    def __init__(self, port: int, figures: Callable[[], list[Figure]]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = 404, b""
                if self.path == "/metrics":
                    try:
                        status, body = 200, rendered(figures()).encode()
                    except StateError as error:
                        status, body = 503, error.detail.encode()
                self.send_response(status)
                self.send_header("Content-Type", _MEDIA_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Requests are not logged."""

        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        except OSError as error:
            raise StateError(f"port {port} (MARKET_INGESTOR_METRICS_PORT) cannot be used: {error.strerror}") from error
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_port}/metrics"
        self._thread = threading.Thread(target=self._server.serve_forever, name="ingestor-metrics", daemon=True)
        self._thread.start()

    def stop(self, timeout: float = 1.0) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join(timeout)
            self._server.server_close()
