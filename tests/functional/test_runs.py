"""The runs of a card in a real session: arguments, standard input and environment of the program, and their limits."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.functional.program_cards import ProgramCard
from tests.functional.session_process import RunningSession, SessionTool

pytestmark = [pytest.mark.functional]

SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;
char variables[1000];
char line[100];
int count;

static int shown(int n) { count = n; return n; } /* shown */

int main(int argc, char **argv)
{
    for (char **each = environ; *each != NULL; each++) {
        strncat(variables, *each, strcspn(*each, "="));
        strcat(variables, " ");
    }
    if (argc > 1 && strcmp(argv[1], "read") == 0 && fgets(line, sizeof line, stdin) != NULL)
        line[strcspn(line, "\n")] = '\0';
    if (argc > 1 && strcmp(argv[1], "sleep") == 0)
        sleep(60);
    return shown(argc - 1) - (argc - 1);
}
"""
STOP = {"function": "shown"}
RUNS: dict[str, Any] = {
    "two": {"args": ["one word", "it's $HOME"]},
    "reading": {"args": ["read"], "stdin": "data/in.txt"},
    "german": {"env": {"LANG": "de_DE.UTF-8", "GREETING": "a 'b' \"c\"  d=$HOME"}},
    "slow": {"args": ["sleep"], "timeout_s": 1.5},
}


class RunsCard(ProgramCard):
    """A card whose target has several runs."""

    __test__ = False

    def __init__(self, folder: Path) -> None:
        super().__init__(
            folder, "prog: main.c\n\t$(CC) -g -O0 -o $@ main.c\n", {"main.c": SOURCE, "data/in.txt": "from a file\n"}
        )
        self.document["target"] |= {"sources": ["main.c"], "runs": RUNS}
        self.write()


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSession]:
    """A session that was started in an environment with many other variables."""
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp", ignore_cleanup_errors=True) as state:
        tool = SessionTool(Path(state))
        tool.environment |= {"LC_TIME": "C", "LEAKED": "yes", "LINES": "11", "COLUMNS": "22", "LD_BIND_NOW": "1"}
        running = RunningSession(tool, RunsCard(tmp_path_factory.mktemp("card") / "card"))
        yield running
        running.stop()


def value(session: RunningSession, expression: str, run: str | None = None, **changes: Any) -> str:
    got = session.replay(STOP, expression, run=run, **changes)
    found: str = got["values"][expression]["value"]
    return found


def test_a_run_gives_the_program_its_arguments_and_its_standard_input(session: RunningSession) -> None:
    assert value(session, "n", "two") == "2"
    assert value(session, "n") == "0"
    assert value(session, "(char *)line", "reading").endswith('"from a file"')


def test_the_program_gets_four_variables_and_those_of_its_run(session: RunningSession) -> None:
    assert sorted(value(session, "(char *)variables").split('"')[1].split()) == ["HOME", "LANG", "PATH", "TERM"]
    found = sorted(value(session, "(char *)variables", "german").split('"')[1].split())
    assert found == ["GREETING", "HOME", "LANG", "PATH", "TERM"]


def programs(session: RunningSession) -> list[int]:
    """The pids of the program and of its checkpoints."""
    return [pid for pid, name in session.processes().items() if name == "prog"]


def variables(session: RunningSession) -> dict[str, str]:
    """The environment that the program was started with."""
    found = Path(f"/proc/{programs(session)[0]}/environ").read_text().rstrip("\0")
    return dict(each.split("=", 1) for each in found.split("\0"))


def test_a_variables_value_is_passed_as_it_is(session: RunningSession) -> None:
    session.replay(STOP, run="german")
    found = variables(session)
    assert found["GREETING"] == RUNS["german"]["env"]["GREETING"]
    assert (found["LANG"], found["PATH"]) == ("de_DE.UTF-8", "/usr/local/bin:/usr/bin:/bin")
    session.replay(STOP)
    assert variables(session)["LANG"] == "C.UTF-8"


def test_a_checkpoint_of_one_run_is_not_used_for_another(session: RunningSession) -> None:
    session.replay(STOP, run="two", fresh=True)
    assert session.replay(STOP, "n", run="two")["method"] == "fork"
    other = session.replay(STOP, "n", run="german")
    assert (other["method"], other["fresh"], other["values"]["n"]["value"]) == ("rerun", True, "0")
    assert other["fallbacks"] == []
    again = session.replay(STOP, "n", run="two")
    assert (again["method"], again["values"]["n"]["value"]) == ("rerun", "2")


def test_the_limit_of_a_run_bounds_its_replay(session: RunningSession) -> None:
    refused = session.refusal(STOP, run="slow")  # the program sleeps for a minute
    assert (refused["code"], "within 1.5 s" in refused["reason"]) == ("replay_timeout", True)
    assert value(session, "n") == "0"


def test_an_unknown_run_and_a_missing_input_file_are_named(session: RunningSession) -> None:
    refused = session.refusal(STOP, run="none")
    assert refused["code"] == "unknown_run"
    assert "'none' is not one of target.runs (two, reading" in refused["reason"]
    (file,) = session.work.rglob("in.txt")
    file.rename(file.with_name("away.txt"))
    refused = session.refusal(STOP, run="reading")
    file.with_name("away.txt").rename(file)
    assert (refused["code"], "stdin names data/in.txt" in refused["reason"]) == ("no_input", True)
