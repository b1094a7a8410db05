"""Describes events in words: one headline for each kind of event.

Any member of ``data`` may be missing, because an older version or a client may have written the event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cardapp.card import answers
from cardapp.state import events

Event = Mapping[str, Any]

_MOVES = frozenset({events.NAVIGATION_SET, events.NAVIGATION_MOVED})

_PLAIN = {
    events.NAVIGATION_SYNCED: "The program was brought to the position",
    events.CHECKPOINT_REJECTED: "The replay was rejected",
    events.CHECKPOINT_CANCELLED: "The replay was cancelled",
    events.CHECKPOINT_TIMEOUT: "The replay exceeded its time limit",
    events.EDITOR_RESET: "The program was reset",
    events.EDITOR_REDRAW: "The editor was redrawn",
    events.SESSION_RESTORED: "The session's copy of the sources was restored",
    events.NOTE: "Note",
    events.CARD_CHOSEN: "This card was chosen",
    answers.PREDICTION: "Predicted",
    answers.ANSWER: "Answered",
    answers.REVEALED: "The values were shown",
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
    """Return whether reports leave the event out. They leave out moves, scrolling and turning pages, unless an image is
    pinned to the event."""
    is_scrolling = event["kind"] == events.VIEWER_CHANGED and all(
        str(name).startswith("scroll.") for name in event["data"]
    )
    return (is_scrolling or event["kind"] in _MOVES) and not event["evidence"]


def where_links_work(base_url: str) -> str:
    """Return the sentence that tells a reader on another computer that the links of a report do not work there."""
    return f"The links work on the computer where the application runs, at {base_url}, and on no other."


def is_withdrawn(event: Event) -> bool:
    """Return whether the event is withdrawn, or withdraws another. Reports leave out both."""
    return bool(event["withdrawn"]) or event["kind"] == events.EVENT_WITHDRAWN


def headline(event: Event, title: str) -> str:
    """Return the headline, one line of plain text. ``title`` is the title of the event's position."""
    kind, data = event["kind"], event["data"]
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind in _FROM_DATA:
        return _FROM_DATA[kind](data)
    if kind == events.NAVIGATION_SET:
        return f"Went to “{title}”"
    if kind == events.NAVIGATION_MOVED:
        return f"Moved {'back' if _number(data.get('moved')) < 0 else 'on'} to “{title}”"
    if kind == events.CHECKPOINT_READY:
        return f"The program stopped at {_place(data.get('observed'), title)}"
    if kind == events.CHECKPOINT_FAILED:
        return (
            "The program state differs from the card" if data.get("code") == "snapshot_drift" else "The replay failed"
        )
    if kind == events.PROGRAM_MOVED:
        return f"The program was moved: {data.get('command', 'unknown command')}"
    if kind == events.SYNC_OFF:
        return f"SYNC went off: {str(data.get('reason', 'unknown reason')).replace('_', ' ')}"
    if kind == events.PROGRESS_CHANGED:
        return f"Approved “{title}”" if data.get("to") == "approved" else f"“{title}” is pending again"
    if kind == events.EVIDENCE_ADDED:
        goal = data.get("event_seq")
        return "An image was added" if goal is None else f"An image was added to entry {goal}"
    if kind == events.VIEWER_CHANGED:
        return "; ".join(_flag(name, value) for name, value in data.items()) or "The view was changed"
    return str(kind)


def tone(event: Event) -> str:
    """Return the CSS class of an event's colour: good, bad, warn, note, done or quiet."""
    kind = event["kind"]
    if kind == events.CHECKPOINT_READY:
        return "good"
    if kind == events.CHECKPOINT_FAILED:
        return "bad"
    if kind in (
        events.CHECKPOINT_REJECTED,
        events.CHECKPOINT_TIMEOUT,
        events.CHECKPOINT_CANCELLED,
        events.SYNC_OFF,
    ):
        return "warn"
    if kind == events.PREDICTION_JUDGED and (judged := _judged(event["data"])):
        return "good" if all(judged) else "warn"
    if kind == events.PROGRESS_CHANGED:
        return "done" if event["data"].get("to") == "approved" else "quiet"
    if kind in events.BACKEND_KINDS:
        return "quiet"
    return "note"


def _place(observed: Any, title: str) -> str:
    if not isinstance(observed, Mapping) or not observed.get("file"):
        return f"“{title}”"
    function = observed.get("function")
    return f"{observed['file']}:{observed.get('line')}" + (f" in {function}()" if function else "")


def _verdict(data: Mapping[str, Any]) -> str:
    judged = _judged(data)
    if not judged:
        return "The prediction was not judged"
    by = ", by the card" if data.get("by") == "card" else ""
    return f"{judged.count(True)} of {len(judged)} predicted {'value' if len(judged) == 1 else 'values'} right{by}"


def _count(data: Mapping[str, Any]) -> str:
    """How many annotations were shown or hidden."""
    count = len(data.get("ids") or ())
    return "An annotation was" if count == 1 else f"{count} annotations were"


def _kind(data: Mapping[str, Any]) -> str:
    return str((data.get("style") or {}).get("kind", "drawing"))


_FROM_DATA: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    answers.TEACHER: lambda data: f"The switch Teacher was turned {data.get('text')}",
    answers.SELF: lambda data: f"Own answer right: {data.get('self')}",
    answers.HINT: lambda data: f"Opened hint {data.get('hint')}",
    answers.JUDGED: _verdict,
    events.EVENT_WITHDRAWN: lambda data: f"Entry {data.get('event_seq')} was withdrawn",
    events.LEARNER_NAMED: lambda data: f"The record was named {data.get('name')}",
    events.LEARNER_CHOSEN: lambda data: f"{data.get('name')} went on with this record",
    events.STRATEGY_ADDED: lambda data: f"Added the strategy “{data.get('label')}”",
    events.STRATEGY_REMOVED: lambda data: f"Removed the strategy “{data.get('label')}”",
    events.ANNOTATION_ADDED: lambda data: f"Annotated the sheet: {_kind(data)}",
    events.ANNOTATION_REMOVED: lambda data: f"Removed an annotation: {_kind(data)}",
    events.ANNOTATION_SHOWN: lambda data: f"{_count(data)} shown",
    events.ANNOTATION_HIDDEN: lambda data: f"{_count(data)} hidden",
}


def _judged(data: Mapping[str, Any]) -> list[object]:
    """Whether each value of a judgement is right, without those that were not judged."""
    return [right for right in (data.get("right") or {}).values() if right is not None]


def _flag(name: str, value: object) -> str:
    if name in _FLAGS:
        return _FLAGS[name][0 if value else 1]
    return f"{name} became {value}"


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
