"""The line of each value of a JSON text."""

from __future__ import annotations

from marketdata.source.json_lines import lines, pointer

TEXT = r"""
{ "a": [1, -2.5e3,
  "}],\"{[:\\",
    [], {}
  ],
  "b/~"
  :
  {"c": null,

   "d": [true]}}"""


def test_each_value_has_the_line_where_it_begins() -> None:
    assert lines(TEXT) == {
        "": 2, "/a": 2, "/a/0": 2, "/a/1": 2, "/a/2": 3, "/a/3": 4, "/a/4": 4, "/b~1~0": 6, "/b~1~0/c": 8,
        "/b~1~0/d": 10, "/b~1~0/d/0": 10,
    }  # fmt: skip
    assert [lines(text) for text in ("5", "\n\n[\n]")] == [{"": 1}, {"": 3}]


def test_a_pointer_is_that_of_rfc_6901() -> None:
    assert [pointer(path) for path in ((), ("a", 0), ("a/b", "~"))] == ["", "/a/0", "/a~1b/~0"]
