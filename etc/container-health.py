"""The health check of the image: exit code 0 when the API and the frontend that run in the container answer.

The API has to be ready, so its database is checked, too. Other launchers answer no requests, so they are healthy while
they run.
"""

from __future__ import annotations

import http.client
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from marketdata.settings import Settings, connectable, load

SECONDS = 4.0


def addresses(settings: Settings) -> dict[str, tuple[str, int, str]]:
    """Host, port and path of the health request, by the command that answers it."""
    return {
        "api": (settings.api_host, settings.api_port, "/ready"),
        "frontend": (settings.frontend_host, settings.frontend_port, "/healthz"),
    }


def running() -> Iterator[str]:
    """The market data's commands among the container's processes."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue  # it ended meanwhile
        if words[1:4] == ["-P", "-m", "marketdata"]:
            yield words[4]


def fault(host: str, port: int, path: str) -> str | None:
    """The reason why the container is not healthy; None if it is healthy."""
    connection = http.client.HTTPConnection(connectable(host), port, timeout=SECONDS)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return None if answer.status == 200 else f"{path} answered {answer.status}: {answer.read(500)!r}"
    except (OSError, http.client.HTTPException) as error:
        return f"{path} on port {port} does not answer: {error}"
    finally:
        connection.close()


def main() -> int:
    asked = addresses(load(os.environ))
    faults = [found for command in running() if command in asked and (found := fault(*asked[command]))]
    sys.stdout.writelines(f"{found}\n" for found in faults)
    return 1 if faults else 0


sys.exit(main())
