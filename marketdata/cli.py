"""The command lines of the launchers ``bin/marketdata-…``.

Exit codes: 0 success, 1 failure, 2 wrong arguments or settings, 3 a missing program or file, 4 another process already
does the work. As in shells, Ctrl-C gives 130 and a closed pipe gives 141.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from marketdata import __version__, file_system
from marketdata.backup import cli as backup
from marketdata.commands import (
    database_commands,
    prune_command,
    symbol_commands,
    tick_file_commands,
    token_commands,
    version_commands,
)
from marketdata.commands.database_connection import discard_output, initialised, say, warn
from marketdata.demo import cli as demo
from marketdata.errors import (
    DATABASE_ERRORS,
    AlreadyRunning,
    MarketError,
    MissingRequirement,
    StateError,
    UsageError,
    reason,
)
from marketdata.frontend import cli as frontend
from marketdata.ingest import cli as ingestor
from marketdata.ingest.backfill import cli as backfill
from marketdata.postgres.client import database
from marketdata.postgres.cluster import conninfo
from marketdata.postgres.owner import serve
from marketdata.secretfile import READ_TOKEN, WRITE_TOKEN
from marketdata.settings import ENV_FILE, Settings, declared, load, processes

SUCCESS, FAILURE, WRONG_USE, MISSING, RUNNING = 0, 1, 2, 3, 4
_CODES = ((MissingRequirement, MISSING), (UsageError, WRONG_USE), (AlreadyRunning, RUNNING))

_MISSING = "the following arguments are required"
_WRONG_CHOICE = re.compile(r"invalid choice: '([^']+)' \(choose from (.+)\)")

Commands: TypeAlias = "argparse._SubParsersAction[ArgumentParser]"
Run = Callable[[argparse.Namespace, Settings], None]

_ABOUT_API = "Serve the data API. Without any settings it creates everything that it needs."
_ABOUT_DB = "Run the private PostgreSQL in the foreground, until Ctrl-C or SIGTERM."

_FOLDERS = ("state_dir", "secrets_dir")
_DATABASE = ("state_dir", "socket_dir", "prefix", "database_url")
_VERSION = ("ticks_table", "candles_function")
_ADDRESS = ("api_host", "api_port")
_API = (*_FOLDERS, *_DATABASE, "database_read_url", *_VERSION, *_ADDRESS, "api_processes", "has_metrics", "log")
_UPSTREAM = (*_ADDRESS, "api_upstream")
_INGESTOR = (*_FOLDERS, "prefix", "ticks_table", *_UPSTREAM)
_FRONTEND = (
    *_FOLDERS,
    "frontend_host",
    "frontend_port",
    "frontend_origins",
    *_UPSTREAM,
    "basic_auth",
    "trusted_proxies",
    "log",
)


def main(arguments: Sequence[str] | None = None) -> int:
    options, unknown = make_parser().parse_known_args(arguments)
    if unknown:  # parse_args would print the usage of the whole program instead of the command's
        options.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        settings = load(os.environ, options.env_file, warn=warn)
        options.run(options, settings)
        if sys.stdout is not None:  # None when the shell closed it (``>&-``)
            sys.stdout.flush()  # raises BrokenPipeError here instead of at the interpreter's exit
    except MarketError as error:
        warn(f"{options.prog}: {_described(error)}")
        return _exit_code(error)
    except PermissionError as error:
        if error.filename is None:
            raise
        warn(f"{options.prog}: {file_system.not_permitted(Path(os.fsdecode(error.filename)))}")
        return FAILURE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        discard_output()
        return 128 + signal.SIGPIPE
    return SUCCESS


def _described(error: MarketError) -> str:
    """Return the message. If a database caused the error, the driver's report is appended."""
    why = reason(error) if isinstance(error, DATABASE_ERRORS) else error.detail
    return error.detail if why == error.detail else f"{error.detail} ({why})"


def _exit_code(error: MarketError) -> int:
    return next((code for kind, code in _CODES if isinstance(error, kind)), FAILURE)


