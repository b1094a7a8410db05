"""The stop of a replay: its breakpoint or its signal, its condition, and how often the program has reached it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import gdb

from cardapp.session_host.gdb_plugin.breakpoints import quietly_made
from cardapp.session_host.gdb_plugin.causes import cause_of_missing_code
from cardapp.session_host.gdb_plugin.entries import entry_behind
from cardapp.session_host.gdb_plugin.evaluation import evaluate
from cardapp.session_host.gdb_plugin.frames import frame_with_source, function_at
from cardapp.session_host.gdb_plugin.values import read_only

_FUNCTION_OF_RUST = re.compile(r"^\d+:\s+(?:static )?fn ([^(]+)\(", re.MULTILINE)
_HANDLED = re.compile(r"^Sig(?:Cgt|Ign):\s*([0-9a-f]+)$", re.MULTILINE)


class Failure(Exception):
    """A request failed. ``code`` is stable; ``data`` holds further members of the reply."""

    def __init__(self, code: str, reason: str, **data: Any) -> None:
        super().__init__(reason)
        self.code = code
        self.data = data


def stop_of(stop: dict[str, Any], hits: int) -> PlaceStop | SignalStop:
    """The stop ``{file, line}``, ``{function, file?}`` or ``{signal}``, each with ``if?``; ``file`` is absolute."""
    return SignalStop(stop, hits) if "signal" in stop else PlaceStop(stop, hits)


# -- a line or a function ----------------------------------------------------------------------------------------------


class PlaceStop:
    """The ``hits``-th time that the program reaches a line or a function while the condition is true.

    The breakpoint is internal to gdb, so the editor's debugger window does not show it and gdb prints no message for
    ignored hits. It may wait for a shared library that is loaded later.
    """

    signal = None
    placed: str | None = None
    """Why the stop of a function is its first instruction, and not where gdb has placed its breakpoint."""

    def __init__(self, stop: dict[str, Any], hits: int) -> None:
        self._stop = stop
        self._hits = hits
        self._passed = 0
        self._breakpoint: gdb.Breakpoint | None = None
        self._name: str | None = stop.get("function")
        self.condition = _Condition(stop["if"]) if "if" in stop else None

    def set(self) -> None:
        """Set the breakpoint. Raises :class:`Failure` if several functions have the name."""
        self._breakpoint = self._made(self._name)
        if len(self._functions()) > 1:
            self._prefer_exact_name()
        elif self._name is not None and not self._functions():
            self._complete_name_of_rust(self._name)
        self._prefer_entry(in_library=False)
        self._arm()

    def waits_for_main(self) -> bool:
        """Whether :meth:`enter_main` must be called: the stop is a function of a library, or of none that gdb knows."""
        assert self._breakpoint is not None
        return self._name is not None and (self._breakpoint.pending or self._is_in_library())

    def enter_main(self) -> None:
        """The program has entered ``main``: the libraries that it names are loaded."""
        if self._prefer_entry(in_library=True):
            self._arm()

    def set_at_main(self) -> bool:
        """Set the breakpoint in a program that is at its first line of ``main``. Returns whether that is the stop.

        :raises gdb.error: the stop is in a library, which the program may have reached before ``main``.
        """
        self.set()
        assert self._breakpoint is not None
        addresses = [location.address for location in self._breakpoint.locations]
        if self._is_in_library():
            raise gdb.error("the stop is in a library, and the program may have reached it before main")
        if gdb.newest_frame().pc() in addresses and (self.condition is None or self.condition.holds()):
            self._passed = 1
            self._arm()
        return self._passed == self._hits

    def clear(self) -> None:
        if self._breakpoint is not None and self._breakpoint.is_valid():
            self._breakpoint.delete()

    def is_reached(self, _event: gdb.Event) -> bool:
        """Whether the program, which ``event`` stopped, is at the stop. Raises :class:`Failure` if the condition cannot
        be evaluated."""
        if self.condition is not None and self.condition.fault is not None:
            raise self.condition.fault
        return self.reached() >= self._hits

    def reached(self) -> int:
        """How many times the program has reached the stop."""
        if isinstance(self._breakpoint, _ConditionalBreakpoint):
            return self._passed + self._breakpoint.held
        valid = self._breakpoint is not None and self._breakpoint.is_valid()
        return self._passed + (int(self._breakpoint.hit_count) if self._breakpoint is not None and valid else 0)

    def has_code(self) -> bool:
        """Whether the program, as far as it is loaded, has code at the stop."""
        return self._breakpoint is not None and self._breakpoint.is_valid() and not self._breakpoint.pending

    def missing_code(self) -> str:
        """A sentence for messages about a program that has no code at the stop."""
        cause = cause_of_missing_code(self._stop)
        return f"the program has no code at {self._where()}" + (f": {cause}" if cause is not None else "")

    def _where(self) -> str:
        name = os.path.basename(self._stop.get("file", ""))
        if "function" in self._stop:
            return f"function {self._stop['function']}" + (f" of {name}" if name else "")
        return f"{name}:{self._stop['line']}"

    def _made(self, function: str | None, *, qualified: bool = False) -> gdb.Breakpoint:
        place: dict[str, Any] = {"internal": True}
        place |= {"source": self._stop["file"]} if "file" in self._stop else {}
        if function is not None:
            place |= {"function": function, "qualified": qualified}
        else:
            place |= {"line": self._stop["line"]}
        return quietly_made(self._kind(), place)

    def _kind(self) -> type[gdb.Breakpoint]:
        return _ConditionalBreakpoint if self.condition is not None else gdb.Breakpoint

    def _prefer_entry(self, *, in_library: bool) -> bool:
        """Move the breakpoint of a function to its entry if calls may not come by it. Returns whether it was moved.

        gdb loses a breakpoint at an entry in a library when it loads the libraries again.
        """
        entry = None if self._name is None else entry_behind(self._breakpoint, self._name)
        if entry is None or self._is_in_library() is not in_library:
            return False
        made = entry.breakpoint(self._kind())
        if made is None:
            return False
        self.clear()
        self._breakpoint, self.placed = made, entry.placed
        return True

    def _is_in_library(self) -> bool:
        assert self._breakpoint is not None
        return any(gdb.solib_name(location.address) is not None for location in self._breakpoint.locations)

    def _arm(self) -> None:
        left = self._hits - self._passed
        if self._breakpoint is None:
            return
        if self.condition is not None:
            self._breakpoint.condition_to_hold, self._breakpoint.wanted = self.condition, left
        else:
            self._breakpoint.ignore_count = max(left - 1, 0)

    def _functions(self) -> dict[str, str]:
        """The functions that the stop's name matches. Each value is ``name (file:line)``, the text for a message."""
        found: dict[str, gdb.Symbol] = {}
        if self._name is None or self._breakpoint is None:
            return {}
        for location in self._breakpoint.locations:
            symbol = function_at(location.address, self._name)
            if symbol is not None:
                found[f"{symbol.print_name} {symbol.symtab.fullname()}"] = symbol
        names = Counter(os.path.basename(symbol.symtab.filename) for symbol in found.values())
        return {key: f"{symbol.print_name} ({_file_of(symbol, names)}:{symbol.line})" for key, symbol in found.items()}

    def _prefer_exact_name(self) -> None:
        """If there is a function with exactly the stop's name, use only this function. For ``total`` gdb also finds
        ``shop::total``."""
        names = sorted(self._functions().values())
        self.clear()
        self._breakpoint = self._made(self._name, qualified=True)
        if self._breakpoint.pending or len(self._functions()) > 1:
            self.clear()
            raise self._ambiguous(names)

    def _complete_name_of_rust(self, name: str) -> None:
        """gdb needs the whole name of a function in Rust, with the name of its crate."""
        names = _functions_of_rust(name)
        if len(names) > 1 and "file" not in self._stop:
            self.clear()
            raise self._ambiguous(names)
        for whole in names:
            self.clear()
            self._breakpoint = self._made(whole)
            if not self._breakpoint.pending:
                return

    def _ambiguous(self, names: list[str]) -> Failure:
        return Failure(
            "ambiguous_function",
            f"{self._name} is the name of {len(names)} functions: {', '.join(names)}; qualify the name, add its "
            "parameters, or add the file to the stop",
            functions=names,
        )


