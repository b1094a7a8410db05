"""Questions that many ask at once, put to the database by one of them.

Whoever comes while questions are being answered waits for the next round, which asks for all of them together. Nobody
gets an answer that is older than his question.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Generic, TypeVar

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class _Round(Generic[Question, Answer]):
    """What is asked together; ``found`` or ``error`` is there when ``running`` can be had."""

    def __init__(self) -> None:
        self.questions: set[Question] = set()
        self.members = 0
        self.running = threading.Lock()
        self.running.acquire()
        self.found: Mapping[Question, Answer] = {}
        self.error: Exception | None = None


class RequestCoalescing(Generic[Question, Answer]):
    """``ask`` gives the answers to some questions; one without an answer is left out."""

    def __init__(self, ask: Callable[[Collection[Question]], Mapping[Question, Answer]]) -> None:
        self._ask = ask
        self._asking = threading.Lock()
        self._joining = threading.Lock()
        self._next: _Round[Question, Answer] | None = None

    @property
    def waiting(self) -> int:
        """How many wait for the next round."""
        joined = self._next
        return 0 if joined is None else joined.members

    def get(self, question: Question) -> Answer | None:
        """The answer as it is now; raises what ``ask`` raised."""
        with self._joining:
            joined = self._next
            leads = joined is None
            if joined is None:
                joined = self._next = _Round()
            joined.questions.add(question)
            joined.members += 1
        if leads:
            self._lead(joined)
        else:
            with joined.running:  # and on to the next who waits
                pass
        if joined.error is not None:
            raise joined.error
        return joined.found.get(question)

    def _lead(self, joined: _Round[Question, Answer]) -> None:
        with self._asking:
            with self._joining:
                self._next = None
            try:
                joined.found = self._ask(joined.questions)
            except Exception as error:
                joined.error = error
            finally:
                joined.running.release()
