"""All names that a layout file can use, their meaning and their defaults.

The schema allows any name in ``components``, ``block_map``, ``typography`` and so on. A name that is not defined here
has no effect, and the checker warns of it. ``templates/README.md`` documents the names for authors; a test compares it
with this module.
"""

from __future__ import annotations

from dataclasses import dataclass

ALL = "all"
"""This name stands for the whole width of the body."""
GUTTER = "gutter"
"""A column of this name is an empty space between two columns."""

VARIANTS = {
    "classic": "one column in reading order, with notes at its side",
    "5a": "goal, code, question, diagram and machine state as a grid with a left and a right role",
    "5b": "the five parts side by side",
}
"""The emitters. An emitter uses the columns of ``grid.columns`` if their number suits it (two for ``classic`` and
``5a``, three or more for ``5b``), otherwise its default columns (``EMITTER_COLUMNS``)."""
EMITTER_COLUMNS = {
    "classic": {"side": 3.0, "main": 8.0},
    "5a": {"left": 5.0, "right": 7.0},
    "5b": {"goal": 5.0, "code": 8.0, "question": 4.0, "diagram": 5.0, "machine": 5.0},
}
"""The emitters' default columns from left to right, and their shares of the width if ``geometry_cm`` gives none. The
first column has the ``left_role``, the last one the ``right_role``. The default columns of ``classic`` have the roles
notes and reading instead."""
FIVE_PARTS = {
    "goal": ("goal", "step_title", "text"),
    "code": ("intro", "overview", "activity", "code"),
    "question": ("question",),
    "diagram": ("states", "memory"),
    "machine": ("machine", "explanation", "notes"),
}
"""The components of columns with these names, unless ``block_map`` places them elsewhere."""

ROLES = {
    "guide": ("leads through the steps", ("intro", "goal", "step_title", "text", "question", "notes")),
    "evidence": (
        "shows what the steps describe",
        ("overview", "activity", "states", "code", "memory", "machine", "explanation"),
    ),
    "reading": (
        "has everything except the notes, in reading order",
        (
            "intro",
            "overview",
            "goal",
            "activity",
            "states",
            "step_title",
            "text",
            "code",
            "question",
            "memory",
            "machine",
            "explanation",
        ),
    ),
    "notes": ("has the notes", ("notes",)),
}
"""The components of a column with this role, unless ``block_map`` places them elsewhere."""


@dataclass(frozen=True)
class Look:
    """A component's description and default options. ``flag`` names an option that only few components have;
    ``default`` is its default if it differs from ``FLAGS``. ``without`` lists the names in ``OPTIONS`` that the
    component does not have."""

    about: str
    size: str
    color: str = "ink"
    background: str | None = None
    rule: str | None = None
    label: str = ""
    flag: str = ""
    default: int | bool | None = None
    without: tuple[str, ...] = ()


_EDGE, _TITLE, _DIAGRAM = ("background", "label"), ("label",), ("size", "color")
"""Options that header and footer, titles, and diagrams do not have. A diagram has fixed type sizes, so that it is
readable in a narrow column too, and the colour of a shape depends on its kind."""

COMPONENTS = {
    "header": Look("The head of every sheet: card, task and block", "label", "ink_soft", rule="rule", without=_EDGE),
    "name_date": Look("A line to write name and date on, on the front", "body", label="Name, Date"),
    "card_title": Look("The card's title, on the front", "title", without=_TITLE),
    "task_title": Look("A task's title, above its first block", "block", "accent", without=_TITLE),
    "block_title": Look("A block's title", "block", without=_TITLE),
    "phase_title": Look("A phase's title", "phase", "accent", without=_TITLE),
    "step_title": Look("A step's title", "step", flag="tick_box", without=_TITLE),
    "intro": Look("The text of the card, a task, a block or a phase", "body"),
    "goal": Look("A block's goal", "body", rule="accent", label="Goal"),
    "overview": Look(
        "UML activity of the card: tasks and blocks, on the front",
        "label",
        "ink_soft",
        label="Overview",
        without=_DIAGRAM,
    ),
    "activity": Look(
        "UML activity of a block: its phases and steps", "label", "ink_soft", label="The way", without=_DIAGRAM
    ),
    "states": Look(
        "UML states of a block: its snapshots",
        "label",
        "ink_soft",
        label="States",
        flag="values",
        default=False,  # the diagram is above the questions
        without=_DIAGRAM,
    ),
    "text": Look("A step's text", "body"),
    "code": Look("A step's lines of source", "code", background="panel", label="Code", flag="line_numbers"),
    "notes": Look("Where a snapshot stops, and what to watch", "label", "ink_soft", rule="current", label="Stop"),
    "question": Look("A step's question", "body", background="accent_soft", label="Question", flag="answer_lines"),
    "memory": Look("The arena's memory at a snapshot", "label", "ink_soft", label="Memory", without=_DIAGRAM),
    "machine": Look("What the machine holds at a snapshot", "code", background="panel", label="Machine", flag="values"),
    "explanation": Look("What explains the values of a snapshot", "body", label="Explanation"),
    "colophon": Look(
        "At the end: layout, revision and limitations", "label", "ink_soft", rule="rule", label="Colophon"
    ),
    "footer": Look(
        "The foot of every sheet: id, version, SHA-256 and the sheet's number",
        "label",
        "ink_soft",
        rule="rule",
        without=_EDGE,
    ),
}
"""The components of a card in reading order. If a file has no ``components``, all are shown except
``ON_REQUEST``."""

