"""The commands of ``cardapp/in-your-ci.md``, run as a job of another repository: not as root, in a clean clone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.functional.other_accounts import ROOT, SOMEBODY, environment_for_all, requirements
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
        self.home = folder / "home"
        self.home.mkdir()
        self.upstream = folder / "upstream"
        self.work = folder / "work"
        self.card = ProgramCard(
            self.upstream / "docs" / "cards" / "doubled", "prog: a.c\n\tgcc -g -O0 -o $@ a.c\n", {"a.c": SOURCE}
        )
        snapshot = self.card.document["tasks"][0]["blocks"][0]["phases"][0]["steps"][0]["snapshots"][0]
        snapshot.update(stop=self.card.at("/* doubled */", "a.c"), expect={"n": 21})
        self.card.write()
        (self.upstream / ".gitignore").write_text("out/\n")
        self.git("init", "-q")

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        command = ["git", "-C", str(self.upstream), *identity, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def run(self, cardapp: Path) -> subprocess.CompletedProcess[str]:
        """Commit the repository, clone it, and run the commands in the clone. They clone the repository ``cardapp``."""
        self.git("add", ".")
        self.git("commit", "-q", "-m", "A change")
        shutil.rmtree(self.work, ignore_errors=True)
        subprocess.run(["git", "clone", "-q", self.upstream, self.work], check=True)
        lines = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
        for folder in (self.home, self.work, cardapp):
            give(folder, self.account)
        return subprocess.run(
            ["sh", "-c", *lines],
            user=self.account,
            group=self.account,
            extra_groups=[],
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(self.home), "CARDAPP": str(cardapp)},
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def report(self) -> ElementTree.Element:
        return ElementTree.parse(self.work / "out" / "cards.xml").getroot()


def give(folder: Path, account: int) -> None:
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, account, account, follow_symlinks=False)


@pytest.fixture
def job() -> Iterator[Job]:
    with tempfile.TemporaryDirectory(prefix="job-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Job(Path(folder))


@pytest.mark.full
def test_a_kept_set_up_checks_the_cards_of_each_commit(job: Job) -> None:
    """The CI has kept the folder of an earlier job with its packages, so nothing is downloaded."""
    cardapp = job.home / "cardapp"
    for name in ("bin", "etc", "cardapp", "templates"):
        shutil.copytree(ROOT / name, cardapp / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "setup.cfg", cardapp)
    packages = environment_for_all(cardapp / ".venv", requirements("sheets") + requirements("card"))
    (packages / "repository.pth").write_text(f"{cardapp}\n")
    subprocess.run(["bash", "-euc", '. etc/setup.sh; mkdir "$PARTS"; stamp sheets card'], cwd=cardapp, check=True)

    done = job.run(cardapp)
    assert (done.returncode, done.stderr) == (0, "")
    assert job.report().attrib["failures"] == "0"
    proved = f"Proved .* at {job.git('rev-parse', '--short', 'HEAD')}<"
    assert re.search(proved, (job.work / "out" / "doubled.html").read_text())

    (job.card.sources / "a.c").write_text(SOURCE.replace("21", "22"))
    done = job.run(cardapp)
    assert done.returncode == 1
    (failure,) = job.report().iter("failure")
    assert failure.text is not None
    assert re.search(r"n +21 +22", failure.text)
    assert "<span>Not proved</span>" in (job.work / "out" / "doubled.html").read_text()


@pytest.mark.full
def test_the_first_job_installs_what_it_needs(job: Job) -> None:
    """The job clones with git and installs with pip, as on a new machine."""
    cardapp = job.upstream.parent / "cardapp.git"
    subprocess.run(["git", "clone", "-q", "--bare", ROOT, cardapp], check=True)
    done = job.run(cardapp)
    assert done.returncode == 0, done.stderr
    assert job.report().attrib["failures"] == "0"
    assert (job.home / "cardapp" / ".venv").is_dir()
