"""The set-up that every launcher runs first, against a machine of stand-ins: each program it may call is a script that
writes down how it was called. Nothing is downloaded and nothing of this machine is changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cardapp.publish.lualatex import FONT_PACKAGES, PACKAGES
from tests.capabilities import need

ROOT = Path(__file__).resolve().parent.parent
LOCKS = sorted((ROOT / "etc" / "requirements").glob("*.txt"))
PLAIN_TOOLS = ("bash", "cat", "chmod", "cp", "env", "flock", "id", "mkdir", "mv", "readlink", "rm", "stat", "true")
NOBODY = 65534
FOR_TESTS = (
    "chromium-headless-shell", "texlive-luatex", "poppler-utils", "nginx", "git", "g++",
    "texlive-pictures", "texlive-latex-recommended", "lmodern", "fonts-noto-core", "fonts-noto-mono",
)  # fmt: skip
PROGRAMS = ("nvim", "gdb", "tmux", "gcc", "make")

# Plays the machine's python3 and, copied by its own run of the module venv, the environment's.
PYTHON = """#!/usr/bin/env bash
case "$*" in
-V) echo "Python ${STUB_VERSION:-3.11.9}" ;;
*version_info\\ \\<*) [[ ${STUB_VERSION:-3.11.9} != 3.9* ]] ;;
*ensurepip*) [[ -z ${STUB_NO_ENSUREPIP:-} ]] ;;
*python%d.%d-venv*) echo python3.11-venv ;;
"-m pip --version") ;;
*\\"venv\\"*) echo "venv" >>"$STUB_LOG"; rm -rf "${@: -1}"; mkdir -p "${@: -1}/bin"; cp "$0" "${@: -1}/bin/python" ;;
"-m pip install "*) echo "pip $*" >>"$STUB_LOG"; [[ -z ${STUB_PIP_FAILS:-} ]] ;;
*"-m pytest --markers"*) exec "$STUB_PYTEST" "$@" ;;
*repository.pth*) echo "path ${@: -1}" >>"$STUB_LOG" ;;
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
        for name in ("bin", "etc/requirements"):
            (self.root / name).mkdir(parents=True)
        for name in (
            "bin/cardapp",
            "bin/marketdata-db",
            "bin/start",
            "bin/test",
            "etc/setup.sh",
            *(f"etc/requirements/{path.name}" for path in LOCKS),
        ):
            shutil.copy(ROOT / name, self.root / name)
        # The places that are looked at beside PATH.
        setup = self.root / "etc" / "setup.sh"
        text = setup.read_text().replace("=/usr/lib/postgresql\n", f'="{folder}/postgresql"\n')
        setup.write_text(text.replace("/usr/sbin/nginx", f"{self.bin}/nginx"))
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

    def add_tests(self) -> None:
        """What the real pytest needs to know its options."""
        (self.root / "tests").mkdir()
        for name in ("setup.cfg", *(f"tests/{path.name}" for path in (ROOT / "tests").glob("*.py"))):
            shutil.copy(ROOT / name, self.root / name)
        self.environment["STUB_PYTEST"] = sys.executable

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

    @property
    def installs(self) -> list[list[str]]:
        """For each time that pip ran: the parts whose locks it was given."""
        locks = f"--requirement {self.root}/etc/requirements/"
        calls = [line for line in self.log if line.startswith("pip ")]
        return [[lock.strip().removesuffix(".txt") for lock in call.split(locks)[1:]] for call in calls]

    @property
    def parts(self) -> set[str]:
        """The parts that the environment has, by its stamps."""
        return {path.name for path in (self.root / ".venv" / ".parts").iterdir()}

    def change_the_pins(self) -> None:
        for path in LOCKS:
            with self.lock(path.stem).open("a") as file:
                file.write("# changed\n")

    def lock(self, part: str) -> Path:
        return self.root / "etc" / "requirements" / f"{part}.txt"

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


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_fresh_machine_is_set_up_and_the_command_runs(machine: Machine) -> None:
    done = machine.run("check", "a card", HOME=str(machine.root))
    assert done.returncode == 0
    assert done.stdout == "ran -P -m cardapp check a card\n"
    assert machine.log[:2] == ["venv", f"path {machine.root}"]
    assert machine.installs == [["sheets", "card"]]
    assert "--require-hashes --only-binary :all:" in machine.log[2]
    assert "--no-cache-dir" not in machine.log[2]
    assert machine.parts == {"sheets", "card"}
    before = machine.log
    again = machine.run()
    assert (machine.log, again.stderr) == (before, ""), "nothing is left to do the second time"
    machine.run("emit")
    assert machine.log == before, "the cards' set-up holds that of its sheets"


