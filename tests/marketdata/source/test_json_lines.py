"""The line of each value of a JSON text, compared with a writer that notes where it writes."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from marketdata.source.json_lines import lines, pointer

_KEYS = st.text('ab/~"\\{}[],:\n é', max_size=4)
_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.floats(allow_nan=False, allow_infinity=False), _KEYS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_KEYS, inner, max_size=3)),
    max_leaves=12,
)


class Writer:
    """Writes a value with line feeds where JSON takes white space, as ``data`` draws them."""

    def __init__(self, data: st.DataObject) -> None:
        self.text = ""
        self.lines: dict[str, int] = {}
        self._data = data

    def write(self, value: Any, *path: str | int) -> None:
        self._space()
        self.lines.setdefault(pointer(path), self.text.count("\n") + 1)
        if isinstance(value, dict):
            self._put("{")
            for at, (key, member) in enumerate(value.items()):
                self._put("," if at else "")
                self._space()
                self.lines[pointer((*path, key))] = self.text.count("\n") + 1
                self._put(json.dumps(key, ensure_ascii=False))
                self._space()
                self._put(":")
                self.write(member, *path, key)
            self._put("}")
        elif isinstance(value, list):
            self._put("[")
            for at, member in enumerate(value):
                self._put("," if at else "")
                self.write(member, *path, at)
            self._put("]")
        else:
            self._put(json.dumps(value))

    def _put(self, text: str) -> None:
        self.text += text
        self._space()

    def _space(self) -> None:
        self.text += self._data.draw(st.sampled_from(["", "", " ", "\n", "\n\n"]))


@given(value=_VALUES, data=st.data())
def test_each_value_has_the_line_where_it_begins(value: Any, data: st.DataObject) -> None:
    writer = Writer(data)
    writer.write(value)
    assert json.loads(writer.text) == value
    assert lines(writer.text) == writer.lines


def test_a_pointer_is_that_of_rfc_6901() -> None:
    assert [pointer(path) for path in ((), ("a", 0), ("a/b", "~"))] == ["", "/a/0", "/a~1b/~0"]
