"""Builds a :class:`Layout` from the document of a layout file that meets ``card-template.v1.schema.json``.

The schema allows any names. A name that ``layout_options.py`` does not define has no effect; a warning lists the known
names. Sizes that leave no room for a card are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cardapp.errors import InvalidLayout
from cardapp.layout import layout_options
from cardapp.layout.diagram.shapes import MIN_WIDTH
from cardapp.layout.grid import Arranger, paper
from cardapp.layout.layout_model import Arrangement, Component, Layout, Output, Typography
from cardapp.layout.layout_options import Look
from cardapp.layout.layout_warnings import LayoutWarnings, Place
from cardapp.layout.measure import Measure
from cardapp.schema import shown

_COLOR = re.compile(r"#[0-9a-fA-F]{6}")
_FAMILY = re.compile(r"[A-Za-z0-9][A-Za-z0-9 .-]{0,63}")
_ROOT = (
    "$schema", "schema", "id", "name", "version", "approved", "description", "tokens", "components", "block_map",
    "emitters", "limitations",
)  # fmt: skip
_TYPOGRAPHY_PLACE: Place = ("tokens", "typography")


def build(document: Mapping[str, Any]) -> Layout:
    """Build the layout from a document that meets the schema. Raises :class:`InvalidLayout` if its sizes leave no room
    for a card."""
    warnings = LayoutWarnings()
    warnings.unknown_names((), document, _ROOT)
    tokens = document["tokens"]
    warnings.unknown_names(("tokens",), tokens, ("page", "grid", "typography", "colors"))
    arranger = Arranger(document, warnings)
    sheet = paper(tokens, arranger.names, arranger.columns, warnings)
    typography = _typography(tokens.get("typography", {}), warnings)
    colors = _colors(tokens.get("colors", {}), warnings)
    by_variant = arranger.arrangements(sheet)
    html, latex = document["emitters"]["html"], document["emitters"]["latex"]
    arrangements: dict[Output, Arrangement] = {"html": by_variant[html], "latex": by_variant[latex]}
    components = _components(document.get("components"), arrangements["html"], typography, colors, warnings)
    _unused(tokens, typography, components, warnings)
    limitations = document.get("limitations", {})
    warnings.unknown_names(("limitations",), limitations, layout_options.LIMITATIONS)
    layout = Layout(
        id=document["id"],
        name=document["name"],
        version=document["version"],
        approved=document.get("approved", ""),
        description=document["description"],
        page=sheet.page,
        grid=arrangements["html"].grid,
        typography=typography,
        colors=colors,
        components=components,
        html=html,
        latex=latex,
        arrangements=arrangements,
        limitations={name: tuple(limitations[name]) for name in layout_options.LIMITATIONS if name in limitations},
        warnings=warnings.all,
    )
    _refuse_narrow_diagrams(layout)
    return layout


def _refuse_narrow_diagrams(layout: Layout) -> None:
    for arranged in map(layout.arranged, layout.arrangements):
        measure = Measure(arranged)
        for kind in layout_options.DIAGRAMS:
            if kind in arranged.components and measure.width(kind) < MIN_WIDTH:
                raise InvalidLayout.of(
                    f"/block_map/{kind}",
                    f"has {measure.width(kind) / 10:.1f} cm in the column {arranged.components[kind].column!r}, but a "
                    f"diagram needs {MIN_WIDTH / 10:g} cm: make the column wider, or name another one",
                )


# -- typography and colours ----------------------------------------------------------------------------------------


def _typography(given: Mapping[str, Any], warnings: LayoutWarnings) -> Typography:
    place = _TYPOGRAPHY_PLACE
    warnings.unknown_names(place, given, ("families", "sizes_pt", "line_height", "weights"))
    sizes = _numbers((*place, "sizes_pt"), given, layout_options.SIZES_PT, 9.0, (4, 72), warnings)
    heights = dict.fromkeys(sizes, layout_options.OTHER_LINE_HEIGHT) | layout_options.LINE_HEIGHT
    heights = _numbers((*place, "line_height"), given, heights, layout_options.OTHER_LINE_HEIGHT, (1, 3), warnings)
    warnings.unknown_names((*place, "line_height"), heights, sizes)
    weights = _numbers((*place, "weights"), given, layout_options.WEIGHTS, 400, (100, 900), warnings)
    warnings.unknown_names((*place, "weights"), weights, layout_options.WEIGHTS)
    return Typography(
        families=_families(given.get("families", {}), warnings),
        sizes_pt=sizes,
        line_height={name: heights[name] for name in sizes},
        weights={name: round(weights[name]) for name in layout_options.WEIGHTS},
    )


def _numbers(
    place: Place,
    given: Mapping[str, Any],
    defaults: Mapping[str, float],
    other: float,
    bounds: tuple[float, float],
    warnings: LayoutWarnings,
) -> dict[str, float]:
    """Return the defaults, updated by the object at ``place``. ``other`` is the default for names that are not in
    ``defaults``."""
    found = dict(defaults)
    for name, value in warnings.mapping(place, given.get(place[-1], {})).items():
        found[name] = warnings.number((*place, name), value, *bounds, defaults.get(name, other))
    return found


def _families(given: Any, warnings: LayoutWarnings) -> dict[str, tuple[str, ...]]:
    place = (*_TYPOGRAPHY_PLACE, "families")
    given = warnings.mapping(place, given)
    warnings.unknown_names(place, given, layout_options.FAMILIES)
    found = {}
    for name, default in layout_options.FAMILIES.items():
        value = given.get(name, default)
        names = tuple(value) if isinstance(value, list | tuple) else (value,)
        if not names or not all(isinstance(each, str) and _FAMILY.fullmatch(each) for each in names):
            warnings.add((*place, name), f"must be a font family or an array of them; {default[0]} is used instead")
            names = default
        if names[0] not in default:
            message = f"text is measured with the widths of {default[0]}, so a wider family needs smaller sizes"
            warnings.add((*place, name), f"{shown(names[0])}: {message}")
        found[name] = names
    return found


def _colors(given: Mapping[str, str], warnings: LayoutWarnings) -> dict[str, str]:
    found = {name: color for name, (_, color) in layout_options.COLORS.items()}
    for name, color in given.items():
        if _COLOR.fullmatch(color):
            found[name] = color.lower()
            continue
        default = found.setdefault(name, found["ink"])
        warnings.add(("tokens", "colors", name), f"must be #rrggbb, not {shown(color)}; {default} is used instead")
    return found


def _unused(
    tokens: Mapping[str, Any], typography: Typography, components: Mapping[str, Component], warnings: LayoutWarnings
) -> None:
    """Warn of colours and sizes that only the file defines and that no component uses."""
    parts = components.values()
    colors = {color for part in parts for color in (part.color, part.background, part.rule) if color}
    warnings.unknown_names(("tokens", "colors"), tokens.get("colors", {}), (*layout_options.COLORS, *sorted(colors)))
    sizes = dict.fromkeys((*layout_options.SIZES_PT, *(part.size for part in parts)))
    warnings.unknown_names((*_TYPOGRAPHY_PLACE, "sizes_pt"), typography.sizes_pt, sizes)


# -- components ----------------------------------------------------------------------------------------------------


def _components(
    given: Mapping[str, Any] | None,
    arrangement: Arrangement,
    typography: Typography,
    colors: Mapping[str, str],
    warnings: LayoutWarnings,
) -> dict[str, Component]:
    """Return the shown components: those that the file lists and does not set to false; without a list, all except
    ``ON_REQUEST``."""
    known = layout_options.COMPONENTS
    given = {name: name not in layout_options.ON_REQUEST for name in known} if given is None else given
    warnings.unknown_names(("components",), given, known)
    shown_names = [name for name in known if given.get(name, False) is not False]
    if set(shown_names) <= set(layout_options.UNPLACED):
        message = f"shows no part of a block: list more parts, or omit it to show all; known: {', '.join(known)}"
        warnings.add(("components",), message)
    return {
        name: _component(name, given[name], arrangement.columns[name], typography, colors, warnings)
        for name in shown_names
    }


def _component(
    name: str, given: Any, column: str, typography: Typography, colors: Mapping[str, str], warnings: LayoutWarnings
) -> Component:
    look, place = layout_options.COMPONENTS[name], ("components", name)
    options = {} if given is True else warnings.mapping(place, given)
    known = [option for option in (*layout_options.OPTIONS, look.flag) if option and option not in look.without]
    warnings.unknown_names(place, options, known)
    options = {option: value for option, value in options.items() if option in known}

    def choice(option: str, default: str, known: Mapping[str, Any]) -> str:
        return warnings.name((*place, option), options.get(option, default), known, default)

    def color_or_none(option: str, default: str | None) -> str | None:
        value = options.get(option, default)
        return None if value is None else warnings.name((*place, option), value, colors, default or "rule")

    label = options.get("label", look.label)
    if not isinstance(label, str):
        warnings.add((*place, "label"), f"must be a string, not {shown(label)}; {look.label!r} is used instead")
        label = look.label
    return Component(
        name=name,
        column=column,
        size=choice("size", look.size, typography.sizes_pt),
        color=choice("color", look.color, colors),
        background=color_or_none("background", look.background),
        rule=color_or_none("rule", look.rule),
        label=label,
        answer_lines=_flag("answer_lines", look, options, place, warnings),
        line_numbers=bool(_flag("line_numbers", look, options, place, warnings)),
        tick_box=bool(_flag("tick_box", look, options, place, warnings)),
        values=bool(_flag("values", look, options, place, warnings)),
    )


def _flag(option: str, look: Look, options: Mapping[str, Any], place: Place, warnings: LayoutWarnings) -> int:
    """Return the value of ``option``, which only one component has (``Look.flag``). Returns 0 for the other
    components."""
    if look.flag != option:
        return 0
    default = layout_options.FLAGS[option] if look.default is None else look.default
    value = options.get(option, default)
    if isinstance(default, bool):
        if isinstance(value, bool):
            return value
        warnings.add((*place, option), f"must be true or false, not {shown(value)}; {shown(default)} is used instead")
        return default
    count = warnings.number((*place, option), value, 0, layout_options.MAX_ANSWER_LINES, default)
    if count != int(count):
        warnings.add((*place, option), f"must be a whole number, not {shown(value)}; {int(count)} is used instead")
    return int(count)
