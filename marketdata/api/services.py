"""What the handlers work with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from marketdata.api.auth import Authenticator
from marketdata.api.ingestion import Ingestion
from marketdata.api.metrics import Metrics
from marketdata.api.request_coalescing import RequestCoalescing
from marketdata.api.response_cache import ResponseCache
from marketdata.api.revocation_listener import RevocationListener
from marketdata.api.served_version import ServedVersion
from marketdata.store.candles import Counter
from marketdata.store.pool import Pool
from marketdata.store.version import Version


@dataclass(frozen=True)
class Services:
    """The parts of one running service. ``counters`` tells how a version's symbol stands now, ``backlog`` how many
    requests wait for a worker."""

    pool: Pool
    reads: Pool
    served: ServedVersion
    authenticator: Authenticator
    revocation_listener: RevocationListener
    ingestion: Ingestion
    response_cache: ResponseCache
    counters: RequestCoalescing[tuple[Version, str], Counter]
    metrics: Metrics
    backlog: Callable[[], int]
    started_at: float
