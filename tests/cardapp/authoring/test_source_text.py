"""Changes of a card's source file that keep its formatting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardapp.authoring.source_text import SourceText, read_source, write_source

TEXT = """\
{"stop": {"file": "a.c",
          "line": 3 , "a/b": [1, {"x": null}]},
 "empty": {}
}
"""


def test_a_place_has_the_line_on_which_its_value_begins() -> None:
    text = SourceText(TEXT)
    assert [text.line(each) for each in ("", "/stop/file", "/stop/line", "/stop/a~1b/1/x", "/empty")] == [1, 1, 2, 2, 3]
    assert text.line("/stop/hits") == 1  # the object that should have the member


def test_only_the_named_values_change() -> None:
    changed = SourceText(TEXT).with_values({"/stop/line": 17, "/stop/a~1b/1/x": "ä", "/stop/file": "b.c"})
    assert changed == TEXT.replace("3 ,", "17 ,").replace("null", '"ä"').replace("a.c", "b.c")


def test_a_new_member_is_written_like_the_last_one() -> None:
    changed = SourceText(TEXT).with_values({"/stop/hits": 2, "/empty/p": 1, "/more": True})
    assert '"a/b": [1, {"x": null}], "hits": 2},' in changed
    assert '"empty": {"p": 1},\n "more": true\n}' in changed
    assert json.loads(changed)["stop"]["hits"] == 2
    with pytest.raises(KeyError):
        SourceText(TEXT).with_values({"/none/there": 1})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda child: st.lists(child, max_size=3) | st.dictionaries(st.text(max_size=4), child, max_size=3),
)


OBJECTS = st.dictionaries(st.text(max_size=4), JSON, max_size=4)


@given(document=OBJECTS, value=JSON, indent=st.sampled_from([None, 0, 3]))
def test_any_member_of_any_document_can_be_changed(document: dict[str, Any], value: Any, indent: int | None) -> None:
    text = json.dumps(document, indent=indent)
    for name in [*document, "a new name"]:
        pointer = "/" + name.replace("~", "~0").replace("/", "~1")
        assert json.loads(SourceText(text).with_values({pointer: value})) == document | {name: value}


def test_a_written_file_keeps_its_mode_and_its_link(tmp_path: Path) -> None:
    file, link = tmp_path / "real.json", tmp_path / "card_source.json"
    file.write_bytes(b"{}\r\n")
    file.chmod(0o640)
    link.symlink_to(file)
    assert read_source(link) == "{}\r\n"
    write_source(link, "[]\r\n")
    assert link.is_symlink()
    assert file.read_bytes() == b"[]\r\n"
    assert file.stat().st_mode & 0o777 == 0o640
    assert sorted(tmp_path.iterdir()) == [link, file]
