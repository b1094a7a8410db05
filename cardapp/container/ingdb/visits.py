"""Visits to the stops of a card: by a copy that stands there, by a run from the start of ``main``, or by a new run.

A run from scratch is the truth; copies save time where they are sound (:mod:`cardapp.container.ingdb.copies`), and
whatever is odd about them leads to a run from scratch. ``method`` tells of the stop itself: ``fork`` when the program
was put there, ``rerun`` when it ran there.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import gdb

from cardapp.container.ingdb.copies import START, Copies, starts_at_main
from cardapp.container.ingdb.places import place_of
from cardapp.container.ingdb.program import Program
from cardapp.container.ingdb.run import Failure, Run

NO_ARRIVAL = ("", "")
"""No stop, and the id of none."""

Done = Callable[[dict[str, Any] | Exception], None]


class Visits:
    """Requests of the channel, in gdb's thread."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._copies = Copies()
        self._launch: tuple[Any, ...] = ()
        self._screens: dict[str, str] = {}
        self._arrival = NO_ARRIVAL
        program.at_end = self._copies.forget
        gdb.events.new_thread.connect(self._threaded)

    def run(self, done: Done, stop: dict[str, Any], hits: int, fresh: bool) -> None:
        """Bring the program to the stop; ``done`` gets ``{file, line, function, method, fresh}`` or a
        :class:`~cardapp.container.ingdb.run.Failure`. A ``fresh`` visit takes no copy; the answer's ``fresh`` says
        whether the program was started for it."""
        key = _key(stop, hits)
        self._arrival = NO_ARRIVAL
        if not fresh and self._can_return(stop, hits):
            with contextlib.suppress(Exception):  # whatever it is, a new run tells
                if key in self._copies:
                    self._return_to(key, done)
                else:
                    self._run_on(Run(stop, hits, lambda outcome: self._ran_on(outcome, done, stop, hits)))
                return
        self._program.kill()
        self._screens.clear()
        self._program.tidy_terminal()
        self._launch = self._program.launch
        run = Run(stop, hits, lambda outcome: self._arrived(outcome, done, key, fresh=True))
        self._program.follow(run)
        run.begin(None if fresh or not starts_at_main() else self._keep_start)

    def _threaded(self, _event: gdb.ThreadEvent) -> None:
        """gdb 13 hangs when it ends a program of several threads that has checkpoints."""
        if len(gdb.selected_inferior().threads()) > 1:
            gdb.post_event(self._drop_all)

    def _drop_all(self) -> None:
        with contextlib.suppress(gdb.error, OSError):
            self._copies.drop_all()

    def leave(self, stop: dict[str, Any], hits: int, shown: str) -> bool:
        """Before a visit: whether the program may be left as it stands, for there are copies to go on from. ``shown``
        is what its terminal shows, and will again when it is taken up here."""
        if self._stands_at_arrival() and self._arrival[0] in self._copies:
            self._screens[self._arrival[0]] = shown
        return self._can_return(stop, hits)

    def _can_return(self, stop: dict[str, Any], hits: int) -> bool:
        state = self._program.state()
        return (
            # After a signal gdb would pass it on to the copy.
            (state["state"], state["reason"]) == ("stopped", None)
            and self._launch == self._program.launch
            and (_key(stop, hits) in self._copies or START in self._copies)
            and self._copies.untouched()
        )

    def settle(self) -> None:
        """After a visit: take the copy that the next one to this stop will use, unless the program has moved on."""
        if not self._stands_at_arrival():
            return
        key = self._arrival[0]
        with self._copying():
            if key not in self._copies and self._copies.sound(self._program.terminal):
                self._copies.keep(key)
            self._copies.drop_left()
        self._screens = {key: shown for key, shown in self._screens.items() if key in self._copies}

    @contextlib.contextmanager
    def _copying(self) -> Iterator[None]:
        """Where a copy cannot be made or ended, there are none any more, and the next visit is a run."""
        with self._program.unheard():
            try:
                yield
            except (gdb.error, OSError):
                self._copies.forget()

    def _stands_at_arrival(self) -> bool:
        return bool(self._arrival[1] == self._program.state()["stop_id"])

    # -- the three ways ----------------------------------------------------------------------------------------------

    def _return_to(self, key: str, done: Done) -> None:
        with self._program.unheard():
            self._copies.take_up(key)
        place = place_of(gdb.newest_frame())
        self._program.tidy_terminal(self._screens.get(key, ""))
        self._program.stand(place)
        self._arrival = (key, self._program.state()["stop_id"])
        done(place | {"method": "fork", "fresh": False})

    def _run_on(self, run: Run) -> None:
        with self._program.unheard():
            self._copies.take_up(START)
            self._copies.keep(START)
        self._program.stand(place_of(gdb.newest_frame()))
        self._program.tidy_terminal()
        self._program.follow(run)
        run.resume()

    def _keep_start(self) -> None:
        with self._copying():
            if self._copies.sound(self._program.terminal):
                self._copies.keep(START)

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
