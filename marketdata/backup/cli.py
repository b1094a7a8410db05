"""The command lines of ``bin/marketdata-backup`` and ``-restore``, and the actions of ``bin/marketdata-db``."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from marketdata import __version__
from marketdata.commands.database_connection import say
from marketdata.errors import StateError, UsageError
from marketdata.postgres.client import database
from marketdata.settings import Settings

if TYPE_CHECKING:
    from marketdata.store.migrations import Restore
    from marketdata.store.pool import Connection

ABOUT_BACKUP = "Write the database, the settings of its versions, outboxes and token files to a new folder."
ABOUT_RESTORE = "Restore a backup into an empty state directory, or into the empty database of DATABASE_URL."

_TABLE = """
    SELECT relname::text FROM pg_class
    WHERE relkind IN ('r', 'p', 'v', 'm') AND relname <> %s
      AND relnamespace::regnamespace::text = ANY (current_schemas(false)::text[])
      AND NOT EXISTS (SELECT FROM pg_depend
                      WHERE classid = 'pg_class'::regclass AND objid = pg_class.oid AND deptype = 'e')
    LIMIT 1"""
"""Any table or view other than those of extensions, which Citus and others make in an empty database, too."""

_ANALYZE = """
    SELECT format('ANALYZE %s', oid::regclass) FROM pg_class
    WHERE relkind IN ('r', 'p', 'm') AND NOT relispartition
      AND relnamespace::regnamespace::text = ANY (current_schemas(false)::text[])
    ORDER BY relname"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="the folder of the backup")


def add_upgrade_commands(parser: argparse.ArgumentParser) -> None:
    """Add the actions of ``bin/marketdata-db``. Without an action, the command runs PostgreSQL."""
    actions = parser.add_subparsers(metavar="ACTION", help="default: run PostgreSQL in the foreground")
    actions.add_parser(
        "upgrade",
        help="convert the database to the newest PostgreSQL that is installed; the former one is kept",
    ).set_defaults(run=upgrade)
    actions.add_parser("revert", help="go back to the database that an upgrade kept").set_defaults(run=revert)


