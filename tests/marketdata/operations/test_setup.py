"""The one-shot tasks: run again, run at the same time, run against a database that is not as it should be."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from marketdata import secretfile, token
from marketdata.errors import InvalidValue, StateError, UsageError, VersionMissing
from marketdata.graphql.engine import READER
from marketdata.operations import credential_files, setup
from marketdata.operations.setup import TRIGGER_FUNCTIONS, initialise, make_version
from marketdata.settings import Settings, load
from marketdata.store import migrations, tokens
from marketdata.store.pool import Connection, connect
from marketdata.store.version import find_served, registered
from tests.marketdata.conftest import Command

AT_ONCE = 6


def url(settings: Settings) -> str:
    return settings.database_url


def at_once(task: Callable[[], list[str]]) -> list[list[str]]:
    with ThreadPoolExecutor(AT_ONCE) as threads:
        return [running.result() for running in [threads.submit(task) for _ in range(AT_ONCE)]]


def init(settings: Settings) -> list[str]:
    said: list[str] = []
    with connect(url(settings)) as connection:
        initialise(connection, said.append)
    return said


def version(settings: Settings, n: int) -> list[str]:
    said: list[str] = []
    with connect(url(settings)) as connection:
        make_version(connection, settings, n, said.append)
    return said


def value(settings: Settings, statement: str) -> object:
    with connect(url(settings)) as connection:
        row = connection.execute(statement).fetchone()  # type: ignore[arg-type]
    return row[0]


def execute(settings: Settings, statement: str) -> None:
    with connect(url(settings)) as connection:
        connection.execute(statement)  # type: ignore[arg-type]


def test_init_reports_its_steps(fresh: Settings) -> None:
    first = init(fresh)
    assert first[0] == f"schema: {len(migrations.STEPS)} steps applied"
    assert init(fresh) == ["schema: up to date", f"role {READER}: already exists"]
    assert value(fresh, "SELECT count(*) FROM market_migrations") == len(migrations.STEPS)


def test_inits_at_the_same_time_apply_each_step_once(fresh: Settings) -> None:
    said = at_once(lambda: init(fresh))
    # Each step is a transaction of its own, so several of them may have applied one.
    applied = [int(word) for lines in said for word in lines[0].split() if word.isdecimal()]
    assert sum(applied) == len(migrations.STEPS)


def test_a_step_that_fails_leaves_nothing_of_itself(fresh: Settings) -> None:
    steps = ("CREATE TABLE a ()", "CREATE TABLE b (); SELECT 1 / 0")
    with pytest.raises(InvalidValue), connect(url(fresh)) as connection:
        migrations.migrate(connection, steps)
    assert value(fresh, "SELECT array_agg(step) FROM market_migrations") == [1]
    assert value(fresh, "SELECT to_regclass('b')") is None
    with connect(url(fresh)) as connection:
        assert migrations.migrate(connection, (steps[0], "CREATE TABLE b ()")) == 1


def test_a_schema_of_a_newer_program_is_left_alone(fresh: Settings) -> None:
    init(fresh)
    execute(fresh, "INSERT INTO market_migrations (step) VALUES (99)")
    with pytest.raises(StateError, match="step 99") as caught:
        init(fresh)
    assert caught.value.code == "newer_schema"


def test_the_reader_calls_the_candles_function(read_by_role: Settings) -> None:
    """The function makes candles in each of its ways, as a GraphQL engine calls it, also for an alias."""
    statement = "SELECT symbol, n FROM md_candles_v1(%s, %s, NULL, '2023-12-20Z', 500, %s, %s)"
    ways = [(bucket, "+00:00") for bucket in ("1s", "1m", "5m", "1w")]
    ways += itertools.product(("1w", "1M"), ("+05:30", "Asia/Kolkata", "Europe/Berlin"))
    with connect(url(read_by_role)) as connection:
        connection.execute(f"SET ROLE {READER}")
        for (bucket, zone), fill, name in itertools.product(ways, ("none", "previous"), ("R:A", "R:ALIAS")):
            found = connection.execute(statement, (name, bucket, fill, zone)).fetchall()
            assert found == [("R:A", 2)], (bucket, zone, fill, name)


@pytest.fixture(scope="module")
def read_by_role(new_database: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings with a database of two ticks of one second, and an alias of their symbol."""
    folder = str(tmp_path_factory.mktemp("read_by_role"))
    settings = load({"DATABASE_URL": new_database(versions=1), "MARKET_STATE_DIR": folder})
    execute(settings, "INSERT INTO market_aliases (alias, symbol) VALUES ('R:ALIAS', 'R:A')")
    execute(
        settings,
        "INSERT INTO md_ticks_v1 (symbol, id, ts, price, size)"
        " SELECT 'R:A', id, '2023-12-20Z', 1, 1 FROM unnest(ARRAY['a', 'b']) AS id",
    )
    return settings


