"""One of several processes that serve the API: ``python -m marketdata.api.worker``, which the supervisor starts.

The settings arrive on standard input, because they may contain a password. An error at the start leaves on standard
output.
"""

from __future__ import annotations

import pickle
import signal
import socket
import sys

from marketdata.api.serve import run_beside_others
from marketdata.api.shared_memory import SharedMemory
from marketdata.errors import MarketError
from marketdata.settings import Settings


def main(number: int, memory: int, listening: int, supervisor: int) -> int:
    """Serve as the process ``number``. ``memory`` and ``listening`` are inherited descriptors."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})  # the supervisor waits for it
    settings: Settings = pickle.load(sys.stdin.buffer)
    shared = SharedMemory(settings.api_processes, own=number, descriptor=memory)
    try:
        run_beside_others(settings, shared, socket.socket(fileno=listening), supervisor)
    except MarketError as error:
        sys.stdout.buffer.write(pickle.dumps(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
