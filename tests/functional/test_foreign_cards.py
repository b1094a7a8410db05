"""Cards of third-party programs pass the check, drift in the ways that ``drift.py`` lists, and are repaired.

The programs: C with CMake, C with autotools, a C library in a shared object, and C++. One card shows a published bug
and its fix as two runs: CVE-2025-57052, which a patch in Debian's package of cJSON fixes.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.functional.drift import WAYS, Subject, Way, assert_green, try_way
from tests.functional.foreign_programs import DebianSources, Repository

pytestmark = [pytest.mark.functional, pytest.mark.full, pytest.mark.timeout(600)]


def snapshot(name: str, stop: dict[str, Any], expect: dict[str, Any], **further: Any) -> dict[str, Any]:
    return {"id": name, "title": f"The {name}", "stop": stop, "expect": expect, **further}


def step(repository: Repository, excerpt: tuple[str, str, str], *snapshots: dict[str, Any]) -> dict[str, Any]:
    return {"id": "s", "title": "A step", "code": repository.excerpt(*excerpt), "snapshots": list(snapshots)}


def desk_calculator(folder: Path) -> Subject:
    """dc from Debian's package bc: C with autotools. Its stack is a linked list."""
    repository, stack = Repository(folder), "dc/stack.c"
    (folder / "card").mkdir()
    (folder / "card" / "in.dc").write_text("1 2 3 + p\nq\n")
    built = ("*.o", "*.a", ".deps/", "/dc/dc", "Makefile", "config.h", "config.log", "config.status", "stamp-h1")
    (folder / ".gitignore").write_text("\n".join(built))
    stopped = {"file": stack, "line": repository.line(stack, "dc_stack = n;"), "text": "dc_stack = n;"}
    allocated = repository.line(stack, "->link = NULL;")
    repository.write_card(
        {
            "name": "dc",
            "build": [
                "sh",
                "-c",
                "test -f Makefile || ./configure -q CFLAGS='-g -O0'; make -s -C lib && make -s -C dc",
            ],
            "program": "dc/dc",
            "sources": [stack],
            "stdin": "card/in.dc",
        },
        [
            step(
                repository,
                (stack, "dc_push DC_DECLARG((value))", "}"),
                snapshot("line", {**stopped, "hits": 2}, {"dc_stack->value.dc_type": "DC_NUMBER", "dc_stack->link": 0}),
                snapshot("function", {"function": "dc_binop", "file": stack}, {"kscale": 0}),
                snapshot(
                    "condition",
                    {"file": stack, "line": allocated, "text": "->link = NULL;", "if": "result->array == 0", "hits": 3},
                    {"dc_stack->link->link": 0},
                ),
            )
        ],
        allocator={
            "label": "The stack",
            "each": {"first": "dc_stack", "next": "$node->link"},
            "blocks": {"address": "$node", "size": "sizeof *$node", "label": "$node->value.dc_type"},
        },
    )
    return Subject(
        repository=repository,
        file=stack,
        stop_line=("dc_stack = n;", "dc_stack = (n);"),
        body=("n->value = value;", "n->value = (value);"),
        value=("card/in.dc", "1 2 3", "[1] 2 3"),
        another_hit=("card/in.dc", "1 2 3", "[x] sx 1 2 3"),
        function=("dc_binop", "dc_binary"),
        condition_variable=("result", "outcome"),
        broken=(stack, "n->value = value;", "n->value = values;"),
        no_debug=("card/card_source.json", "-g -O0", "-O0"),
        early_end=("card/in.dc", "1 2 3", "q"),
    )


