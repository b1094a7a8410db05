"""The documents: links that lead somewhere, the table and the picture of the rooms, and their lengths."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if not re.match(r"[a-z]+:", target):
            name, _, anchor = target.partition("#")
            file = (page.parent / name).resolve() if name else page
            assert file.exists(), f"there is no {target}"
            assert not anchor or anchor in anchors(file), f"there is no {target}"


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


@pytest.mark.parametrize(
    ("page", "measure", "limit"),
    [("README.md", str.splitlines, 150), ("marketdata/README.md", str.split, 1800), ("CHANGES.md", str.split, 600)],
)
def test_a_page_for_everybody_stays_short(page: str, measure: type[list[str]], limit: int) -> None:
    assert len(measure((ROOT / page).read_text(encoding="utf-8"))) <= limit


CHANGES_PAGE = ROOT / "tests" / "where-do-i-change.md"
ANSWERS = [row for row in CHANGES_PAGE.read_text(encoding="utf-8").splitlines() if row.startswith("| ")][2:]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.split("|")[1].strip())
def test_every_file_and_name_of_an_answer_exists(answer: str) -> None:
    named = re.findall(r"`([\w./-]+/[\w./-]*)`(?: \(((?:`[^`]+`(?:, )?)+)\))?", answer)
    assert named
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


def test_there_are_twenty_answers() -> None:
    assert len(ANSWERS) == 20
