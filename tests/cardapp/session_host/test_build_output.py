"""The messages of compilers, linkers and make, in the form of real output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cardapp.session_host.build_output import MAX_LINE, MAX_LINES, MAX_MESSAGES, headline, lines, messages

HERE = Path("/copy/src")


def message(file: str, line: int, column: int | None, kind: str, text: str) -> dict[str, Any]:
    return {"file": file, "line": line, "column": column, "kind": kind, "text": text}


MESSAGES = (
    (
        "In file included from m.c:1:\nh.h:1:8: error: expected ‘)’\n    1 | int h( ;\n      |        ^\n",
        message("h.h", 1, 8, "error", "expected ‘)’"),
    ),
    ("/copy/src/m.c:4:19: fatal error: x.h: No such file", message("m.c", 4, 19, "error", "x.h: No such file")),
    ("/usr/include/c++/12/v.h:7:1: note: here", message("/usr/include/c++/12/v.h", 7, 1, "note", "here")),
    ("m.c:4:19: warning: unused ‘y’", message("m.c", 4, 19, "warning", "unused ‘y’")),
    ("m.c:4:19: Fehler: »y« nicht deklariert", message("m.c", 4, 19, "error", "Fehler: »y« nicht deklariert")),
    (
        "/usr/bin/ld: /tmp/cc.o: in function `main':\n/copy/src/l.c:4: undefined reference to `foo'",
        message("l.c", 4, None, "error", "undefined reference to `foo'"),
    ),
    (
        "/usr/bin/ld: /copy/src/l.c:5:(.text+0x9): undefined reference to `bar'",
        message("l.c", 5, None, "error", "undefined reference to `bar'"),
    ),
    ("Makefile:2: *** missing separator.", message("Makefile", 2, None, "error", "*** missing separator.")),
    (
        "error[E0425]: cannot find function `y`\n --> src/r.rs:3:5\n  |\n3 |     y();\n",
        message("src/r.rs", 3, 5, "error", "cannot find function `y`"),
    ),
)  # fmt: skip
WITHOUT_A_PLACE = (
    "make: *** [Makefile:2: prog] Error 1", "12:30:45: started", "collect2: error: ld returned 1", "error: aborting",
    "",
)  # fmt: skip


def test_a_message_has_its_place_kind_and_text() -> None:
    for output, expected in MESSAGES:
        assert messages(output, HERE) == [expected]
    for output in WITHOUT_A_PLACE:
        assert messages(output, HERE) == []


def test_the_headline_is_the_first_error_or_else_the_last_line() -> None:
    output = "m.c:1:1: warning: odd\nm.c:2:1: error: wrong\nm.c:3:1: error: also\n"
    assert headline(output, messages(output, HERE)) == "m.c:2: wrong"
    assert headline("first\nno rule to make it\n\n", []) == "no rule to make it"
    assert headline("\n", []) is None


def test_long_output_is_cut() -> None:
    output = f"m.c:1:1: error: {'x' * 10_000}\n" * 1000
    found = messages(output, HERE)
    assert len(found) == MAX_MESSAGES
    assert len(found[0]["text"]) == MAX_LINE
    assert [len(line) for line in lines(output)] == [MAX_LINE] * MAX_LINES