def shared_library(folder: Path) -> Subject:
    """zlib: the stops are in libz.so, to which minigzip is linked."""
    repository, deflate = Repository(folder), "deflate.c"
    (folder / "card").mkdir()
    (folder / "card" / "text.txt").write_text("a text that is not long\n" * 20)
    (folder / ".gitignore").write_text("*.o\n*.lo\n*.so*\n*.pc\n/minigzipsh\n/Makefile\n/configure.log\n/zconf.h\n")
    line = repository.line(deflate, "s->w_bits = (uInt)windowBits;")
    repository.write_card(
        {
            "name": "zlib",
            "build": ["sh", "-c", "test -f configure.log || CFLAGS='-g -O0' ./configure; make -s minigzipsh"],
            "program": "minigzipsh",
            "sources": [deflate],
            "stdin": "card/text.txt",
            "env": {"LD_LIBRARY_PATH": "."},
        },
        [
            step(
                repository,
                (deflate, "int ZEXPORT deflateInit2_(strm", "}"),
                snapshot(
                    "line",
                    {"file": deflate, "line": line, "text": "s->w_bits = (uInt)windowBits;"},
                    {"level": 6, "wrap": 2, "windowBits": 15},
                ),
                snapshot("function", {"function": "deflateReset"}, {"strm->total_in": 0}),
                snapshot(
                    "condition",
                    {"function": "deflateInit2_", "file": deflate, "if": "memLevel == 8"},
                    {"level": 6, "my_version": "1.2.13"},
                ),
            )
        ],
    )
    return Subject(
        repository=repository,
        file=deflate,
        stop_line=("s->w_bits = (uInt)windowBits;", "s->w_bits = (uInt)(windowBits);"),
        body=("s->gzhead = Z_NULL;", "s->gzhead = (Z_NULL);"),
        value=("test/minigzip.c", "wb6 ", "wb5 "),
        another_hit=(
            "test/minigzip.c",
            "void gz_compress(in, out)\n    FILE   *in;\n    gzFile out;\n{\n",
            "void gz_compress(in, out)\n    FILE   *in;\n    gzFile out;\n{\n"
            "    z_stream other = {0}; deflateInit2(&other, 1, 8, 15, 8, 0); deflateEnd(&other);\n",
        ),
        function=("deflateReset", "deflateAgain"),
        condition_variable=("memLevel", "memoryLevel"),
        broken=(deflate, "s->wrap = wrap;", "s->wrap = wraps;"),
        no_debug=("card/card_source.json", "-g -O0", "-O0"),
        early_end=("card/card_source.json", '"stdin": "card/text.txt"', '"args": ["-d", "card/none.gz"]'),
    )


def plus_plus(folder: Path) -> Subject:
    """tinyxml2: C++ with a Makefile."""
    repository, source = Repository(folder), "tinyxml2.cpp"
    (folder / "card").mkdir()
    (folder / "card" / "menu.xml").write_text(
        "<?xml version='1.0'?>\n<!-- lunch -->\n<menu>\n<dish>soup</dish></menu>\n"
    )
    (folder / ".gitignore").write_text("*.o\n*.a\n/xmltest\n")
    line = repository.line(source, "p += elementHeaderLen;")
    repository.write_card(
        {
            "name": "tinyxml2",
            "build": ["make", "-s", "CXXFLAGS=-g -O0", "xmltest"],
            "program": "xmltest",
            "sources": [source],
            "args": ["card/menu.xml"],
        },
        [
            step(
                repository,
                (source, "char* XMLDocument::Identify(", "}"),
                snapshot(
                    "line",
                    {"file": source, "line": line, "text": "p += elementHeaderLen;", "hits": 2},
                    {"_parseCurLineNum": 4, "elementHeaderLen": 1},
                ),
                snapshot(
                    "function",
                    {"function": "tinyxml2::XMLDocument::Parse()"},
                    {"_errorID": "tinyxml2::XML_SUCCESS"},
                ),
                snapshot(
                    "condition",
                    {"function": "tinyxml2::XMLDocument::Identify", "if": "this->_parseCurLineNum == 2"},
                    {"this->_parseCurLineNum": 2},
                ),
            )
        ],
    )
    return Subject(
        repository=repository,
        file=source,
        stop_line=("p += elementHeaderLen;", "p = p + elementHeaderLen;"),
        body=("int const startLine = _parseCurLineNum;", "const int startLine = _parseCurLineNum;"),
        value=("card/menu.xml", "<!-- lunch -->\n", ""),
        another_hit=("card/menu.xml", "<menu>", "<menu><dish/>"),
        function=("Identify", "Recognize"),
        condition_variable=("_parseCurLineNum", "_currentLine"),
        broken=(source, "p += elementHeaderLen;", "q += elementHeaderLen; p += elementHeaderLen;"),
        no_debug=("card/card_source.json", "-g -O0", "-O0"),
        early_end=("card/card_source.json", "card/menu.xml", "card/none.xml"),
    )


CVE = "debian/patches/CVE-2025-57052.patch"
DRIVER = """\
#include <stdio.h>
#include "../cJSON_Utils.h"

int main(int argc, char **argv) {
    cJSON *document = cJSON_Parse("{\\"tags\\": [\\"a\\", \\"b\\", \\"c\\"]}");
    cJSON *found = cJSONUtils_GetPointer(document, argc > 1 ? argv[1] : "/tags/1");
    printf("%s\\n", found ? cJSON_GetStringValue(found) : "nothing");
    cJSON_Delete(document);
    return 0;
}
"""


