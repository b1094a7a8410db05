"""``bin/marketdata-backup`` and ``-restore``, as programs, with the service running and writing."""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from marketdata.ingest.outbox import Outbox, put
from marketdata.postgres.client import Client as DatabaseClient
from marketdata.postgres.cluster import conninfo
from tests.functional import small_disk
from tests.functional.market_process import ApiProcess, Client, command
from tests.functional.serving import until

pytestmark = pytest.mark.functional

START = 1_700_000_000_000
SYMBOL = "BACKUP:A-B"
LATER = START + 86_400_000
BODIES = (
    f"/v1/ticks?symbol={SYMBOL}&limit=10000&startTime=0",
    f"/v1/ticks?symbol={SYMBOL}&limit=10000&startTime=0&format=csv",
    *(f"/v1/chart?symbol={SYMBOL}&interval={each}&startTime=0&format=csv&limit=10000" for each in ("1s", "1m", "1d")),
    f"/v1/chart?symbol={SYMBOL}&interval=5m&startTime=0&endTime={LATER}&format=binance",
    "/v1/symbols",
    f"/v1/coverage?symbol={SYMBOL}",
    "/v1/chart?symbol=BACKUP:ALIAS&interval=1h&startTime=0&format=csv",
)


@contextmanager
def serving(state_dir: Path) -> Iterator[ApiProcess]:
    process = ApiProcess(state_dir)
    try:
        process.start()
        yield process
    finally:
        assert process.stop() == 0


@pytest.fixture(scope="module")
def api() -> Iterator[ApiProcess]:
    with (
        tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder,
        serving(Path(folder)) as process,
    ):
        yield process


