"""Checks whether the GraphQL engine tracks the served version. ``graphql-admin.json`` has its address and secret.

A thread checks every few seconds, and reads the file anew each time. Requests get only the last result. The API also
serves without the engine, so a failed check does not make it unready.
"""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from marketdata import secretfile
from marketdata.api.served_version import ServedVersion
from marketdata.errors import MarketError, MissingRequirement
from marketdata.graphql import engine
from marketdata.graphql.engine import Credential, Engine
from marketdata.graphql.tracking import DISTRIBUTED, schemas, untracked
from marketdata.store.pool import Pool
from marketdata.store.version import Version

PERIOD_SECONDS = 10.0
ANSWER_SECONDS = 3.0
STALL_SECONDS = 10.0
"""A check that takes longer counts as failed, although it continues: the look-up of the host's name may take long."""
FAILED = "the check failed; the log of the API has the reason"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Tracking:
    """``reason``: why the version is not tracked, or why this is unknown; None if it is tracked. Everybody can read it,
    so hosts and files are named only in the log. ``age``: seconds since the end of the last check."""

    reason: str | None
    age: float


@dataclass(frozen=True)
class _Checked:
    """The result of a check that ended at the monotonic time ``at``. ``version`` is None if it was not compared. The
    log gets ``detail`` instead of ``reason``, unless ``detail`` is empty."""

    at: float
    reason: str | None
    version: Version | None = None
    detail: str = ""


class GraphqlCheck:
    """Call ``start`` once; ``stop`` may be called repeatedly. ``folder`` contains ``graphql-admin.json``."""

    def __init__(
        self,
        folder: Path,
        pool: Pool,
        served: ServedVersion,
        *,
        period_seconds: float = PERIOD_SECONDS,
        answer_seconds: float = ANSWER_SECONDS,
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        self._period_seconds, self._answer_seconds = period_seconds, answer_seconds
        self._stall_seconds = stall_seconds
        self._folder = folder
        self._pool = pool
        self._served = served
        self._last: _Checked | None = None  # None while the file does not exist
        self._began: float | None = None
        self._warned = ""
        self._engine: Engine | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if os.path.exists(self._folder / secretfile.GRAPHQL_ADMIN):
            self._last = _Checked(monotonic(), "the first check is still running")
        self._thread = threading.Thread(target=self._run, name="api-check-graphql", daemon=True)
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        self._stopping.set()
        if (asked := self._engine) is not None:
            asked.interrupt()
        if self._thread is not None:
            self._thread.join(timeout)

    def tracking(self, version: Version | None) -> Tracking | None:
        """Returns the result for the served version, or None if ``graphql-admin.json`` does not exist. Never waits."""
        last, began = self._last, self._began
        if last is None:
            return None
        reason = last.reason
        if began is not None and (seconds := monotonic() - began) > self._stall_seconds:
            reason = f"the check has been waiting for {seconds:.0f} s"
        elif last.version not in (None, version):
            reason = "another version is served since the last check"
        return Tracking(reason, monotonic() - last.at)

    # -- in the thread of the check ------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._began = monotonic()
            checked = self._check()
            if self._stopping.is_set():
                return
            self._record(checked)
            self._stopping.wait(self._period_seconds)

    def _check(self) -> _Checked | None:
        reason, version, detail = None, None, ""
        try:
            credential = engine.load(self._folder, warn=self._warn)
            reason, version = self._compare(credential)
        except MissingRequirement:
            return None
        except MarketError as error:
            reason, detail = FAILED, error.detail
        except Exception:
            _log.exception("internal error in the check of the GraphQL engine")
            reason = "internal error in the check; see the log"
        return _Checked(monotonic(), reason, version, detail)

    def _compare(self, credential: Credential) -> tuple[str | None, Version]:
        self._engine = Engine(credential, self._answer_seconds)
        tracked = self._engine.tracked()
        with self._pool.connection() as connection:
            version = self._served.find(connection)
            if version.shards is not None:
                return DISTRIBUTED, version
            missing = untracked(version, schemas(connection, version), tracked)
        if not missing:
            return None, version
        return f"the engine does not track {' and '.join(missing)}: run bin/marketdata-graphql", version

    def _record(self, checked: _Checked | None) -> None:
        previous, self._last = self._last, checked
        self._began = None
        if checked is None or (
            previous is not None and (checked.reason, checked.detail) == (previous.reason, previous.detail)
        ):
            return
        if checked.reason is None:
            _log.info("the GraphQL engine tracks the served version")
        else:
            _log.warning("GraphQL: %s", checked.detail or checked.reason)

    def _warn(self, text: str) -> None:
        """Log a warning about the file, but do not repeat it with every check."""
        if text != self._warned:
            self._warned = text
            _log.warning("%s", text)
