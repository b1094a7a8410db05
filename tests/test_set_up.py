"""The set-up that every launcher runs first, against a machine of stand-ins: each program it may call is a script that
writes down how it was called. Nothing is downloaded and nothing of this machine is changed."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cardapp.publish.lualatex import FONT_PACKAGES, PACKAGES

ROOT = Path(__file__).resolve().parent.parent
PLAIN_TOOLS = ("bash", "cat", "chmod", "cp", "env", "flock", "id", "mkdir", "mv", "readlink", "rm", "sha256sum", "true")
NOBODY = 65534
FOR_TESTS = (
    "chromium", "texlive-luatex", "poppler-utils", "texlive-pictures", "texlive-latex-recommended", "lmodern",
    "fonts-noto-core", "fonts-noto-mono",
)  # fmt: skip
PROGRAMS = ("nvim", "gdb", "tmux", "gcc", "make")

# Plays the machine's python3 and, copied by its own `-m venv`, the environment's.
PYTHON = """#!/usr/bin/env bash
case "$*" in
-V) echo "Python ${STUB_VERSION:-3.11.9}" ;;
*version_info\\ \\<*) [[ ${STUB_VERSION:-3.11.9} != 3.9* ]] ;;
*ensurepip*) [[ -z ${STUB_NO_ENSUREPIP:-} ]] ;;
*python%d.%d-venv*) echo python3.11-venv ;;
"-m pip --version") ;;
"-m venv --clear "*) echo "venv" >>"$STUB_LOG"; rm -rf "$4"; mkdir -p "$4/bin"; cp "$0" "$4/bin/python" ;;
"-m pip install "*) echo "pip $*" >>"$STUB_LOG"; [[ -z ${STUB_PIP_FAILS:-} ]] ;;
*) echo "ran $*" ;;
esac
"""
APT_GET = """#!/usr/bin/env bash
echo "apt-get $*" >>"$STUB_LOG"
case "$*" in
*install*) for name in $STUB_APT_BRINGS; do cp "$STUB_BIN/gdb" "$STUB_BIN/$name"; done ;;
esac
"""
SUDO = """#!/usr/bin/env bash
[[ $1 == -n ]] && shift && exec "$@"
"""


class Machine:
    """A copy of the launchers (in a folder whose name holds a space) on a PATH of stand-ins."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "card app"
        self.bin = folder / "path"
        self.log_file = folder / "log"
        self.environment = {"PATH": str(self.bin), "STUB_LOG": str(self.log_file), "STUB_BIN": str(self.bin)}
        for name in ("bin", "etc"):
            (self.root / name).mkdir(parents=True)
        for name in (
            "bin/cardapp",
            "bin/marketdata-db",
            "bin/start",
            "etc/setup.sh",
            "etc/constraints.txt",
            "setup.cfg",
        ):
            shutil.copy(ROOT / name, self.root / name)
        # The one place that is looked at beside PATH.
        setup = self.root / "etc" / "setup.sh"
        setup.write_text(setup.read_text().replace("=/usr/lib/postgresql\n", f'="{folder}/postgresql"\n'))
        self.postgresql = folder / "postgresql"
        self.add_postgresql(15)
        self.bin.mkdir()
        for name in PLAIN_TOOLS:
            if found := shutil.which(name):
                (self.bin / name).symlink_to(found)
        for name in PROGRAMS:
            self.add(name, "#!/bin/sh\n")
        self.add("python3", PYTHON)

    def add(self, name: str, script: str) -> None:
        (self.bin / name).write_text(script)
        (self.bin / name).chmod(0o755)

    def add_postgresql(self, major: int) -> None:
        home = self.postgresql / str(major) / "bin"
        home.mkdir(parents=True)
        (home / "initdb").write_text("")
        (home / "initdb").chmod(0o755)

    def remove(self, name: str) -> None:
        (self.bin / name).unlink()

    def give_away(self) -> int:
        """Make all of it nobody's, whose number is the answer."""
        folder = self.root.parent
        for place in (folder, *folder.rglob("*")):
            os.chown(place, NOBODY, NOBODY, follow_symlinks=False)
        return NOBODY

    @property
    def log(self) -> list[str]:
        return self.log_file.read_text().splitlines() if self.log_file.exists() else []

    def command(self, *arguments: str, launcher: str = "bin/cardapp") -> list[str]:
        return [str(self.bin / "bash"), str(self.root / launcher), *arguments]

    def run(
        self, *arguments: str, launcher: str = "bin/cardapp", user: int | None = None, **more: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments, launcher=launcher), user=user,
            env=self.environment | more, cwd="/", capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip

    def set_up(self, level: str) -> subprocess.CompletedProcess[str]:
        script = f'set -euo pipefail; . "{self.root}/etc/setup.sh"; set_up {level}'
        return subprocess.run(
            [str(self.bin / "bash"), "-c", script],
            env=self.environment, capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip


def test_every_requirement_is_pinned() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    wanted = [line for extra in setup["options.extras_require"].values() for line in extra.split("\n")]
    pins = [line for line in (ROOT / "etc" / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9a-z.]*", pin) for pin in pins), "one exact version to a line"
    pinned = {pin.partition("==")[0].lower().replace("_", "-") for pin in pins}
    assert {re.split(r"[\[ <>=]", line)[0].lower() for line in wanted if line} <= pinned


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_fresh_machine_is_set_up_and_the_command_runs(machine: Machine) -> None:
    done = machine.run("check", "a card", HOME=str(machine.root))
    assert done.returncode == 0
    assert done.stdout == "ran -P -m cardapp check a card\n"
    assert machine.log[0] == "venv"
    assert [line.split()[-1] for line in machine.log[1:]] == ["setuptools", "app[sheets,card]"]
    assert all(f"--constraint {machine.root}/etc/constraints.txt" in line for line in machine.log[1:])
    assert all("--no-cache-dir" not in line for line in machine.log[1:])


def test_nothing_is_left_to_do_the_second_time(machine: Machine) -> None:
    machine.run()
    before = machine.log
    again = machine.run()
    assert machine.log == before
    assert again.stderr == ""


def test_a_link_to_a_launcher_finds_the_repository(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(machine.root / "bin" / "cardapp")
    command = [str(machine.bin / "bash"), str(tmp_path / "linked")]
    done = subprocess.run(command, env=machine.environment, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "ran -P -m cardapp\n"
    assert (machine.root / ".venv" / ".setup").is_file()


def test_without_a_home_pip_keeps_no_cache(machine: Machine) -> None:
    machine.run()
    assert all("--no-cache-dir" in line for line in machine.log[1:])


def test_an_interrupted_set_up_is_made_anew(machine: Machine) -> None:
    machine.run()
    (machine.root / ".venv" / ".setup").unlink()
    machine.run()
    assert machine.log.count("venv") == 2


def test_changed_requirements_are_installed_into_the_environment(machine: Machine) -> None:
    machine.run()
    with (machine.root / "setup.cfg").open("a") as file:
        file.write("# changed\n")
    machine.run()
    assert machine.log.count("venv") == 1
    assert sum("app[sheets,card]" in line for line in machine.log) == 2


def test_what_the_tests_want_holds_the_other_parts_and_outlives_a_change(machine: Machine) -> None:
    machine.set_up("card")
    machine.set_up("test")
    assert machine.log[-1].endswith("app[sheets,card,market,test]")
    before = machine.log
    machine.set_up("card")
    machine.set_up("market")
    assert machine.log == before
    with (machine.root / "setup.cfg").open("a") as file:
        file.write("# changed\n")
    machine.set_up("card")
    assert machine.log[-1].endswith("app[sheets,card,market,test]")


def test_what_only_tests_drive_is_installed_for_them_and_never_demanded(machine: Machine) -> None:
    done = machine.set_up("test")
    assert f"the tests will do without (names of Debian packages): {' '.join(FOR_TESTS)}\n" in done.stderr
    machine.set_up("card")
    machine.add("apt-get", APT_GET)
    machine.add("sudo", SUDO)
    (machine.root / ".venv" / ".setup").unlink()
    machine.set_up("card")
    assert not any("chromium" in line or "texlive" in line for line in machine.log)
    machine.environment["STUB_APT_BRINGS"] = "chromium lualatex pdftotext kpsewhich"
    assert "do without" not in machine.set_up("test").stderr
    assert f"apt-get -qq install -y --no-install-recommends {' '.join(FOR_TESTS)}" in machine.log


def test_the_tests_bring_all_that_a_pdf_needs() -> None:
    assert set(PACKAGES) < set(FOR_TESTS)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for packages in (PACKAGES, FONT_PACKAGES):
        assert all(package in readme for package in packages)


def test_a_second_part_joins_the_first(machine: Machine) -> None:
    machine.set_up("market")
    assert machine.log[-1].endswith("app[market]")
    machine.set_up("card")
    assert machine.log[-1].endswith("app[sheets,card,market]")
    assert machine.log.count("venv") == 1


@pytest.mark.parametrize("command", ["emit", "layouts"])
def test_sheets_want_no_program_but_python(machine: Machine, command: str) -> None:
    for program in PROGRAMS:
        machine.remove(program)
    machine.add("apt-get", APT_GET)
    machine.add("sudo", SUDO)
    done = machine.run(command, "a card")
    assert done.returncode == 0
    assert done.stdout == f"ran -P -m cardapp {command} a card\n"
    assert machine.log[-1].endswith("app[sheets]")
    assert not any("apt-get" in line for line in machine.log)
    assert machine.run("check", "a card", STUB_APT_BRINGS="").returncode == 3


def test_the_cards_set_up_holds_that_of_its_sheets(machine: Machine) -> None:
    machine.run("check")
    before = machine.log
    machine.run("emit")
    assert machine.log == before


def test_the_market_data_want_none_of_the_cards_programs(machine: Machine) -> None:
    for program in PROGRAMS:
        machine.remove(program)
    done = machine.run("--help", launcher="bin/marketdata-db")
    assert done.returncode == 0
    assert done.stdout == "ran -P -m marketdata db --help\n"


def test_a_postgresql_is_installed_where_nobody_need_be_asked(machine: Machine) -> None:
    shutil.rmtree(machine.postgresql / "15")
    machine.add_postgresql(13)
    machine.add("apt-get", APT_GET)
    machine.add("sudo", SUDO)
    machine.add("psql15", f"#!{machine.bin}/bash\necho 'postgres (PostgreSQL) 15.8'\n")
    machine.run(launcher="bin/marketdata-db", STUB_APT_BRINGS="")
    assert machine.log[1] == "apt-get -qq install -y --no-install-recommends postgresql"
    shutil.copy(machine.bin / "psql15", machine.bin / "postgres")
    assert machine.run(launcher="bin/marketdata-db").returncode == 0
    assert machine.log[-1].endswith("app[market]")


def test_without_postgresql_a_user_gets_it_as_a_package_and_root_is_told(state_dir: Path) -> None:
    machine = Machine(state_dir)
    shutil.rmtree(machine.postgresql / "15")
    if os.geteuid() == 0:
        assert machine.run(launcher="bin/marketdata-db").returncode == 3
    user = machine.give_away() if os.geteuid() == 0 else None
    done = machine.run(launcher="bin/marketdata-db", user=user)
    assert done.returncode == 0
    assert machine.log[-1].endswith("app[market,postgresql]")
    machine.add_postgresql(17)
    machine.run(launcher="bin/marketdata-db", user=user)
    assert machine.log[-1].endswith("app[market]")


def test_another_python_means_a_new_look(machine: Machine) -> None:
    machine.run()
    machine.run(STUB_VERSION="3.12.1")
    assert sum("app[sheets,card]" in line for line in machine.log) == 2


def test_two_launchers_at_once_set_up_once(machine: Machine) -> None:
    both = [
        subprocess.Popen(machine.command(), env=machine.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for _ in range(2)
    ]
    assert [process.communicate(timeout=60)[0] for process in both] == [b"ran -P -m cardapp\n"] * 2
    assert machine.log.count("venv") == 1


@pytest.mark.parametrize(("program", "package"), [("nvim", "neovim"), ("gdb", "gdb"), ("tmux", "tmux")])
def test_a_missing_program_is_named_once(machine: Machine, program: str, package: str) -> None:
    machine.remove(program)
    done = machine.run()
    assert done.returncode == 3
    assert done.stderr.startswith(f"Missing on this machine (names of Debian packages): {package}\n")
    assert f"sudo apt-get install {package}\n" in done.stderr
    assert machine.log == []


def test_all_that_is_missing_is_named_in_one_message(machine: Machine) -> None:
    machine.remove("nvim")
    machine.remove("gcc")
    done = machine.run(STUB_VERSION="3.9.2")
    assert done.returncode == 3
    assert "sudo apt-get install neovim gcc libc6-dev python3 python3-venv\n" in done.stderr
    assert "python3 here: Python 3.9.2\n" in done.stderr


def test_a_python_without_ensurepip_is_named(machine: Machine) -> None:
    done = machine.run(STUB_NO_ENSUREPIP="yes")
    assert done.returncode == 3
    assert "sudo apt-get install python3.11-venv\n" in done.stderr


def test_a_program_that_vanishes_later_is_missed(machine: Machine) -> None:
    machine.run()
    machine.remove("tmux")
    assert machine.run().returncode == 3


def test_an_editor_without_termdebug_is_not_enough(machine: Machine) -> None:
    machine.add("nvim", "#!/bin/sh\nexit 1\n")
    done = machine.run()
    assert done.returncode == 3
    assert "sudo apt-get install neovim-runtime\n" in done.stderr


def test_missing_programs_are_installed_where_nobody_need_be_asked(machine: Machine) -> None:
    machine.remove("nvim")
    machine.add("apt-get", APT_GET)
    machine.add("sudo", SUDO)
    done = machine.run(STUB_APT_BRINGS="nvim")
    assert done.returncode == 0
    assert machine.log[:2] == ["apt-get -qq update", "apt-get -qq install -y --no-install-recommends neovim"]


def test_an_installation_that_brings_nothing_ends_with_the_message(machine: Machine) -> None:
    machine.remove("nvim")
    machine.add("apt-get", APT_GET)
    machine.add("sudo", SUDO)
    done = machine.run(STUB_APT_BRINGS="")
    assert done.returncode == 3
    assert "Missing on this machine (names of Debian packages): neovim\n" in done.stderr


def test_a_sudo_that_asks_is_not_used(state_dir: Path) -> None:
    machine = Machine(state_dir)
    machine.remove("nvim")
    machine.add("apt-get", APT_GET)
    machine.add("sudo", "#!/bin/sh\nexit 1\n")
    user = machine.give_away() if os.geteuid() == 0 else None  # root would not ask sudo
    done = machine.run(user=user, STUB_APT_BRINGS="nvim")
    assert done.returncode == 3
    assert "sudo apt-get install neovim\n" in done.stderr
    assert machine.log == []


def test_packages_that_cannot_be_had_leave_no_stamp(machine: Machine) -> None:
    done = machine.run(STUB_PIP_FAILS="yes")
    assert done.returncode == 3
    assert "PIP_INDEX_URL" in done.stderr
    assert machine.run().returncode == 0
    assert machine.log.count("venv") == 2


def test_start_only_sets_up_when_asked_to(machine: Machine) -> None:
    done = machine.run("--setup", launcher="bin/start")
    assert (done.returncode, done.stdout) == (0, "")
    assert (machine.root / ".venv" / ".setup").is_file()


@pytest.mark.parametrize("arguments", [("--port",), ("--setup", "now"), ("card",)])
def test_start_refuses_what_it_does_not_know(machine: Machine, arguments: tuple[str, ...]) -> None:
    done = machine.run(*arguments, launcher="bin/start")
    assert done.returncode == 2
    assert f"unknown argument: {' '.join(arguments)}\n" in done.stderr
    assert machine.log == []


def test_start_explains_itself_without_setting_up(machine: Machine) -> None:
    done = machine.run("--help", launcher="bin/start")
    assert done.returncode == 0
    assert "--setup" in done.stdout
    assert machine.log == []
