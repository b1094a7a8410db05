"""The database schema as a list of migration steps; ``PRAGMA user_version`` is the number of applied steps.

Never edit a released step, because it was applied to existing files. Append a new step.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from cardapp.errors import StateError

APPLICATION_ID = 0x63617264
"""The bytes of ``card`` in ASCII. They mark a database as a file of this application (``PRAGMA application_id``)."""

_FIRST = """
-- Each learner has a separate chain of events and, for each card, a separate position, viewer state, statuses and last
-- results. The publication, the operations and the generation belong to the session and have no learner. The first
-- learner has no name yet.
CREATE TABLE learner (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  folded TEXT NOT NULL UNIQUE,
  named INTEGER NOT NULL CHECK (named IN (0, 1)),
  created_at TEXT NOT NULL
) STRICT;
INSERT INTO learner VALUES (1, 'unnamed', 'unnamed', 0, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'));

CREATE TABLE current_learner (
  only INTEGER PRIMARY KEY CHECK (only = 1),
  learner INTEGER NOT NULL REFERENCES learner (id),
  revision INTEGER NOT NULL
) STRICT;
INSERT INTO current_learner VALUES (1, 1, 0);

CREATE TABLE navigation (
  learner INTEGER NOT NULL REFERENCES learner (id),
  card_uuid TEXT NOT NULL,
  task_id TEXT, block_id TEXT, phase_id TEXT, step_id TEXT, snapshot_ref TEXT,
  focus_level TEXT NOT NULL,
  sync_requested INTEGER NOT NULL CHECK (sync_requested IN (0, 1)),
  actor TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  revision INTEGER NOT NULL,
  PRIMARY KEY (learner, card_uuid)
) STRICT, WITHOUT ROWID;

CREATE TABLE viewer (
  learner INTEGER NOT NULL REFERENCES learner (id),
  card_uuid TEXT NOT NULL,
  state TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  revision INTEGER NOT NULL,
  PRIMARY KEY (learner, card_uuid)
) STRICT, WITHOUT ROWID;

CREATE TABLE publication (
  card_uuid TEXT PRIMARY KEY,
  sync TEXT NOT NULL CHECK (sync IN ('on', 'off')),
  key TEXT NOT NULL,
  page_index INTEGER NOT NULL,
  operation_id TEXT NOT NULL,
  generation INTEGER NOT NULL,
  stop_id TEXT NOT NULL,
  binding TEXT NOT NULL,
  instance TEXT NOT NULL,
  socket TEXT NOT NULL,
  source_sha256 TEXT NOT NULL,
  observed TEXT NOT NULL,
  previous_key TEXT,
  previous_observed TEXT,
  reason TEXT,
  updated_at TEXT NOT NULL,
  revision INTEGER NOT NULL
) STRICT;

CREATE TABLE generation (
  only INTEGER PRIMARY KEY CHECK (only = 1),
  value INTEGER NOT NULL
) STRICT;
INSERT INTO generation VALUES (1, 0);

CREATE TABLE operation (
  card_uuid TEXT PRIMARY KEY,
  operation TEXT NOT NULL
) STRICT;

CREATE TABLE result (
  learner INTEGER NOT NULL REFERENCES learner (id),
  card_uuid TEXT NOT NULL,
  step_key TEXT NOT NULL,
  state TEXT NOT NULL,
  at TEXT NOT NULL,
  key TEXT NOT NULL,
  code TEXT,
  PRIMARY KEY (learner, card_uuid, step_key)
) STRICT, WITHOUT ROWID;

CREATE TABLE progress (
  learner INTEGER NOT NULL REFERENCES learner (id),
  card_uuid TEXT NOT NULL,
  item_id TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('pending', 'approved')),
  note TEXT NOT NULL,
  actor TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  revision INTEGER NOT NULL,
  PRIMARY KEY (learner, card_uuid, item_id)
) STRICT, WITHOUT ROWID;

