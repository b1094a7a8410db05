"""The image of the market data, built from the last commit and run as it is meant to be: read-only, without privileges,
with its state on a volume."""

from __future__ import annotations

import base64
import json
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.functional.containers import BASE, Podman, everything_of, podman_with_base
from tests.functional.session_process import eventually
from tests.marketdata.frontend.nginx import free_port

pytestmark = pytest.mark.functional

ROOT = Path(__file__).resolve().parent.parent.parent
READ_ONLY = ("--read-only", "--cap-drop=all", "--security-opt=no-new-privileges")
STATE = "/var/lib/marketdata"
PLANTED = "md_PlantedInTheWorkingFolder0000000000000"
SECONDS = 60.0
TICK = {"symbol": "DEMO:ETH-USD", "id": "a", "ts": "2026-01-31T12:00:00Z", "price": "2500.25", "size": "0.5"}
CHART = "v1/chart?symbol=DEMO:ETH-USD&interval=1m"


@pytest.fixture(scope="module")
def podman() -> Iterator[Podman]:
    with podman_with_base() as podman:
        yield podman


@pytest.fixture(scope="module")
def repository(podman: Podman) -> Path:
    """A clone with a token file that is not committed, and with the tag of a release."""
    clone = podman.folder / "repository"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, clone], check=True)
    for place in (clone / ".state", clone / "marketdata" / "secrets"):
        place.mkdir(parents=True)
        (place / "read.json").write_text(json.dumps({"token": PLANTED, "scope": "read", "name": "read"}))
    subprocess.run(["git", "-C", clone, "tag", "v7"], check=True)
    return clone


