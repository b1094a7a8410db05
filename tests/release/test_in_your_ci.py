"""The commands of ``cardapp/in-your-ci.md``, run as a job of another repository: not as root, in a clean clone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cardapp.settings import ROOT
from tests.cardapp.card.conftest import first_step
from tests.functional.other_accounts import SOMEBODY
from tests.functional.program_cards import ProgramCard

pytestmark = pytest.mark.functional

PAGE = ROOT / "cardapp" / "in-your-ci.md"
SOURCE = """int doubled(int n)
{
    return 2 * n; /* doubled */
}

int main(void)
{
    return doubled(21) != 42;
}
"""


class Job:
    """A job of another repository, with a separate home. If root runs the test, the job has a user id without a
    name."""

    def __init__(self, folder: Path) -> None:
        self.account = SOMEBODY if os.geteuid() == 0 else os.geteuid()
        self.home, self.upstream, self.work = (folder / name for name in ("home", "upstream", "work"))
        self.home.mkdir()
        self.cardapp = folder / "cardapp.git"
        subprocess.run(["git", "clone", "-q", "--bare", ROOT, self.cardapp], check=True)
        self.card = ProgramCard(
            self.upstream / "docs" / "cards" / "doubled", "prog: a.c\n\tgcc -g -O0 -o $@ a.c\n", {"a.c": SOURCE}
        )
        stop = self.card.at("/* doubled */", "a.c")
        first_step(self.card.document)["snapshots"][0].update(stop=stop, expect={"n": 21})
        self.card.write()
        (self.upstream / ".gitignore").write_text("out/\n")
        self.git("init", "-q")

    def git(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.upstream), "-c", "user.name=A", "-c", "user.email=a@example.org", *arguments]
        return subprocess.check_output(command, text=True).strip()

    def run(self) -> subprocess.CompletedProcess[str]:
        """Commit the repository, clone it, and run the page's commands in the clone."""
        self.git("add", ".")
        self.git("commit", "-q", "-m", "A change")
        shutil.rmtree(self.work, ignore_errors=True)
        subprocess.run(["git", "clone", "-q", self.upstream, self.work], check=True)
        for folder in (self.home, self.work, self.cardapp) if os.geteuid() == 0 else ():
            for path in (folder, *folder.rglob("*")):
                os.chown(path, self.account, self.account, follow_symlinks=False)
        path = "/usr/local/bin:/usr/bin:/bin"
        return subprocess.run(
            ["sh", "-c", *re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)],
            user=self.account, group=self.account, extra_groups=[],
            env={"PATH": path, "HOME": str(self.home), "CARDAPP": str(self.cardapp)},
            cwd=self.work, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def report(self) -> ElementTree.Element:
        return ElementTree.parse(self.work / "out" / "cards.xml").getroot()

    def sheets(self) -> str:
        return (self.work / "out" / "doubled.html").read_text()


def test_the_first_job_installs_what_it_needs_and_each_checks_the_cards_of_its_commit(state_dir: Path) -> None:
    state_dir.chmod(0o755)
    job = Job(state_dir)
    done = job.run()
    assert done.returncode == 0, done.stderr
    assert (job.home / "cardapp" / ".venv").is_dir()
    assert job.report().attrib["failures"] == "0"
    assert re.search(f"Proved .* at {job.git('rev-parse', '--short', 'HEAD')}, ", job.sheets())

    (job.card.sources / "a.c").write_text(SOURCE.replace("21", "22"))
    done = job.run()  # with the packages of the first job
    assert done.returncode == 1
    (failure,) = job.report().iter("failure")
    assert failure.text is not None
    assert re.search(r"n +21 +22", failure.text)
    assert "<span>Not proved</span>" in job.sheets()