-- card_id is cut out of the column card with substr(), because SQLite refuses its JSON functions here (trusted_schema
-- is off). The column has canonical JSON, {"id":"arena","source_sha256":…}, and an id contains no quotation mark.
CREATE TABLE event (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  at TEXT NOT NULL,
  kind TEXT NOT NULL,
  actor TEXT NOT NULL,
  key TEXT NOT NULL,
  card TEXT NOT NULL,
  data TEXT NOT NULL,
  hash TEXT NOT NULL,
  learner INTEGER NOT NULL,
  card_id TEXT GENERATED ALWAYS AS (substr(card, 8, instr(substr(card, 8), '"') - 1)) VIRTUAL
) STRICT;
CREATE INDEX event_by_learner ON event (learner, seq);
CREATE INDEX event_by_actor ON event (learner, actor, seq);
CREATE INDEX event_by_kind ON event (learner, kind, seq);
CREATE INDEX event_by_key ON event (learner, key, seq);
CREATE INDEX event_by_card ON event (learner, card_id, seq);
CREATE INDEX event_by_card_and_kind ON event (learner, card_id, kind, seq);
CREATE INDEX event_by_kind_and_key ON event (learner, kind, key, seq);

CREATE TRIGGER event_follows BEFORE INSERT ON event
WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM event)
BEGIN SELECT RAISE(ABORT, 'events are only appended, each right after the last'); END;
CREATE TRIGGER event_stays BEFORE DELETE ON event
BEGIN SELECT RAISE(ABORT, 'events are never deleted'); END;
CREATE TRIGGER event_unchanged BEFORE UPDATE ON event
BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;

CREATE TABLE evidence (
  seq INTEGER PRIMARY KEY REFERENCES event (seq),
  event_seq INTEGER NOT NULL REFERENCES event (seq),
  name TEXT NOT NULL,
  media_type TEXT NOT NULL,
  size INTEGER NOT NULL,
  width INTEGER NOT NULL,
  height INTEGER NOT NULL,
  caption TEXT NOT NULL,
  at TEXT NOT NULL
) STRICT;
CREATE INDEX evidence_by_event ON evidence (event_seq, seq);
CREATE INDEX evidence_by_name ON evidence (name);

CREATE TABLE proof (
  digest TEXT PRIMARY KEY,
  at TEXT NOT NULL,
  revision TEXT NOT NULL,
  compared INTEGER NOT NULL,
  partly INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Events name strategies and annotations by their numbers, so AUTOINCREMENT uses no number again.
CREATE TABLE strategy (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  card_uuid TEXT NOT NULL,
  key TEXT NOT NULL,
  label TEXT NOT NULL,
  commands TEXT NOT NULL,
  expected_observations TEXT NOT NULL
) STRICT;
CREATE INDEX strategy_by_card ON strategy (card_uuid, number);

CREATE TABLE annotation (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  card_uuid TEXT NOT NULL,
  key TEXT NOT NULL,
  strategy INTEGER REFERENCES strategy (number),
  target TEXT NOT NULL,
  geometry TEXT NOT NULL,
  style TEXT NOT NULL,
  text TEXT NOT NULL,
  visible INTEGER NOT NULL CHECK (visible IN (0, 1))
) STRICT;
CREATE INDEX annotation_by_card ON annotation (card_uuid, number);
CREATE INDEX annotation_by_strategy ON annotation (strategy);

CREATE TABLE explanation_revision (
  card_uuid TEXT PRIMARY KEY,
  revision INTEGER NOT NULL
) STRICT;
"""

STEPS: tuple[str, ...] = (_FIRST,)


def migrate(connection: sqlite3.Connection, *, path: str, steps: Sequence[str] = STEPS) -> int:
    """Apply the missing steps. Returns the number of steps that were applied.

    A step and its version number are written in one transaction, so a crash leaves no step half applied.

    :raises StateError: the file belongs to another application or has a newer schema. The file is not changed.
    """
    version = _version(connection, path)
    if version > len(steps):
        raise StateError(
            f"the database {path} has schema version {version}, but this program supports only {len(steps)}: a newer "
            "program used it; run the newer program, or set CARD_STATE_DATABASE to another file",
            code="state_newer_schema",
        )
    for number, step in enumerate(steps[version:], start=version + 1):
        try:
            connection.executescript(
                f"BEGIN IMMEDIATE;\n{step}\nPRAGMA application_id = {APPLICATION_ID};\n"
                f"PRAGMA user_version = {number};\nCOMMIT;"
            )
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    return len(steps) - version


def _version(connection: sqlite3.Connection, path: str) -> int:
    """The file's schema version. :raises StateError: the file belongs to another application."""
    application = int(connection.execute("PRAGMA application_id").fetchone()[0])
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if application == APPLICATION_ID:
        return version
    if application != 0 or version != 0 or connection.execute("SELECT 1 FROM sqlite_master").fetchone():
        raise StateError(
            f"{path} is a SQLite database of another application; set CARD_STATE_DATABASE to another file",
            code="state_foreign_database",
        )
    return 0
