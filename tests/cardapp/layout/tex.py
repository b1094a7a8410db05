"""Reads the sheets of a LaTeX file as TeX would split them.

Only known commands with their arguments are accepted, and no other character that is special in TeX.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

ENVIRONMENTS = {"document": "", "CardSheet": "", "CardPart": "------", "CardQuote": "", "tikzpicture": "["}
SHOWN = "t"
COMMANDS = {
    # Kinds of arguments: "t" is shown, "-" is not shown, "u" is an address, "[" is an option.
    **dict.fromkeys(("bfseries", "itshape", "normalfont", "ttfamily", "nointerlineskip", "advance", "CardTick"), ""),
    **dict.fromkeys(
        (
            "CardDivision",
            "CardMissingSentence",
            "CardBreak",
            "hss",
            "CardBreakLine",
            "CardTrail",
            "CardRowRule",
            "CardContinuationMark",
        ),
        "",
    ),
    **dict.fromkeys(
        ("CardSkip", "CardGap", "CardIndent", "CardAnswer", "CardSign", "CardNumber", "CardBlank", "color"), "-"
    ),
    **dict.fromkeys(("CardType", "CardMark", "fontsize"), "--"),
    **dict.fromkeys(("CardAnchor", "CardCaption", "CardContinues", "CardCodeNotice"), "---"),
    **dict.fromkeys(("CardParagraph", "CardRightParagraph", "CardCodeLine", "CardNoteLine", "CardCode"), "t"),
    **dict.fromkeys(("textit", "textbf", "hbox"), "t"),
    "CardLine": "--t",
    "CardStopLine": "--t-",
    "CardRow": "-t-t-",
    "CardToken": "-t",
    "CardHeader": "tt",
    "CardFields": "-t",
    "CardField": "-t",
    "CardTableRow": "-t",
    "CardTableCell": "--t",
    "CardTableRule": "-",
    "CardTableGap": "-",
    "CardFooter": "tttt",
    "CardLink": "ut",
    "CardGo": "-t",
    "CardFill": "-----",
    "bookmark": "[-",
    "path": "[",
    "useasboundingbox": "",
    "DiagramText": "----t",
    "DiagramLink": "----",
    "directlua": "-",
}
CHARACTERS = {"textbackslash": "\\", "textasciicircum": "^", "textasciitilde": "~"}

_TOKEN = re.compile(r"\\([A-Za-z]+)[ \n]*|\\(.)|(% part: [a-z_]+[ a-z0-9/-]*\n)|([^\\%$&#^_~])", re.DOTALL)
_LENGTH = re.compile(r"-[0-9.]+mm")
_OPTION = re.compile(r"\[([A-Za-z0-9 /=,.-]*)\]")
_PLAIN = re.compile(r"\{([A-Za-z0-9 _./,-]*)\}")
_ADDRESS = re.compile(r"\{((?:[^\\%#&$_~{}\s^]|\\[%#&$_]|\\string~)*)\}")
_NUMBERS = re.compile(r"card_name_missing\(\{[0-9, ]*\}\)")


@dataclass
class Box:
    """A part of the file: its kind and key, and its shown text without caption and mark."""

    kind: str
    key: str
    text: str = ""


@dataclass
class Read:
    """The content of a file."""

    boxes: list[Box] = field(default_factory=list)
    sheets: int = 0
    addresses: list[str] = field(default_factory=list)
    goals: list[str] = field(default_factory=list)
    anchors: list[str] = field(default_factory=list)
    bookmarks: list[tuple[int, str, str]] = field(default_factory=list)
    """Level, key and title."""

    def said(self, kind: str) -> str:
        """The shown text of all parts of a kind, without white space."""
        return "".join("".join(box.text for box in self.boxes if box.kind == kind).split())


class _Reader:
    def __init__(self, source: str) -> None:
        self.found = Read()
        self._source = source
        self._place = 0

    def body(self) -> Read:
        assert self._source[self._place :].startswith("\\begin{document}")
        self._run(())
        assert self._place == len(self._source)
        return self.found

    def text(self) -> str:
        shown = self._run(())
        assert self._place == len(self._source)
        return shown

    def _run(self, inside: tuple[str, ...]) -> str:
        """Read to the end of the innermost group or environment in ``inside``. Returns the shown text."""
        shown: list[str] = []
        while self._place < len(self._source):
            if self._source[self._place] == "{":
                self._place += 1
                shown.append(self._run((*inside, "{")))
                continue
            if self._source[self._place] == "}":
                assert inside[-1:] == ("{",), self._near()
                self._place += 1
                return "".join(shown)
            piece, ended = self._token(inside)
            shown.append(piece)
            if ended:
                return "".join(shown)
        assert inside == (), f"never closed: {inside}"
        return "".join(shown)

    def _token(self, inside: tuple[str, ...]) -> tuple[str, bool]:
        token = _TOKEN.match(self._source, self._place)
        assert token is not None, self._near()
        word, symbol, comment, plain = token.groups()
        self._place = token.end()
        if comment:
            assert self._source[token.start() - 1] == "\n", self._near()
        if word == "end":
            name = self._raw()
            assert inside[-1:] == (name,), self._near()
            return "", True
        if word:
            return self._command(word, inside), False
        if symbol:
            assert symbol in " {}$&#%_", self._near()
        # Of a tikzpicture only the words count as shown text.
        return (symbol or ("" if inside[-1:] == ("tikzpicture",) else plain) or ""), False

    def _command(self, word: str, inside: tuple[str, ...]) -> str:
        if word in CHARACTERS:
            assert self._raw() == ""
            return CHARACTERS[word]
        if word == "begin":
            return self._environment(inside)
        if word == "hsize":
            length = _LENGTH.match(self._source, self._place)
            assert length is not None, self._near()
            self._place = length.end()
            return ""
        assert word in COMMANDS, f"\\{word} is none of ours: {self._near()}"
        if word in ("bookmark", "CardAnchor", "CardGo", "directlua"):
            self._note(word)
        return "".join(self._argument(kind) for kind in COMMANDS[word])

    def _environment(self, inside: tuple[str, ...]) -> str:
        name = self._raw()
        assert name in ENVIRONMENTS, self._near()
        arguments = [self._raw() if kind == "-" else self._argument(kind) for kind in ENVIRONMENTS[name]]
        shown = self._run((*inside, name))
        self.found.sheets += name == "CardSheet"
        if name == "CardPart":
            kind, _, key = arguments[0].partition(" ")
            self.found.boxes.append(Box(kind, key, shown))
        return shown

    def _argument(self, kind: str) -> str:
        if kind == "[":
            option = _OPTION.match(self._source, self._place)
            assert option is not None, self._near()
            self._place = option.end()
            return ""
        if kind == "u":
            self.found.addresses.append(self._address())
            return ""
        if kind != SHOWN and (plain := _PLAIN.match(self._source, self._place)):
            self._place = plain.end()
            return ""
        assert self._source[self._place] == "{", self._near()
        self._place += 1
        shown = self._run(("{",))
        return shown if kind == SHOWN else ""

    def _raw(self) -> str:
        """An argument of plain characters only."""
        found = _PLAIN.match(self._source, self._place)
        assert found is not None, self._near()
        self._place = found.end()
        return found[1]

    def _address(self) -> str:
        found = _ADDRESS.match(self._source, self._place)
        assert found is not None, self._near()
        self._place = found.end()
        return re.sub(r"\\(?:string)?(.)", r"\1", found[1])

    def _note(self, word: str) -> None:
        """Records the first arguments of a command, and resets the position so that they are also read as arguments."""
        start = self._place
        if word == "bookmark":
            option = _OPTION.match(self._source, start)
            assert option is not None, self._near()
            level, key = (each.partition("=")[2] for each in option[1].split(","))
            self._place = option.end()
            self.found.bookmarks.append((int(level), key, self._argument(SHOWN)))
        elif word == "directlua":
            assert _NUMBERS.match(self._source, start + 1), self._near()
            # The argument is Lua code, in which an underscore is not special.
            self._source = self._source[: start + 1] + self._source[self._source.index("}", start) + 2 :]
        else:
            (self.found.anchors if word == "CardAnchor" else self.found.goals).append(self._raw())
        self._place = start

    def _near(self) -> str:
        return repr(self._source[max(0, self._place - 60) : self._place + 60])


def read(source: str) -> Read:
    """Read the sheets of a whole file. An ``AssertionError`` says where there is an unknown command."""
    start = source.index("\\begin{document}")
    return _Reader(source[start:].removesuffix("\n")).body()


def shown(latex: str) -> str:
    """The characters that a piece of LaTeX shows."""
    return _Reader(latex).text()


def address(latex: str) -> str:
    """The address, without the escapes of LaTeX."""
    return _Reader(f"{{{latex}}}")._address()