OPTIONS = {
    "size": "the name of a type size",
    "color": "the name of a colour, of its text",
    "background": "the name of a colour behind it, or null",
    "rule": "the name of the colour of the line at its left edge (below the header, above the footer), or null",
    "label": 'the word that its caption begins with; "" is none. For name_date, the names of its fields',
}
"""The options of all components, except those that list them in ``without``."""
FLAGS: dict[str, int | bool] = {"tick_box": True, "line_numbers": True, "values": True, "answer_lines": 2}
"""Options that only few components have (``Look.flag``), and their defaults: whether a step title has a tick box,
whether code lines are numbered, whether values are shown or left to be filled in, and how many answer lines a question
has."""
MAX_ANSWER_LINES = 12
VALUES = ("memory", "machine", "explanation")
"""The components that reveal the answer at a stop: its values, and their explanation."""
ON_REQUEST = ("name_date", "explanation")
"""The components that are shown only if a file lists them: those of a handout and of an answer key."""
DIAGRAMS = ("overview", "activity", "states", "memory")
UNPLACED = ("header", "footer", "name_date", "card_title", "colophon")
"""Components that always span the sheet: ``block_map`` cannot move them."""

FORMATS = {
    "A3": (297.0, 420.0),
    "A4": (210.0, 297.0),
    "A5": (148.0, 210.0),
    "Letter": (215.9, 279.4),
    "Legal": (215.9, 355.6),
}
"""Paper sizes in mm, in portrait. Another format needs ``page_width`` and ``page_height`` in ``geometry_cm``."""

GEOMETRY_CM = {
    "page_width": ("of a format that is not known", 0.0),
    "page_height": ("of a format that is not known", 0.0),
    "margin_top": ("above the header", 1.2),
    "margin_right": ("right of the last column", 1.5),
    "margin_bottom": ("below the footer", 1.0),
    "margin_left": ("left of the first column", 1.5),
    "header": ("height of the header, with the distance to the parts", 1.0),
    "footer": ("height of the footer, with the distance to the parts", 0.9),
    "gutter": ("width of a gutter", 0.6),
    "row_gap": ("between two parts, one below the other", 0.3),
}
"""The lengths in ``geometry_cm`` with their meaning and default. In addition, a column's name gives its width; columns
without a width share the rest."""

FAMILIES = {"text": ("Noto Sans", "sans-serif"), "code": ("Noto Sans Mono", "monospace")}
SIZES_PT = {"title": 20.0, "block": 14.0, "phase": 11.0, "step": 10.0, "body": 9.5, "label": 7.5, "code": 8.0}
LINE_HEIGHT = {"title": 1.2, "block": 1.25, "phase": 1.3, "step": 1.35, "body": 1.45, "label": 1.4, "code": 1.4}
OTHER_LINE_HEIGHT = 1.4
"""The default for a size that only the file defines."""
WEIGHTS = {"regular": 400, "strong": 700}

COLORS = {
    "paper": ("the sheet", "#ffffff"),
    "ink": ("text", "#1c2128"),
    "ink_soft": ("secondary text", "#4f5965"),
    "rule": ("lines", "#c9d0d8"),
    "panel": ("behind code and values", "#f4f6f8"),
    "accent": ("headings and links", "#0b5a8f"),
    "accent_soft": ("behind questions", "#e4f0f8"),
    "current": ("the mark of a stop, the pointer of the memory, the current position", "#8a4b00"),
    "current_soft": ("behind a line at which the program stops, and the current position", "#fdf0dc"),
    "code_keyword": ("keywords and directives of code", "#7a2f8f"),
    "code_type": ("types in code", "#0a5c8c"),
    "code_string": ("strings in code", "#1d6b39"),
    "code_number": ("numbers in code", "#97322a"),
    "code_comment": ("comments in code", "#5a646e"),
    "arena_used": ("allocated memory", "#b9d0e2"),
    "arena_padding": ("padding for alignment", "#e3b85f"),
    "arena_free": ("free memory", "#edf0f3"),
}

LIMITATIONS = {"all": "Limitation", "html": "Limitation of the HTML", "latex": "Limitation of the PDF"}
"""The output that a limitation concerns, as a label for the checker and the colophon."""
