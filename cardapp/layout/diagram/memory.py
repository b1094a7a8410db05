"""The memory map of an arena: its zones one below the other, offsets at their left, marks at their right.

A block of one byte must be readable beside one of a megabyte, so heights grow with sizes but are not to scale;
``strip`` is to scale, and names only what has room for its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from cardapp.layout.diagram.arena import Arena, Zone, zones
from cardapp.layout.diagram.model import Box, Diagram, Mark, MarkKind, Node, Point, Room, Text
from cardapp.layout.diagram.text_lines import NAME, SMALL, below, centred, height, one_line, plain
from cardapp.layout.metrics import Face, width

_LEAST = {"used": 5.0, "padding": 3.6, "free": 5.0, "folded": 5.0}
"""Heights of zones before they grow with their sizes."""
_GROWTH, _EACH = 36.0, 6.0
"""At most so much is added to all zones together, and so much for each of them on average."""
_COMFORTABLE, _MOST_STACK = 30.0, 56.0
"""Widths of the zones: what each of several columns has at least, and any column at most."""
_MOST_OFFSET = 14.0
_OFFSET_GAP, _MARK_GAP = 1.4, 2.6
_GUTTER = 6.0
_MARGIN = 1.6
"""Above the first and below the last zone: half of an offset's line stands out there."""
_STRIP, _OVERHANG = 7.0, 1.2
_INSET = 1.8
_WATER = "high water"


def memory_map(key: str, title: str, arena: Arena, room: Room) -> Diagram:
    """The map of the arena at the snapshot ``key``, which is called ``title``. Where the room is too small for all
    blocks, one line stands for those in the middle."""
    sheet = _Sheet(key, arena, zones(arena), room)
    zoned = sheet.columns()
    columns = [sheet.column(number, len(zoned), column) for number, column in enumerate(zoned)]
    length = len(columns) * sheet.pitch(len(columns)) - _GUTTER
    base = () if arena.base is None else _base(arena.base, sheet.stack_left, length)
    return Diagram(
        id=f"memory.{key}",
        title=f"Memory: {plain(title)}",
        description=described(arena),
        width=length,
        height=max(column.nodes[-1].box.bottom for column in columns) + _MARGIN,
        nodes=tuple(node for column in columns for node in column.nodes),
        marks=tuple(mark for column in columns for mark in column.marks),
        notes=(*base, *(note for column in columns for note in column.notes)),
    )


def _base(base: int, left: float, right: float) -> tuple[Text, ...]:
    return below((one_line(f"base {base:#x}", right - left, SMALL, "code"),), left, 0.2, SMALL, "code", tone="soft")


def described(arena: Arena) -> str:
    """One sentence about the arena: how much of it is used, by how many blocks."""
    used = arena.used or 0
    said = f"{used} bytes used" if not arena.size else f"{used} of {arena.size} bytes used ({used / arena.size:.0%})"
    if arena.count:
        said += f", {arena.count} {'block' if arena.count == 1 else 'blocks'}"
    return said if arena.high_water is None else f"{said}, high water {arena.high_water}"


def strip(key: str, title: str, arena: Arena, length: float) -> Diagram:
    """The arena as one bar of ``length`` mm, to scale."""
    found = zones(arena)
    scale = length / max(found[-1].end or found[-1].start, 1)
    ends = [*(zone.start * scale for zone in found[1:]), length]
    nodes = tuple(_bar(f"{key}:{number}", *of, scale) for number, of in enumerate(zip(found, ends, strict=True)))
    bottom = _STRIP + 2 * _OVERHANG
    marks = tuple(
        Mark(kind, Point(x, 0), Point(x, bottom), f"{', '.join(names)} at offset {offset}", ())
        for kind, names, offset in _marks(arena)
        if (x := offset * scale) <= length
    )
    return Diagram(f"strip.{key}", f"Memory: {plain(title)}", described(arena), length, bottom, nodes, marks=marks)


def _bar(name: str, zone: Zone, end: float, scale: float) -> Node:
    box = Box(zone.start * scale, _OVERHANG, end - zone.start * scale, _STRIP)
    said = plain(zone.name)
    fits = width(said, SMALL) + 1 <= box.width
    lines = centred((said,), box.centre.x, box.centre.y, SMALL) if fits else ()
    return Node(name, zone.use, box, _whole(zone), lines)


def _whole(zone: Zone) -> str:
    amount = f"{zone.amount} at offset {zone.start}" if zone.amount else f"from offset {zone.start} on"
    return f"{plain(zone.name)}: {amount}"


def _marks(arena: Arena) -> Iterator[tuple[MarkKind, tuple[str, ...], int]]:
    """Kind, names and offset of each mark; where both stand at one place, one mark has both names."""
    used, water = arena.used, arena.high_water
    if used is not None:
        yield "pointer", ("used", _WATER) if used == water else ("used",), used
    if water is not None and water > (used or 0):
        yield "water", (_WATER,), water


