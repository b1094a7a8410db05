"""The table of ticks that an ingestor or a backfill writes to, and the outbox that belongs to it.

It is the table that the settings name, else the one that the API writes to: that of the current version, which a
cutover may change while an ingestor runs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from marketdata.errors import UsageError
from marketdata.ingest.api_client import ApiClient, ApiUnavailable
from marketdata.ingest.outbox import Outbox
from marketdata.settings import Settings

FOLDER = "ingestor"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 5.0

Wait = Callable[[ApiUnavailable, float], None]
"""Called with the reason and the seconds before the next try; it waits, or raises to give up."""


class AnotherTable(UsageError):
    """The API writes to another table than the one that is expected."""


def served_table(api: ApiClient, expected: str | None = None) -> str:
    """The table that the API writes to. AnotherTable if it is not ``expected``, ApiUnavailable without answer."""
    answer = api.request("GET", "/ready")
    table = answer.body.get("ticks_table") if isinstance(answer.body, dict) else None
    if answer.status != 200 or not isinstance(table, str):
        raise ApiUnavailable(f"{api.url} is not ready: {answer.detail}")
    if expected not in (None, table):
        raise AnotherTable(
            f"TICKS_TABLE is {expected}, but the API at {api.url} writes to {table}: "
            "set API_UPSTREAM to the API of that version"
        )
    return table


def find_table(settings: Settings, api: ApiClient, wait: Wait) -> str:
    """The table that the settings name, else the one that the API writes to, which is asked until it says so."""
    pause = _FIRST_PAUSE
    while settings.ticks_table is None:
        try:
            return served_table(api)
        except ApiUnavailable as error:
            wait(error, pause)
            pause = min(_LONGEST_PAUSE, pause * 2)
    return settings.ticks_table


def outbox_path(settings: Settings, table: str, folder: str = FOLDER) -> Path:
    """The outbox of a table. Its first use creates the file."""
    path = settings.state_dir / folder / f"{table}.sqlite"
    earlier = path.with_name(f"{settings.prefix}-current.sqlite")
    # Earlier releases used that name when the settings named no table.
    return earlier if not path.exists() and earlier.exists() and _table_of(earlier) in (None, table) else path


def outboxes(settings: Settings) -> list[Path]:
    """The outbox of the table that the settings name, else those of all tables of the prefix; only existing files."""
    if settings.ticks_table is not None:
        found = [outbox_path(settings, settings.ticks_table)]
    else:
        folder = settings.state_dir / FOLDER
        found = [*folder.glob(f"{settings.prefix}_ticks_v*.sqlite"), folder / f"{settings.prefix}-current.sqlite"]
    return sorted(path for path in found if path.exists())


def _table_of(path: Path) -> str | None:
    """The table that an outbox was bound to; None when the API was never reached."""
    with closing(Outbox(path)) as outbox:
        table: str | None = outbox.rows("SELECT ticks_table FROM identity")[0][0]
    return table
