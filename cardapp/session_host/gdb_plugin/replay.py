"""Replays a card's stops: restarts a checkpoint of the stop, or runs the program again up to the stop.

A run starts at the checkpoint of ``main`` if there is one, else at the start of the program. Checkpoints
(``fork_checkpoints.py``) only save time and must give the same result as a run from the start. So they are used only if
a fork of the program certainly behaves like the program itself. In the reply ``method`` is ``fork`` if a checkpoint of
the stop was restarted, and ``rerun`` if the program ran to the stop. ``fallbacks`` names the slow ways that were taken
since the last reply (``SLOW_FALLBACKS`` in ``session_tools.py``).
"""

from __future__ import annotations

import contextlib
import json
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import gdb

from cardapp.session_host.gdb_plugin.fork_checkpoints import MAIN, ForkCheckpoints, starts_at_main
from cardapp.session_host.gdb_plugin.frames import shown_place
from cardapp.session_host.gdb_plugin.program import Program
from cardapp.session_host.gdb_plugin.rerun import Rerun
from cardapp.session_host.gdb_plugin.stops import Failure
from cardapp.session_host.gdb_plugin.variation import StackFilling

NO_STOP = ("", "")
MAX_FALLBACKS = 100
"""Failed replays report no fallbacks, so without a limit the list could grow without end."""

Done = Callable[[dict[str, Any] | Exception], None]


