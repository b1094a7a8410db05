"""The translation of the driver's errors to those of the service."""

from __future__ import annotations

import psycopg
import psycopg_pool
import pytest
from psycopg import errors

from marketdata import errors as e
from marketdata.store.postgres_errors import translate

SECRET = "postgresql://me:secret@host/"


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (errors.UniqueViolation, e.Conflict),
        (errors.CheckViolation, e.InvalidValue),
        (errors.NumericValueOutOfRange, e.InvalidValue),
        (errors.SerializationFailure, e.Contended),
        (errors.DeadlockDetected, e.Contended),
        (errors.LockNotAvailable, e.Contended),
        (errors.UndefinedTable, e.VersionMissing),
        (errors.UndefinedFunction, e.VersionMissing),
        (errors.SyntaxError, e.DatabaseDefect),
        (errors.DiskFull, e.DatabaseExhausted),
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
    ],
)
def test_an_error_gets_the_class_of_its_sqlstate(raised: type[psycopg.Error], kind: type[e.MarketError]) -> None:
    ours = translate(raised(SECRET))
    assert type(ours) is kind
    assert "secret" not in ours.detail
    assert ours.detail