@dataclass(frozen=True)
class _Sheet:
    """The places of a map in its room."""

    key: str
    arena: Arena
    zones: Sequence[Zone]
    room: Room

    @property
    def stack_left(self) -> float:
        """Where the zones begin, behind the longest offset."""
        last = self.zones[-1].end or self.zones[-1].start
        return min(width(str(last), SMALL, "code"), _MOST_OFFSET) + _OFFSET_GAP

    @property
    def _beside(self) -> float:
        """What offsets and marks take beside the zones of a column."""
        return self.stack_left + _MARK_GAP + width(_WATER, SMALL)

    @property
    def _top(self) -> float:
        return _MARGIN if self.arena.base is None else height(1, SMALL) + _MARGIN

    @property
    def _available(self) -> float:
        return self.room.height - self._top - _MARGIN

    @property
    def _most(self) -> int:
        """How many columns there may be: more than one only where each is comfortably wide."""
        return max(1, int((self.room.width + _GUTTER) / (self._beside + _COMFORTABLE + _GUTTER)))

    def columns(self) -> list[list[Zone]]:
        """The zones in as few columns as hold them; of too many, those in the middle are folded into one."""
        for count in range(1, self._most + 1):
            packed = _packed(self.zones, self._available)
            if len(packed) <= count:
                return packed
        kept = self._most * (int(self._available / _LEAST["used"]) - 1) - 1
        first, last = self.zones[: (kept + 1) // 2], self.zones[len(self.zones) - kept // 2 :]
        hidden = sum(zone.use == "used" for zone in self.zones[len(first) : len(self.zones) - len(last)])
        folded = Zone("folded", first[-1].end or 0, last[0].start, f"{hidden} more blocks")
        return _packed([*first, folded, *last], self._available)

    def pitch(self, count: int) -> float:
        """From one of ``count`` columns to the next."""
        room = (self.room.width + _GUTTER) / count - _GUTTER - self._beside
        return self._beside + min(room, _MOST_STACK) + _GUTTER

    def column(self, number: int, count: int, column: Sequence[Zone]) -> _Column:
        """The shapes of a column; one that stands alone grows with its zones' sizes as far as the room allows."""
        left = number * self.pitch(count) + self.stack_left
        stack = self.pitch(count) - _GUTTER - self._beside
        least, size = sum(_LEAST[zone.use] for zone in column), sum(zone.size for zone in column)
        growth = min(_GROWTH, _EACH * len(column), self._available - least) / size if count == 1 and size else 0.0
        made, top = _Column(left, left + stack), self._top
        for zone in column:
            box = Box(left, top, stack, _LEAST[zone.use] + growth * zone.size)
            made.add(f"{self.key}:{number}:{len(made.nodes)}", zone, box)
            top = box.bottom
        made.mark(self.arena, self._top - _MARGIN, top + _MARGIN)
        return made


@dataclass
class _Column:
    """The shapes of a column whose zones reach from ``left`` to ``right``."""

    left: float
    right: float
    zones: list[Zone] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    notes: list[Text] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)

    def add(self, name: str, zone: Zone, box: Box) -> None:
        if not self.nodes:
            self._offset(zone.start, box.y)
        if zone.end is not None:
            self._offset(zone.end, box.bottom)
        self.zones.append(zone)
        self.nodes.append(Node(name, zone.use, box, _whole(zone), _named(zone, box)))

    def _offset(self, offset: int, y: float) -> None:
        label = one_line(str(offset), _MOST_OFFSET, SMALL, "code")
        self.notes += centred((label,), self.left - _OFFSET_GAP, y, SMALL, "code", "end", "soft")

    def mark(self, arena: Arena, top: float, bottom: float) -> None:
        """The marks that lie in the column; what they say stays between ``top`` and ``bottom``."""
        for kind, names, offset in _marks(arena):
            y = self._height_of(offset)
            if y is not None:
                half = height(len(names), SMALL) / 2
                lines = centred(
                    names, self.right + _MARK_GAP, max(top + half, min(y, bottom - half)), SMALL, anchor="start"
                )
                start, end = Point(self.left, y), Point(self.right + _MARK_GAP - 0.8, y)
                self.marks.append(Mark(kind, start, end, f"{', '.join(names)} at offset {offset}", lines))

    def _height_of(self, offset: int) -> float | None:
        """Where one zone ends and the next begins at ``offset``; a mark inside a zone would say nothing."""
        ends = (node.box.bottom for zone, node in zip(self.zones, self.nodes, strict=True) if zone.end == offset)
        return next(ends, self.nodes[0].box.y if self.zones[0].start == offset else None)


def _packed(found: Sequence[Zone], limit: float) -> list[list[Zone]]:
    columns: list[list[Zone]] = []
    taken = limit
    for zone in found:
        if taken + _LEAST[zone.use] > limit:
            columns.append([])
            taken = 0.0
        columns[-1].append(zone)
        taken += _LEAST[zone.use]
    return columns


def _named(zone: Zone, box: Box) -> tuple[Text, ...]:
    """A zone's name at its left, its size at its right where both have room."""
    room, middle = box.width - 2 * _INSET, box.centre.y
    amount = f"{zone.size} B" if zone.end is not None else "…"
    taken = width(amount, SMALL)
    if taken > 0.6 * room:
        amount, taken = "", 0.0
    em = NAME if zone.use == "used" else SMALL
    face: Face = "strong" if zone.use == "used" else "regular"
    name = one_line(plain(zone.name), room - taken - 1, em, face)
    sizes = centred((amount,), box.right - _INSET, middle, SMALL, anchor="end") if amount else ()
    return (*centred((name,), box.x + _INSET, middle, em, face, "start"), *sizes)