class Replays:
    """The operations ``prepare``, ``replay`` and ``checkpoint``, called in this order in gdb's main thread."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._checkpoints = ForkCheckpoints()
        self._launch: tuple[Any, ...] = ()
        self._screens: dict[str, str] = {}
        self._last_stop = NO_STOP
        """The key of the stop that the last replay reached, and the ``stop_id`` of the program there."""
        self._placed: dict[str, str | None] = {}
        """The member ``placed`` of the stops that were reached."""
        self._fallbacks: deque[str] = deque(maxlen=MAX_FALLBACKS)
        program.on_end = self._checkpoints.clear
        gdb.events.new_thread.connect(self._on_new_thread)

    def prepare(self, stop: dict[str, Any], hits: int, screen: str) -> bool:
        """Return whether a replay of ``stop`` can restart a checkpoint. If not, the caller must end the program first.

        ``screen`` is the current content of the program's terminal. It is stored for the stop where the program is now,
        and restored with the checkpoint of that stop.
        """
        if self._is_at_last_stop() and self._last_stop[0] in self._checkpoints:
            self._screens[self._last_stop[0]] = screen
        return self._can_restart(stop, hits)

    def replay(self, done: Done, stop: dict[str, Any], hits: int, fresh: bool, varied: bool = False) -> None:
        """Run or restart the program up to ``stop``.

        Calls ``done`` with ``{file, line, function, inside, signal, placed, method, fresh, fallbacks}`` or an exception
        of :class:`~cardapp.session_host.gdb_plugin.rerun.Rerun`. A ``fresh`` replay uses no checkpoint. In the reply
        ``fresh`` tells whether the program was started again. If the run is ``varied``, it is fresh, too.
        """
        key = _key(stop, hits)
        self._last_stop = NO_STOP
        if not fresh and self._can_restart(stop, hits):
            with contextlib.suppress(Exception):  # after any error the program is started again
                if key in self._checkpoints:
                    self._restart(key, done)
                else:
                    self._rerun_from_main(Rerun(stop, hits, lambda outcome: self._from_main(outcome, done, stop, hits)))
                return
            self._fallbacks.append("failed_restart")
        self._program.kill()
        self._screens.clear()
        self._program.reset_terminal()
        self._launch = self._program.launch
        if varied:
            self._vary(stop, hits, done)
            return
        rerun = Rerun(stop, hits, lambda outcome: self._report(outcome, done, key, fresh=True))
        self._program.follow(rerun)
        rerun.start(None if fresh or "signal" in stop or not starts_at_main() else self._checkpoint_main)

    def checkpoint(self) -> None:
        """Take a checkpoint of the stop that the last replay reached, unless the program has left that stop."""
        if not self._is_at_last_stop():
            return
        key = self._last_stop[0]
        with self._cleared_on_failure():
            if key not in self._checkpoints:
                self._take(key)
            self._checkpoints.delete_obsolete()
        self._screens = {key: screen for key, screen in self._screens.items() if key in self._checkpoints}

    # -- conditions --------------------------------------------------------------------------------------------------

    def _can_restart(self, stop: dict[str, Any], hits: int) -> bool:
        state = self._program.state()
        return (
            "signal" not in stop
            # If a signal stopped the program, gdb would deliver it to the checkpoint.
            and (state["state"], state["reason"]) == ("stopped", None)
            and self._launch == self._program.launch
            and (_key(stop, hits) in self._checkpoints or MAIN in self._checkpoints)
            and self._checkpoints.unchanged()
        )

    def _is_at_last_stop(self) -> bool:
        return bool(self._last_stop[1] == self._program.state()["stop_id"])

    @contextlib.contextmanager
    def _cleared_on_failure(self) -> Iterator[None]:
        """If gdb fails to take or delete a checkpoint, forget all. The next replay then starts the program again."""
        with self._program.ignoring_events():
            try:
                yield
            except (gdb.error, OSError):
                self._fallbacks.append("no_checkpoint")
                self._checkpoints.clear()

    def _on_new_thread(self, _event: gdb.ThreadEvent) -> None:
        """Delete the checkpoints, because gdb 13 hangs when it ends a program with several threads and checkpoints."""
        if len(gdb.selected_inferior().threads()) > 1:
            gdb.post_event(self._delete_all)

    def _delete_all(self) -> None:
        with contextlib.suppress(gdb.error, OSError):
            self._checkpoints.delete_all()

    # -- ways to reach a stop ----------------------------------------------------------------------------------------

    def _vary(self, stop: dict[str, Any], hits: int, done: Done) -> None:
        filling = StackFilling(stop)

        def report(outcome: dict[str, Any] | Exception) -> None:
            filling.end()
            self._report(outcome, done, _key(stop, hits), fresh=True)

        rerun = Rerun(stop, hits, report)
        self._program.follow(rerun)
        rerun.start(filling.at_main)

    def _restart(self, key: str, done: Done) -> None:
        with self._program.ignoring_events():
            self._checkpoints.restart(key)
        place = shown_place() | {"signal": None, "placed": self._placed[key]}
        self._program.reset_terminal(self._screens.get(key, ""))
        self._program.restarted()
        self._last_stop = (key, self._program.state()["stop_id"])
        done(place | self._way("fork", fresh=False))

    def _rerun_from_main(self, rerun: Rerun) -> None:
        with self._program.ignoring_events():
            self._checkpoints.restart(MAIN)
            self._checkpoints.take(MAIN)
        self._program.restarted()
        self._program.reset_terminal()
        self._program.follow(rerun)
        rerun.start_at_main()

    def _checkpoint_main(self) -> None:
        with self._cleared_on_failure():
            self._take(MAIN)

    def _take(self, key: str) -> None:
        if self._checkpoints.can_fork(self._program.terminal):
            self._checkpoints.take(key)
        else:
            self._fallbacks.append("no_checkpoint")

    def _from_main(self, outcome: dict[str, Any] | Exception, done: Done, stop: dict[str, Any], hits: int) -> None:
        if isinstance(outcome, Failure) and outcome.code in ("stop_not_reached", "target_exited", "target_crashed"):
            self._fallbacks.append("second_run")
            self.replay(done, stop, hits, fresh=True)  # the stop may have been reached before ``main``
        else:
            self._report(outcome, done, _key(stop, hits), fresh=False)

    def _report(self, outcome: dict[str, Any] | Exception, done: Done, key: str, *, fresh: bool) -> None:
        if isinstance(outcome, dict):
            if outcome["signal"] is None:  # gdb would deliver the signal to a checkpoint
                self._last_stop = (key, self._program.state()["stop_id"])
                self._placed[key] = outcome["placed"]
            outcome = outcome | self._way("rerun", fresh=fresh)
        done(outcome)

    def _way(self, method: str, *, fresh: bool) -> dict[str, Any]:
        fallbacks = list(self._fallbacks)
        self._fallbacks.clear()
        return {"method": method, "fresh": fresh, "fallbacks": fallbacks}


def _key(stop: dict[str, Any], hits: int) -> str:
    return json.dumps([stop, hits], sort_keys=True)
