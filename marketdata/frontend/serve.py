"""The composition root of the frontend: builds its parts, starts them, and stops them."""

from __future__ import annotations

import logging
import re
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from marketdata import secretfile
from marketdata.errors import StateError
from marketdata.frontend import login, proxy, users
from marketdata.frontend.app import SECURITY_HEADERS, Access, Frontend
from marketdata.frontend.pages import Pages
from marketdata.frontend.problems import refusal
from marketdata.frontend.times import TIMES, Times
from marketdata.frontend.tunnels import Tunnels
from marketdata.frontend.upstream import Upstream
from marketdata.http import request_log
from marketdata.http.listener import CONNECTIONS, Listener
from marketdata.limits import MAX_BODY_BYTES
from marketdata.secretfile import ReloadingFile
from marketdata.settings import Settings

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
WORKERS = proxy.MAX_RUNNING + proxy.MAX_WAITING + login.MAX_RUNNING + login.MAX_WAITING + 8
"""Number of workers. Even when all requests to the API and all logins wait, eight workers are still free for other
requests. Most workers only wait, so the large number is cheap."""

MAX_TUNNELS = 4000
WANTED_DESCRIPTORS = 16384

_TOKEN = re.compile(r"[!-~]+")
_log = logging.getLogger("marketdata.frontend")


class Service:
    """The frontend in one process. Call ``start`` once; ``stop`` is idempotent."""

    def __init__(self, settings: Settings, times: Times = TIMES, max_tunnels: int = MAX_TUNNELS) -> None:
        """Raises MissingRequirement or StateError if the users' file or the read token's file cannot be used."""
        token = ReloadingFile(settings.secrets_dir / secretfile.READ_TOKEN, _read_token, times.file_check)
        token()
        user_login = None
        if settings.basic_auth:
            known_users = ReloadingFile(settings.secrets_dir / secretfile.FRONTEND_USERS, _users, times.file_check)
            known_users()
            user_login = login.Login(known_users)
        self._upstream = Upstream(settings.api_upstream, proxy.MAX_RUNNING, times)
        descriptors = _descriptors()
        # A tunnel uses two descriptors. If a proxy does the login, only a new handshake shows whether it still lets the
        # user in.
        lifetime = None if settings.basic_auth else times.tunnel
        self.tunnels = Tunnels(min(max_tunnels, descriptors // 4), lifetime, times)
        access = Access(user_login, frozenset(settings.frontend_origins), settings.trusted_proxies)
        app = Frontend(access, proxy.Proxy(self._upstream, token, self.tunnels), Pages())
        self._listener = Listener(
            app,
            settings.frontend_host,
            settings.frontend_port,
            admit=app.admit,
            body_bytes=MAX_BODY_BYTES,
            workers=WORKERS,
            refusal=lambda error: refusal(error).with_headers(*SECURITY_HEADERS),
            name="frontend",
            connections=min(CONNECTIONS, descriptors // 4),
        )

    @property
    def port(self) -> int:
        """The bound TCP port; 0 before ``start``."""
        return self._listener.port

    def start(self) -> None:
        try:
            self.tunnels.start()
            self._listener.start()
        except BaseException:
            self.stop()
            raise

    def stop(self, timeout: float = 5.0) -> None:
        self._listener.stop(timeout)
        self.tunnels.stop(timeout)
        self._upstream.close()


def _descriptors() -> int:
    """Raise the limit of open descriptors to ``WANTED_DESCRIPTORS``, or as far as the system allows. Returns the new
    limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, WANTED_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def _users(path: Path) -> dict[str, bytes]:
    return users.load(path, warn=_log.warning)


def _read_token(path: Path) -> str:
    token = secretfile.read_token(path, scope="read", warn=_log.warning).token
    if not _TOKEN.fullmatch(token):
        raise StateError(f"{path} has a token with characters that a header cannot have")
    return token


def run(settings: Settings, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP. ``announce`` gets the address when the frontend answers."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    request_log.configure(settings.log)
    # The signals are blocked before the first thread starts, because threads inherit the mask; see api/serve.py.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    service = Service(settings)
    try:
        service.start()
        host = f"[{settings.frontend_host}]" if ":" in settings.frontend_host else settings.frontend_host
        announce(f"http://{host}:{service.port}")
        signal.sigwait(STOP_SIGNALS)
    finally:
        service.stop()
