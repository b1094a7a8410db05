"""The composition root of the data API: builds its parts, starts them in order, stops them in reverse."""

from __future__ import annotations

import ctypes
import logging
import signal
import sys
from collections.abc import Collection, Mapping
from time import monotonic

from marketdata import secretfile, token
from marketdata.api.app import make_app
from marketdata.api.auth import Authenticator
from marketdata.api.ingestion import Ingestion
from marketdata.api.listener import Listener
from marketdata.api.metrics import Metrics
from marketdata.api.request_coalescing import RequestCoalescing
from marketdata.api.request_validation import BODY_BYTES
from marketdata.api.response_cache import ResponseCache
from marketdata.api.revocation_listener import RevocationListener
from marketdata.api.served_version import ServedVersion
from marketdata.api.services import Services
from marketdata.errors import DatabaseUnavailable, MissingRequirement, UsageError, VersionMissing
from marketdata.settings import Settings
from marketdata.store import candles, tokens
from marketdata.store.candles import Counter
from marketdata.store.pool import Pool
from marketdata.store.tokens import Holder
from marketdata.store.version import Version

_M_ARENA_MAX = -8  # malloc.h of glibc
_ARENAS = 2

ENDINGS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_log = logging.getLogger("marketdata.api")


class Service:
    """The data API in one process; ``start`` once, ``stop`` any number of times."""

    def __init__(self, settings: Settings) -> None:
        """``settings.database_url`` is set: whoever starts the service brings the private cluster up."""
        url = settings.database_url
        if url is None:
            raise UsageError("DATABASE_URL is not set, and nobody brought up the private cluster")
        self._settings = settings
        admin = _admin_digest(settings)
        self._pool = Pool(url, application_name="marketdata-api")
        read_url = settings.database_read_url
        self._reads = Pool(read_url, application_name="marketdata-api-read") if read_url else self._pool
        self._served = ServedVersion(settings, self._pool)
        metrics = Metrics()
        authenticator = Authenticator(self._find, admin)
        self._ingestion = Ingestion(self._pool, self._served, metrics, self._backlog)
        self._revocation_listener = RevocationListener(url, authenticator, self._served.refresh)
        self.services = Services(
            pool=self._pool,
            reads=self._reads,
            served=self._served,
            authenticator=authenticator,
            revocation_listener=self._revocation_listener,
            ingestion=self._ingestion,
            response_cache=ResponseCache(),
            counters=RequestCoalescing(self._counters),
            metrics=metrics,
            backlog=self._backlog,
            started_at=monotonic(),
        )
        app = make_app(self.services)
        self._listener = Listener(app, settings.api_host, settings.api_port, body_bytes=BODY_BYTES)

    @property
    def port(self) -> int:
        """The bound TCP port; 0 before ``start``."""
        return self._listener.port

    def start(self) -> None:
        """Serve. :class:`VersionMissing` when the settings name a version that is not there; a database that does not
        answer yet is waited for while serving (``GET /ready``)."""
        try:
            self._find_version()
            self._ingestion.start()
            self._revocation_listener.start()
            self._listener.start()
        except BaseException:
            self.stop()
            raise

    def stop(self, timeout: float = 5.0) -> None:
        """Accept nothing more, answer what runs, store what is queued, close what was used."""
        self._listener.stop(timeout)
        self._ingestion.stop(timeout)
        self._revocation_listener.stop(timeout)
        self._pool.close()
        self._reads.close()

    def _find_version(self) -> None:
        try:
            self._served.version()
        except DatabaseUnavailable as error:
            _log.warning("serving without the database for now: %s", error.detail)
        except VersionMissing as error:
            if self._served.is_named:
                raise
            _log.warning("serving without a version for now: %s", error.detail)

    def _find(self, digest: bytes) -> Holder | None:
        with self._pool.connection() as connection:
            return tokens.find(connection, digest)

    def _counters(self, asked: Collection[tuple[Version, str]]) -> Mapping[tuple[Version, str], Counter]:
        found: dict[tuple[Version, str], Counter] = {}
        with self._reads.connection() as connection:
            for version in {version for version, _ in asked}:
                names = [name for of, name in asked if of == version]
                counters = candles.counters(connection, version, names)
                found |= {(version, name): counter for name, counter in counters.items()}
        return found

    def _backlog(self) -> int:
        return self._listener.backlog()


def run(settings: Settings) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP; the address is printed once it answers."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    # Waited for, not handled: a handler may interrupt the very code that it would have to talk to. Blocked before any
    # thread starts, so that none of them takes one; it stays so, and a second signal is no news.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)
    _share_heaps()
    service = Service(settings)
    try:
        service.start()
        host = f"[{settings.api_host}]" if ":" in settings.api_host else settings.api_host
        print(f"http://{host}:{service.port}", flush=True)  # noqa: T201
        signal.sigwait(ENDINGS)
    finally:
        service.stop()


def _share_heaps() -> None:
    """Let the threads allocate from two heaps. glibc would give each a heap of its own, and every heap keeps room for
    the largest batch that its thread ever had. Another C library is left as it is."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, _ARENAS)


def _admin_digest(settings: Settings) -> bytes | None:
    """SHA-256 of the administrator's secret; without the file nobody is one."""
    path = settings.secrets_dir / secretfile.ADMIN_SECRET
    try:
        secret = secretfile.read(path, warn=_log.warning).get("token")
    except MissingRequirement:
        return None
    if not isinstance(secret, str) or len(secret) < 20:
        raise UsageError(f'{path} must be {{"token": "…"}} with a secret of at least 20 characters')
    return token.digest(secret)
