"""How many faults the tests find: mutants of the product code, drawn by lot.

    .venv/bin/python -m tests.bench.mutants --seed 40              # 80 mutants, in this clone
    .venv/bin/python -m tests.bench.mutants --seed 40 --only 7     # the seventh alone
    .venv/bin/python -m tests.bench.mutants --seed 40 --list       # draws only

A mutant changes one operator, bound or sign, or drops one statement. The rooms take turns, and the place in the room is
drawn. The tests run in stages, from the room's own to those of the whole product, until one fails: then the mutant is
killed. Run it in a clone that ``bin/test --setup`` has set up and that nothing else uses: the files are changed in
place, and restored afterwards. A mutant that changes nothing anybody could see (an equivalent one) survives, too.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CARD = (("tests/cardapp",), ("tests/functional", "tests/browser", "--ignore=tests/browser/market", "-k", "not market"))
MARKET = (("tests/marketdata",), ("tests/functional", "tests/browser/market", "-k", "market"))
ROOMS = {
    "cardapp/card": (("tests/cardapp/card",), *CARD),
    "cardapp/session_client": (("tests/cardapp/session_client",), *CARD),
    "cardapp/web/gate.py": (("tests/cardapp/web/test_gate.py",), *CARD),
    "cardapp/state": (("tests/cardapp/state",), *CARD),
    "marketdata/tick.py": (("tests/marketdata/test_tick.py",), *MARKET),
    "marketdata/interval.py": (("tests/marketdata/test_interval.py",), *MARKET),
    "marketdata/store": (("tests/marketdata/store",), *MARKET),
    "marketdata/ingest": (("tests/marketdata/ingest",), *MARKET),
    "marketdata/source/evm.py": (("tests/marketdata/source",), *MARKET),
    "marketdata/api/auth.py": (("tests/marketdata/api/test_auth.py",), *MARKET),
    "marketdata/frontend/login.py": (("tests/marketdata/frontend/test_login.py",), *MARKET),
}
"""Where mutants are drawn, each with the stages of its tests."""
STAGE_TIMEOUT = 1200  # seconds; a mutant that hangs the tests is killed, too

OPERATORS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"), ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"), ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "//"),
    ast.FloorDiv: ("//", "*"), ast.And: ("and", "or"), ast.Or: ("or", "and"),
}  # fmt: skip
SQL = {
    "<=": "<", "<": "<=", ">=": ">", ">": ">=", "=": "<>", "+": "-", "AND": "OR", "OR": "AND", "min(": "max(",
    "max(": "min(", "DESC": "ASC", "NOT ": "", "least(": "greatest(", "greatest(": "least(",
}  # fmt: skip
SQL_TOKEN = re.compile(
    r"(?<![<>=|:-])(?:<=|>=|=(?!>)|<(?!>)|>|\+)(?![<>=])|\b(?:AND|OR|DESC)\b|\bNOT (?!NULL)"
    r"|\b(?:min|max|least|greatest)\("
)


@dataclass(frozen=True)
class Mutant:
    """``old`` at these offsets of the file's text becomes ``new``."""

    file: Path
    start: int
    end: int
    new: str

    def of(self, text: str) -> str:
        return text[: self.start] + self.new + text[self.end :]

    def __str__(self) -> str:
        text = self.file.read_text("utf-8")
        line = text.count("\n", 0, self.start) + 1
        begin, end = text.rfind("\n", 0, self.start) + 1, text.find("\n", self.end)
        was, becomes = text[begin:end], self.of(text)[begin : end + len(self.new) - (self.end - self.start)]
        return f"{self.file.relative_to(ROOT)}:{line}: {' '.join(was.split())}  ->  {' '.join(becomes.split())}"


def mutants_of(file: Path) -> Iterator[Mutant]:
    text = file.read_text("utf-8")
    if file.suffix == ".sql":
        bare = re.sub(r"--[^\n]*|/\*.*?\*/", lambda found: " " * len(found[0]), text, flags=re.DOTALL)
        for found in SQL_TOKEN.finditer(bare):
            yield Mutant(file, *found.span(), SQL[found[0]])
        return
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    raw = text.encode()

    def span(first: ast.AST, last: ast.AST, at_end: tuple[bool, bool]) -> tuple[int, int]:
        """The characters from the begin or end of one node to that of another."""
        ends = [
            starts[(node.end_lineno if is_end else node.lineno) - 1]  # type: ignore[attr-defined]
            + (node.end_col_offset if is_end else node.col_offset)  # type: ignore[attr-defined]
            for node, is_end in zip((first, last), at_end, strict=True)
        ]
        return len(raw[: ends[0]].decode()), len(raw[: ends[1]].decode())

    for node in code_of(ast.parse(text)):
        for left, operator, right in operations(node):
            start, end = span(left, right, (True, False))
            old, new = OPERATORS[type(operator)]
            words = r"\s+".join(map(re.escape, old.split()))
            word = rf"\b{words}\b" if old[0].isalpha() else words
            if found := re.search(word, text[start:end]):
                yield Mutant(file, start + found.start(), start + found.end(), new)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
            yield Mutant(file, *span(node, node.operand, (False, False)), "")
        for bound in bounds(node):
            yield Mutant(file, *span(bound, bound, (False, True)), str(bound.value + 1))  # type: ignore[operator]
        if is_droppable(node):
            yield Mutant(file, *span(node, node, (False, True)), "pass")