def upgrade(_options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.backup import major_upgrade

    _alone(settings, major_upgrade.upgrade)


def revert(_options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.backup import major_upgrade

    _alone(settings, major_upgrade.revert)


def _alone(settings: Settings, action: Callable[[Path, Callable[[str], None]], None]) -> None:
    if settings.database_url:
        raise UsageError("DATABASE_URL is set, so there is no private PostgreSQL to upgrade")
    signal.signal(signal.SIGTERM, _exit)  # so that SIGTERM removes an unfinished cluster, like Ctrl-C
    action(settings.state_dir, say)


def _exit(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def backup(options: argparse.Namespace, settings: Settings) -> None:
    """Make a backup. Services may run and write meanwhile."""
    from marketdata.backup import archive, programs
    from marketdata.backup.archive import moment
    from marketdata.store import migrations
    from marketdata.store.pool import connect

    target = options.folder.absolute()
    with archive.new_folder(target) as folder, database(settings) as url:
        with connect(url) as connection:
            migrations.refuse_unfinished_restore(connection)
            archive.refuse_distributed(connection)
            major = connection.info.server_version // 10000
        program = programs.find("pg_dump", major)
        with moment(url, lambda: _copy_outboxes(settings, folder)) as snapshot:
            for name, path in archive.other_files(settings).items():
                archive.add(path, folder / name)
            programs.run(
                program, url, "--format=custom", f"--snapshot={snapshot}", "--file", folder / archive.DUMP,
                "--no-owner", "--no-privileges", f"--exclude-table={migrations.RESTORE_TABLE}",
            )  # fmt: skip
        (folder / archive.DUMP).chmod(0o600)
        made_at = datetime.now(UTC).isoformat(timespec="seconds")
        archive.write_manifest(folder, {"release": __version__, "postgresql": major, "made_at": made_at})
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    say(f"{target}: {size} bytes; it contains the token files, so keep it as secret as them")


def _copy_outboxes(settings: Settings, folder: Path) -> None:
    from marketdata.backup import archive
    from marketdata.ingest.outbox import Outbox

    for path in archive.outboxes(settings):
        target = folder / archive.STATE / path.relative_to(settings.state_dir)
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with closing(Outbox(path, only_reads=True)) as outbox:
            outbox.copy_to(target)


def restore(options: argparse.Namespace, settings: Settings) -> None:
    """Restore a backup. No service may run meanwhile. The database is restored in one transaction, and an interrupted
    restore can be repeated. A repeated restore that has ended changes nothing."""
    from marketdata.backup import archive
    from marketdata.store import migrations
    from marketdata.store.pool import connect

    folder = options.folder.absolute()
    targets = archive.places(settings, archive.checked(folder))
    if settings.database_url is None and not (settings.state_dir / "cluster").exists():
        archive.refuse_different(folder, targets)  # before a cluster is created
    backup = migrations.Restore(str(folder), archive.identity(folder))
    with database(settings) as url, connect(url, application_name="marketdata-restore") as connection:
        before = migrations.last_restore(connection)
        is_stored = before is not None and before.digest == backup.digest and before.state != "running"
        if not is_stored:
            _store(connection, url, settings, backup, before, targets)
        if before is None or before.state != "done":
            _analyze(connection)
    say(
        f"{'already restored' if before is not None and before.state == 'done' else 'restored'} {folder} into "
        f"{settings.state_dir}"
    )


def _store(
    connection: Connection,
    url: str,
    settings: Settings,
    backup: Restore,
    before: Restore | None,
    targets: Mapping[str, Path],
) -> None:
    """Restore files and database. ``before`` is an earlier restore into this database."""
    from marketdata.backup import archive
    from marketdata.store import migrations

    folder = Path(backup.folder)
    archive.refuse_different(folder, targets)
    if before is not None and before.digest != backup.digest:
        migrations.refuse_unfinished_restore(connection)
    archive.refuse_distributed(connection)
    table = _first_table(connection)
    if before is None or before.digest != backup.digest:
        _refuse_filled(table)
        migrations.begin_restore(connection, backup)
    archive.put_back(folder, targets)
    if table is None:
        _restore_database(connection, url, folder / archive.DUMP)
    _complete(connection, settings)


def _restore_database(connection: Connection, url: str, dump: Path) -> None:
    from marketdata.backup import programs

    programs.run(
        programs.find("pg_restore", connection.info.server_version // 10000), url,
        "--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges", dump,
    )  # fmt: skip


def _complete(connection: Connection, settings: Settings) -> None:
    """End the restore, and create what the dump lacks: the roles, which belong to the server, and their privileges."""
    from marketdata.operations.setup import initialise, make_tables
    from marketdata.store import migrations
    from marketdata.store.version import registered

    with connection.transaction():
        migrations.record_restore(connection, "stored")
        initialise(connection, say)
        for each in registered(connection, settings.prefix):
            say(f"version {each.n}: {make_tables(connection, each.version)[0]}")


def _analyze(connection: Connection) -> None:
    """Count what the planner of queries needs to know, each table in a transaction of its own. The restored data can be
    used meanwhile."""
    from marketdata.store import migrations

    for (statement,) in connection.execute(_ANALYZE).fetchall():
        connection.execute(statement)
    migrations.record_restore(connection, "done")


def _first_table(connection: Connection) -> str | None:
    """The name of any table in the database, or None. The table that marks an unfinished restore does not count."""
    from marketdata.store import migrations

    row = connection.execute(_TABLE, [migrations.RESTORE_TABLE]).fetchone()
    return None if row is None else str(row[0])


def _refuse_filled(table: str | None) -> None:
    if table is not None:
        raise StateError(
            f"the database already has the table {table}, and a restore replaces nothing: set MARKET_STATE_DIR to an "
            "empty folder, or DATABASE_URL to an empty database"
        )