@pytest.fixture(scope="module")
def backup(api: ApiProcess) -> Iterator[Path]:
    """A backup of a filled database, which the test of changed backups changes."""
    with closing(Client(api.port, api.token("alg"))) as write:
        fill(write)
    assert command(api.state_dir, "version", "2").returncode == 0
    assert command(api.state_dir, "alias", "add", "BACKUP:ALIAS", SYMBOL).returncode == 0
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)
        done = command(api.state_dir, "backup", Path(folder, "backup"))
        assert (done.returncode, done.stderr) == (0, "")
        yield Path(folder, "backup")


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A state directory to restore into, which does not exist yet."""
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)
        yield Path(folder) / "state"


def tick(number: int, block: int | None = None, fork: str = "a") -> dict[str, Any]:
    made: dict[str, Any] = {
        "symbol": SYMBOL, "id": f"{fork}{number}", "ts": START + number * 700, "seq": number % 7,
        "price": f"1.{number:025d}", "size": str(number % 5), "side": ("buy", "sell", None)[number % 3],
    }  # fmt: skip
    return made if block is None else made | {"block": {"number": block, "hash": f"0x{fork}{block}"}, "tx": "0x1"}


def fill(client: Client) -> None:
    """Ticks with blocks, a retraction, finality, coverage, and a symbol without blocks."""
    items: list[Any] = [tick(number, number // 10) for number in range(3000)]
    items += [tick(number, 299, "b") for number in range(3000, 3005)]
    items += [{"retract": {"symbol": SYMBOL, "block_hash": "0xa298"}}, {"finalize": {"symbol": SYMBOL, "block": 250}}]
    items += [tick(1, None, "c") | {"symbol": "BACKUP:PLAIN"}]
    status, answer = client("POST", "/v1/ingest/tick", {"ticks": items})
    assert (status, answer["rejected"]) == (200, [])
    covered = {"symbol": SYMBOL, "from": START, "to": START + 2_000_000, "state": "indexed"}
    assert client("PUT", "/v1/coverage", covered)[0] == 200


def bodies(api: ApiProcess, token: str) -> dict[str, Any]:
    with closing(Client(api.port, token)) as read:
        answers = {path: read("GET", path) for path in BODIES}
    assert {status for status, _ in answers.values()} == {200}, answers
    return {path: body for path, (_, body) in answers.items()}


def test_a_restored_backup_gives_the_same_bytes(api: ApiProcess, backup: Path, elsewhere: Path) -> None:
    before, token = bodies(api, api.token("read")), api.token("read")
    assert backup.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o077 for path in backup.rglob("*")} == {0}

    done = command(elsewhere, "restore", backup)
    assert (done.returncode, done.stderr) == (0, "")
    with serving(elsewhere) as restored:
        assert restored.token("read") == token
        assert bodies(restored, token) == before
        with closing(Client(restored.port, restored.token("alg"))) as write:
            late = tick(2980, 298)
            answer = write("POST", "/v1/ingest/tick", {"ticks": [late]})[1]
            assert answer["rejected"][0]["code"] == "retracted", "hashes of retracted blocks are restored, too"
            assert write("POST", "/v1/ingest/tick", tick(9000))[0] == 201
        with psycopg.connect(conninfo(elsewhere)) as connection:
            connection.execute("SET ROLE marketdata_reader")
            assert connection.execute("SELECT count(*) FROM md_ticks_v2").fetchone() == (0,)
        assert (elsewhere / "v2.env").read_text() == (api.state_dir / "v2.env").read_text()


def test_a_full_target_is_named_and_nothing_else_is_blamed(
    api: ApiProcess, backup: Path, elsewhere: Path, tmp_path: Path
) -> None:
    """First the dump does not fit, then the outbox."""
    assert command(elsewhere, "restore", backup).returncode == 0
    target = tmp_path / "target"
    target.mkdir()
    for path in (None, elsewhere / "ingestor" / "md_ticks_v1.sqlite"):
        if path is not None:
            path.parent.mkdir()
            Outbox(path).close()
        done = command(elsewhere, "backup", target / "backup", inside=small_disk.inside(target, 64 << 10))
        assert done.returncode == 1
        assert f"the file system {target} of {target}" in done.stderr, done.stderr
        assert str(elsewhere) not in done.stderr


def test_nothing_that_exists_is_replaced_and_a_changed_backup_is_refused(
    api: ApiProcess, backup: Path, elsewhere: Path
) -> None:
    state_dir, folder = api.state_dir, backup
    again = command(state_dir, "backup", folder)
    assert (again.returncode, "already exists" in again.stderr) == (2, True)
    over = command(state_dir, "restore", folder)
    assert (over.returncode, "a restore replaces nothing" in over.stderr) == (1, True)
    used = elsewhere.parent / "used"
    (used / "secrets").mkdir(parents=True)
    (used / "secrets" / "read.json").write_text("{}")
    other = command(used, "restore", folder)
    assert (other.returncode, f"{used}/secrets/read.json exists" in other.stderr) == (1, True)
    assert not (used / "cluster").exists()
    content = bytearray((folder / "database.dump").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "database.dump").write_bytes(content)
    done = command(elsewhere, "restore", folder)
    assert (done.returncode, "database.dump is missing or was changed" in done.stderr) == (1, True)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"] = {"secrets/../../x": "0", **manifest["files"]}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    done = command(elsewhere, "restore", folder)
    assert (done.returncode, "outside the backup" in done.stderr) == (2, True)
    nothing = command(elsewhere, "restore", state_dir)
    assert (nothing.returncode, "is not a backup" in nothing.stderr) == (2, True)
    assert not elsewhere.exists()


class Outgoing(threading.Thread):
    """Moves ticks from an outbox to the API as an ingestor does: written first, removed when they are acknowledged."""

    def __init__(self, api: ApiProcess, path: Path) -> None:
        super().__init__(daemon=True)
        self._api, self._path = api, path
        self.stopping = threading.Event()
        self.sent = 0

    def run(self) -> None:
        with closing(Outbox(self._path)) as outbox, closing(Client(self._api.port, self._api.token("alg"))) as write:
            while not self.stopping.is_set():
                numbers = range(self.sent, self.sent + 20)
                with outbox.transaction() as transaction:
                    put(transaction, [tick(number) | {"symbol": "BACKUP:MOVED"} for number in numbers])
                held = outbox.first(100)
                status, answer = write("POST", "/v1/ingest/tick", {"ticks": [json.loads(each.body) for each in held]})
                assert (status, answer["rejected"]) == (200, [])
                outbox.acknowledged(held, [])
                self.sent += 20


def test_a_backup_holds_database_and_outbox_of_one_moment(api: ApiProcess, elsewhere: Path) -> None:
    """Everything that the ingestor had read is in the restored database or in the restored outbox. No other tick of
    its symbol is in the database."""
    (api.state_dir / "ingestor").mkdir()
    outgoing = Outgoing(api, api.state_dir / "ingestor" / "md_ticks_v1.sqlite")
    outgoing.start()
    try:
        before = until(lambda: outgoing.sent > 100 and outgoing.sent, 60)
        folder = elsewhere.parent / "backup"
        done = command(api.state_dir, "backup", folder)
        assert (done.returncode, done.stderr) == (0, "")
    finally:
        outgoing.stopping.set()
        outgoing.join(60)
    assert outgoing.sent > before
    done = command(elsewhere, "restore", folder)
    assert (done.returncode, done.stderr) == (0, "")
    with closing(Outbox(elsewhere / "ingestor" / "md_ticks_v1.sqlite")) as outbox:
        (entered,) = outbox.rows("SELECT seq FROM sqlite_sequence WHERE name = 'items'")[0]
        held = {json.loads(each.body)["id"] for each in outbox.first(10_000)}
    with DatabaseClient(elsewhere, linger=False) as client, psycopg.connect(client.conninfo) as connection:
        stored = {id for (id,) in connection.execute("SELECT id FROM md_ticks_v1 WHERE symbol = 'BACKUP:MOVED'")}
    assert entered >= before
    assert stored | held == {f"a{each}" for each in range(entered)}
