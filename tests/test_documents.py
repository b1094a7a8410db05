"""The documents: links that lead somewhere, the table and the picture of the rooms, and their lengths."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.draw_rooms import LAYERS, PICTURE, picture, table_of_rooms
from tests.test_architecture import MODULES, dotted, imports

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("cardapp", "etc", "marketdata", "templates", "tests")
PAGES = sorted([*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))])
ROOMS = {room.path: room for room in table_of_rooms()}


def anchors(page: Path) -> set[str]:
    """The names by which GitHub links to the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_of_a_page_leads_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            if not re.match(r"[a-z]+:", target):
                name, _, anchor = target.partition("#")
                file = (page.parent / name).resolve() if name else page
                assert file.exists(), f"{page} names {target}"
                assert not anchor or anchor in anchors(file), f"{page} names {target}"


def packages() -> Iterator[str]:
    """The folders below the two products that hold code."""
    for product in ("cardapp", "marketdata"):
        for folder in (ROOT / product).iterdir():
            code = (path for path in folder.rglob("*") if path.suffix in (".py", ".js"))
            if folder.is_dir() and any("__pycache__" not in path.parts for path in code):
                yield f"{product}/{folder.name}"


def test_the_table_of_rooms_names_every_package_and_no_other() -> None:
    assert {path for path in ROOMS if not path.endswith("*.py")} == set(packages())
    assert len(table_of_rooms()) == len(ROOMS)


def test_the_picture_of_the_rooms_is_drawn_from_the_table() -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture(table_of_rooms()), "run tests/draw_rooms.py"


def test_no_room_imports_one_of_a_layer_above_it() -> None:
    for product, path in MODULES:
        name = dotted(product, path)
        here = ROOMS.get(f"{product.package}/{name.partition('.')[0]}")
        package = f"{product.package}.{name if path.name == '__init__.py' else name.rpartition('.')[0]}"
        for _line, target in imports(ast.parse(path.read_text(encoding="utf-8")), package):
            there = ROOMS.get("/".join(target.split(".")[:2]))
            if here and there:
                assert LAYERS.index(there.layer) >= LAYERS.index(here.layer), f"{name} imports {target}"


def test_a_page_for_everybody_stays_short() -> None:
    limits = {"marketdata/README.md": 1800, "CHANGES.md": 600, "tests/bench/README.md": 2500}
    assert [page for page, words in limits.items() if len((ROOT / page).read_text("utf-8").split()) > words] == []
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 150


def test_every_file_and_name_of_the_twenty_answers_exists() -> None:
    page = ROOT / "tests" / "where-do-i-change.md"
    answers = [row for row in page.read_text(encoding="utf-8").splitlines() if row.startswith("| ")][2:]
    assert len(answers) == 20
    for answer in answers:
        named = re.findall(r"`([\w./-]+/[\w./-]*)`(?: \(((?:`[^`]+`(?:, )?)+)\))?", answer)
        assert named, answer
        for path, names in named:
            assert (ROOT / path).exists(), path
            for name in re.findall(r"`([^`]+)`", names):
                assert is_defined(name, ROOT / path), f"{path} has no {name}"


def is_defined(name: str, file: Path) -> bool:
    """Python code has to define the name; other text has to contain it as a word."""
    text, name = file.read_text(encoding="utf-8"), re.escape(name)
    if file.suffix == ".py":
        return bool(re.search(rf"^\s*(?:(?:def|class) {name}\b|{name}\b(?:: [^=\n]+)? ?[:=])", text, re.MULTILINE))
    return bool(re.search(rf"(?<![\w-]){name}(?![\w-])", text))