def test_a_login_that_may_not_change_roles_leaves_the_reader_as_it_is(fresh: Settings) -> None:
    init(fresh)
    with connect(url(fresh)) as connection:
        connection.execute("DO $$ BEGIN CREATE ROLE plain; EXCEPTION WHEN duplicate_object THEN END $$")
        connection.execute("SET ROLE plain")
        with pytest.raises(StateError, match=r"marketdata_reader was not changed: .*Set DATABASE_URL to a login"):
            credential_files.change_reader_password(connection, fresh.secrets_dir)
    assert list(fresh.secrets_dir.iterdir()) == []


def test_versions_stand_side_by_side_and_the_first_is_current(fresh: Settings) -> None:
    init(fresh)
    assert version(fresh, 1)[0] == "version 1: created md_ticks_v1 and md_candles_v1; it is the current version"
    assert version(fresh, 2)[0] == "version 2: created md_ticks_v2 and md_candles_v2"
    assert version(fresh, 1)[0] == "version 1: md_ticks_v1 and md_candles_v1 already exist"
    assert version(replace(fresh, prefix="other"), 2)[0].endswith("; it is the current version")
    with connect(url(fresh)) as connection:
        rows = registered(connection, "md")
    assert [(row.n, row.state, row.is_current) for row in rows] == [(1, "ready", True), (2, "ready", False)]


def test_versions_made_at_the_same_time_are_made_once(fresh: Settings) -> None:
    init(fresh)
    said = at_once(lambda: version(fresh, 1))
    assert sum("created" in lines[0] for lines in said) == 1
    assert sum("already exist" in lines[0] for lines in said) == AT_ONCE - 1


def test_a_table_that_is_not_ours_is_left_alone(fresh: Settings) -> None:
    init(fresh)
    execute(fresh, "CREATE TABLE md_ticks_v1 (mine int)")
    with pytest.raises(StateError, match=r"md_ticks_v1.*MARKET_PREFIX"):
        version(fresh, 1)
    assert value(fresh, "SELECT count(*) FROM market_versions") == 0


def test_a_versions_settings_file_is_written_and_keeps_what_was_added(fresh: Settings) -> None:
    init(fresh)
    version(fresh, 2)
    file = fresh.state_dir / "v2.env"
    settings = load({}, file)
    assert (settings.prefix, settings.ticks_table, settings.candles_function) == ("md", "md_ticks_v2", "md_candles_v2")
    with file.open("a") as lines:
        lines.write("MARKET_FRONTEND_PORT=8082\n")
    text = file.read_text().replace("TICKS_TABLE=md_ticks_v2", "TICKS_TABLE=md_ticks_v1")
    file.write_text(text.replace("MARKET_API_PORT=8788", "MARKET_API_PORT=9000"))
    assert version(fresh, 2)[1] == f"{file}: written"
    assert version(fresh, 2)[1] == f"{file}: up to date"
    settings = load({}, file)
    assert (settings.ticks_table, settings.api_port, settings.frontend_port) == ("md_ticks_v2", 9000, 8082)
    assert file.stat().st_mode & 0o077 == 0


def test_each_version_has_a_file_and_a_port_of_its_own(fresh: Settings) -> None:
    init(fresh)
    elsewhere = replace(fresh, state_dir=fresh.state_dir / "not" / "there")
    for n, port in ((1, 8787), (2, 8788), (3, 8789), (99_999, 8787)):
        assert version(elsewhere, n)[1] == f"{elsewhere.state_dir}/v{n}.env: written"
        settings = load({}, elsewhere.state_dir / f"v{n}.env")
        assert (settings.api_port, settings.api_upstream) == (port, f"http://127.0.0.1:{port}")
        assert settings.ticks_table == f"md_ticks_v{n}"
    assert elsewhere.state_dir.stat().st_mode & 0o777 == 0o700
    file = elsewhere.state_dir / "abc-v1.env"
    assert version(replace(elsewhere, prefix="abc"), 1)[1] == f"{file}: written"
    assert load({}, file).ticks_table == "abc_ticks_v1"