def code_of(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of the functions, without annotations, defaults and what only logs."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            todo: list[ast.AST] = list(node.body)
            while todo:
                inner = todo.pop()
                if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) or logs(inner):
                    continue
                yield inner
                if isinstance(inner, ast.AnnAssign):
                    todo += [inner.value] if inner.value else []
                else:
                    todo += ast.iter_child_nodes(inner)


def logs(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and "_log." in ast.unparse(node.value.func)


def operations(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST, ast.AST]]:
    if isinstance(node, ast.Compare):
        yield from zip([node.left, *node.comparators], node.ops, node.comparators, strict=False)
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS and not is_text(node):
        yield node.left, node.op, node.right
    elif isinstance(node, ast.BoolOp):
        yield from ((left, node.op, right) for left, right in zip(node.values, node.values[1:], strict=False))


def is_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(side, ast.JoinedStr) or isinstance(getattr(side, "value", None), (str, bytes))
        for side in (node.left, node.right)
    )


def bounds(node: ast.AST) -> Iterator[ast.Constant]:
    """The whole numbers in comparisons, slices and ranges."""
    places: list[ast.AST | None] = []
    if isinstance(node, ast.Compare):
        places = [node.left, *node.comparators]
    elif isinstance(node, ast.Slice):
        places = [node.lower, node.upper]
    elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("range", "min", "max"):
        places = [*node.args]
    for place in places:
        if isinstance(place, ast.Constant) and type(place.value) is int:
            yield place


def is_droppable(node: ast.AST) -> bool:
    """A statement for its effect alone: without it the code is still valid."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call)
    if isinstance(node, ast.Assign):
        return all(isinstance(target, (ast.Attribute, ast.Subscript)) for target in node.targets)
    return isinstance(node, (ast.AugAssign, ast.Raise, ast.Delete))


def drawn(seed: int, count: int) -> list[tuple[str, Mutant]]:
    """``count`` mutants with their rooms, all different."""
    lot, found = random.Random(seed), []
    pools = {}
    for room in ROOMS:
        place = ROOT / room
        files = sorted(path for path in place.rglob("*") if path.suffix in (".py", ".sql")) or [place]
        pools[room] = [mutant for file in files for mutant in mutants_of(file)]
        lot.shuffle(pools[room])
    for room in islice(cycle(ROOMS), count * len(ROOMS)):
        if pools[room] and len(found) < count:
            found.append((room, pools[room].pop()))
    return found


def killer(stages: tuple[tuple[str, ...], ...]) -> str | None:
    """The first failed test; None if all stages pass."""
    for number, stage in enumerate(stages):
        workers = "0" if number == 0 else "auto"
        command = [sys.executable, "-P", "-m", "pytest", "-x", "-q", "-n", workers, "--dist", "loadfile", *stage]
        try:
            done = subprocess.run(
                command, cwd=ROOT, capture_output=True, text=True, timeout=STAGE_TIMEOUT, check=False,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"{stage[0]}: no end"
        if done.returncode not in (0, 1, 2):
            raise SystemExit(f"pytest could not run {' '.join(stage)}:\n{done.stdout}{done.stderr}")
        if done.returncode:
            failed = re.search(r"^(?:FAILED|ERROR) (.*)$", done.stdout, re.MULTILINE)
            return failed[1] if failed else f"{stage[0]}: exit code {done.returncode}"
    return None


def tried(mutant: Mutant, stages: tuple[tuple[str, ...], ...]) -> str | None:
    text = mutant.file.read_text("utf-8")
    try:
        mutant.file.write_text(mutant.of(text), "utf-8")
        # Python compares the time of a source in whole seconds, and its size, with those noted in its byte-code.
        later = time.time() + random.randrange(10**6)
        os.utime(mutant.file, (later, later))
        return killer(stages)
    finally:
        mutant.file.write_text(text, "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=80)
    parser.add_argument("--only", type=int, nargs="*", help="the numbers of the mutants to try")
    parser.add_argument("--list", action="store_true", help="draw, and try none")
    given = parser.parse_args()
    survivors = killed = 0
    for number, (room, mutant) in enumerate(drawn(given.seed, given.count), start=1):
        if given.only and number not in given.only:
            continue
        name = f"{number:3} {mutant}"
        if given.list:
            print(name)
            continue
        begun = time.monotonic()
        by = tried(mutant, ROOMS[room])
        killed, survivors = killed + (by is not None), survivors + (by is None)
        print(f"{'killed' if by else 'SURVIVED'} {name}  [{time.monotonic() - begun:.0f} s] {by or ''}", flush=True)
    print(f"{killed} killed, {survivors} survived")


if __name__ == "__main__":
    main()
