"""Programs that nobody here made, fetched from the registries of packages, as cards of about ten stops each."""

from __future__ import annotations

import bz2
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.capabilities import need, need_program
from tests.functional import registry
from tests.functional.session_process import document

Fetch = Callable[[Path], None]


@dataclass(frozen=True)
class At:
    """A stop and the expressions that are recorded there, separated by `` ; ``."""

    stop: dict[str, Any]
    expressions: str
    run: str | None = None


@dataclass(frozen=True)
class Mutation:
    """Another text for the only ``old`` in a source file. It is not in the line of a stop."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class OtherProgram:
    """``fetch`` makes the folder of the sources, in which ``build``, a Makefile, makes ``target["program"]``.
    ``files`` are added to it: their text by name."""

    name: str
    fetch: Fetch
    build: str
    target: dict[str, Any]
    stops: tuple[At, ...]
    mutations: tuple[Mutation, ...]
    files: dict[str, str | bytes] = field(default_factory=dict)

    def write(self, card: Path) -> None:
        """Write the card with a step for each stop, in which all values are still to be recorded."""
        self.fetch(card / "src")
        for name, text in {"Makefile": self.build, **self.files}.items():
            (card / "src" / name).parent.mkdir(exist_ok=True)
            (card / "src" / name).write_bytes(text.encode() if isinstance(text, str) else text)
        (card / "card_source.json").write_text(json.dumps(self.document()))

    def document(self) -> dict[str, Any]:
        made = document(self.name, {"name": self.name, "build": ["make", "-s", "-j2"], **self.target}, {}, {})
        made["tasks"][0]["blocks"][0]["phases"][0]["steps"] = [
            {"id": f"s{number}", "title": f"Stop {number}", "text": "t", "question": "q", "snapshots": [snapshot(each)]}
            for number, each in enumerate(self.stops, 1)
        ]
        return made


def snapshot(at: At) -> dict[str, Any]:
    expect = dict.fromkeys(at.expressions.split(" ; "), "?")
    return {"id": "x", "title": "x", "stop": at.stop, "expect": expect} | ({"run": at.run} if at.run else {})


def from_pypi(requirement: str, inside: str) -> Fetch:
    """Fetches the folder ``inside`` of the source package that fulfils ``requirement``, a name with a release."""

    def fetch(folder: Path) -> None:
        with tempfile.TemporaryDirectory() as temporary:
            options = ("-q", "--retries=1", "--no-deps", f"--no-binary={requirement.partition('==')[0]}")
            pip = (sys.executable, "-m", "pip", "download", *options, "-d", temporary, requirement)
            registry.install(pip, Path(temporary))
            (archive,) = Path(temporary).glob("*.tar.gz")
            unpack(archive, folder, inside)

    return fetch


def from_debian(**packages: str) -> Fetch:
    """Fetches the original sources of Debian's source ``packages``, each into the folder named by its key."""

    def fetch(folder: Path) -> None:
        with tempfile.TemporaryDirectory() as temporary:
            apt = apt_get(Path(temporary))
            for name, package in packages.items():
                registry.install([*apt, "source", "--download-only", package], Path(temporary))
                (archive,) = Path(temporary).glob(f"{package}_*.orig.tar.*")
                unpack(archive, folder / name)

    return fetch


def apt_get(folder: Path) -> list[str]:
    """The command ``apt-get`` with Debian's lists of sources in ``folder``. The machine's own apt is not changed."""
    need_program("apt-get")
    about = ("--format", "deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages", "Label: Debian")
    mirrors = subprocess.run(["apt-get", "indextargets", *about], capture_output=True, text=True, check=False).stdout
    need(mirrors, "the lists of Debian's packages (apt-get update)")
    (folder / "sources.list").write_text(mirrors)
    (folder / "lists").mkdir()
    places = {"Etc::SourceList": "sources.list", "Etc::SourceParts": "none", "State::Lists": "lists", "Cache": "cache"}
    options = [f"-oDir::{name}={folder / place}" for name, place in places.items()]
    # Otherwise root's apt-get becomes an account that cannot write into the folder.
    command = ["apt-get", "-q", "-oAPT::Sandbox::User=root", *options]
    registry.install([*command, "update"], folder)
    return command


def unpack(archive: Path, folder: Path, inside: str = "") -> None:
    """Unpack what the only folder of the archive has, or what is in its folder ``inside``."""
    with tempfile.TemporaryDirectory() as temporary, tarfile.open(archive) as content:
        content.extractall(temporary, filter="data")
        (top,) = Path(temporary).iterdir()
        shutil.copytree(top / inside, folder, dirs_exist_ok=True)