def test_no_version_is_created_whose_settings_file_cannot_be_written(fresh: Settings) -> None:
    init(fresh)
    (fresh.state_dir / "file").write_text("")
    (fresh.state_dir / "folder" / "v1.env").mkdir(parents=True)
    for place, reason in (("file/below", "MARKET_STATE_DIR"), ("folder", "v1.env cannot be read")):
        with pytest.raises(StateError, match=reason):
            version(replace(fresh, state_dir=fresh.state_dir / place), 1)
    assert value(fresh, "SELECT to_regclass('md_ticks_v1') IS NULL AND NOT EXISTS (SELECT FROM market_versions)")


def test_the_reader_cannot_attach_the_trigger_functions_of_a_version(fresh: Settings) -> None:
    """A restore leaves a function as PostgreSQL creates it: everybody may execute it, and so attach it to a table."""
    init(fresh)
    version(fresh, 1)
    with connect(url(fresh)) as connection:
        connection.execute(
            "DO $$ BEGIN EXECUTE format('GRANT TEMP ON DATABASE %I TO PUBLIC', current_database()); END $$"
        )
        connection.execute(f"SET ROLE {READER}")
        connection.execute("CREATE TEMP TABLE own ()")
        assert attachable(connection) == set()
        for name in TRIGGER_FUNCTIONS:
            execute(fresh, f"GRANT EXECUTE ON FUNCTION md_{name}_v1() TO PUBLIC")
        assert attachable(connection) == set(TRIGGER_FUNCTIONS)
        version(fresh, 1)
        assert attachable(connection) == set()
    execute(fresh, "INSERT INTO md_ticks_v1 (symbol, id, ts, price, size) VALUES ('B', 'b', '2024-01-01Z', 2, 3)")


def attachable(connection: Connection) -> set[str]:
    """The trigger functions of version 1 that this login can attach to its table ``own``."""
    found = set()
    for name in TRIGGER_FUNCTIONS:
        with contextlib.suppress(psycopg.errors.InsufficientPrivilege):
            connection.execute(f"CREATE TRIGGER {name} AFTER INSERT ON own EXECUTE FUNCTION md_{name}_v1()")
            found.add(name)
    for name in found:
        connection.execute(f"DROP TRIGGER {name} ON own")
    return found


# -- which version is served -----------------------------------------------------------------------------------------


def test_the_version_that_is_named_is_served(fresh: Settings, two_versions: Connection) -> None:
    for table, function, n in (
        (None, None, 1),
        ("md_ticks_v2", None, 2),
        (None, "md_candles_v2", 2),
        ("md_ticks_v2", "md_candles_v2", 2),
    ):
        found = find_served(two_versions, replace(fresh, ticks_table=table, candles_function=function))
        assert (found.n, found.ticks_table, found.candles_function) == (n, f"md_ticks_v{n}", f"md_candles_v{n}")
    for table, function, prefix, reason in (
        ("md_ticks_v3", None, "md", "TICKS_TABLE=md_ticks_v3"),
        (None, "md_candles_v3", "md", "CANDLES_FUNCTION=md_candles_v3"),
        ("md_ticks_v1", "md_candles_v2", "md", "md_candles_v2 does not belong to TICKS_TABLE=md_ticks_v1"),
        ("md_ticks_v1", "now", "md", "CANDLES_FUNCTION=now"),
        (None, None, "other", "prefix other"),
    ):  # fmt: skip
        named = replace(fresh, ticks_table=table, candles_function=function, prefix=prefix)
        with pytest.raises((VersionMissing, UsageError)) as caught:
            find_served(two_versions, named)
        assert reason in caught.value.detail


# -- the first start -------------------------------------------------------------------------------------------------


def prepare(settings: Settings) -> list[str]:
    said: list[str] = []
    with connect(url(settings)) as connection:
        setup.prepare(connection, settings, said.append)
    return said


def test_first_starts_at_the_same_time_make_one_token_of_each_scope(fresh: Settings) -> None:
    said = at_once(lambda: prepare(fresh))
    assert sum("with a new" in line for lines in said for line in lines) == 2
    with connect(url(fresh)) as connection:
        made = sorted((each.name, each.scope) for each in tokens.list_all(connection))
        assert made == [("alg", "write"), ("read", "read")]
        for name, scope in (("read.json", "read"), ("alg.json", "write")):
            assert (fresh.secrets_dir / name).stat().st_mode & 0o777 == 0o600
            held = secretfile.read_token(fresh.secrets_dir / name, scope=scope)
            found = tokens.find(connection, token.digest(held.token))
            assert found is not None
            assert found.scope == scope
    assert fresh.secrets_dir.stat().st_mode & 0o777 == 0o700
    assert prepare(fresh) == ["schema: up to date", f"role {READER}: already exists"]