def _file_of(symbol: gdb.Symbol, names: Counter[str]) -> str:
    """The name of the symbol's file; its path, as the compiler got it, if several files have this name."""
    name = os.path.basename(symbol.symtab.filename)
    return name if names[name] == 1 else str(symbol.symtab.filename)


def _functions_of_rust(name: str) -> list[str]:
    """The whole names of the functions ``name``; none in a program in another language."""
    if "rust" not in gdb.execute("show language", to_string=True):
        return []
    found = gdb.execute(f"info functions -q -n ::{re.escape(name)}$", to_string=True)
    return sorted(set(_FUNCTION_OF_RUST.findall(found)))


class _ConditionalBreakpoint(gdb.Breakpoint):  # type: ignore[misc]  # mypy does not know gdb
    """A breakpoint that evaluates the condition itself.

    gdb's own conditions cannot be used: if one cannot be evaluated, gdb counts the hit and only prints an error.
    """

    condition_to_hold: _Condition
    wanted = 1
    held = 0

    def stop(self) -> bool:
        """gdb calls this at each hit. The program stops if the result is true."""
        try:
            self.held += self.condition_to_hold.holds()
        except Failure:
            return True
        return self.held >= self.wanted


# -- a signal ----------------------------------------------------------------------------------------------------------


class SignalStop:
    """The ``hits``-th delivery of a signal to the program while the condition is true."""

    placed = None

    def __init__(self, stop: dict[str, Any], hits: int) -> None:
        self.signal: str = stop["signal"]
        self._hits = hits
        self._reached = 0
        self._handling = ""
        self.condition = _Condition(stop["if"]) if "if" in stop else None

    def set(self) -> None:
        """Make gdb stop at the signal, even if the learner has set that gdb ignores it."""
        found = re.search(rf"^{self.signal}\s+(Yes|No)\s+(Yes|No)\s+(Yes|No)", _signals(self.signal), re.MULTILINE)
        if found is None:
            raise Failure("stop_not_reached", f"gdb knows no signal {self.signal}", reached=0)
        words = ("stop", "print", "pass")
        self._handling = " ".join(
            word if on == "Yes" else f"no{word}" for word, on in zip(words, found.groups(), strict=True)
        )
        gdb.execute(f"handle {self.signal} stop print", to_string=True)

    def set_at_main(self) -> bool:
        raise gdb.error("a stop at a signal is always reached from the program's start")

    def clear(self) -> None:
        if self._handling:
            gdb.execute(f"handle {self.signal} {self._handling}", to_string=True)

    def is_reached(self, event: gdb.Event) -> bool:
        """Whether ``event`` is the delivery that is the stop. Raises :class:`Failure` if the condition cannot be
        evaluated."""
        if not isinstance(event, gdb.SignalEvent) or event.stop_signal != self.signal or is_interrupt_of_gdb(event):
            return False
        self._reached += int(self.condition is None or self.condition.holds())
        return self._reached >= self._hits

    def reached(self) -> int:
        return self._reached

    def has_code(self) -> bool:
        return True

    def missing_code(self) -> str:
        raise AssertionError("a signal needs no code")

    def waits_for_main(self) -> bool:
        return False

    def enter_main(self) -> None:
        """A signal waits for no library."""


