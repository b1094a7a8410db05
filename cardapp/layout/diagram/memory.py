"""Draws the memory map of an arena: its regions one below the other, offsets at the left, marks at the right.

A block of one byte must be readable beside a block of one megabyte. So heights grow with sizes, but are not to scale.
``strip`` is to scale, and labels only regions with enough space.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from cardapp.layout.diagram.arena import Arena, Region, regions
from cardapp.layout.diagram.shapes import Box, Diagram, Mark, MarkKind, Node, Point, Room, Text
from cardapp.layout.diagram.text_lines import NAME, SMALL, below, centred, height, one_line, plain
from cardapp.layout.font_metrics import Face, width

_MIN_HEIGHT = {"used": 5.0, "padding": 3.6, "free": 5.0, "folded": 5.0}
"""Minimum heights of regions, by their use."""
_GROWTH, _EACH = 36.0, 6.0
"""Limits of the height in mm that is added to the minimum heights: in total, and per region on average."""
_COMFORTABLE, _MAX_STACK = 30.0, 56.0
"""Minimum width of the regions if there are several columns, and their maximum width for any number of columns."""
_MAX_OFFSET = 14.0
_OFFSET_GAP, _MARK_GAP = 1.4, 2.6
_GUTTER = 6.0
_MARGIN = 1.6
"""Space above the first and below the last region, because half of an offset's text extends beyond the region."""
_STRIP, _OVERHANG = 7.0, 1.2
"""Height of the bar of a strip, and how far its marks extend above and below the bar."""
_INSET = 1.8
_WATER = "high water"


def memory_map(key: str, title: str, arena: Arena, room: Room) -> Diagram:
    """Draw the memory map of the arena at the snapshot ``key`` with the title ``title``. If the room is too small for
    all blocks, the blocks in the middle are folded into one region."""
    geometry = _Geometry(key, arena, regions(arena), room)
    columns_of_regions = geometry.columns()
    columns = [
        geometry.column(number, len(columns_of_regions), column) for number, column in enumerate(columns_of_regions)
    ]
    full_width = len(columns) * geometry.pitch(len(columns)) - _GUTTER
    base = () if arena.base is None else _base(arena.base, geometry.stack_left, full_width)
    return Diagram(
        id=f"memory.{key}",
        title=f"Memory: {plain(title)}",
        description=occupancy(arena),
        width=full_width,
        height=max(column.nodes[-1].box.bottom for column in columns) + _MARGIN,
        nodes=tuple(node for column in columns for node in column.nodes),
        marks=tuple(mark for column in columns for mark in column.marks),
        notes=(*base, *(note for column in columns for note in column.notes)),
    )


def _base(base: int, left: float, right: float) -> tuple[Text, ...]:
    return below((one_line(f"base {base:#x}", right - left, SMALL, "code"),), left, 0.2, SMALL, "code", tone="soft")


def occupancy(arena: Arena) -> str:
    """Describe the occupancy of the arena in one sentence."""
    used = arena.used or 0
    text = f"{used} bytes used" if not arena.size else f"{used} of {arena.size} bytes used ({used / arena.size:.0%})"
    if arena.count:
        text += f", {arena.count} {'block' if arena.count == 1 else 'blocks'}"
    return text if arena.high_water is None else f"{text}, high water {arena.high_water}"


def strip(key: str, title: str, arena: Arena, length: float) -> Diagram:
    """Draw the arena as one bar of ``length`` mm, to scale."""
    found = regions(arena)
    scale = length / max(found[-1].end or found[-1].start, 1)
    ends = [*(region.start * scale for region in found[1:]), length]
    nodes = tuple(_bar(f"{key}:{number}", *of, scale) for number, of in enumerate(zip(found, ends, strict=True)))
    bottom = _STRIP + 2 * _OVERHANG
    marks = tuple(
        Mark(kind, Point(x, 0), Point(x, bottom), f"{', '.join(names)} at offset {offset}", ())
        for kind, names, offset in _marks(arena)
        if (x := offset * scale) <= length
    )
    return Diagram(f"strip.{key}", f"Memory: {plain(title)}", occupancy(arena), length, bottom, nodes, marks=marks)


def _bar(name: str, region: Region, end: float, scale: float) -> Node:
    box = Box(region.start * scale, _OVERHANG, end - region.start * scale, _STRIP)
    name_text = plain(region.name)
    fits = width(name_text, SMALL) + 1 <= box.width
    lines = centred((name_text,), box.centre.x, box.centre.y, SMALL) if fits else ()
    return Node(name, region.use, box, _region_title(region), lines)


def _region_title(region: Region) -> str:
    amount = f"{region.amount} at offset {region.start}" if region.amount else f"from offset {region.start} on"
    return f"{plain(region.name)}: {amount}"


def _marks(arena: Arena) -> Iterator[tuple[MarkKind, tuple[str, ...], int]]:
    """Yield the kind, names and offset of each mark. Two marks with the same offset become one mark with both names."""
    used, water = arena.used, arena.high_water
    if used is not None:
        yield "pointer", ("used", _WATER) if used == water else ("used",), used
    if water is not None and water > (used or 0):
        yield "water", (_WATER,), water