# -- arguments -------------------------------------------------------------------------------------------------------


class ArgumentParser(argparse.ArgumentParser):
    """Improves two of argparse's error messages. If an option is mistyped and a required argument is missing, the
    message names the mistyped option. For a mistyped command, the message suggests the nearest one."""

    _given: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._given = list(sys.argv[1:] if args is None else args)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        unknown = " ".join(each for each in takewhile(lambda each: each != "--", self._given) if self._is_unknown(each))
        if unknown and message.startswith(_MISSING):
            message = f"unrecognized arguments: {unknown}"
        if (wrong := _WRONG_CHOICE.search(message)) and (
            close := get_close_matches(wrong[1], re.findall(r"[\w-]+", wrong[2]), 1)
        ):
            message = f"{message}; did you mean {close[0]}?"
        super().error(message)

    def _is_unknown(self, argument: str) -> bool:
        """Whether ``argument`` looks like an option, but is neither an option of this parser nor an abbreviation of
        one, which argparse would accept."""
        name = argument.partition("=")[0]
        return name.startswith("--") and not any(each.startswith(name) for each in self._option_string_actions)


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands. A command has the name of its launcher without ``marketdata-``."""
    parser = ArgumentParser(prog="marketdata", description="The market-data service.")
    parser.add_argument("--version", action="version", version=f"marketdata {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    _add_processes(_command(commands, "api", _api, _ABOUT_API, _API))
    backup.add_upgrade_commands(_command(commands, "db", _db, _ABOUT_DB, ("state_dir", "socket_dir")))
    _add_database_commands(commands)
    _add_version_commands(commands)
    _add_tick_file_commands(commands)
    used = (*_FOLDERS, *_DATABASE)
    backup.add_arguments(_command(commands, "backup", backup.backup, backup.ABOUT_BACKUP, used))
    backup.add_arguments(_command(commands, "restore", backup.restore, backup.ABOUT_RESTORE, used))
    token_commands.add_actions(_command(commands, "token", token_commands.list_all, token_commands.ABOUT, used))
    ingestor.add_commands(
        _command(commands, "ingestor", ingestor.run, ingestor.ABOUT, (*_INGESTOR, "ingestor_metrics_port"))
    )
    backfill.add_commands(_command(commands, "backfill", backfill.run, backfill.ABOUT, _INGESTOR))
    demo.add_commands(
        _command(commands, "demo", demo.run, demo.ABOUT, (*_INGESTOR, *_DATABASE, "ingestor_metrics_port")),
        initialised,
    )
    frontend.add_arguments(_command(commands, "frontend", frontend.run, frontend.ABOUT, _FRONTEND))
    frontend.add_user_commands(_command(commands, "user", frontend.list_users, frontend.USER_ABOUT, _FOLDERS))
    return parser


def _add_database_commands(commands: Commands) -> None:
    from_files = (*_DATABASE, *_FOLDERS)
    of = database_commands
    _command(commands, "init", of.init, of.ABOUT_INIT, _DATABASE)
    of.add_alias_actions(_command(commands, "alias", of.list_aliases, of.ABOUT_ALIAS, _DATABASE))
    of.add_reader_actions(_command(commands, "reader", of.init, of.ABOUT_READER, from_files))
    _command(commands, "graphql", of.graphql, of.ABOUT_GRAPHQL, (*from_files, *_VERSION))


def _add_version_commands(commands: Commands) -> None:
    of = version_commands
    of.add_version_arguments(_command(commands, "version", of.version, of.ABOUT_VERSION, _DATABASE))
    of.add_copy_arguments(_command(commands, "copy", of.copy, of.ABOUT_COPY, _DATABASE))
    of.add_cutover_arguments(_command(commands, "cutover", of.cutover, of.ABOUT_CUTOVER, _DATABASE))
    of.add_drop_arguments(_command(commands, "drop", of.drop, of.ABOUT_DROP, _DATABASE))
    used = (*_DATABASE, *_VERSION)
    symbol_commands.add_actions(_command(commands, "symbol", symbol_commands.drop, symbol_commands.ABOUT, used))
    prune_command.add_arguments(_command(commands, "prune", prune_command.run, prune_command.ABOUT, used))


def _add_tick_file_commands(commands: Commands) -> None:
    of = tick_file_commands
    of.add_export_arguments(_command(commands, "export", of.export, of.ABOUT_EXPORT, (*_DATABASE, *_VERSION)))
    of.add_import_arguments(_command(commands, "import", of.import_files, of.ABOUT_IMPORT, (*_DATABASE, *_VERSION)))


def _command(
    commands: Commands,
    name: str,
    run: Run,
    about: str,
    used: Sequence[str],
) -> argparse.ArgumentParser:
    """Add a command. Its help lists the settings in ``used``, which are fields of :class:`Settings`."""
    prog = f"bin/marketdata-{name}"
    shown = [setting for field, setting in declared().items() if field in used]
    command = commands.add_parser(
        name,
        prog=prog,
        help=about,
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Settings (environment, or NAME=value lines of a file):\n"
        + "\n".join(f"  {each.name:<28} {each.about}" for each in shown),
    )
    command.add_argument(
        "--env-file", type=Path, metavar="FILE", help=f"read settings from FILE, like v1.env; default: {ENV_FILE}"
    )
    command.set_defaults(run=run, prog=prog, parser=command)
    return command


# -- the service -----------------------------------------------------------------------------------------------------


def _add_processes(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--processes", type=_processes, metavar="N",
        help="serve with N processes on one port, for example half as many as cores; default: MARKET_API_PROCESSES",
    )  # fmt: skip


def _processes(text: str) -> int:
    try:
        return processes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _api(options: argparse.Namespace, settings: Settings) -> None:
    settings = replace(settings, api_processes=options.processes or settings.api_processes)
    # The other commands start faster without these imports. The supervisor needs less memory without the service.
    if settings.api_processes == 1:
        from marketdata.api.serve import run
    else:
        from marketdata.api.supervisor import run

    signal.signal(signal.SIGTERM, _exit)  # SIGTERM during the set-up must clean up, too, like Ctrl-C
    with database(settings, linger=False) as url:
        if settings.database_url is not None:
            from marketdata.operations.credential_files import finish_rotation_at_start

            finish_rotation_at_start(url, settings.secrets_dir, warn)
        else:
            from marketdata.operations.setup import prepare
            from marketdata.store.pool import connect

            with connect(url, application_name="marketdata-operation") as connection:
                prepare(connection, settings, warn)
            warn(f"tokens: {settings.secrets_dir / READ_TOKEN} and {settings.secrets_dir / WRITE_TOKEN}")
        run(replace(settings, database_url=url))


def _exit(_number: int, _frame: object) -> None:
    raise SystemExit(SUCCESS)


def _db(_options: argparse.Namespace, settings: Settings) -> None:
    if settings.database_url:
        raise UsageError("DATABASE_URL is set, so there is no private PostgreSQL to run")
    psql = f'psql "{conninfo(settings.state_dir)}"'
    # A service manager supervises PostgreSQL through this process. After a crash, another command may have started
    # PostgreSQL before the service manager started this process. Then this process ends that PostgreSQL and runs its
    # own.
    takes_over = "NOTIFY_SOCKET" in os.environ
    try:
        serve(settings.state_dir, settings.socket_dir, on_ready=lambda: _ready(psql), takes_over=takes_over)
    except StateError as error:
        if error.code != "owned":
            raise
        raise StateError(f"{error.detail}; to connect to it: {psql}", code=error.code) from error


def _ready(psql: str) -> None:
    """Print how to connect, and notify systemd (sd_notify), which then starts the services that depend on this one."""
    say(psql)
    if address := os.environ.get("NOTIFY_SOCKET"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
            client.sendto(b"READY=1", address.replace("@", "\0", 1) if address[0] == "@" else address)