def _signals(name: str) -> str:
    with contextlib.suppress(gdb.error):
        return str(gdb.execute(f"info signals {name}", to_string=True))
    return ""


def is_interrupt_of_gdb(event: gdb.Event) -> bool:
    """Whether a SIGINT that gdb's process sent has stopped the program, and not a SIGINT of the program itself."""
    if not isinstance(event, gdb.SignalEvent) or event.stop_signal != "SIGINT":
        return False
    try:
        return int(gdb.parse_and_eval("$_siginfo._sifields._kill.si_pid")) == os.getpid()
    except gdb.error:
        return False


def is_handled(name: str) -> bool:
    """Whether the program catches or ignores the signal, as the kernel reports it in ``/proc/PID/status``."""
    try:
        status = Path(f"/proc/{gdb.selected_inferior().pid}/status").read_text()
        bit = 1 << signal.Signals[name] - 1
    except (OSError, KeyError):
        return False
    return any(int(mask, 16) & bit for mask in _HANDLED.findall(status))


# -- conditions --------------------------------------------------------------------------------------------------------


class _Condition:
    """An expression that must be true at a stop. ``fault`` is set when it could not be evaluated."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.fault: Failure | None = None

    def holds(self) -> bool:
        """Evaluate the condition in the innermost frame with source. Raises :class:`Failure` with gdb's message."""
        frame = frame_with_source()
        try:
            if frame is not None:
                frame.select()
            with read_only():
                return _truth(evaluate(self._text))
        except (gdb.error, RuntimeError, ValueError, OverflowError) as error:
            reason = f"the condition {self._text} cannot be evaluated: {error}"
            self.fault = Failure("bad_condition", reason, condition=self._text)
            raise self.fault from error
        finally:
            gdb.newest_frame().select()


def _truth(value: gdb.Value) -> bool:
    kind = value.type.strip_typedefs()
    if kind.code in (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF):
        return _truth(value.referenced_value())
    if kind.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION, gdb.TYPE_CODE_ARRAY, gdb.TYPE_CODE_VOID):
        raise ValueError(f"a value of the type {kind} is neither true nor false")
    return bool(value)