NINJA_BUILD = """\
# the program without its tests and what is for Windows
other := %_test %_perftest %.in %-win32 browse test hash_collision_bench
names := $(filter-out $(other),$(basename $(notdir $(wildcard src/*.cc))))
ninja: $(names:%=out/%.o)
	g++ -o $@ $^
out/%.o: src/%.cc
	@mkdir -p out
	g++ -g -O0 -std=c++14 -w -MMD -c -o $@ $<
-include out/*.d
"""
NINJA_MANIFEST = """\
cflags = -O2 -Wall
builddir = out

pool linker
  depth = 2

rule cc
  command = gcc $cflags -c $in -o $out
  description = CC $out
rule link
  command = gcc $in -o $out
  pool = linker

build out/main.o: cc main.c | config.h
build out/text.o: cc text.c
  cflags = -O0 -g
build app: link out/main.o out/text.o
default app
"""


def cc(name: str, text: str, hits: int = 1) -> dict[str, Any]:
    return {"file": f"src/{name}.cc", "text": text, "hits": hits}


NINJA_SOURCES = ("manifest_parser", "eval_env", "state", "build", "ninja", "edit_distance")
# Not recorded, because they differ from run to run: running_edges_ (times) and config_ (the number of processors).
NINJA = OtherProgram(
    "ninja",
    from_pypi("ninja==1.13.2", "ninja-upstream"),
    NINJA_BUILD,
    {
        "program": "ninja",
        "args": ["-n", "-C", "project"],
        "sources": [f"src/{name}.cc" for name in NINJA_SOURCES],
        "runs": {"misspelt": {"args": ["-n", "-C", "project", "out/mian.o"]}},
    },
    (
        At(
            cc("manifest_parser", "env_->AddBinding(name, value);", 2),
            "name ; value ; let_value ; env_->bindings_ ; *env_ ; token",
        ),
        At(
            cc("manifest_parser", "state_->AddPool(new Pool(name, depth));"),
            'name ; depth ; state_->pools_ ; *state_->pools_["console"] ; size(state_->pools_)',
        ),
        At(
            cc("manifest_parser", "env_->AddRule(std::move(rule));", 2),
            'rule ; rule->bindings_["command"].parsed_ ; rule->bindings_["pool"] ; env_->rules_ ; *env_->rules_["cc"]',
        ),
        At(
            cc("manifest_parser", "Edge* edge = state_->AddEdge(rule);", 2),
            "rule_name ; rule->name_ ; *rule ; outs_ ; ins_ ; *env ; env->bindings_ ; has_indent_token",
        ),
        At(
            cc("state", "node->AddOutEdge(edge);", 4),
            "path ; *node ; node->path_ ; paths_ ; *edge->inputs_[0] ; *edge ; edges_ ; size(edges_)",
        ),
        At({"function": "State::GetNode", "hits": 5}, "path.len_ ; slash_bits ; paths_ ; defaults_ ; bindings_"),
        At(
            cc("eval_env", "result.append(env->LookupVariable(i->first));", 5),
            "*i ; i ; i->first ; i->second ; result ; parsed_ ; single_token_ ; size(parsed_)",
        ),
        At(
            cc("build", "if (dyndep_walk && want == kWantToFinish)", 3),
            "*node ; node->path_ ; dependent->path_ ; want ; want_ins ; want_ ; size(want_) ; targets_ ; *targets_[0]",
        ),
        At(
            cc("build", "running_edges_.insert(make_pair(edge, start_time_millis));", 2),
            "edge->outputs_[0]->path_ ; edge->env_->bindings_ ; *edge->rule_ ; plan_.ready_"
            " ; size(running_edges_) ; config_.dry_run",
        ),
        At(cc("build", "finished_.pop();"), "*result ; finished_ ; result->edge->inputs_[0]->path_ ; result->output"),
        At({"file": "src/edit_distance.cc", "text": "return row[n];"}, "row ; m ; n ; row[1] ; s1 ; s2", "misspelt"),
        At(cc("ninja", "Node* suggestion = state_.SpellcheckNode(path);"), "path ; *err ; state_.paths_", "misspelt"),
    ),
    (
        Mutation(
            "src/manifest_parser.cc",
            "env->AddBinding(key, val.Evaluate(env_));",
            "env_->AddBinding(key, val.Evaluate(env));",
        ),
        Mutation("src/eval_env.cc", "if (i->second == RAW)", "if (i->second != RAW)"),
        Mutation("src/state.cc", "edge->id_ = edges_.size();", "edge->id_ = paths_.size();"),
        Mutation("src/build.cc", "want = kWantToStart;", "want = kWantNothing;"),
        Mutation("src/edit_distance.cc", "? 0 : 1),", "? 0 : 2),"),
    ),
    {"project/build.ninja": NINJA_MANIFEST, "project/main.c": "", "project/text.c": "", "project/config.h": ""},
)

