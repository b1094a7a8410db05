"""Reads the sheets of a LaTeX file as TeX would split them.

Only known commands with their arguments are accepted, and no other character that is special in TeX.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

ENVIRONMENTS = {"document": "", "CardSheet": "", "CardPart": "------", "CardQuote": "", "tikzpicture": "["}
SHOWN = "t"
_COMMANDS = {
    # By the kinds of their arguments: "t" is shown, "-" is not shown, "u" is an address, "[" is an option.
    "": "bfseries itshape normalfont ttfamily nointerlineskip advance hss useasboundingbox CardTick CardDivision "
    "CardMissingSentence CardBreak CardBreakLine CardTrail CardRowRule CardContinuationMark",
    "-": "CardSkip CardGap CardIndent CardAnswer CardSign CardNumber CardBlank color CardTableRule CardTableGap",
    "--": "CardType CardMark fontsize",
    "---": "CardAnchor CardCaption CardContinues CardCodeNotice",
    "----": "DiagramLink",
    "-----": "CardFill",
    "t": "CardParagraph CardRightParagraph CardCodeLine CardNoteLine CardCode textit textbf hbox",
    "-t": "CardToken CardFields CardField CardTableRow CardGo",
    "--t": "CardLine CardTableCell",
    "----t": "DiagramText",
    "--t-": "CardStopLine",
    "-t-t-": "CardRow",
    "tt": "CardHeader",
    "tttt": "CardFooter",
    "ut": "CardLink",
    "[-": "bookmark",
    "[": "path",
}
COMMANDS = {name: kinds for kinds, names in _COMMANDS.items() for name in names.split()}
CHARACTERS = {"textbackslash": "\\", "textasciicircum": "^", "textasciitilde": "~"}

_TOKEN = re.compile(r"\\([A-Za-z]+)[ \n]*|\\(.)|(% part: [a-z_]+[ a-z0-9/-]*\n)|([^\\%$&#^_~])", re.DOTALL)
_LENGTH = re.compile(r"-[0-9.]+mm")
_OPTION = re.compile(r"\[([A-Za-z0-9 /=,.-]*)\]")
_PLAIN = re.compile(r"\{([A-Za-z0-9 _./,-]*)\}")
_ADDRESS = re.compile(r"\{((?:[^\\%#&$_~{}\s^]|\\[%#&$_]|\\string~)*)\}")
_NUMBERS = re.compile(r"\{(card_name_missing\(\{[0-9, ]*\}\))\}")


@dataclass
class Box:
    """A part of the file: its kind and key, and its shown text without caption and mark."""

    kind: str
    key: str
    text: str = ""


@dataclass
class Read:
    """The content of a file. A bookmark is a level, a key and a title."""

    boxes: list[Box] = field(default_factory=list)
    sheets: int = 0
    goals: list[str] = field(default_factory=list)
    anchors: list[str] = field(default_factory=list)
    bookmarks: list[tuple[int, str, str]] = field(default_factory=list)

    def said(self, kind: str) -> str:
        """The shown text of all parts of a kind, without white space."""
        return "".join("".join(box.text for box in self.boxes if box.kind == kind).split())


class _Reader:
    def __init__(self, source: str) -> None:
        self.found = Read()
        self._source = source
        self._place = 0

    def text(self) -> str:
        shown = self._run(())
        assert self._place == len(self._source)
        return shown

    def address(self) -> str:
        return re.sub(r"\\(?:string)?(.)", r"\1", self._match(_ADDRESS))

    def _run(self, inside: tuple[str, ...]) -> str:
        """Read to the end of the innermost group or environment in ``inside``. Returns the shown text."""
        shown: list[str] = []
        while self._place < len(self._source):
            if self._source[self._place] in "{}":
                self._place += 1
                if self._source[self._place - 1] == "}":
                    assert inside[-1:] == ("{",), self._near()
                    return "".join(shown)
                shown.append(self._run((*inside, "{")))
                continue
            token = _TOKEN.match(self._source, self._place)
            assert token is not None, self._near()
            word, symbol, comment, plain = token.groups()
            assert not comment or self._source[self._place - 1] == "\n", self._near()
            assert not symbol or symbol in " {}$&#%_", self._near()
            self._place = token.end()
            if word == "end":
                assert inside[-1:] == (self._match(_PLAIN),), self._near()
                return "".join(shown)
            if word:
                shown.append(self._command(word, inside))
            elif symbol or inside[-1:] != ("tikzpicture",):  # in a tikzpicture only the words are shown
                shown.append(symbol or plain or "")
        assert inside == (), f"never closed: {inside}"
        return "".join(shown)

    def _command(self, word: str, inside: tuple[str, ...]) -> str:
        if word in CHARACTERS:
            assert self._match(_PLAIN) == ""
            return CHARACTERS[word]
        if word == "begin":
            return self._environment(inside)
        if word == "hsize":
            self._match(_LENGTH)
            return ""
        if word == "directlua":
            self._match(_NUMBERS)  # Lua code, in which an underscore is not special
            return ""
        assert word in COMMANDS, f"\\{word} is none of ours: {self._near()}"
        start = self._place
        if word == "bookmark":
            level, key = (each.partition("=")[2] for each in self._match(_OPTION).split(","))
            self.found.bookmarks.append((int(level), key, self._argument(SHOWN)))
        elif word in ("CardAnchor", "CardGo"):
            (self.found.anchors if word == "CardAnchor" else self.found.goals).append(self._match(_PLAIN))
        self._place = start
        return "".join(self._argument(kind) for kind in COMMANDS[word])

    def _environment(self, inside: tuple[str, ...]) -> str:
        name = self._match(_PLAIN)
        assert name in ENVIRONMENTS, self._near()
        arguments = [self._match(_PLAIN) if kind == "-" else self._argument(kind) for kind in ENVIRONMENTS[name]]
        shown = self._run((*inside, name))
        self.found.sheets += name == "CardSheet"
        if name == "CardPart":
            kind, _, key = arguments[0].partition(" ")
            self.found.boxes.append(Box(kind, key, shown))
        return shown

    def _argument(self, kind: str) -> str:
        if kind in "[u":
            self._match(_OPTION if kind == "[" else _ADDRESS)
            return ""
        if kind != SHOWN and (plain := _PLAIN.match(self._source, self._place)):
            self._place = plain.end()
            return ""
        assert self._source[self._place] == "{", self._near()
        self._place += 1
        shown = self._run(("{",))
        return shown if kind == SHOWN else ""

    def _match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._source, self._place)
        assert found is not None, self._near()
        self._place = found.end()
        return found[found.lastindex or 0]

    def _near(self) -> str:
        return repr(self._source[max(0, self._place - 60) : self._place + 60])


def read(source: str) -> Read:
    """Read the sheets of a whole file. An ``AssertionError`` says where there is an unknown command."""
    reader = _Reader(source[source.index("\\begin{document}") :].removesuffix("\n"))
    reader.text()
    return reader.found


def shown(latex: str) -> str:
    """The characters that a piece of LaTeX shows."""
    return _Reader(latex).text()


def address(latex: str) -> str:
    """The address, without the escapes of LaTeX."""
    return _Reader(f"{{{latex}}}").address()
