"""Who may log in to the private cluster: ``pg_hba.conf`` and ``pg_ident.conf`` in its data directory.

``pg_hba.conf`` is a copy of ``etc/pg_hba.conf``. ``pg_ident.conf`` names the accounts that may log in as the owner
role. Both are written before PostgreSQL starts, which reads them then; a running one never has to read them again.
"""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from marketdata.errors import StateError
from marketdata.postgres.processes import Account
from marketdata.settings import ROOT

SUPERUSER = "marketdata"
_MAP = "marketdata"


def write_rules(data: Path, account: Account) -> None:
    """Bring both files up to date, each atomically. StateError when the account has no name."""
    accounts = sorted({account_name(account.uid), "root", "postgres"})
    lines = [f'{_MAP} "{name}" {SUPERUSER}\n' for name in accounts]
    # The map comes first, because the rules refer to it.
    _replace(data / "pg_ident.conf", "# Written before each start of PostgreSQL.\n" + "".join(lines), account)
    _replace(data / "pg_hba.conf", (ROOT / "etc" / "pg_hba.conf").read_text(encoding="utf-8"), account)


def account_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError as error:
        raise StateError(
            f"the account {uid} has no name, by which PostgreSQL could recognise it: add it to /etc/passwd, or set "
            "DATABASE_URL to a PostgreSQL that runs elsewhere"
        ) from error


def _replace(path: Path, text: str, account: Account) -> None:
    if path.exists() and path.read_text(encoding="utf-8", errors="replace") == text:
        return
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)  # of a start that was killed
    # The folder belongs to PostgreSQL's account: root follows no link that lies there.
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchown(descriptor, account.uid, account.gid)
        file.write(text)
    fresh.replace(path)
