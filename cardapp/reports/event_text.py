"""What happened, in words: one line for each kind of event.

Events are shown as they were stored, by this version or an older one or by a client; so no member of ``data`` is taken
for granted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cardapp.state import event_kinds

Event = Mapping[str, Any]

MOVES = frozenset({event_kinds.NAVIGATION_SET, event_kinds.NAVIGATION_MOVED})

_PLAIN = {
    event_kinds.NAVIGATION_SYNCED: "Page and program stand together",
    event_kinds.CHECKPOINT_REJECTED: "The replay was rejected",
    event_kinds.CHECKPOINT_CANCELLED: "The replay was cancelled",
    event_kinds.CHECKPOINT_TIMEOUT: "The replay took too long",
    event_kinds.EDITOR_RESET: "The program was reset",
    event_kinds.EDITOR_REDRAW: "The editor was redrawn",
    event_kinds.NOTE: "Note",
    event_kinds.STRATEGY_ADDED: "A debugging strategy was added",
    event_kinds.STRATEGY_REMOVED: "A debugging strategy was removed",
    event_kinds.ANNOTATION_ADDED: "An annotation was added",
    event_kinds.ANNOTATION_REMOVED: "An annotation was removed",
    event_kinds.ANNOTATION_SHOWN: "Annotations were shown",
    event_kinds.ANNOTATION_HIDDEN: "Annotations were hidden",
}

_FLAGS = {
    "viewer.page.fit": ("The page was fitted to the window", "The page was no longer fitted to the window"),
    "viewer.page.expanded": ("The page was enlarged", "The page was put back to its size"),
    "viewer.editor.visible": ("The editor was shown", "The editor was hidden"),
    "viewer.editor.sync": ("The editor was synchronised", "The editor was no longer synchronised"),
    "viewer.editor.control": ("Keys went to the editor", "Keys no longer went to the editor"),
    "viewer.editor.expanded": ("The editor was enlarged", "The editor was put back to its size"),
    "viewer.editor.fit": ("The editor was fitted to its panel", "The editor was no longer fitted to its panel"),
    "viewer.allocator.visible": ("The allocator model was shown", "The allocator model was hidden"),
}


def is_noise(event: Event) -> bool:
    """Whether a report leaves the event out: scrolling and turning pages, without a picture pinned to it."""
    return (
        event["kind"] == event_kinds.VIEWER_CHANGED
        and not event["evidence"]
        and all(str(name).startswith("scroll.") for name in event["data"])
    )


def headline(event: Event, title: str) -> str:
    """One line without markup; ``title`` is that of the event's position."""
    kind, data = event["kind"], event["data"]
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind == event_kinds.NAVIGATION_SET:
        return f"Went to “{title}”"
    if kind == event_kinds.NAVIGATION_MOVED:
        return f"Moved {'back' if _number(data.get('moved')) < 0 else 'on'} to “{title}”"
    if kind == event_kinds.CHECKPOINT_READY:
        return f"The program stands at {_place(data.get('observed'), title)}"
    if kind == event_kinds.CHECKPOINT_FAILED:
        return "The program is not what the card says" if data.get("code") == "snapshot_drift" else "The replay failed"
    if kind == event_kinds.SYNC_OFF:
        return f"Page and program parted: {str(data.get('reason', 'unknown reason')).replace('_', ' ')}"
    if kind == event_kinds.PROGRESS_CHANGED:
        return f"Approved “{title}”" if data.get("to") == "approved" else f"“{title}” is pending again"
    if kind == event_kinds.EVIDENCE_ADDED:
        goal = data.get("event_seq")
        return "A picture was added" if goal is None else f"A picture was added to entry {goal}"
    if kind == event_kinds.VIEWER_CHANGED:
        return "; ".join(_flag(name, value) for name, value in data.items()) or "The view was changed"
    return str(kind)


def tone(event: Event) -> str:
    """How an event is coloured: good, bad, warn, note, done or quiet."""
    kind = event["kind"]
    if kind == event_kinds.CHECKPOINT_READY:
        return "good"
    if kind == event_kinds.CHECKPOINT_FAILED:
        return "bad"
    if kind in (
        event_kinds.CHECKPOINT_REJECTED,
        event_kinds.CHECKPOINT_TIMEOUT,
        event_kinds.CHECKPOINT_CANCELLED,
        event_kinds.SYNC_OFF,
    ):
        return "warn"
    if kind == event_kinds.PROGRESS_CHANGED:
        return "done" if event["data"].get("to") == "approved" else "quiet"
    if kind in event_kinds.BACKEND_KINDS:
        return "quiet"
    return "note"


def _place(observed: Any, title: str) -> str:
    if not isinstance(observed, Mapping) or not observed.get("file"):
        return f"“{title}”"
    function = observed.get("function")
    return f"{observed['file']}:{observed.get('line')}" + (f" in {function}()" if function else "")


def _flag(name: str, value: object) -> str:
    if name in _FLAGS:
        return _FLAGS[name][0 if value else 1]
    return f"{name} became {value}"


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