def json_library(folder: Path) -> Subject:
    """cJSON: C with CMake. The tree has the bug. The folder ``fixed`` has the file with Debian's patch."""
    repository, source = Repository(folder), "cJSON_Utils.c"
    for name in ("fixed", "card"):
        (folder / name).mkdir()
    for name in (source, "cJSON_Utils.h", "cJSON.h"):
        shutil.copy(folder / name, folder / "fixed")
    subprocess.run(["patch", "-s", "-R", "-p1", "-i", CVE], cwd=folder, check=True)
    (folder / "card" / "pointer.c").write_text(DRIVER)
    (folder / ".gitignore").write_text("/build/\n")
    build = (
        "cmake -S . -B build -DCMAKE_BUILD_TYPE=Debug -DENABLE_CJSON_UTILS=On -DENABLE_CJSON_TEST=Off"
        " && cmake --build build && cd build && cc -g -O0 -shared -fPIC ../fixed/cJSON_Utils.c -o fixed.so"
        " && cc -g -O0 ../card/pointer.c -o pointer -L. -lcjson_utils -lcjson && mkdir -p fixed"
        " && cp fixed.so fixed/libcjson_utils.so.1"
    )
    loop = "for (position = 0; (pointer[position] >= '0')"
    stop = {"line": repository.line(source, "*index = parsed_index;"), "text": "*index = parsed_index;"}
    run = {"args": ["/tags/1a"], "env": {"LD_LIBRARY_PATH": "build"}}
    repository.write_card(
        {
            "name": "cjson",
            "build": ["sh", "-c", build],
            "program": "build/pointer",
            "sources": [source, f"fixed/{source}"],
            "args": ["/tags/1"],
            "env": {"LD_LIBRARY_PATH": "build"},
            "runs": {"bug": run, "fix": {**run, "env": {"LD_LIBRARY_PATH": "build/fixed:build"}}},
            "build_timeout_s": 300,
        },
        [
            step(
                repository,
                (source, "static cJSON_bool decode_array_index_from_pointer(", "}"),
                snapshot("line", {"file": source, **stop}, {"parsed_index": 1}),
                snapshot("function", {"function": "cJSONUtils_GetPointer"}, {"pointer": "/tags/1"}),
                snapshot(
                    "condition",
                    {"file": source, **stop, "if": "position < 100"},
                    {"(char *)pointer": "1"},
                ),
                snapshot("bug", {"file": source, **stop}, {"parsed_index": 59, "(char *)pointer": "1a"}, run="bug"),
                snapshot(
                    "fix",
                    {
                        "file": f"fixed/{source}",
                        "line": repository.line(f"fixed/{source}", "return 0;", after=loop),
                        "text": "return 0;",
                    },
                    {"parsed_index": 1, "pointer[position]": 97},
                    run="fix",
                ),
            )
        ],
    )
    return Subject(
        repository=repository,
        file=source,
        stop_line=("*index = parsed_index;", "*index = (parsed_index);"),
        body=("/* leading zeroes are not permitted */", "/* a zero in front is not permitted */"),
        value=("card/card_source.json", '"/tags/1"', '"/tags/2"'),
        another_hit=(
            "card/pointer.c",
            "    cJSON *found =",
            '    cJSONUtils_GetPointer(document, "/tags/0");\n    cJSON *found =',
        ),
        function=("cJSONUtils_GetPointer", "cJSONUtils_PointedAt"),
        condition_variable=("position", "place_read"),
        broken=(source, "*index = parsed_index;", "*index = parsed_index_of;\n    *index = parsed_index;"),
        no_debug=("card/card_source.json", "CMAKE_BUILD_TYPE=Debug", "CMAKE_BUILD_TYPE=MinSizeRel"),
        early_end=("card/pointer.c", "    cJSON *document", "    if (argc) return 3;\n    cJSON *document"),
    )


PROGRAMS = {
    "bc": (desk_calculator, ("make", "cc")),
    "zlib": (shared_library, ("make", "cc")),
    "tinyxml2": (plus_plus, ("make", "g++")),
    "cjson": (json_library, ("cmake", "cc", "patch")),
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> DebianSources:
    return DebianSources(tmp_path_factory.mktemp("sources"))


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request: pytest.FixtureRequest, sources: DebianSources) -> Subject:
    make: tuple[Callable[[Path], Subject], tuple[str, ...]] = PROGRAMS[request.param]
    missing = [name for name in make[1] if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not run: there is no {', '.join(missing)} here")
    return make[0](sources.unpacked(request.param))


def test_the_card_is_green(program: Subject) -> None:
    assert_green(program.repository.card)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_a_drift_is_named_and_repaired(program: Subject, way: Way) -> None:
    try_way(program, way)
