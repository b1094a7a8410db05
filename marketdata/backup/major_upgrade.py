"""``bin/marketdata-db upgrade`` and ``revert``: convert the private cluster to another major version of PostgreSQL.

    <state>/upgrade/cluster    the new cluster until the switch; after it, for a moment, the former cluster
    <state>/cluster.previous   the former cluster

The new cluster is filled by dump and restore, and compared with the old one. Then the two folders are exchanged
atomically: whenever the command is killed, ``<state>/cluster`` is one of the two complete clusters. The next call
cleans up ``<state>/upgrade``. If the cluster there has the lower major version, it is the former one and is kept.
Otherwise it is an unfinished new one and is removed.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from psycopg import sql
from psycopg.conninfo import make_conninfo

from marketdata.backup import programs
from marketdata.backup.exchange import check_exchange, exchange, sync
from marketdata.errors import MissingRequirement, StateError
from marketdata.operations import Say
from marketdata.postgres import binaries
from marketdata.postgres.access import SUPERUSER
from marketdata.postgres.binaries import Binaries
from marketdata.postgres.cluster import Cluster
from marketdata.postgres.exclusive import exclusive, running
from marketdata.postgres.owner import end_old_processes
from marketdata.postgres.processes import Account
from marketdata.store.pool import Connection, connect

WORK, PREVIOUS = "upgrade", "cluster.previous"
MAX_JOBS = 4
MAX_SHOWN = 5
"""Maximum differences in the message."""
BUCKETS = ("1m", "5m", "1d")
"""Intervals to compare: 1m is stored, 5m is computed from a stored level, and 1d is the widest stored level."""

_DATABASES = "SELECT datname::text FROM pg_database WHERE datallowconn AND NOT datistemplate ORDER BY 1"
# Names that begin with pg_ are reserved for PostgreSQL, and differ between its major versions.
_ROLES = """
    SELECT rolname::text, concat_ws(' ', rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication,
                                    rolbypassrls, rolconnlimit, rolvaliduntil, hashtextextended(rolpassword, 0)),
           ARRAY(SELECT m.roleid::regrole::text FROM pg_auth_members m WHERE m.member = r.oid ORDER BY 1)::text
    FROM pg_authid r WHERE rolname !~ '^pg_'"""
# Tables of an extension are not dumped, because the extension creates them in the new cluster.
_TABLES = """
    SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'm') AND c.relispopulated AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
      AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
                                                AND d.deptype = 'e')
    ORDER BY 1, 2"""
_ROWS = """
    SELECT count(*) || ' rows with the checksum ' || coalesce(sum(hashtextextended("each row"::text, 0)), 0)
    FROM ONLY {} AS "each row" """
_SEQUENCES = "SELECT format('%I.%I', schemaname, sequencename), coalesce(last_value::text, 'unused') FROM pg_sequences"
_VERSIONS = """
    SELECT ticks_table, candles_function FROM market_versions
    WHERE to_regclass(ticks_table) IS NOT NULL AND to_regclass(replace(ticks_table, '_ticks_', '_symbols_')) IS NOT NULL
      AND EXISTS (SELECT FROM pg_proc WHERE proname = candles_function AND pg_function_is_visible(oid))"""
# Whether a candle is closed and final depends on the time of the query.
_CANDLES = """
    SELECT count(*) || ' candles with the checksum '
           || coalesce(sum(hashtextextended((to_jsonb(c) - 'closed' - 'finalized')::text, 0)), 0)
    FROM {} s CROSS JOIN LATERAL {}(s.symbol, %s, NULL, %s, 500) c"""

_PROGRAMS = ("pg_dump", "pg_dumpall", "pg_restore", "psql")
_READ_ONLY = "default_transaction_read_only=on"
"""Setting of the old cluster while it is dumped. Otherwise the new one could lack what a client writes meanwhile."""
_SETTINGS = "postgresql.auto.conf"
"""The file that ALTER SYSTEM writes. The new cluster gets a copy of it. The other configuration files are written at
each start."""
_SIZES, _SPARE_BYTES = 3, 256 << 20
"""The dump, the new cluster and its log are each at most as large as the old cluster. The spare bytes are for the files
of an empty cluster."""


def upgrade(state_dir: Path, say: Say) -> None:
    """Convert the cluster to the newest installed PostgreSQL. If the cluster has this version already, do nothing."""
    with _alone(state_dir, "bin/marketdata-db upgrade", say) as (cluster, major):
        target = binaries.find(data_major=None, data=cluster.data)
        if target.major <= major:
            say(
                f"PostgreSQL {major} made the database, and no newer one is installed, so nothing was changed. To "
                "upgrade, install a newer one beside it first: on Debian the package postgresql-N, of a newer release "
                "of Debian or of apt.postgresql.org"
            )
            return
        _check(state_dir, target)
        try:
            _convert(state_dir, cluster, target, say)
        finally:
            _settle(state_dir, say)
        say(
            f"the database has PostgreSQL {target.major} now: start the services. When they work as they should, "
            f"remove the former one: rm -r {state_dir / PREVIOUS}"
        )


def revert(state_dir: Path, say: Say) -> None:
    """Exchange the cluster and the former one, which an upgrade or a previous revert has kept."""
    with _alone(state_dir, "bin/marketdata-db revert", say) as (cluster, major):
        previous = state_dir / PREVIOUS
        former = _major(previous)
        if former is None:
            raise StateError(f"{previous} does not exist, so there is nothing to go back to")
        binaries.find(data_major=former, data=previous)
        exchange(cluster.folder, previous)
        say(
            f"the database is the one of PostgreSQL {former} again: start the services. What was written since the "
            f"switch is in {previous} (PostgreSQL {major}) alone; bin/marketdata-db revert goes back to it"
        )


@contextlib.contextmanager
def _alone(state_dir: Path, command: str, say: Say) -> Iterator[tuple[Cluster, int]]:
    """Lock all other processes out, clean up after a killed command, and yield the cluster and its major version."""
    cluster = Cluster(state_dir)
    with _translated(state_dir):
        if not cluster.folder.is_dir():
            raise StateError(f"{cluster.folder} does not exist: set MARKET_STATE_DIR to the folder of the database")
        if (owner := cluster.folder.stat().st_uid) != Account.of_this_process().uid:
            raise StateError(f"{cluster.folder} belongs to the account {_name(owner)}: run this as {_user_of(owner)}")
        with exclusive(state_dir, command):
            _settle(state_dir, say)
            major = _major(cluster.folder)
            if major is None:
                raise StateError(f"{cluster.data} is not a data directory of PostgreSQL")
            yield cluster, major


def _settle(state_dir: Path, say: Say) -> None:
    """Clean up after an upgrade: if the clusters were exchanged, rename the former one to ``PREVIOUS``. Remove
    ``WORK``."""
    work, previous = state_dir / WORK, state_dir / PREVIOUS
    if not work.exists():
        return
    left = Cluster(work)
    end_old_processes(left)
    serving, found = _major(state_dir / "cluster"), _major(left.folder)
    if serving is not None and found is not None and found < serving:
        if previous.exists():
            raise StateError(
                f"{left.folder} and {previous} are both former databases: remove the one that you do not need"
            )
        left.folder.rename(previous)
        sync(state_dir)
        say(f"{previous}: the former database (PostgreSQL {found}); bin/marketdata-db revert goes back to it")
    shutil.rmtree(work)


def _convert(state_dir: Path, cluster: Cluster, target: Binaries, say: Say) -> None:
    work = state_dir / WORK
    work.mkdir(mode=0o700)
    check_exchange(work)
    new = Cluster(work)
    _fill(cluster, new, target, say)
    _take_settings(cluster, new)
    say(f"switching to PostgreSQL {target.major} …")
    exchange(cluster.folder, new.folder)


def _check(state_dir: Path, target: Binaries) -> None:
    previous = state_dir / PREVIOUS
    if previous.exists():
        raise StateError(f"{previous} still holds a former database: remove it (rm -r {previous}), then try again")
    missing = [name for name in _PROGRAMS if not (target.folder / name).is_file()]
    if missing:
        raise MissingRequirement(
            f"{target.folder} lacks {', '.join(missing)}: install the client programs of PostgreSQL {target.major}"
        )


def _fill(old: Cluster, new: Cluster, target: Binaries, say: Say) -> None:
    """Create the new cluster, fill it from the old one and compare both. Raises StateError when they differ."""
    dump = new.folder.parent / "dump"
    dump.mkdir(mode=0o700)
    with running(old, _READ_ONLY) as source:
        _check_space(source, new.folder.parent, say)
        say("dumping …")
        _dump(source, target, dump)
        with running(new) as copy:
            say("restoring …")
            _restore(copy, target, dump)
            shutil.rmtree(dump)
            say("comparing …")
            say(f"{compare_clusters(source, copy)} parts are the same: roles, tables, sequences and candles")


def _check_space(source: str, work: Path, say: Say) -> None:
    with connect(source) as connection:
        row = connection.execute("SELECT sum(pg_database_size(oid))::bigint FROM pg_database").fetchone()
    assert row is not None
    needed, free = row[0] * _SIZES + _SPARE_BYTES, shutil.disk_usage(work).free
    text = f"the database has {_mb(row[0])}; the upgrade needs up to {_mb(needed)} in {work}, {_mb(free)} are free"
    if free < needed:
        raise StateError(f"{text}: make room, then try again")
    say(text)


def _dump(source: str, target: Binaries, dump: Path) -> None:
    """Dump the roles to a file, and each database to a numbered folder."""
    roles = dump / "roles.sql"
    programs.run(target.folder / "pg_dumpall", source, "--globals-only", "--file", roles)
    # The superuser exists in the new cluster already. The statements that set its attributes are kept.
    lines = roles.read_text(encoding="utf-8").splitlines(keepends=True)
    roles.write_text("".join(line for line in lines if line != f"CREATE ROLE {SUPERUSER};\n"), encoding="utf-8")
    for number, name in enumerate(databases(source)):
        programs.run(
            target.folder / "pg_dump", make_conninfo(source, dbname=name), "--format=directory", "--compress=1",
            "--create", f"--jobs={_jobs()}", "--file", dump / str(number),
        )  # fmt: skip


def _restore(copy: str, target: Binaries, dump: Path) -> None:
    programs.run(target.folder / "psql", copy, "-X", "--quiet", "--set=ON_ERROR_STOP=1", "--file", dump / "roles.sql")
    for folder in sorted(each for each in dump.iterdir() if each.is_dir()):
        # With --create and --clean, pg_restore drops a database that initdb created. Then it creates the database with
        # all properties of the old one.
        programs.run(
            target.folder / "pg_restore", make_conninfo(copy, dbname="template1"), "--create", "--clean",
            "--if-exists", "--exit-on-error", f"--jobs={_jobs()}", folder,
        )  # fmt: skip
    for name in databases(copy):
        with connect(make_conninfo(copy, dbname=name)) as connection:
            connection.execute("VACUUM (ANALYZE)")  # index-only scans need the visibility map


def _take_settings(old: Cluster, new: Cluster) -> None:
    """Copy the old cluster's settings to the new one, and check that the new one starts with them. Neither may run
    when this is called, because the settings may contain a TCP port."""
    with (
        open(old.data / _SETTINGS, "rb", opener=_no_link) as source,
        open(new.data / _SETTINGS, "wb", opener=_no_link) as target,  # the file exists and belongs to the account
    ):
        shutil.copyfileobj(source, target)
        target.flush()
        os.fsync(target.fileno())
    with running(new):
        pass


def _no_link(path: str, flags: int) -> int:
    """Open without following links. Both folders belong to PostgreSQL's account. If root opens the file, a link placed
    by this account could lead to any other file."""
    return os.open(path, flags | os.O_NOFOLLOW)


def _jobs() -> int:
    return min(MAX_JOBS, len(os.sched_getaffinity(0)))


def _mb(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


def _major(folder: Path) -> int | None:
    """The major version of the cluster in ``folder``; None when there is no complete cluster."""
    try:
        return int((folder / "data" / "PG_VERSION").read_text())
    except (FileNotFoundError, ValueError):
        return None


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _user_of(uid: int) -> str:
    """The account that must run the command, in words for a message. If PostgreSQL runs as the account postgres, root
    has started it."""
    return "root" if _name(uid) == "postgres" else f"this account: runuser -u {_name(uid)} -- COMMAND"


@contextlib.contextmanager
def _translated(state_dir: Path) -> Iterator[None]:
    try:
        yield
    except PermissionError:
        raise  # the command line names the account that may do this
    except OSError as error:
        raise StateError(f"{state_dir}: {error}") from error


# -- the comparison of two clusters ------------------------------------------------------------------------------------


def databases(url: str) -> list[str]:
    """The names of the databases of the cluster."""
    with connect(url) as connection:
        return [name for (name,) in connection.execute(_DATABASES)]


def contents(url: str, now: datetime) -> dict[str, str]:
    """The contents of the cluster of ``url``: the name of each part, with a text that differs when the part differs.

    The parts are the roles and, of each database, the tables, the sequences and the candles up to ``now``. The checksum
    of a table is the sum of the hashes of its rows, so their order does not matter.
    """
    with connect(url) as connection:
        found = {
            f"role {name}": f"{attributes} {member_of}" for name, attributes, member_of in connection.execute(_ROLES)
        }
    for name in databases(url):
        with connect(make_conninfo(url, dbname=name)) as connection:
            found |= {f"{name}: {part}": text for part, text in _database(connection, now)}
    return found


def differences(source: Mapping[str, str], target: Mapping[str, str]) -> list[str]:
    """A line for each part that differs."""
    return [
        f"{part}: {source.get(part, 'missing')} in the old cluster, {target.get(part, 'missing')} in the new one"
        for part in sorted(source.keys() | target.keys())
        if source.get(part) != target.get(part)
    ]


def compare_clusters(source: str, target: str) -> int:
    """Compare two clusters. Returns the number of parts. Raises StateError, which names the parts that differ."""
    now = datetime.now(UTC)
    found = contents(source, now)
    different = differences(found, contents(target, now))
    if different:
        shown = "\n".join(different[:MAX_SHOWN])
        raise StateError(f"{len(different)} parts of the new cluster differ from the old one, which stays:\n{shown}")
    return len(found)


def _database(connection: Connection, now: datetime) -> Iterator[tuple[str, str]]:
    for schema, table in connection.execute(_TABLES).fetchall():
        yield f"table {schema}.{table}", _one(connection, sql.SQL(_ROWS).format(sql.Identifier(schema, table)))
    yield from ((f"sequence {name}", value) for name, value in connection.execute(_SEQUENCES).fetchall())
    row = connection.execute("SELECT to_regclass('market_versions') IS NOT NULL").fetchone()
    versions = connection.execute(_VERSIONS).fetchall() if row == (True,) else []
    for ticks, candles in versions:
        symbols = sql.Identifier(ticks.replace("_ticks_", "_symbols_"))
        for bucket in BUCKETS:
            query = sql.SQL(_CANDLES).format(symbols, sql.Identifier(candles))
            yield f"{bucket} candles of {candles}", _one(connection, query, bucket, now)


def _one(connection: Connection, query: sql.Composed, *values: object) -> str:
    row = connection.execute(query, values).fetchone()
    assert row is not None
    return str(row[0])
