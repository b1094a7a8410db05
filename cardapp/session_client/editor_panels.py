"""The panels of the pages that show the editor. Without a terminal the grid has the size of one of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from cardapp.errors import CardAppError
from cardapp.session_client.editor_stream import EditorStream


class EditorPanels:
    """The sizes of the panels in cells. The panel of the page that was focused last decides.

    ``follow(cols, rows)`` gives the session's pane this size, unless it has the size of a terminal.
    """

    def __init__(self, follow: Callable[[int, int], None]) -> None:
        self._follow = follow
        self._lock = threading.Lock()
        self._sizes: dict[EditorStream, tuple[int, int]] = {}  # the last one decides

    def report(self, stream: EditorStream, cols: int, rows: int, *, focused: bool) -> None:
        """Store the size of a page's panel, and whether the page has the focus."""
        with self._lock:
            decides = focused or self._deciding() in (None, stream)
            others = {each: size for each, size in self._sizes.items() if each is not stream}
            own = {stream: (cols, rows)}
            self._sizes = others | own if decides else own | others
            if decides:
                self._apply()

    def leave(self, stream: EditorStream) -> None:
        """Forget the panel of a stream that has ended."""
        with self._lock:
            decided = self._deciding() is stream
            self._sizes.pop(stream, None)
            if decided and self._sizes:
                self._apply()

    def _deciding(self) -> EditorStream | None:
        return next(reversed(self._sizes), None)

    def _apply(self) -> None:
        # If the session did not accept the size, the stream continues, because the page scales its picture.
        with suppress(CardAppError):
            self._follow(*next(reversed(self._sizes.values())))
