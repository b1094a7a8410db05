"""What a distributed version refuses, with the remedy that Citus offers."""

from __future__ import annotations

import json
from pathlib import Path

from marketdata.api.serve import Service
from marketdata.graphql.tracking import DISTRIBUTED
from marketdata.settings import load
from tests.marketdata.api.conftest import eventually
from tests.marketdata.graphql.stand_in_hasura import serving
from tests.release.citus.commands import Prepared

WAYS = ("pg_basebackup", "citus_create_restore_point('NAME')", "bin/marketdata-copy")


def test_a_backup_is_refused_until_the_version_is_dropped(prepared: Prepared, tmp_path: Path) -> None:
    command = prepared.command
    assert command("version", "1").returncode == 0
    assert command("backup", str(tmp_path / "before")).returncode == 0
    assert command("version", "2", "--shards", "4").returncode == 0
    done = command("backup", str(tmp_path / "backup"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "md_ticks_v2: Citus distributes this version over nodes, and a backup is of one database" in done.stderr
    assert all(way in done.stderr for way in WAYS)
    assert not (tmp_path / "backup").exists()
    done = command("restore", str(tmp_path / "before"))
    assert done.returncode == 1
    assert "md_ticks_v2: Citus distributes this version" in done.stderr
    assert command("drop", "2", "--yes").returncode == 0
    assert command("backup", str(tmp_path / "backup")).returncode == 0


def test_graphql_is_refused(prepared: Prepared, state_dir: Path) -> None:
    command, url = prepared.command, prepared.database.url
    assert command("version", "1", "--shards", "4").returncode == 0
    with serving(url, "the admin secret") as hasura:
        secrets = state_dir / "secrets"
        secrets.mkdir(mode=0o700, exist_ok=True)
        file = secrets / "graphql-admin.json"
        file.write_text(json.dumps({"url": hasura.url, "admin_secret": "the admin secret"}))
        file.chmod(0o600)
        done = command("graphql")
        assert (done.returncode, done.stdout) == (1, "")
        assert f"version 1: {DISTRIBUTED}" in done.stderr
        settings = load({"MARKET_STATE_DIR": str(state_dir), "DATABASE_URL": url, "MARKET_API_PORT": "0"})
        service = Service(settings)
        service.start()
        try:
            version = service.services.served.version()

            def is_refused() -> bool:
                found = service.services.graphql.tracking(version)
                return found is not None and found.reason == DISTRIBUTED

            eventually(is_refused)
        finally:
            service.stop()