def test_a_token_file_of_another_database_is_reported_and_kept(fresh: Settings) -> None:
    prepare(fresh)
    path = fresh.secrets_dir / "read.json"
    foreign = {"token": token.generate(), "scope": "read", "name": "read"}
    secretfile.write(path, foreign)
    assert any(line.startswith(f"{path}: its token is unknown, expired or revoked here") for line in prepare(fresh))
    assert json.loads(path.read_text()) == foreign


def test_an_existing_version_is_served_and_no_first_one_made(fresh: Settings) -> None:
    init(fresh)
    version(fresh, 2)
    prepare(fresh)
    assert value(fresh, "SELECT array_agg(n) FROM market_versions") == [2]


# -- the command line ------------------------------------------------------------------------------------------------


def test_a_token_is_shown_once_and_never_kept(command: Command, fresh: Settings) -> None:
    made = command("token", "create", "--name", "me", "--scope", "write", "--days", "7")
    text = made.stdout.strip()
    assert token.is_sound(text)
    assert text not in made.stderr
    listed = command("token", "list").stdout
    assert ("me" in listed, "valid until" in listed, text in listed) == (True, True, False)
    assert value(fresh, "SELECT count(*) FROM api_tokens") == 1
    rotated = command("token", "rotate", "1").stdout.strip()
    assert rotated != text
    assert command("token", "revoke", "2").stdout == "token 2 (me, write) is revoked\n"
    with connect(url(fresh)) as connection:
        assert all(tokens.find(connection, token.digest(each)) is None for each in (text, rotated))


CREATE = ("token", "create", "--name", "me", "--scope", "read")


