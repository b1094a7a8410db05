"""The image of sessions is built in separate storage: by root after two interrupted builds, and by a user.
With --full, as root, where podman and debootstrap are installed and a mirror of Debian answers."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from cardapp.errors import CardAppError
from cardapp.session_host.image import CONTAINERFILE, LATEST, PYTHON, SET_UP, Image
from cardapp.session_host.image_build import DEBIAN_BASE, RELEASE
from cardapp.session_host.podman import Podman
from tests.functional.containers import STORAGE, everything_of, own_podman
from tests.functional.containers import Podman as StoragePodman
from tests.functional.session_process import eventually

pytestmark = [pytest.mark.functional, pytest.mark.full]

ROOT = Path(__file__).resolve().parent.parent.parent
SECONDS = 900.0
PLANTED = ("planted-user", "planted-word", "planted-apt.example", "planted-pip.example")
LOCKED_DOWN = ("--rm", "--network=none", "--read-only", "--cap-drop=all", "--security-opt=no-new-privileges")
PROGRAM = ("#include <stdio.h>", "int main(void) {", "  int n = 42;", '  printf("%d", n);', "  return 0;", "}")


@dataclass(frozen=True)
class Machine:
    """The storage, as used by the tests and by the command."""

    storage: StoragePodman
    environ: dict[str, str]
    first: subprocess.CompletedProcess[str]
    """The build that succeeded."""

    @property
    def podman(self) -> Podman:
        return Podman(self.environ)

    def build(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return build(self.environ, *arguments)

    def inside(self, *command: str) -> str:
        return self.podman.run("run", *LOCKED_DOWN, LATEST, *command).stdout


def build(environ: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), env=environ, cwd=ROOT, capture_output=True, text=True, check=False, timeout=SECONDS
    )


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "cardapp.session_host", "image", *arguments]


@pytest.fixture(scope="module")
def mirror() -> str:
    """The mirror of Debian that apt uses, or DEBIAN_MIRROR."""
    wanted = ("apt-get", "indextargets", "--format", "$(REPO_URI)", "Origin: Debian", "Label: Debian")
    known = subprocess.run(wanted, capture_output=True, text=True, check=False).stdout.split()
    found = os.environ.get("DEBIAN_MIRROR") or next(iter(known), "")
    if not found:
        pytest.skip("not run: apt knows no mirror of Debian here; name one in DEBIAN_MIRROR")
    try:
        urllib.request.urlopen(f"{found.rstrip('/')}/dists/{RELEASE}/Release", timeout=30).close()
    except OSError as error:
        pytest.skip(f"not run: {found} does not answer: {error}")
    return found


@pytest.fixture(scope="module")
def machine(mirror: str) -> Iterator[Machine]:
    with own_podman() as storage:
        environ = dict(os.environ) | {
            "PYTHONPATH": str(ROOT),
            "CONTAINERS_STORAGE_CONF": storage.environment["CONTAINERS_STORAGE_CONF"],
            "TMPDIR": str(storage.folder),
            "DEBIAN_MIRROR": mirror.replace("://", "://planted-user:planted-word@"),
            "APT_CONFIG": str(storage.folder / "apt.conf"),
            "PIP_TRUSTED_HOST": "planted-pip.example",
        }
        (storage.folder / "apt.conf").write_text('Acquire::https::Proxy::planted-apt.example "DIRECT";\n')
        skip_without_containers(Podman(environ), storage.folder)
        assert Image().state(Podman(environ)) == "missing"
        interrupt(environ, signal.SIGINT, storage.folder / "card-session-image-0" / "root" / "usr", 130)
        assert list(storage.folder.glob("card-session-image-*")) == []
        interrupt(environ, signal.SIGKILL, storage.folder / "card-session-image-0" / "tmp", -signal.SIGKILL, "buildah*")
        done = build(environ)
        assert done.returncode == 0, done.stderr
        yield Machine(storage, environ, done)


def skip_without_containers(podman: Podman, folder: Path) -> None:
    """Runs a container of one program that does nothing."""
    (folder / "nothing.c").write_text("int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-static", "-o", "nothing", "nothing.c"], cwd=folder, check=True)
    subprocess.run(["tar", "-cf", "nothing.tar", "nothing"], cwd=folder, check=True)
    podman.run("import", folder / "nothing.tar", "localhost/nothing")
    try:
        podman.run("run", "--rm", "--network=none", "localhost/nothing", "/nothing")
    except CardAppError as error:
        pytest.skip(f"not run: podman runs no container here: {error.detail[-500:]}")
    podman.run("rmi", "localhost/nothing")


def interrupt(environ: Mapping[str, str], number: int, folder: Path, code: int, pattern: str = "*") -> None:
    """Start a build, and send it the signal as soon as a file or folder of that name is in ``folder``."""
    with subprocess.Popen(command(), env=environ, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        eventually(lambda: process.poll() is not None or any(folder.glob(pattern)), SECONDS)
        process.send_signal(number)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == code, said
    assert "Traceback" not in said


# -- the build --------------------------------------------------------------------------------------------------------


def test_an_image_is_built_after_interrupted_builds(machine: Machine) -> None:
    name = Image().name()
    assert machine.first.stdout == f"{name} is built\n"
    # The base image exists already: the build that made it was killed in a later step.
    assert machine.first.stderr == "card-session: building the image (two minutes or so) …\n"
    assert Image().state(machine.podman) == "current"
    ids = {machine.storage("image", "inspect", "--format", "{{.Id}}", each) for each in (name, LATEST)}
    assert len(ids) == 1


def test_a_build_leaves_no_files_and_no_containers(machine: Machine) -> None:
    assert machine.storage("ps", "--all", "--external", "--quiet") == ""
    names = machine.storage("images", "--all", "--format", "{{.Repository}}:{{.Tag}}").splitlines()
    assert sorted(names) == sorted([Image().name(), LATEST, DEBIAN_BASE])
    left = [path.name for path in machine.storage.folder.iterdir() if path.name.startswith(("card-session", "buildah"))]
    assert left == []
    assert str(machine.storage.folder / "card-session-image-0") not in Path("/proc/self/mountinfo").read_text()


def test_a_second_build_is_quick_and_builds_nothing(machine: Machine) -> None:
    begun = time.monotonic()
    done = machine.build()
    assert (done.returncode, done.stdout) == (0, f"{Image().name()} is up to date\n")
    assert (done.stderr, time.monotonic() - begun < 5) == ("", True)


def test_another_recipe_makes_it_outdated(machine: Machine, tmp_path: Path) -> None:
    for name in (CONTAINERFILE, *SET_UP):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    image = Image(tmp_path)
    assert image.state(machine.podman) == "current"
    recipe = (tmp_path / CONTAINERFILE).read_text()
    (tmp_path / CONTAINERFILE).write_text(recipe.replace("\nENV ", "\nRUN echo of no use && exit 7\nENV ", 1))
    assert image.state(machine.podman) == "outdated"
    # That build fails, shows the end of its output, and leaves the existing image.
    with pytest.raises(CardAppError, match=r"(?s)building the image .* failed .*of no use.*exit status 7"):
        image.build(machine.podman, DEBIAN_BASE, lambda _step: None)
    assert Image().state(machine.podman) == "current"
    test_a_build_leaves_no_files_and_no_containers(machine)


def test_a_base_that_no_registry_has_is_reported(machine: Machine) -> None:
    done = machine.build("--base", "localhost/none:1")
    assert (done.returncode, done.stdout) == (1, "")
    assert "fetching localhost/none:1 failed with exit code 125; the end of its output:" in done.stderr
    assert "Traceback" not in done.stderr


# -- what is in it ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", ["nvim", "gdb", "gcc", "make", "tmux", "tini", PYTHON])
def test_the_images_programs_run(machine: Machine, program: str) -> None:
    assert machine.inside(program, "-V" if program == "tmux" else "--version")


def test_a_program_is_compiled_and_stepped_through(machine: Machine) -> None:
    script = """cd /tmp && printf '%s\\n' "$@" >a.c && gcc -g -o a a.c &&
        gdb -nx -batch -ex 'break main' -ex run -ex next -ex 'print n' ./a"""
    said = machine.inside("sh", "-c", script, "sh", *PROGRAM)
    assert "$1 = 42" in said


def test_neovim_has_termdebug_and_the_locale(machine: Machine) -> None:
    check = 'if !exists(":Termdebug") || &encoding != "utf-8" | cquit | endif'
    machine.inside("nvim", "--headless", "-u", "NONE", "-i", "NONE", "-n", "+packadd termdebug", f"+{check}", "+qall")
    assert machine.inside("locale", "charmap").strip() == "UTF-8"


def test_a_session_can_be_imported_from_the_workspace(machine: Machine) -> None:
    code = "import cardapp.session_host.mcp_server, jsonschema, pynvim; print(cardapp.__file__, pynvim.__file__)"
    mounted = ("--volume", f"{ROOT}:/workspace:ro", "--env=PYTHONPATH=/workspace", "--env=PYTHONDONTWRITEBYTECODE=1")
    said = machine.podman.run("run", *LOCKED_DOWN, *mounted, LATEST, PYTHON, "-P", "-c", code).stdout.split()
    assert said[0] == "/workspace/cardapp/__init__.py"
    assert said[1].startswith("/opt/cardapp/.venv/")


def test_its_first_process_reaps_orphans(machine: Machine) -> None:
    podman = machine.podman
    podman.run("run", "--detach", "--name=reaps", *LOCKED_DOWN, LATEST)
    try:
        podman.run("exec", "reaps", "sh", "-c", "(sleep 0.1 & exec true) & wait")
        children = ("exec", "reaps", "cat", "/proc/1/task/1/children")
        eventually(lambda: len(podman.run(*children).stdout.split()) == 1)
        assert podman.run("exec", "reaps", "cat", "/proc/1/comm").stdout == "tini\n"
    finally:
        podman.run("rm", "--force", "--time=5", "reaps")


def test_the_image_has_no_setuid_file_and_none_of_our_code(machine: Machine) -> None:
    found = machine.storage(
        "run", "--rm", "--network=none", LATEST, "find", "/", "-xdev", "-type", "f", "-perm", "/6000"
    )
    assert found == ""
    found = machine.storage("run", "--rm", "--network=none", LATEST, "find", "/", "-xdev", "-name", "cardapp")
    assert found == "/opt/cardapp"
    (image,) = json.loads(machine.storage("image", "inspect", LATEST))
    assert image["Config"]["Entrypoint"] == ["tini", "--"]
    assert image["Config"]["Cmd"] == ["sleep", "infinity"]
    assert image["Size"] < 450_000_000


def test_no_server_and_no_secret_is_in_a_layer_or_in_the_history(machine: Machine, mirror: str) -> None:
    sizes, found = {}, []
    host = mirror.partition("://")[2].partition("/")[0].encode()
    for name, content in everything_of(machine.storage, LATEST):
        sizes[name] = len(content)
        found += [(name, word) for word in PLANTED if word.encode() in content]
        if name.startswith(("etc/", "opt/", "root/", "run/")) or "/" not in name:
            found += [(name, host)] if host in content else []
        # A control: the search sees the files of the layers, and the history.
        if b"no-install-recommends" in content:
            found.append(("control", name))
    controls = {name for kind, name in found if kind == "control"}
    assert [each for each in found if each[0] != "control"] == []
    assert "opt/cardapp/etc/setup.sh" in controls
    assert any(name.endswith(".json") for name in controls)
    assert "usr/lib/os-release" in sizes
    assert "etc/apt/sources.list" not in sizes
    # podman leaves empty files where it mounted files during a build.
    assert [sizes.get(name, 0) for name in ("etc/resolv.conf", "etc/hostname", "etc/hosts")] == [0, 0, 0]


# -- without root -----------------------------------------------------------------------------------------------------


@pytest.fixture
def user(machine: Machine) -> Iterator[dict[str, str]]:
    """The environment of the processes of an account on this machine."""
    name, folder = "cardimage", machine.storage.folder / "user"
    machine.storage.folder.chmod(0o755)
    subprocess.run(["useradd", "--create-home", "--home-dir", folder, name], check=True)
    environ = {"HOME": str(folder), "USER": name, "PATH": "/usr/local/bin:/usr/bin:/bin", "TMPDIR": str(folder)}
    passed = ("SSL_CERT_FILE", "DEBIAN_MIRROR", *(each for each in os.environ if each.startswith("PIP_")))
    environ |= {each: os.environ[each] for each in passed if each in os.environ}
    (folder / ".config" / "containers").mkdir(parents=True)
    storage = STORAGE.replace("graphroot", "#").replace("runroot", "#").format(folder=folder)
    (folder / ".config" / "containers" / "storage.conf").write_text(storage)
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, folder / "repository"], check=True)
    subprocess.run(["chown", "--recursive", f"{name}:", folder], check=True)
    try:
        yield environ
    finally:
        for command in ("system reset --force", "system migrate"):  # the second command ends podman's pause process
            subprocess.run(as_user(environ, "podman", *command.split()), env=environ, capture_output=True, check=False)
        subprocess.run(["userdel", "--force", name], capture_output=True, check=False)
        shutil.rmtree(folder, ignore_errors=True)


def as_user(environ: Mapping[str, str], *command: str) -> list[str]:
    account = str(pwd.getpwnam(environ["USER"]).pw_uid)
    return ["setpriv", "--reuid", account, "--regid", account, "--init-groups", *command]


def test_a_user_builds_and_runs_it(user: dict[str, str]) -> None:
    def run(*command: str) -> subprocess.CompletedProcess[str]:
        home = Path(user["HOME"])
        return subprocess.run(
            as_user(user, *command), env=user, cwd=home / "repository", capture_output=True, text=True, check=False,
            timeout=SECONDS,
        )  # fmt: skip

    tried = run("podman", "unshare", "true")
    if tried.returncode != 0:
        pytest.skip(f"not run: podman does not work without root here: {tried.stderr[-500:]}")
    done = run("bin/card-session", "image")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{Image().name()} is built\n"
    podman = Podman(user)
    started = run(*podman.command("run", "--detach", "--name=tried", *LOCKED_DOWN, LATEST))
    assert started.returncode == 0, started.stderr
    assert run(*podman.command("exec", "tried", PYTHON, "-c", "import pynvim")).returncode == 0
    assert run(*podman.command("rm", "--force", "--time=5", "tried")).returncode == 0
    assert run("bin/card-session", "image").stdout == f"{Image().name()} is up to date\n"
    with contextlib.suppress(FileNotFoundError):
        assert not any(Path(user["HOME"]).glob("card-session-image-*"))