@pytest.fixture(scope="module")
def image(podman: Podman, repository: Path) -> str:
    arguments = ("--base", BASE, "--name", "localhost/market", "--with", "podman", "--", "--network=host")
    done = podman.run(*arguments, program=repository / "bin" / "image")
    assert done.returncode == 0, done.stderr[-3000:]
    names = done.stdout.split()
    commit = subprocess.run(
        ["git", "-C", repository, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert names == [f"localhost/market:sha-{commit}", "localhost/market:v7"]
    assert len({podman("image", "inspect", "--format", "{{.Id}}", each) for each in names}) == 1
    return names[0]


class Containers:
    """The API and the frontend in a container each, with one volume."""

    def __init__(self, podman: Podman, image: str, volume: str) -> None:
        self.podman, self.image, self.volume = podman, image, volume
        self.api_port, self.frontend_port = free_port(), free_port()
        self.api, self.frontend = f"{volume}-api", f"{volume}-frontend"

    def start(self) -> None:
        self._run(self.api, "marketdata-api", MARKET_API_PORT=self.api_port)
        eventually(self.is_ready, SECONDS)
        self._run(
            self.frontend, "marketdata-frontend", MARKET_FRONTEND_PORT=self.frontend_port,
            API_UPSTREAM=f"http://127.0.0.1:{self.api_port}",
        )  # fmt: skip
        eventually(lambda: "Log in as" in self.podman("logs", self.frontend), SECONDS)

    def _run(self, name: str, launcher: str, **settings: object) -> None:
        variables = [f"--env={key}={value}" for key, value in settings.items()]
        self.podman(
            "run", "--detach", "--name", name, "--network=host", f"--volume={self.volume}:{STATE}", *READ_ONLY,
            *variables, self.image, launcher,
        )  # fmt: skip

    def is_ready(self) -> bool:
        return answers(f"http://127.0.0.1:{self.api_port}/ready")

    def token(self, name: str) -> str:
        text: str = json.loads(self.podman("exec", self.api, "cat", f"{STATE}/secrets/{name}.json"))["token"]
        return text

    def password(self) -> str:
        made = self.podman("exec", self.frontend, "cat", f"{STATE}/secrets/first-user.json")
        found: str = json.loads(made)["password"]
        assert found not in self.podman("logs", self.frontend)
        return found

    def write(self) -> None:
        asked(f"http://127.0.0.1:{self.api_port}/v1/ingest/tick", f"Bearer {self.token('alg')}", TICK)

    def chart(self) -> Any:
        return asked(f"http://127.0.0.1:{self.api_port}/{CHART}", f"Bearer {self.token('read')}")["candles"]

    def chart_of_frontend(self, password: str) -> Any:
        login = base64.b64encode(f"trader:{password}".encode()).decode()
        return asked(f"http://127.0.0.1:{self.frontend_port}/api/{CHART}", f"Basic {login}")["candles"]

    def remove(self) -> None:
        self.podman.run("rm", "--force", "--time", "30", self.frontend, self.api)


def fetched(request: urllib.request.Request) -> bytes:
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        content: bytes = answer.read()
    return content


def asked(url: str, authorization: str, body: Any = None) -> Any:
    headers = {"Authorization": authorization, "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    return json.loads(fetched(urllib.request.Request(url, data, headers)))


def answers(url: str) -> bool:
    try:
        fetched(urllib.request.Request(url))
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def containers(podman: Podman, image: str) -> Iterator[Containers]:
    found = Containers(podman, image, "market")
    try:
        found.start()
        yield found
    finally:
        found.remove()


# -- running it -------------------------------------------------------------------------------------------------------


def test_api_and_frontend_answer_and_survive_a_kill(podman: Podman, containers: Containers) -> None:
    password, token = containers.password(), containers.token("read")
    containers.write()
    before = containers.chart()
    assert [candle["c"] for candle in before] == ["2500.25"]
    assert containers.chart_of_frontend(password) == before
    for _ in range(2):
        podman("kill", "--signal", "KILL", containers.api, containers.frontend)
        podman("wait", containers.api, containers.frontend)
        assert not containers.is_ready()
        podman("start", containers.api, containers.frontend)
        eventually(containers.is_ready, SECONDS)
        eventually(lambda: answers(f"http://127.0.0.1:{containers.frontend_port}/healthz"), SECONDS)
        assert containers.token("read") == token
        assert containers.chart() == before
        assert containers.chart_of_frontend(password) == before


def test_it_runs_without_privileges_and_a_stop_shuts_the_database_down(podman: Podman, containers: Containers) -> None:
    for container in (containers.api, containers.frontend):
        users = set(podman("top", container, "huser").split()[1:])
        assert users == {"10001"}
        refused = podman.run("exec", container, "touch", "/opt/cards/x", "/opt/cards/.venv/x", "/etc/x")
        assert refused.stderr.count("Read-only file system") == 3
        capabilities = podman("exec", container, "grep", "CapEff", "/proc/1/status").split()[1]
        assert int(capabilities, 16) == 0
    podman("stop", "--time", "60", containers.api)
    assert podman("inspect", "--format", "{{.State.ExitCode}}", containers.api) == "0"
    podman("start", containers.api)
    eventually(containers.is_ready, SECONDS)
    log = podman("exec", containers.api, "cat", f"{STATE}/database.log").splitlines()
    starts = [number for number, line in enumerate(log) if "starting PostgreSQL" in line]
    assert "was shut down at" in "".join(log[starts[-1] :])


def test_the_health_check_asks_what_runs(podman: Podman, containers: Containers) -> None:
    for container, port in ((containers.api, containers.api_port), (containers.frontend, containers.frontend_port)):
        assert podman.run("healthcheck", "run", container).returncode == 0
        process = server_of(podman, container)
        podman("exec", container, "sh", "-c", f"kill -STOP {process}")
        checked = podman.run("healthcheck", "run", container)
        (found,) = json.loads(podman("inspect", container))
        podman("exec", container, "sh", "-c", f"kill -CONT {process}")
        assert checked.returncode == 1
        health = found["State"].get("Health") or found["State"]["Healthcheck"]
        assert f"on port {port} does not answer" in health["Log"][-1]["Output"]
        eventually(lambda container=container: podman.run("healthcheck", "run", container).returncode == 0, SECONDS)


def server_of(podman: Podman, container: str) -> str:
    """The process id, within the container, of the API or the frontend: the child of the first process."""
    return podman("exec", container, "cat", "/proc/1/task/1/children").split()[0]


def test_a_start_needs_no_network(podman: Podman, image: str) -> None:
    podman("run", "--detach", "--name", "alone", "--network=none", *READ_ONLY, image)
    try:
        eventually(lambda: podman.run("healthcheck", "run", "alone").returncode == 0, SECONDS)
        assert "set-up:" not in podman.run("logs", "alone").stderr
        listening = podman("exec", "alone", "cat", "/proc/net/tcp")
        assert f"00000000:{8787:04X}" in listening
    finally:
        podman.run("rm", "--force", "--volumes", "--time", "30", "alone")


# -- what is in it ----------------------------------------------------------------------------------------------------


def test_no_token_is_in_a_layer_or_in_the_history(podman: Podman, containers: Containers) -> None:
    tokens = [containers.token("read"), containers.token("alg"), PLANTED, containers.password()]
    names, found = set(), []
    for name, content in everything_of(podman, containers.image):
        names.add(name)
        found += [(name, token) for token in tokens if token.encode() in content]
        # A control: the search sees the files of the layers, and the history.
        if b"marketdata-api" in content:
            found.append(("control", name))
    controls = [name for kind, name in found if kind == "control"]
    assert [each for each in found if each[0] != "control"] == []
    assert "opt/cards/bin/marketdata-api" in names
    assert any(name.endswith(".json") and "/" not in name for name in controls)
    assert any(name.startswith("opt/cards/marketdata/") for name in controls)
    names_of_secrets = ("read", "alg", "admin", "rpc", "frontend", "first-user", "graphql-admin")
    secret_files = {f"{name}.json" for name in names_of_secrets}
    assert {name for name in names if Path(name).name in secret_files} == set()


def test_the_image_names_its_user_command_volume_and_health_check(podman: Podman, image: str) -> None:
    (found,) = json.loads(podman("image", "inspect", image))
    shown = {name: found["Config"][name] for name in ("User", "Entrypoint", "Cmd", "Volumes")}
    assert shown == {
        "User": "10001:10001", "Entrypoint": ["tini", "--"], "Cmd": ["marketdata-api"], "Volumes": {STATE: {}}
    }  # fmt: skip
    assert {"MARKET_API_HOST=0.0.0.0", "MARKET_FRONTEND_HOST=0.0.0.0"} <= set(found["Config"]["Env"])
    assert found["HealthCheck" if "HealthCheck" in found else "Healthcheck"]["Retries"] == 3
