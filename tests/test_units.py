"""The systemd units and the crontab: checked by systemd itself, with the paths of this repository."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.capabilities import needs

ROOT = Path(__file__).resolve().parent.parent
INSTALLED = "/opt/cards"
UNITS = sorted((ROOT / "etc" / "systemd").glob("*.service"))
EXPOSURE_MAX = 2.0
"""Of 10, as systemd-analyze security counts."""
CRON_LINE = re.compile(r"(?:[0-9*,/-]+ ){5}marketdata (\S+)(.*)")

needs_systemd = needs(shutil.which("systemd-analyze"), "systemd-analyze (Debian package systemd)")


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The units as they are installed, with this repository in the place of the installed one."""
    folder = tmp_path_factory.mktemp("units")
    for unit in UNITS:
        (folder / unit.name).write_text(unit.read_text().replace(INSTALLED, str(ROOT)))
    return folder


def analyze(*arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *map(str, arguments)],
        env=os.environ | {"SYSTEMD_UNIT_PATH": f"{folder}:", "SYSTEMD_PAGER": "", "SYSTEMD_COLORS": "0"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def instance(unit: Path) -> str:
    return unit.name.replace("@.", "@2.")


@needs_systemd
def test_systemd_accepts_the_units(units: Path) -> None:
    done = analyze("verify", "--man=no", *(units / instance(unit) for unit in UNITS), folder=units)
    ours = (str(units), *(unit.stem for unit in UNITS))
    about_ours = [line for line in done.stderr.splitlines() if any(name in line for name in ours)]
    assert (done.returncode, about_ours) == (0, [])


@needs_systemd
@pytest.mark.parametrize(
    ("line", "fault"), [("ExecStart=/nonexistent/x", "not executable"), ("ProtectSytem=strict", "Unknown key")]
)
def test_systemd_refuses_a_fault(units: Path, tmp_path: Path, line: str, fault: str) -> None:
    text = (units / "cardapp.service").read_text()
    name = line.partition("=")[0]
    changed = re.sub(rf"(?m)^{name}=.*$", line, text) if f"\n{name}=" in text else f"{text}\n[Service]\n{line}\n"
    (tmp_path / "cardapp.service").write_text(changed)
    done = analyze("verify", "--man=no", tmp_path / "cardapp.service", folder=tmp_path)
    assert fault in done.stderr


@needs_systemd
def test_a_service_may_do_little(units: Path) -> None:
    paths = [units / unit.name for unit in UNITS]
    done = analyze("security", "--offline=true", f"--threshold={EXPOSURE_MAX * 10:.0f}", *paths, folder=units)
    assert done.returncode == 0, done.stdout


def test_one_that_is_restarted_each_second_has_no_limit_of_starts() -> None:
    """Five failures within ten seconds would end it for good, for example while the frontend waits for its token."""
    for unit in UNITS:
        lines = unit.read_text().splitlines()
        is_quick = "RestartSec=1" in lines
        limits = ("StartLimitIntervalSec=0" in lines, "RestartPreventExitStatus=2" in lines)
        assert limits == (is_quick, is_quick), unit


def test_their_commands_ship() -> None:
    for unit in UNITS:
        (command,) = re.findall(r"(?m)^ExecStart=(\S+)", unit.read_text())
        assert os.access(command.replace(INSTALLED, str(ROOT)), os.X_OK), unit


def test_the_crontab_names_commands_that_ship() -> None:
    lines = [line for line in (ROOT / "etc" / "crontab").read_text().splitlines() if line and line[0] in "*0123456789"]
    assert len(lines) == 2
    for line in lines:
        found = CRON_LINE.fullmatch(line)
        assert found is not None, line
        assert os.access(found[1].replace(INSTALLED, str(ROOT)), os.X_OK)
        assert re.search(r"(?<!\\)%", found[2]) is None, "cron ends the command at a % that is not escaped"