def test_a_token_is_written_to_a_new_file_or_not_made(
    command: Command, fresh: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.json"
    made = command(*CREATE, "--output", str(path))
    assert (made.returncode, made.stdout) == (0, "")
    assert secretfile.read_token(path, scope="read").token not in made.stderr
    held = path.read_bytes()
    done = command(*CREATE, "--output", str(path))
    assert done.returncode == 2
    assert done.stderr.startswith(f"bin/marketdata-token: {path} already exists")
    assert "name another file" in done.stderr
    assert path.read_bytes() == held
    done = command(*CREATE, "--output", str(tmp_path / "none" / "x.json"))
    assert (done.returncode, done.stderr) == (
        2, f"bin/marketdata-token: {tmp_path}/none/x.json cannot be created: No such file or directory\n"
    )  # fmt: skip
    assert value(fresh, "SELECT count(*) FROM api_tokens") == 1
    assert command("token", "rotate", "77", "--output", str(tmp_path / "y.json")).returncode == 1
    monkeypatch.setenv("DATABASE_URL", "postgresql://127.0.0.1:1/none")
    assert command(*CREATE, "--output", str(tmp_path / "y.json")).returncode == 1
    assert list(tmp_path.iterdir()) == [path]


def test_rotating_renews_the_files_that_held_the_token(command: Command, fresh: Settings, tmp_path: Path) -> None:
    prepare(fresh)
    path = fresh.secrets_dir / "read.json"
    before = path.read_text()
    done = command("token", "rotate", "1")
    assert f"{path} contained the previous token and now contains the new one\n" in done.stderr
    assert "alg.json" not in done.stderr
    held = secretfile.read_token(path, scope="read")
    assert held.token == done.stdout.strip()
    assert (held.name, path.stat().st_mode & 0o777, path.read_text() != before) == ("read", 0o600, True)
    assert prepare(fresh) == ["schema: up to date", f"role {READER}: already exists"]
    own = tmp_path / "own.json"
    command(*CREATE, "--output", str(own))
    before = own.read_text()
    rotate = ("token", "rotate", "--overlap", "0.1")
    assert f"{own} contained the previous token" in command(*rotate, "4", "--output", str(own)).stderr
    assert own.read_text() != before
    assert command("token", "rotate", "1", "--output", str(own)).returncode == 2, "it holds another token"
    other_spelling = fresh.secrets_dir / ".." / fresh.secrets_dir.name / "alg.json"
    done = command(*rotate, "2", "--output", str(other_spelling))
    assert (done.returncode, done.stderr.count("alg.json contained the previous token")) == (0, 1)


def test_a_rotation_that_fails_leaves_the_token_and_its_file(command: Command, fresh: Settings) -> None:
    prepare(fresh)
    path = fresh.secrets_dir / "read.json"
    held = secretfile.read_token(path, scope="read").token
    with connect(url(fresh)) as connection:
        connection.execute("ALTER TABLE api_tokens ADD CHECK (id < 3)")
        assert command("token", "rotate", "1").returncode == 1
        assert tokens.find(connection, token.digest(held)) is not None
    assert secretfile.read_token(path, scope="read").token == held
    assert {each.name for each in fresh.secrets_dir.iterdir()} == {"read.json", "alg.json"}


def test_revoking_names_the_files_that_held_the_token(command: Command, fresh: Settings) -> None:
    prepare(fresh)
    done = command("token", "revoke", "2")
    assert done.stdout == "token 2 (alg, write) is revoked\n"
    assert done.stderr == f"{fresh.secrets_dir}/alg.json contains the revoked token: remove the file\n"


def test_wrong_use_ends_with_its_reason(command: Command, fresh: Settings) -> None:
    init(fresh)
    for arguments, code, words in (
        (("token", "revoke", "77"), 1, "there is no token"),
        ((*CREATE, "--days", "-1"), 2, "--days"),
        (("token", "create", "--name", "", "--scope", "read"), 2, "must be one line of 1 to 100 characters"),
        (("version", "0"), 2, "argument N: must be the number of a version, from 1 to 999999, like 2, not '0'"),
        (("version", "-1"), 2, "argument N: must be the number of a version"),
        (("init", "--env-file", "/no/such.env"), 2, "/no/such.env"),
        (("db",), 2, "DATABASE_URL is set"),
    ):
        done = command(*arguments)
        assert (done.returncode, done.stdout, words in done.stderr) == (code, "", True), (arguments, done)
        assert "Traceback" not in done.stderr


def test_shards_are_refused_where_there_is_no_citus(command: Command, fresh: Settings) -> None:
    for count in ("0", "257", "1.5", "many"):
        done = command("version", "1", "--shards", count)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"must be a number of shards, from 1 to 256, like 32, not {count!r}" in done.stderr
    done = command("version", "1", "--shards", "256")
    assert done.returncode == 2
    assert "--shards: the database has no extension citus. Set DATABASE_URL to the coordinator" in done.stderr
    with connect(url(fresh)) as connection:
        assert registered(connection, "md") == []


def test_a_database_that_cannot_be_reached_is_named_without_the_password(
    command: Command, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second host accepts the connection, and nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        silent = f"127.0.0.1:{listening.getsockname()[1]}"
        for conninfo, reasons in (
            ("postgresql://me:secret@127.0.0.1:1/none", [
                "bin/marketdata-init: no connection to the database: check that it runs and accepts the login of "
                "DATABASE_URL (connection failed: connection to server at \"127.0.0.1\", port 1 failed: Connection "
                "refused)\n"]),
            (f"postgresql://me:secret@{silent}/none?connect_timeout=2", [
                f"(host 127.0.0.1, port {silent.partition(':')[2]}: connection timeout expired)"]),
            (make_conninfo(postgres, user="a_stranger", password="secret"), [
                'failed: FATAL:  no pg_hba.conf entry for host "[local]", user "a_stranger"']),
        ):  # fmt: skip
            monkeypatch.setenv("DATABASE_URL", conninfo)
            done = command("init")
            assert done.returncode == 1
            assert all(each in done.stderr for each in reasons), done
            assert "secret" not in done.stderr
            assert len(done.stderr.splitlines()) == 1, done


def test_every_command_explains_itself(run_command: Command) -> None:
    for name in ("api", "db", "init", "version", "copy", "cutover", "drop", "alias", "token", "ingestor"):
        done = run_command(name, "--help")
        assert done.returncode == 0
        assert done.stdout.startswith(f"usage: bin/marketdata-{name} ")


def test_wrong_arguments_are_named_with_the_launcher(run_command: Command) -> None:
    done = run_command("version", "--forse", "1")
    said = done.stderr.splitlines()[-1].partition("error: ")[2]
    assert (done.returncode, said) == (2, "unrecognized arguments: --forse")
    for arguments, launcher in (
        (("init", "more"), "bin/marketdata-init"),
        (("token",), "bin/marketdata-token"),
        (("token", "revoke"), "bin/marketdata-token revoke"),
        (("ingestor", "what"), "bin/marketdata-ingestor"),
        (("ingestor", "dead-letters"), "bin/marketdata-ingestor dead-letters"),
    ):
        done = run_command(*arguments)
        assert done.returncode == 2, arguments
        assert done.stderr.startswith(f"usage: {launcher} [-h]"), arguments
        assert done.stderr.splitlines()[-1].startswith(f"{launcher}: error: "), arguments
