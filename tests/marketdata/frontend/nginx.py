"""The real nginx with either site that ships in ``etc/nginx``, on a free port."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import bcrypt

from tests.functional.serving import until

ROOT = Path(__file__).resolve().parents[3]
SITES = ROOT / "etc" / "nginx"
PROGRAM = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")

TRIES = 5

MAIN = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/error.log info;
events {{ worker_connections 1024; }}
http {{
    access_log {folder}/access.log;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/site.conf;
}}
"""


@dataclass(frozen=True)
class Nginx:
    port: int
    folder: Path
    plain_port: int

    def log(self) -> str:
        return "".join((self.folder / name).read_text() for name in ("error.log", "access.log"))


def password_file(file: Path, users: Mapping[str, str], cost: int = 4) -> None:
    """The line of a user's file, as ``htpasswd -B`` writes it."""
    hashes = {name: bcrypt.hashpw(password.encode(), bcrypt.gensalt(cost)).decode() for name, password in users.items()}
    file.write_text("".join(f"{name}:{value.replace('$2b$', '$2y$', 1)}\n" for name, value in hashes.items()))


def replaced(text: str, changes: Mapping[str, str]) -> str:
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


@contextmanager
def nginx(folder: Path, frontend: int, graphql: int, users: Mapping[str, str], *, tls: bool = False) -> Iterator[Nginx]:
    """The site with the login at nginx. ``tls`` takes ``marketdata.crt`` and its key from the folder."""
    password_file(folder / "marketdata.htpasswd", users)
    password_file(folder / "marketdata-graphql.htpasswd", {"admin": "the password of admin"})

    def changes(port: int, _plain: int) -> dict[str, str]:
        tls_changes = {"    listen 80;\n": "", "#tls ": "", "listen 443 ssl": f"listen 127.0.0.1:{port} ssl"}
        return {
            "127.0.0.1:8081": f"127.0.0.1:{frontend}",
            "127.0.0.1:8088": f"127.0.0.1:{graphql}",
            "/etc/nginx/marketdata": f"{folder}/marketdata",
        } | (tls_changes if tls else {"listen 80": f"listen 127.0.0.1:{port}"})

    with _serving(folder, "marketdata.conf", changes) as found:
        yield found


@contextmanager
def tls_nginx(folder: Path, frontend: int) -> Iterator[Nginx]:
    """The site with the login by the frontend. Port ``plain_port`` redirects. The certificate is made in the folder."""
    certificate(folder)

    def changes(port: int, plain: int) -> dict[str, str]:
        return {
            "127.0.0.1:8081": f"127.0.0.1:{frontend}",
            "/etc/nginx/marketdata": f"{folder}/marketdata",
            "listen 80;": f"listen 127.0.0.1:{plain};",
            "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        }

    with _serving(folder, "marketdata-tls.conf", changes) as found:
        yield found


@contextmanager
def _serving(folder: Path, site: str, changes: Callable[[int, int], Mapping[str, str]]) -> Iterator[Nginx]:
    """``changes`` are those of the site for its port and its port without TLS. If another program takes a port before
    nginx does, other ports are tried."""
    (folder / "nginx.conf").write_text(MAIN.format(folder=folder))
    for _ in range(TRIES):
        port, plain = free_port(), free_port()
        (folder / "site.conf").write_text(replaced((SITES / site).read_text(), changes(port, plain)))
        process = launched(folder)
        if process.poll() is None:
            break
    with ended(folder, process):
        yield Nginx(port, folder, plain)


def certificate(folder: Path, host: str = "charts.example.org") -> None:
    """Make ``marketdata.crt`` and ``marketdata.key``."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", f"/CN={host}",
         "-addext", f"subjectAltName=DNS:{host}",
         "-keyout", folder / "marketdata.key", "-out", folder / "marketdata.crt"],
        check=True, capture_output=True,
    )  # fmt: skip


@contextmanager
def started(folder: Path) -> Iterator[None]:
    """nginx with the ``nginx.conf`` of a folder."""
    with ended(folder, launched(folder)):
        yield


def launched(folder: Path) -> subprocess.Popen[bytes]:
    """nginx, which listens or has ended."""
    assert PROGRAM is not None
    command = [PROGRAM, "-p", str(folder), "-e", str(folder / "error.log"), "-c", str(folder / "nginx.conf")]
    process = subprocess.Popen(command)
    until(
        lambda: process.poll() is not None or (folder / "nginx.pid").exists(), 30
    )  # it writes the file after it listens
    return process


@contextmanager
def ended(folder: Path, process: subprocess.Popen[bytes]) -> Iterator[None]:
    with process:
        try:
            yield
        finally:
            process.terminate()
    assert process.returncode == 0, (folder / "error.log").read_text()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port
