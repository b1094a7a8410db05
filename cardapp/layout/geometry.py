"""The page and the column grid of a layout in millimetres, from ``tokens.page`` and ``tokens.grid``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cardapp.errors import InvalidLayout
from cardapp.layout import layout_options
from cardapp.layout.layout_warnings import LayoutWarnings
from cardapp.layout.template import Column, Frame, Grid, Page

_PX_PER_MM = 96 / 25.4
_MIN_COLUMN, _MIN_BODY = 35.0, 80.0
"""Minimum width of a column and height of the body in mm, for a diagram or a readable line of code."""
_MIN_SHARE = 40.0
"""Minimum width in mm of a column without a given width, if all columns can have it: enough for a diagram."""
_MAX_CM = 200.0
_SHAPE = 0.01
"""Tolerated difference of the aspect ratios of pixels and paper, because pixels are whole numbers."""
_ROUNDING = 0.05
_PAGE_PLACE, _GEOMETRY_PLACE = ("tokens", "page"), ("tokens", "grid", "geometry_cm")


@dataclass(frozen=True)
class Paper:
    """The page, its frames within the margins, and the file's lengths in mm by name."""

    page: Page
    header: Frame
    body: Frame
    footer: Frame
    size: Mapping[str, float]


def paper(tokens: Mapping[str, Any], columns: Iterable[str], warnings: LayoutWarnings) -> Paper:
    """The paper; :class:`InvalidLayout` if its margins leave too little room. ``columns`` are the names that may have a
    width."""
    given = tokens.get("grid", {})
    warnings.unknown_names(("tokens", "grid"), given, ("columns", "left_role", "right_role", "geometry_cm"))
    size = _geometry(given.get("geometry_cm", {}), columns, warnings)
    page = _page(tokens.get("page", {}), size, warnings)
    return Paper(page, *_frames(page, size), size)


# -- the paper -----------------------------------------------------------------------------------------------------


def _page(given: Mapping[str, Any], size: Mapping[str, float], warnings: LayoutWarnings) -> Page:
    """The page in its orientation; the default size in pixels is 96 per inch."""
    warnings.unknown_names(_PAGE_PLACE, given, ("format", "orientation", "width_px", "height_px"))
    orientation = given.get("orientation", "portrait")
    form, (short, long) = _paper(given.get("format", "A4"), size, warnings)
    width, height = (long, short) if orientation == "landscape" else (short, long)
    natural = round(width * _PX_PER_MM)
    width_px = warnings.number((*_PAGE_PLACE, "width_px"), given.get("width_px", natural), 100, 20_000, natural)
    natural = round(width_px * height / width)
    height_px = warnings.number((*_PAGE_PLACE, "height_px"), given.get("height_px", natural), 100, 20_000, natural)
    if abs(height_px / natural - 1) > _SHAPE:
        message = f"does not match the paper's aspect ratio of {width:g} x {height:g} mm; {natural} is used instead"
        warnings.add((*_PAGE_PLACE, "height_px"), message)
        height_px = natural
    return Page(form, orientation, width, height, width_px, height_px)


def _paper(form: str, size: Mapping[str, float], warnings: LayoutWarnings) -> tuple[str, tuple[float, float]]:
    """The format's name and its sides in mm, the shorter one first."""
    own = sorted((size["page_width"], size["page_height"]))
    if form in layout_options.FORMATS:
        for name in ("page_width", "page_height"):
            if size[name]:
                message = f"has no effect: the size of {form} is fixed; to use this value, give the format another name"
                warnings.add((*_GEOMETRY_PLACE, name), message)
    elif all(own):
        return form, (own[0], own[1])
    else:
        form = warnings.name((*_PAGE_PLACE, "format"), form, layout_options.FORMATS, "A4")
    return form, layout_options.FORMATS[form]


def _frames(page: Page, size: Mapping[str, float]) -> tuple[Frame, Frame, Frame]:
    """Header, body and footer between the margins."""
    left, top = size["margin_left"], size["margin_top"]
    width = page.width - left - size["margin_right"]
    header = Frame(left, top, width, size["header"])
    footer = Frame(left, page.height - size["margin_bottom"] - size["footer"], width, size["footer"])
    start = top + size["header"]
    body = Frame(left, start, width, footer.y - start)
    if body.height < _MIN_BODY or width < _MIN_COLUMN:
        raise InvalidLayout.of(
            "/tokens/grid/geometry_cm",
            f"leaves {width / 10:.1f} x {body.height / 10:.1f} cm of {page.width / 10:g} x {page.height / 10:g} cm "
            f"for the parts, which need {_MIN_COLUMN / 10:g} x {_MIN_BODY / 10:g} cm: make the margins smaller",
        )
    return header, body, footer


# -- lengths and columns -------------------------------------------------------------------------------------------


def _geometry(given: Mapping[str, Any], columns: Iterable[str], warnings: LayoutWarnings) -> dict[str, float]:
    """The known lengths in mm, and the widths of the columns that have one."""
    known = dict.fromkeys((*layout_options.GEOMETRY_CM, *columns))
    warnings.unknown_names(_GEOMETRY_PLACE, given, known)
    size = {name: default * 10 for name, (_, default) in layout_options.GEOMETRY_CM.items()}
    for name in (name for name in given if name in known):
        if not 0 <= given[name] <= _MAX_CM:
            raise InvalidLayout.of(f"/tokens/grid/geometry_cm/{name}", f"must be from 0 to {_MAX_CM:g} cm")
        size[name] = given[name] * 10
    return size


def grid(paper: Paper, names: Iterable[str], shares: Mapping[str, float], roles: Mapping[str, str]) -> Grid:
    """The columns and gutters ``names`` from left to right; those without a width share the rest."""
    names, size = tuple(names), paper.size
    taken = sum(size.get(name, 0.0) for name in names)
    shared = _shared(paper.body.width - taken, {name: shares.get(name, 1.0) for name in names if name not in size})
    columns, x = [], paper.body.x
    for name in names:
        width = size[name] if name in size else shared[name]
        if name != layout_options.GUTTER:
            columns.append(Column(name, roles.get(name, ""), x, width))
        x += width
    if x > paper.body.x + paper.body.width + _ROUNDING or min(column.width for column in columns) < _MIN_COLUMN:
        widths = ", ".join(f"{column.name} {column.width / 10:.1f}" for column in columns)
        needed = (paper.page.width - paper.body.width + taken + _MIN_SHARE * len(shared)) / 10
        wider = f", or use a sheet that is {needed:.1f} cm wide" if needed * 10 > paper.page.width else ""
        raise InvalidLayout.of(
            "/tokens/grid/geometry_cm",
            f"columns ({widths} cm, with gutters {(x - paper.body.x) / 10:.1f} cm) must fit "
            f"{paper.body.width / 10:.1f} cm and have at least {_MIN_COLUMN / 10:g} cm each: make some columns or "
            f"the margins smaller{wider}",
        )
    return Grid(tuple(columns), paper.header, paper.body, paper.footer, size["row_gap"])


def _shared(room: float, shares: Mapping[str, float]) -> dict[str, float]:
    """Divide the width by the shares; a column below the minimum gets the minimum, and the others share the rest."""
    least = min(_MIN_SHARE, room / max(len(shares), 1))
    widths: dict[str, float] = {}
    for name in sorted(shares, key=shares.__getitem__):
        rest = sum(share for other, share in shares.items() if other not in widths)
        widths[name] = max(least, (room - sum(widths.values())) * shares[name] / rest)
    return widths