def test_a_link_to_a_launcher_finds_the_repository(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(machine.root / "bin" / "cardapp")
    command = [str(machine.bin / "bash"), str(tmp_path / "linked")]
    done = subprocess.run(command, env=machine.environment, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "ran -P -m cardapp\n"
    assert machine.parts == {"sheets", "card"}


def test_a_change_that_was_interrupted_is_made_anew_with_all_parts(machine: Machine) -> None:
    machine.set_up("card")
    assert machine.run(launcher="bin/marketdata-db", STUB_PIP_FAILS="yes").returncode == 3
    assert machine.parts == {"sheets", "card", "unfinished"}
    assert machine.run().returncode == 0, "what was finished before can be used"
    machine.set_up("market")
    assert machine.log.count("venv") == 2
    assert machine.installs[-1] == machine.installs[-2] == ["sheets", "card", "market"]
    assert machine.parts == {"sheets", "card", "market"}


def test_an_environment_of_an_earlier_release_is_renewed_in_place(machine: Machine) -> None:
    machine.set_up("market")
    machine.set_up("card")
    stamps = machine.root / ".venv" / ".parts"
    for part in machine.parts:
        (stamps / part).write_text(f"1\n{machine.root}\nPython 3.11.9\nbottle==0.13.4\nbottle >= 0.13\n")
    machine.set_up("card")
    assert machine.log.count("venv") == 1
    assert machine.installs[-1] == ["sheets", "card", "market"]
    before = machine.log
    machine.set_up("market")
    assert machine.log == before


def test_the_lock_of_another_part_changes_nothing(machine: Machine) -> None:
    machine.set_up("card")
    machine.lock("test").write_text("# changed\n")
    before = machine.log
    machine.set_up("card")
    assert machine.log == before
    machine.lock("sheets").write_text("# changed\n")
    machine.set_up("card")
    assert len(machine.log) == len(before) + 1


def test_what_the_tests_want_holds_the_other_parts_and_outlives_a_change(machine: Machine) -> None:
    machine.set_up("card")
    machine.set_up("test")
    everything = ["sheets", "card", "market", "test"]
    assert machine.installs[-1] == everything
    before = machine.log
    machine.set_up("card")
    machine.set_up("market")
    assert machine.log == before
    machine.change_the_pins()
    machine.set_up("card")
    assert machine.installs[-1] == everything


def test_what_only_tests_drive_is_installed_for_them_and_never_demanded(machine: Machine) -> None:
    done = machine.set_up("test")
    assert f"tests that need them are skipped (names of Debian packages): {' '.join(FOR_TESTS)}\n" in done.stderr
    machine.set_up("card")
    machine.add("apt-get", APT_GET)
    machine.add("sudo", SUDO)
    shutil.rmtree(machine.root / ".venv" / ".parts")
    machine.set_up("card")
    assert not any("chromium" in line or "texlive" in line for line in machine.log)
    machine.environment["STUB_APT_BRINGS"] = "chromium-headless-shell lualatex pdftotext nginx git g++ kpsewhich"
    assert "skipped" not in machine.set_up("test").stderr
    assert f"apt-get -qq install -y --no-install-recommends {' '.join(FOR_TESTS)}" in machine.log


def test_only_commands_on_parquet_files_install_what_reads_them(machine: Machine) -> None:
    for command in ("export", "import", "drop"):
        shutil.copy(machine.root / "bin" / "marketdata-db", machine.root / "bin" / f"marketdata-{command}")
    for arguments, installed in (
        (("export", "--format", "csv"), False),
        (("import", "ticks.csv", "ticks.csv.gz"), False),
        (("drop", "1", "--env-file", "parquet.env"), False),
        (("export", "--format=parquet"), True),
        (("import", "ticks.csv", "more ticks.parquet"), True),
    ):
        command, *more = arguments
        done = machine.run(*more, launcher=f"bin/marketdata-{command}")
        assert done.stdout == f"ran -P -m marketdata {' '.join(arguments)}\n"
        assert machine.parts == ({"market", "parquet"} if installed else {"market"}), arguments
        (machine.root / ".venv" / ".parts" / "parquet").unlink(missing_ok=True)


# -- what must not lead to pip -----------------------------------------------------------------------------------------


def test_a_browser_that_appears_or_vanishes_changes_no_environment(machine: Machine) -> None:
    machine.set_up("test")
    before = machine.log
    machine.add("chromium-headless-shell", "#!/bin/sh\n")
    machine.set_up("test")
    machine.remove("chromium-headless-shell")
    machine.set_up("test")
    assert machine.log == before


def test_two_paths_in_turn_change_no_environment(machine: Machine) -> None:
    """The other one has every program, and another Python, in a place of its own."""
    machine.set_up("market")
    machine.set_up("card")
    before = machine.log
    other = machine.root.parent / "other path"
    shutil.copytree(machine.bin, other, symlinks=True)
    (other / "python3").write_text(PYTHON.replace("3.11.9", "3.13.1"))
    for path in (other, machine.bin) * 2:
        for launcher in ("bin/cardapp", "bin/marketdata-db"):
            done = machine.run(launcher=launcher, PATH=str(path))
            assert (done.returncode, done.stderr) == (0, "")
    assert machine.log == before


def test_a_program_that_is_missing_later_is_all_that_is_installed(machine: Machine) -> None:
    machine.run()
    before = machine.log
    machine.remove("tmux")
    machine.add("apt-get", APT_GET)
    machine.add("sudo", SUDO)
    assert machine.run(STUB_APT_BRINGS="tmux").returncode == 0
    assert machine.log == [*before, "apt-get -qq update", "apt-get -qq install -y --no-install-recommends tmux"]


def test_no_part_runs_the_programs_of_another(machine: Machine) -> None:
    for program in PROGRAMS:
        machine.remove(program)
    for name in ("nvim", "gdb", "tmux", "gcc", "kpsewhich"):
        machine.add(name, '#!/bin/sh\necho "ran $0" >>"$STUB_LOG"\n')
    machine.set_up("market")
    machine.set_up("market")
    assert not any(line.startswith("ran ") for line in machine.log)


# -- an environment that is in use -------------------------------------------------------------------------------------


@pytest.fixture
def service(machine: Machine) -> Iterator[subprocess.Popen[bytes]]:
    """A process that was started as launchers start theirs: by the path of the environment's Python."""
    machine.set_up("card")
    command = [f"{machine.root}/.venv/bin/python", "100"]
    with subprocess.Popen(command, executable=shutil.which("sleep")) as process:
        yield process
        process.kill()


def test_a_further_part_is_added_beside_a_running_service(machine: Machine, service: subprocess.Popen[bytes]) -> None:
    machine.set_up("market")
    assert machine.log.count("venv") == 1
    assert machine.installs[-1] == ["sheets", "card", "market"]
    assert service.poll() is None


def test_packages_are_not_renewed_below_a_running_service(machine: Machine, service: subprocess.Popen[bytes]) -> None:
    before = machine.log
    machine.change_the_pins()
    done = machine.run("check")
    assert (done.returncode, done.stdout) == (0, "ran -P -m cardapp check\n")
    assert f"these processes run from {machine.root}/.venv: {service.pid}\n" in done.stderr
    assert machine.log == before
    service.kill()
    service.wait()
    assert machine.run("check").stderr.endswith("set-up: done.\n")
    assert machine.installs == [["sheets", "card"]] * 2


@pytest.mark.parametrize("damage", ["pins", "interrupted"])
def test_what_a_running_service_forbids_is_refused(
    machine: Machine, service: subprocess.Popen[bytes], damage: str
) -> None:
    before = machine.log
    if damage == "pins":
        machine.change_the_pins()
    else:
        (machine.root / ".venv" / ".parts" / "unfinished").touch()
    done = machine.run(launcher="bin/marketdata-db")
    assert done.returncode == 3
    assert f"but these processes run from it: {service.pid}\nEnd them" in done.stderr
    assert machine.log == before


# -- another account ---------------------------------------------------------------------------------------------------


@pytest.fixture
def shared(state_dir: Path) -> Machine:
    """A machine whose repository belongs to root, in a folder that every account may enter."""
    need(os.geteuid() == 0, "root, who alone can start a process of another account")
    state_dir.chmod(0o755)
    machine = Machine(state_dir)
    machine.log_file.touch()
    machine.log_file.chmod(0o666)
    return machine


def written(folder: Path) -> dict[str, int]:
    """Every file below with its time of change, the log of the stand-ins aside."""
    return {str(path): path.lstat().st_ctime_ns for path in folder.rglob("*") if path.name != "log"}


def test_another_account_uses_the_finished_environment_and_writes_nothing(shared: Machine) -> None:
    shared.set_up("card")
    shared.set_up("market")
    before, state = shared.log, written(shared.root.parent)
    for launcher in ("bin/cardapp", "bin/marketdata-db"):
        done = shared.run("now", launcher=launcher, user=NOBODY)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("ran -P -m ")
    assert shared.run("--setup", launcher="bin/start", user=NOBODY).returncode == 0
    assert shared.log == before
    assert written(shared.root.parent) == state


def test_another_account_gets_the_owner_and_the_command(shared: Machine) -> None:
    shared.root.chmod(0o777)  # being able to write is not being the owner
    for again in (False, True):
        done = shared.run(launcher="bin/marketdata-db", user=NOBODY)
        assert done.returncode == 3
        assert f"Its owner, root, can finish it with: {shared.root}/bin/start --setup\n" in done.stderr
        assert len(shared.installs) == again
        shared.set_up("card")


def test_an_interpreter_that_the_account_may_not_run_is_named(shared: Machine) -> None:
    """As where the owner's Python is in the owner's home."""
    shared.set_up("market")
    home, python = shared.root.parent / "home", shared.root / ".venv" / "bin" / "python"
    home.mkdir(mode=0o700)
    python.rename(home / "python3.11")
    python.symlink_to(home / "python3.11")
    done = shared.run(launcher="bin/marketdata-db", user=NOBODY)
    assert done.returncode == 3
    assert done.stderr.startswith(f"nobody may not run {home}/python3.11, the Python of {shared.root}/.venv.\n")
    assert "not finished" not in done.stderr


def test_another_account_gets_the_command_that_installs_what_reads_parquet(shared: Machine) -> None:
    shared.set_up("market")
    shutil.copy(shared.root / "bin" / "marketdata-db", shared.root / "bin" / "marketdata-import")
    done = shared.run("ticks.parquet", launcher="bin/marketdata-import", user=NOBODY)
    assert done.returncode == 3
    assert f"can finish it with: {shared.root}/bin/marketdata-export --format parquet --help\n" in done.stderr
    assert shared.run("ticks.csv", launcher="bin/marketdata-import", user=NOBODY).returncode == 0


def test_another_account_gets_only_the_missing_program(shared: Machine) -> None:
    shared.set_up("card")
    shared.remove("tmux")
    done = shared.run(user=NOBODY)
    assert done.returncode == 3
    assert done.stderr.startswith("Missing on this machine (names of Debian packages): tmux\n")


def test_root_writes_nothing_into_the_environment_of_another(shared: Machine) -> None:
    owner = shared.give_away()
    assert shared.run(user=owner).returncode == 0
    state = written(shared.root)
    assert shared.run().returncode == 0
    done = shared.run(launcher="bin/marketdata-db")
    assert done.returncode == 3
    assert "Its owner, nobody, can finish it" in done.stderr
    assert written(shared.root) == state


@pytest.mark.parametrize("owner", [True, False])
def test_only_the_owner_writes_byte_code(shared: Machine, owner: bool) -> None:
    shared.set_up("sheets")
    script = f'. "{shared.root}/etc/setup.sh"; echo "${{PYTHONDONTWRITEBYTECODE-unset}}"'
    environment = shared.environment | ({"PYTHONDONTWRITEBYTECODE": "1"} if owner else {})
    done = subprocess.run(
        [str(shared.bin / "bash"), "-c", script], user=None if owner else NOBODY,
        env=environment, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == ("unset\n" if owner else "1\n")


# ----------------------------------------------------------------------------------------------------------------------


def test_the_tests_bring_all_that_a_pdf_needs() -> None:
    assert set(PACKAGES) < set(FOR_TESTS)
    readme = (ROOT / "cardapp" / "README.md").read_text(encoding="utf-8")
    for packages in (PACKAGES, FONT_PACKAGES):
        assert all(package in readme for package in packages)


def test_sheets_want_no_program_but_python(machine: Machine) -> None:
    for program in PROGRAMS:
        machine.remove(program)
    machine.add("apt-get", APT_GET)
    machine.add("sudo", SUDO)
    for command in ("emit", "layouts"):
        assert machine.run(command, "a card").stdout == f"ran -P -m cardapp {command} a card\n"
    assert machine.installs == [["sheets"]]
    assert not any("apt-get" in line for line in machine.log)
    assert machine.run("check", "a card", STUB_APT_BRINGS="").returncode == 3


def test_postgresql_is_installed_where_no_password_is_needed(machine: Machine) -> None:
    shutil.rmtree(machine.postgresql / "15")
    machine.add_postgresql(13)
    machine.add("apt-get", APT_GET)
    machine.add("sudo", SUDO)
    machine.add("psql15", f"#!{machine.bin}/bash\necho 'postgres (PostgreSQL) 15.8'\n")
    machine.run(launcher="bin/marketdata-db", STUB_APT_BRINGS="")
    assert machine.log[1] == "apt-get -qq install -y --no-install-recommends postgresql"
    shutil.copy(machine.bin / "psql15", machine.bin / "postgres")
    assert machine.run(launcher="bin/marketdata-db").returncode == 0
    assert machine.installs == [["market"]]


def test_without_postgresql_a_user_gets_it_as_a_package_and_root_does_not(state_dir: Path) -> None:
    machine = Machine(state_dir)
    shutil.rmtree(machine.postgresql / "15")
    if os.geteuid() == 0:
        assert machine.run(launcher="bin/marketdata-db").returncode == 3
    user = machine.give_away() if os.geteuid() == 0 else None
    done = machine.run(launcher="bin/marketdata-db", user=user)
    assert done.returncode == 0
    assert machine.installs == [["market", "postgresql"]]
    before = machine.log
    machine.run(launcher="bin/marketdata-db", user=user)
    machine.add_postgresql(17)
    machine.run(launcher="bin/marketdata-db", user=user)
    assert machine.log == before


def test_another_python_means_a_new_look(machine: Machine) -> None:
    machine.run()
    machine.run(STUB_VERSION="3.12.1")
    assert machine.installs == [["sheets", "card"]] * 2


def test_two_launchers_at_once_set_up_once(machine: Machine) -> None:
    both = [
        subprocess.Popen(machine.command(), env=machine.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for _ in range(2)
    ]
    assert [process.communicate(timeout=60)[0] for process in both] == [b"ran -P -m cardapp\n"] * 2
    assert machine.log.count("venv") == 1


def test_a_missing_program_is_named_once(machine: Machine) -> None:
    for program, package in (("nvim", "neovim"), ("gdb", "gdb"), ("tmux", "tmux")):
        machine.remove(program)
        done = machine.run()
        assert done.returncode == 3, program
        assert done.stderr.startswith(f"Missing on this machine (names of Debian packages): {package}\n")
        assert f"sudo apt-get install {package}\n" in done.stderr
        machine.add(program, "#!/bin/sh\n")
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


def test_an_editor_without_termdebug_is_not_enough(machine: Machine) -> None:
    machine.add("nvim", "#!/bin/sh\nexit 1\n")
    done = machine.run()
    assert done.returncode == 3
    assert "sudo apt-get install neovim-runtime\n" in done.stderr


def test_an_installation_that_brings_nothing_ends_with_the_message(machine: Machine) -> None:
    machine.remove("nvim")
    machine.add("apt-get", APT_GET)
    machine.add("sudo", SUDO)
    done = machine.run(STUB_APT_BRINGS="")
    assert done.returncode == 3
    assert "Missing on this machine (names of Debian packages): neovim\n" in done.stderr


def test_a_sudo_that_needs_a_password_is_not_used(state_dir: Path) -> None:
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
    assert "://" not in done.stderr
    assert machine.run().returncode == 0
    assert machine.log.count("venv") == 2


def test_start_only_sets_up_when_asked_to(machine: Machine) -> None:
    done = machine.run("--setup", launcher="bin/start")
    assert (done.returncode, done.stdout) == (0, "")
    assert machine.parts == {"sheets", "card", "market"}


def test_start_explains_itself_and_refuses_what_it_does_not_know_without_setting_up(machine: Machine) -> None:
    done = machine.run("--help", launcher="bin/start")
    assert (done.returncode, "--setup" in done.stdout) == (0, True)
    for arguments in (("--port",), ("--setup", "now"), ("card",)):
        done = machine.run(*arguments, launcher="bin/start")
        assert done.returncode == 2, arguments
        assert f"unknown argument: {' '.join(arguments)}\n" in done.stderr
    assert machine.log == []


def test_a_mistyped_option_of_the_tests_is_named_before_the_set_up(machine: Machine) -> None:
    for arguments in (("tests", "--sed=1"), ("--release", "--sed=1")):
        done = machine.run(*arguments, launcher="bin/test")
        assert done.returncode == 2
        assert done.stderr.startswith("bin/test: unknown option: --sed=1\n")
    assert machine.log == []
    machine.add_tests()
    machine.set_up("test")
    before = machine.log
    machine.remove("gdb")
    for arguments, named in ((("--sed=1", "tests"), "--sed=1"), (("-x", "-k"), "-k")):
        done = machine.run(*arguments, launcher="bin/test")  # the real pytest checks the arguments
        assert done.returncode == 2
        assert named in done.stderr.partition("error: ")[2].splitlines()[0]
        assert f"bin/test: pytest does not understand these arguments: {' '.join(arguments)}\n" in done.stderr
    assert machine.log == before


def test_options_of_the_tests_that_are_known_before_the_set_up_are_those_of_pytest(pytestconfig: pytest.Config) -> None:
    text = (ROOT / "bin" / "test").read_text()
    named = text.partition("OPTIONS=(")[2].partition(")")[0].split()
    known = {name for group in pytestconfig._parser._groups for option in group.options for name in option.names()}
    assert set(named) <= known | {"--help"}


def test_right_arguments_of_the_tests_are_passed_on(machine: Machine) -> None:
    machine.add_tests()
    done = machine.run("--seed", "3", "-k", "some name", launcher="bin/test")
    assert done.returncode == 0
    assert done.stdout.startswith("ran -P -m pytest -n auto ")
    assert done.stdout.endswith(" -p tests.static_checks --seed 3 -k some name\n")
    done = machine.run("--release", launcher="bin/test")
    assert done.stdout.endswith(" -o testpaths=tests/release -p tests.release.record\n")
    assert "static_checks" not in done.stdout
