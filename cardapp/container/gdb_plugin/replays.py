"""Replays of a card's stops: from a checkpoint taken there, by a rerun from ``main``'s checkpoint, or by a full rerun.

A full rerun is the reference. Checkpoints (``fork_checkpoints.py``) save time where a copy of the program behaves like
the program; any doubt leads to a full rerun. ``method`` is ``fork`` when a checkpoint at the
stop was restarted, ``rerun`` when the program ran to the stop.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import gdb

from cardapp.container.gdb_plugin.fork_checkpoints import START, ForkCheckpoints, starts_at_main
from cardapp.container.gdb_plugin.places import place_of
from cardapp.container.gdb_plugin.program import Program
from cardapp.container.gdb_plugin.rerun import Failure, Rerun

NO_ARRIVAL = ("", "")
"""No stop, and the id of none."""

Done = Callable[[dict[str, Any] | Exception], None]


class Replays:
    """Requests of the channel, in gdb's thread."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._checkpoints = ForkCheckpoints()
        self._launch: tuple[Any, ...] = ()
        self._screens: dict[str, str] = {}
        self._arrival = NO_ARRIVAL
        program.at_end = self._checkpoints.forget
        gdb.events.new_thread.connect(self._threaded)

    def run(self, done: Done, stop: dict[str, Any], hits: int, fresh: bool) -> None:
        """Bring the program to the stop; ``done`` gets ``{file, line, function, method, fresh}`` or a
        :class:`~cardapp.container.gdb_plugin.rerun.Failure`. A ``fresh`` replay uses no checkpoint; ``fresh`` in the
        answer says whether the program was started again."""
        key = _key(stop, hits)
        self._arrival = NO_ARRIVAL
        if not fresh and self._can_return(stop, hits):
            with contextlib.suppress(Exception):  # whatever it is, a new run tells
                if key in self._checkpoints:
                    self._return_to(key, done)
                else:
                    self._run_on(Rerun(stop, hits, lambda outcome: self._ran_on(outcome, done, stop, hits)))
                return
        self._program.kill()
        self._screens.clear()
        self._program.tidy_terminal()
        self._launch = self._program.launch
        run = Rerun(stop, hits, lambda outcome: self._arrived(outcome, done, key, fresh=True))
        self._program.follow(run)
        run.begin(None if fresh or not starts_at_main() else self._keep_start)

    def _threaded(self, _event: gdb.ThreadEvent) -> None:
        """gdb 13 hangs when it ends a program of several threads that has checkpoints."""
        if len(gdb.selected_inferior().threads()) > 1:
            gdb.post_event(self._drop_all)

    def _drop_all(self) -> None:
        with contextlib.suppress(gdb.error, OSError):
            self._checkpoints.drop_all()

    def leave(self, stop: dict[str, Any], hits: int, shown: str) -> bool:
        """Before a visit: whether the program may be left as it stands, for there are copies to go on from. ``shown``
        is what its terminal shows, and will again when it is taken up here."""
        if self._stands_at_arrival() and self._arrival[0] in self._checkpoints:
            self._screens[self._arrival[0]] = shown
        return self._can_return(stop, hits)

    def _can_return(self, stop: dict[str, Any], hits: int) -> bool:
        state = self._program.state()
        return (
            # After a signal gdb would pass it on to the copy.
            (state["state"], state["reason"]) == ("stopped", None)
            and self._launch == self._program.launch
            and (_key(stop, hits) in self._checkpoints or START in self._checkpoints)
            and self._checkpoints.untouched()
        )

    def settle(self) -> None:
        """After a visit: take the copy that the next one to this stop will use, unless the program has moved on."""
        if not self._stands_at_arrival():
            return
        key = self._arrival[0]
        with self._copying():
            if key not in self._checkpoints and self._checkpoints.sound(self._program.terminal):
                self._checkpoints.keep(key)
            self._checkpoints.drop_left()
        self._screens = {key: shown for key, shown in self._screens.items() if key in self._checkpoints}

    @contextlib.contextmanager
    def _copying(self) -> Iterator[None]:
        """Where a copy cannot be made or ended, there are none any more, and the next visit is a run."""
        with self._program.unheard():
            try:
                yield
            except (gdb.error, OSError):
                self._checkpoints.forget()

    def _stands_at_arrival(self) -> bool:
        return bool(self._arrival[1] == self._program.state()["stop_id"])

    # -- the three ways ----------------------------------------------------------------------------------------------

    def _return_to(self, key: str, done: Done) -> None:
        with self._program.unheard():
            self._checkpoints.take_up(key)
        place = place_of(gdb.newest_frame())
        self._program.tidy_terminal(self._screens.get(key, ""))
        self._program.stand(place)
        self._arrival = (key, self._program.state()["stop_id"])
        done(place | {"method": "fork", "fresh": False})

    def _run_on(self, run: Rerun) -> None:
        with self._program.unheard():
            self._checkpoints.take_up(START)
            self._checkpoints.keep(START)
        self._program.stand(place_of(gdb.newest_frame()))
        self._program.tidy_terminal()
        self._program.follow(run)
        run.resume()

    def _keep_start(self) -> None:
        with self._copying():
            if self._checkpoints.sound(self._program.terminal):
                self._checkpoints.keep(START)

    def _ran_on(self, outcome: dict[str, Any] | Exception, done: Done, stop: dict[str, Any], hits: int) -> None:
        if isinstance(outcome, Failure) and outcome.code in ("target_exited", "target_crashed"):
            self.run(done, stop, hits, fresh=True)  # it may have been there before it was in ``main``
        else:
            self._arrived(outcome, done, _key(stop, hits), fresh=False)

    def _arrived(self, outcome: dict[str, Any] | Exception, done: Done, key: str, *, fresh: bool) -> None:
        if isinstance(outcome, dict):
            self._arrival = (key, self._program.state()["stop_id"])
            outcome = outcome | {"method": "rerun", "fresh": fresh}
        done(outcome)


def _key(stop: dict[str, Any], hits: int) -> str:
    return json.dumps([stop, hits], sort_keys=True)
