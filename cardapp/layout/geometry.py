"""Where a layout's columns stand on its paper: from ``tokens.page`` and ``tokens.grid`` to millimetres."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cardapp.errors import InvalidLayout
from cardapp.layout import vocabulary
from cardapp.layout.notices import Notices
from cardapp.layout.template import Column, Frame, Grid, Page

_PX_PER_MM = 96 / 25.4
_LEAST_COLUMN, _LEAST_BODY = 35.0, 80.0
"""In mm: less holds no diagram, and no line of code that could be read."""
_MOST_CM = 200.0
_SHAPE = 0.01
"""How much the shape of the pixels may differ from the paper's: they are whole numbers."""
_GRID = ("columns", "left_role", "right_role", "geometry_cm")
_PAGE_PLACE, _GEOMETRY_PLACE = ("tokens", "page"), ("tokens", "grid", "geometry_cm")


def page_and_grid(tokens: Mapping[str, Any], notices: Notices) -> tuple[Page, Grid]:
    """The paper and the places on it; :class:`InvalidLayout` where they leave no room for a card."""
    given = tokens.get("grid", {})
    notices.unknown(("tokens", "grid"), given, _GRID)
    names = _column_names(given, notices)
    size = _geometry(given, names, notices)
    page = _page(tokens.get("page", {}), size, notices)
    header, body, footer = _frames(page, size)
    columns = _columns(names, _roles(given, names, notices), size, body)
    return page, Grid(columns, header, body, footer, size["row_gap"])


# -- the paper -----------------------------------------------------------------------------------------------------


def _page(given: Mapping[str, Any], size: Mapping[str, float], notices: Notices) -> Page:
    """The paper, turned as the orientation says; 96 pixels to the inch where the file gives none."""
    notices.unknown(_PAGE_PLACE, given, ("format", "orientation", "width_px", "height_px"))
    orientation = given.get("orientation", "portrait")
    form, (short, long) = _paper(given.get("format", "A4"), size, notices)
    width, height = (long, short) if orientation == "landscape" else (short, long)
    natural = round(width * _PX_PER_MM)
    width_px = notices.number((*_PAGE_PLACE, "width_px"), given.get("width_px", natural), 100, 20_000, natural)
    natural = round(width_px * height / width)
    height_px = notices.number((*_PAGE_PLACE, "height_px"), given.get("height_px", natural), 100, 20_000, natural)
    if abs(height_px / natural - 1) > _SHAPE:
        message = f"does not fit the paper's shape, {width:g} x {height:g} mm; {natural} is used"
        notices.add((*_PAGE_PLACE, "height_px"), message)
        height_px = natural
    return Page(form, orientation, width, height, width_px, height_px)


def _paper(form: str, size: Mapping[str, float], notices: Notices) -> tuple[str, tuple[float, float]]:
    """The format's name, and its sides in mm, the shorter one first."""
    own = sorted((size["page_width"], size["page_height"]))
    if form in vocabulary.FORMATS:
        for name in ("page_width", "page_height"):
            if size[name]:
                message = f"has no effect: {form} has its size; another name of the format lets this one count"
                notices.add((*_GEOMETRY_PLACE, name), message)
    elif all(own):
        return form, (own[0], own[1])
    else:
        form = notices.name((*_PAGE_PLACE, "format"), form, vocabulary.FORMATS, "A4")
    return form, vocabulary.FORMATS[form]


def _frames(page: Page, size: Mapping[str, float]) -> tuple[Frame, Frame, Frame]:
    """Header, body and footer between the margins."""
    left, top = size["margin_left"], size["margin_top"]
    width = page.width - left - size["margin_right"]
    header = Frame(left, top, width, size["header"])
    footer = Frame(left, page.height - size["margin_bottom"] - size["footer"], width, size["footer"])
    start = top + size["header"]
    body = Frame(left, start, width, footer.y - start)
    if body.height < _LEAST_BODY or width < _LEAST_COLUMN:
        raise InvalidLayout.of(
            "/tokens/grid/geometry_cm",
            f"leaves {width / 10:.1f} x {body.height / 10:.1f} cm of {page.width / 10:g} x {page.height / 10:g} cm for "
            f"the parts, which need {_LEAST_COLUMN / 10:g} x {_LEAST_BODY / 10:g}: make margins smaller",
        )
    return header, body, footer


# -- the columns ---------------------------------------------------------------------------------------------------


def _column_names(given: Mapping[str, Any], notices: Notices) -> list[str]:
    """The columns and gutters from left to right; no column stands twice."""
    names: list[str] = []
    for place, name in enumerate(given.get("columns", ("left", vocabulary.GUTTER, "right"))):
        if name == vocabulary.GUTTER or (name not in names and name != vocabulary.ALL):
            names.append(name)
        else:
            message = (
                f"{name!r} has no effect: a column stands once, and {vocabulary.ALL!r} is the name of all together"
            )
            notices.add(("tokens", "grid", "columns", str(place)), message)
    return names if _held(names) else [vocabulary.ALL]


def _held(names: list[str]) -> list[str]:
    """The columns that hold parts."""
    return [name for name in names if name != vocabulary.GUTTER]


def _geometry(given: Mapping[str, Any], names: list[str], notices: Notices) -> dict[str, float]:
    """Every known length in mm, and those of the columns that have one."""
    lengths = given.get("geometry_cm", {})
    notices.unknown(_GEOMETRY_PLACE, lengths, dict.fromkeys((*vocabulary.GEOMETRY_CM, *names)))
    size = {name: default * 10 for name, (_, default) in vocabulary.GEOMETRY_CM.items()}
    for name, length in lengths.items():
        if name in size or name in names:
            if not 0 <= length <= _MOST_CM:
                raise InvalidLayout.of(f"/tokens/grid/geometry_cm/{name}", f"must lie in 0 to {_MOST_CM:g} cm")
            size[name] = length * 10
    return size


def _roles(given: Mapping[str, Any], names: list[str], notices: Notices) -> dict[str, str]:
    """The role of the first column and of the last; that of a single one is the left."""
    held = _held(names) or names
    roles = {}
    for name, side, default in ((held[-1], "right_role", "evidence"), (held[0], "left_role", "guide")):
        place = ("tokens", "grid", side)
        roles[name] = notices.name(place, given.get(side, default), vocabulary.ROLES, default)
    return roles


def _columns(names: list[str], roles: Mapping[str, str], size: Mapping[str, float], body: Frame) -> tuple[Column, ...]:
    taken = sum(size.get(name, 0.0) for name in names)
    open_names = [name for name in names if name not in size]
    share = (body.width - taken) / len(open_names) if open_names else 0.0
    columns, x = [], body.x
    for name in names:
        width = size.get(name, share)
        if name != vocabulary.GUTTER:
            columns.append(Column(name, roles.get(name, ""), x, width))
        x += width
    if x > body.x + body.width + 0.05 or min(column.width for column in columns) < _LEAST_COLUMN:
        told = ", ".join(f"{column.name} {column.width / 10:.1f}" for column in columns)
        raise InvalidLayout.of(
            "/tokens/grid/geometry_cm",
            f"columns ({told} cm, with gutters {(x - body.x) / 10:.1f}) must fit in {body.width / 10:.1f} cm and have "
            f"{_LEAST_COLUMN / 10:g} cm each: make some narrower, or the margins",
        )
    return tuple(columns)
