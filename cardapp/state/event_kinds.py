"""The kinds of events (source: "Progress, events, evidence, reports" in the card contract)."""

from __future__ import annotations

NAVIGATION_SET = "navigation.set"
NAVIGATION_MOVED = "navigation.moved"
NAVIGATION_SYNCED = "navigation.synced"
CHECKPOINT_READY = "checkpoint.ready"
CHECKPOINT_REJECTED = "checkpoint.rejected"
CHECKPOINT_FAILED = "checkpoint.failed"
CHECKPOINT_CANCELLED = "checkpoint.cancelled"
CHECKPOINT_TIMEOUT = "checkpoint.timeout"
SYNC_OFF = "sync.off"
EDITOR_RESET = "editor.reset"
EDITOR_REDRAW = "editor.redraw"
VIEWER_CHANGED = "viewer.changed"
PROGRESS_CHANGED = "progress.changed"
EVIDENCE_ADDED = "evidence.added"
STRATEGY_ADDED = "strategy.added"
STRATEGY_REMOVED = "strategy.removed"
ANNOTATION_ADDED = "annotation.added"
ANNOTATION_REMOVED = "annotation.removed"
ANNOTATION_SHOWN = "annotation.shown"
ANNOTATION_HIDDEN = "annotation.hidden"

NOTE = "note"

BACKEND_KINDS = frozenset(
    {
        NAVIGATION_SET,
        NAVIGATION_MOVED,
        NAVIGATION_SYNCED,
        CHECKPOINT_READY,
        CHECKPOINT_REJECTED,
        CHECKPOINT_FAILED,
        CHECKPOINT_CANCELLED,
        CHECKPOINT_TIMEOUT,
        SYNC_OFF,
        EDITOR_RESET,
        EDITOR_REDRAW,
        VIEWER_CHANGED,
        PROGRESS_CHANGED,
        EVIDENCE_ADDED,
        STRATEGY_ADDED,
        STRATEGY_REMOVED,
        ANNOTATION_ADDED,
        ANNOTATION_REMOVED,
        ANNOTATION_SHOWN,
        ANNOTATION_HIDDEN,
    }
)
