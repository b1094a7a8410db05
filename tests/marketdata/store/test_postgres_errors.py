"""The translation of the driver's errors to those of the service."""

from __future__ import annotations

import psycopg
import psycopg_pool
from psycopg import errors

from marketdata import errors as e
from marketdata.store.postgres_errors import translate

SECRET = "postgresql://me:secret@host/"


def test_an_error_gets_the_class_of_its_sqlstate() -> None:
    for raised, kind in (
        (errors.UniqueViolation, e.Conflict),
        (errors.CheckViolation, e.InvalidValue),
        (errors.NumericValueOutOfRange, e.InvalidValue),
        (errors.SerializationFailure, e.Contended),
        (errors.DeadlockDetected, e.Contended),
        (errors.LockNotAvailable, e.Contended),
        (errors.UndefinedTable, e.VersionMissing),
        (errors.UndefinedFunction, e.VersionMissing),
        (errors.SyntaxError, e.DatabaseDefect),
        (errors.DiskFull, e.DiskFull),
        (errors.TooManyConnections, e.DatabaseExhausted),
        (errors.QueryCanceled, e.TooSlow),
        (errors.AdminShutdown, e.DatabaseUnavailable),
        (errors.CannotConnectNow, e.DatabaseUnavailable),
        (errors.ConnectionFailure, e.DatabaseUnavailable),
        (errors.ReadOnlySqlTransaction, e.DatabaseUnavailable),
        (errors.IoError, e.DatabaseUnavailable),
        (errors.DataCorrupted, e.DatabaseDefect),
        (psycopg.OperationalError, e.DatabaseUnavailable),
        (psycopg.InterfaceError, e.DatabaseUnavailable),
        (psycopg.ProgrammingError, e.DatabaseDefect),
        (psycopg_pool.PoolClosed, e.DatabaseUnavailable),
    ):
        ours = translate(raised(SECRET))
        assert type(ours) is kind, raised
        assert "secret" not in ours.detail, raised
        assert ours.detail, raised