PBZIP2_BUILD = """\
options := -g -O0 -w -std=gnu++98 -pthread -D_FILE_OFFSET_BITS=64 -D_LARGEFILE64_SOURCE
pbzip2: pbzip2.o BZ2StreamScanner.o ErrorContext.o
	g++ -pthread -o $@ $^ -lbz2
%.o: %.cpp pbzip2.h BZ2StreamScanner.h ErrorContext.h
	g++ $(options) -c -o $@ $<
"""
PBZIP2_TEXT = "".join(f"line {number} of a text\n" for number in range(15000))
PBZIP2_STREAMS = b"".join(bz2.compress(f"stream {number}".encode() * 20) for number in range(4))


def pbzip2(text: str, **more: Any) -> dict[str, Any]:
    return {"file": "pbzip2.cpp", "text": text, **more}


PBZIP2 = OtherProgram(
    "pbzip2",
    from_debian(**{".": "pbzip2"}),
    PBZIP2_BUILD,
    {
        "program": "pbzip2",
        "args": ["-k", "-f", "-p3", "-b1", "words.txt"],
        "sources": ["pbzip2.cpp", "pbzip2.h", "BZ2StreamScanner.cpp"],
        "runs": {"decompress": {"args": ["-d", "-c", "-p3"], "stdin": "streams.bz2"}},
    },
    (
        At({"function": "queueInit"}, "queueSize ; NumBlocks ; OutputBuffer ; sigInFilename ; fileMetaData.st_size"),
        At(
            pbzip2("OutputBuffer.assign(size, emptyElement);"),
            "size ; emptyElement ; OutputBuffer ; NumBufferedBlocksMax ; NumBlocksEstimated ; BWTblockSizeChar",
        ),
        At(
            pbzip2("outBuff * queueElement = new(std::nothrow) outBuff(FileData, inSize, NumBlocks, 0);", hits=2),
            "inSize ; NumBlocks ; ret ; blockSize ; FileData ; fifo->size ; *fifo",
        ),
        At(
            pbzip2(
                "outSize = (unsigned int) (((fileData->bufSize)*1.01)+600);", **{"if": "fileData->blockNumber == 1"}
            ),
            "*fileData ; fileData->buf ; fileData->bufSize ; CompressedData ; ret ; fifo->size",
        ),
        At(
            pbzip2("outBuff outBlock = outBuff(CompressedData,", **{"if": "fileData->blockNumber == 2"}),
            "outSize ; *fileData ; CompressedData ; ret ; *fifo",
        ),
        At(
            pbzip2("++NumBufferedBlocks;", **{"if": "element.blockNumber == 2"}),
            "element ; caller ; dist ; outBuffPos ; size(OutputBuffer) ; OutputBuffer[outBuffPos]",
        ),
        At(
            pbzip2("bytesProcessed += outBlock->inSize;", hits=2),
            "ret ; CompressedSize ; *outBlock ; OutFilename ; bytesProcessed ; currBlock ; outBufferPos",
        ),
        At(
            pbzip2("OutputBuffer.clear();"),
            "OutputBuffer ; outFilename ; NumBlocks ; *fifo ; argv[4] ; fileMetaData.st_size ; NextBlockToWrite",
        ),
        At(
            pbzip2("NumBlocks = fileData->blockNumber + 1;", hits=3),
            "*fileData ; bz2StreamScanner._bz2Header ; bz2StreamScanner._outBuff ; bz2StreamScanner._streamNumber"
            " ; bz2StreamScanner._inBuffSearchPtr ; *fifo",
            "decompress",
        ),
        At(
            {"file": "BZ2StreamScanner.cpp", "text": "_inBuffCurrent = end;", "hits": 2},
            "additionSize ; _outBuff ; _bz2Header ; *this",
            "decompress",
        ),
    ),
    (
        Mutation("BZ2StreamScanner.cpp", "( 11 * newSize ) / 10", "( 12 * newSize ) / 10"),
        Mutation("pbzip2.h", "sequenceNumber(aSequenceNumber)", "sequenceNumber(aBlockNumber)"),
        Mutation("pbzip2.cpp", "(InFileSize + blockSize - 1) / blockSize", "(InFileSize - blockSize + 1) / blockSize"),
        Mutation("pbzip2.cpp", "bufSize, BWTblockSize, Verbosity, 30)", "bufSize, Verbosity + 1, Verbosity, 30)"),
        Mutation("pbzip2.cpp", "emptyElement.bufSize = 0;", "emptyElement.bufSize = 1;"),
    ),
    {"words.txt": PBZIP2_TEXT, "streams.bz2": PBZIP2_STREAMS},
)

PROGRAMS = (NINJA,)