@dataclass(frozen=True)
class _Geometry:
    """The geometry of a memory map."""

    key: str
    arena: Arena
    regions: Sequence[Region]
    room: Room

    @property
    def stack_left(self) -> float:
        """The left edge of the regions, right of the longest offset."""
        last = self.regions[-1].end or self.regions[-1].start
        return min(width(str(last), SMALL, "code"), _MAX_OFFSET) + _OFFSET_GAP

    @property
    def _beside(self) -> float:
        """The width of offsets and marks beside the regions of a column."""
        return self.stack_left + _MARK_GAP + width(_WATER, SMALL)

    @property
    def _top(self) -> float:
        return _MARGIN if self.arena.base is None else height(1, SMALL) + _MARGIN

    @property
    def _available(self) -> float:
        return self.room.height - self._top - _MARGIN

    @property
    def _max_columns(self) -> int:
        """The maximum number of columns. It is more than one only if each column has a comfortable width."""
        return max(1, int((self.room.width + _GUTTER) / (self._beside + _COMFORTABLE + _GUTTER)))

    def columns(self) -> list[list[Region]]:
        """Divide the regions into as few columns as possible. If they do not fit, those in the middle are folded into
        one."""
        packed = _packed(self.regions, self._available)
        if len(packed) <= self._max_columns:
            return packed
        kept = self._max_columns * (int(self._available / _MIN_HEIGHT["used"]) - 1) - 1
        first, last = self.regions[: (kept + 1) // 2], self.regions[len(self.regions) - kept // 2 :]
        hidden = sum(region.use == "used" for region in self.regions[len(first) : len(self.regions) - len(last)])
        folded = Region("folded", first[-1].end or 0, last[0].start, f"{hidden} more blocks")
        return _packed([*first, folded, *last], self._available)

    def pitch(self, count: int) -> float:
        """Return the distance between the left edges of ``count`` columns."""
        room = (self.room.width + _GUTTER) / count - _GUTTER - self._beside
        return self._beside + min(room, _MAX_STACK) + _GUTTER

    def column(self, number: int, count: int, column: Sequence[Region]) -> _Column:
        """Make the shapes of a column. In a single column, heights grow with the regions' sizes as far as the room
        allows."""
        left = number * self.pitch(count) + self.stack_left
        stack = self.pitch(count) - _GUTTER - self._beside
        least, size = sum(_MIN_HEIGHT[region.use] for region in column), sum(region.size for region in column)
        growth = min(_GROWTH, _EACH * len(column), self._available - least) / size if count == 1 and size else 0.0
        made, top = _Column(left, left + stack), self._top
        for region in column:
            box = Box(left, top, stack, _MIN_HEIGHT[region.use] + growth * region.size)
            made.add(f"{self.key}:{number}:{len(made.nodes)}", region, box)
            top = box.bottom
        made.mark(self.arena, self._top - _MARGIN, top + _MARGIN)
        return made


@dataclass
class _Column:
    """The shapes of a column; its regions reach from ``left`` to ``right``."""

    left: float
    right: float
    regions: list[Region] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    notes: list[Text] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)

    def add(self, name: str, region: Region, box: Box) -> None:
        if not self.nodes:
            self._offset(region.start, box.y)
        if region.end is not None:
            self._offset(region.end, box.bottom)
        self.regions.append(region)
        self.nodes.append(Node(name, region.use, box, _region_title(region), _named(region, box)))

    def _offset(self, offset: int, y: float) -> None:
        label = one_line(str(offset), _MAX_OFFSET, SMALL, "code")
        self.notes += centred((label,), self.left - _OFFSET_GAP, y, SMALL, "code", "end", "soft")

    def mark(self, arena: Arena, top: float, bottom: float) -> None:
        """Add the marks within the column; their texts stay between ``top`` and ``bottom``."""
        for kind, names, offset in _marks(arena):
            y = self._y_of(offset)
            if y is not None:
                half = height(len(names), SMALL) / 2
                lines = centred(
                    names, self.right + _MARK_GAP, max(top + half, min(y, bottom - half)), SMALL, anchor="start"
                )
                start, end = Point(self.left, y), Point(self.right + _MARK_GAP - 0.8, y)
                self.marks.append(Mark(kind, start, end, f"{', '.join(names)} at offset {offset}", lines))

    def _y_of(self, offset: int) -> float | None:
        """Return the y position of the border between two regions at ``offset``. Returns None if ``offset`` is inside a
        region, because positions within a region are not to scale."""
        ends = (node.box.bottom for region, node in zip(self.regions, self.nodes, strict=True) if region.end == offset)
        return next(ends, self.nodes[0].box.y if self.regions[0].start == offset else None)


def _packed(found: Sequence[Region], limit: float) -> list[list[Region]]:
    columns: list[list[Region]] = []
    taken = limit
    for region in found:
        if taken + _MIN_HEIGHT[region.use] > limit:
            columns.append([])
            taken = 0.0
        columns[-1].append(region)
        taken += _MIN_HEIGHT[region.use]
    return columns


def _named(region: Region, box: Box) -> tuple[Text, ...]:
    """Place a region's name at the left, and its size at the right if there is space for both."""
    room, middle = box.width - 2 * _INSET, box.centre.y
    amount = f"{region.size} B" if region.end is not None else "…"
    taken = width(amount, SMALL)
    if taken > 0.6 * room:
        amount, taken = "", 0.0
    em = NAME if region.use == "used" else SMALL
    face: Face = "strong" if region.use == "used" else "regular"
    name = one_line(plain(region.name), room - taken - 1, em, face)
    if amount and width(name, em, face) > room - taken - 1:  # a wide character alone has no room beside the size
        amount, name = "", one_line(plain(region.name), room, em, face)
    sizes = centred((amount,), box.right - _INSET, middle, SMALL, anchor="end") if amount else ()
    return (*centred((name,), box.x + _INSET, middle, em, face, "start"), *sizes)
