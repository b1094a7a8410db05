"""The ingestor's metrics: a table of names and help texts, and a loopback server for Prometheus."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from marketdata.errors import StateError

_MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX = "marketdata_ingestor_"
_SOURCE = "marketdata_source_"
_VERIFY = "marketdata_verify_"


def _metric(text: str, label: str = "", prefix: str = _PREFIX) -> Any:
    return field(metadata={"help": text, "label": label, "prefix": prefix})


@dataclass(frozen=True)
class ChainMetrics:
    """The values of a chain. A metric whose name ends with ``_total`` is a counter; all others are gauges. A mapping
    has one value for each value of its label."""

    failed: int = _metric("1 if the chain is not read before a restart, because of a fault that remains.")
    head_block: int = _metric("The newest block of the chain.")
    next_block: int = _metric("The next block to read.")
    read_until: int = _metric("The time up to which all blocks were read, in seconds since 1970; 0: not known.")
    pools: int = _metric("Pools that are read.")
    blocks_total: int = _metric("Blocks that were read.")
    ticks_total: int = _metric("Ticks that were read.")
    skipped_total: Mapping[str, int] = _metric("Swaps without a tick.", "reason")
    reorganisations_total: int = _metric("Reorganisations of the chain.")
    retracted_blocks_total: int = _metric("Blocks that reorganisations replaced.")
    requests_total: Mapping[str, int] = _metric("HTTP requests to the provider.", "endpoint")
    switches_total: int = _metric("Changes of the endpoint that answers for the provider.")
    contradicted_ranges_total: int = _metric("Ranges read header by header, because the provider contradicted itself.")
    contradictions_total: int = _metric(
        "Blocks of which the provider left out events that the bloom filter names.", prefix=_SOURCE
    )
    unproved_blocks: int = _metric(
        "Blocks that were read since the start without a proof that the provider left out no event.", prefix=_SOURCE
    )
    differences: float = _metric(
        "Stored ticks that differed from the chain at the last comparison; NaN before the first one.", prefix=_VERIFY
    )


@dataclass(frozen=True)
class Metrics:
    """The values at one moment, those of each chain by its name."""

    delivered_total: int = _metric("Items that the API stored or refused.")
    outbox_items: int = _metric("Items that wait for delivery.")
    dead_letters: int = _metric("Items that the API refused.")
    pruned_total: int = _metric("Items that the API refused because ticks of their time are pruned.")
    chains: Mapping[str, ChainMetrics] = field(default_factory=dict)


def rendered(metrics: Metrics) -> str:
    """The text format of Prometheus."""
    lines = []
    for each in fields(Metrics):
        if each.name != "chains":
            lines += [*_heading(each), f"{_name(each)} {getattr(metrics, each.name)}"]
    for each in fields(ChainMetrics):
        lines += _heading(each)
        for chain, values in metrics.chains.items():
            value = getattr(values, each.name)
            if isinstance(value, Mapping):
                name = each.metadata["label"]
                labelled = {f',{name}="{key}"': count for key, count in sorted(value.items())}
            else:
                labelled = {"": value}
            lines += [f'{_name(each)}{{chain="{chain}"{label}}} {count}' for label, count in labelled.items()]
    return "\n".join(lines) + "\n"


def _name(metric: Field[Any]) -> str:
    return f"{metric.metadata['prefix']}{metric.name}"


def _heading(metric: Field[Any]) -> list[str]:
    name = _name(metric)
    kind = "counter" if name.endswith("_total") else "gauge"
    return [f"# HELP {name} {metric.metadata['help']}", f"# TYPE {name} {kind}"]


class MetricsServer:
    """Serves ``GET /metrics`` from its creation until ``stop``. Each request has its own thread, which calls
    ``metrics``."""

    def __init__(self, port: int, metrics: Callable[[], Metrics]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = 404, b""
                if self.path == "/metrics":
                    try:
                        status, body = 200, rendered(metrics()).encode()
                    except StateError as error:
                        status, body = 503, error.detail.encode()
                self.send_response(status)
                self.send_header("Content-Type", _MEDIA_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Do nothing, so that requests are not logged."""

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
