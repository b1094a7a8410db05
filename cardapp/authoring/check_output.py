"""The result of a check as text, as JSON, and as JUnit XML."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from xml.etree import ElementTree

from cardapp.authoring.card_report import CardReport
from cardapp.authoring.fault import Fault
from cardapp.authoring.proving import HIDDEN_TEXT
from cardapp.authoring.renames import RENAMED
from cardapp.authoring.shortened import difference
from cardapp.card.catalog import Catalog
from cardapp.card.source import LoadedCard
from cardapp.publish import layouts

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot contain."""

STATIC = "static"
"""The name of the test case that stands for all static faults of a card."""


# -- text ----------------------------------------------------------------------------------------------------------


def text(report: CardReport, *, replayed: bool) -> str:
    """The report as text. The faults of one snapshot's values are shown as one table."""
    lines = [f"  repaired {each}" for each in report.repairs]
    if report.loaded is not None:
        lines.insert(0, _heading(report.loaded))
    lines += _fault_lines(report.path, _without_repeats(report.faults))
    if report.loaded is not None and report.ok:
        lines += layouts.description(layouts.find(report.loaded.card.layout))
    return "\n".join([*lines, *_warning_lines(report), *_summary(report, replayed=replayed)])


def _heading(loaded: LoadedCard) -> str:
    below = {level: count for level, count in Catalog(loaded.card).counts.items() if level != "card"}
    counts = ", ".join(_counted(count, level) for level, count in below.items())
    return f"{loaded.card.title} {loaded.card.version} ({loaded.identity.source_sha256[:12]}): {counts}"


def _without_repeats(faults: Sequence[Fault]) -> list[Fault]:
    """The faults without duplicates of the same place and message. A faulty recipe, for example, gives the same fault
    at each stop."""
    first: dict[tuple[str, str], Fault] = {}
    for fault in faults:
        first.setdefault((fault.pointer, fault.detail), fault)
    return list(first.values())


def _fault_lines(path: Path, faults: Sequence[Fault]) -> Iterator[str]:
    for _place, same in groupby(faults, key=lambda fault: (fault.key, fault.code)):
        here = list(same)
        values = [fault for fault in here if fault.expression and fault.expected and fault.code != HIDDEN_TEXT]
        if values:
            first = values[0]
            differ = f"{_counted(len(values), 'value')} {'differs' if len(values) == 1 else 'differ'} from the card"
            yield f"{_place_of(path, first)}: {first.code}: {differ}"
            yield from _table([("expression", "expected", "seen"), *(_row(fault) for fault in values)])
            yield from (f"    {cause}" for cause in first.causes)
        for fault in here:
            if fault not in values:
                yield from _lines_of(path, fault)


def _lines_of(path: Path, fault: Fault) -> Iterator[str]:
    detail, *more = fault.detail.rstrip().splitlines()
    yield f"{_place_of(path, fault)}: {fault.code}: {detail}"
    yield from (f"    {line}" for line in [*more, *fault.causes])
    if fault.expected is not None:
        yield f"    the card has: {fault.expected}"
    if fault.expected is not None and fault.seen is not None:
        yield f"    now there is: {fault.seen}"
    if fault.fix and fault.code == RENAMED:
        yield f"    check --fix --accept-rename takes {fault.seen}"
    elif fault.fix:
        yield f"    check --fix sets {', '.join(f'{name} {number}' for name, number in fault.fix.items())}"


def _row(fault: Fault) -> tuple[str, str, str]:
    return fault.expression or "", *difference(fault.expected or "", fault.seen or "")


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "    " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _place_of(path: Path, fault: Fault) -> str:
    line = f":{fault.line}" if fault.line is not None else ""
    return f"{_shown(path)}{line}: {fault.key or 'card'}"


def _shown(path: Path) -> str:
    """The path in a form that a terminal or an editor can open: relative if it is below the current folder."""
    here = os.getcwd()
    return os.path.relpath(path, here) if path.is_relative_to(here) else str(path)


def _warning_lines(report: CardReport) -> Iterator[str]:
    unanchored = [warning for warning in report.warnings if warning.code != HIDDEN_TEXT]
    if unanchored:
        have = "excerpt has" if len(unanchored) == 1 else "excerpts have"
        yield (
            f"warning: {len(unanchored)} {have} no anchor, so a change of the lines is not noticed "
            f"(the first: {unanchored[0].key}); bin/cardapp record {report.card} anchors them"
        )
    yield from (_warning_line(report.path, warning) for warning in report.warnings if warning not in unanchored)


def _warning_line(path: Path, warning: Fault) -> str:
    return f"warning: {_place_of(path, warning)}: {warning.code}: {warning.detail}"


def _summary(report: CardReport, *, replayed: bool) -> Iterator[str]:
    ready = sum(1 for proof in report.proofs if not proof.faults)
    failed, skipped = len(report.proofs) - ready, len(report.skipped)
    if report.ok and replayed:
        yield "the snapshot was replayed and matches the card" if ready == 1 else (
            f"all {ready} snapshots were replayed and match the card"
        )  # fmt: skip
    elif report.ok:
        where = f" of {', '.join(report.only)}" if report.only else ""
        yield f"every stop and code range{where} matches the source files; --replay also proves functions and values"
    else:
        replays = f"; {ready} of {_counted(ready + failed + skipped, 'snapshot')} match the card" if replayed else ""
        replays += f", {failed} failed" if failed else ""
        replays += f", {skipped} not replayed" if skipped and replayed else ""
        if replayed and report.loaded is None:
            replays = "; nothing was replayed, because the card's source is invalid"
        yield f"{_counted(len(report.faults), 'fault')}{replays}"
    for proof in report.proofs:
        if proof.faults and proof.replays > 1:
            before = _counted(proof.replays - 1, "time")
            yield f"{proof.key} matched the card {before} before it failed: the program does not always do the same"
    fixable = sum(1 for fault in report.faults if fault.fix)
    if fixable:
        accepting = " --accept-rename" if any(fault.code == RENAMED for fault in report.faults) else ""
        yield f"bin/cardapp check --fix{accepting} {report.card} repairs {fixable} of them"
    if any(_has_new_value(fault) for fault in report.faults):
        yield f"if the new values are right, bin/cardapp record {report.card} writes them into the card"
    if replayed:
        yield f"{_counted(len(report.proofs), 'snapshot')}, {report.compared.phrase('compared')}"


def _has_new_value(fault: Fault) -> bool:
    """Whether an expression has another value than the card expects; ``<…>`` is gdb's word for none."""
    is_other = "/expect/" in fault.pointer and fault.code != HIDDEN_TEXT
    return is_other and fault.seen is not None and not fault.seen.startswith("<")


def summary_of_cards(reports: Sequence[CardReport]) -> str:
    failed = [report.card for report in reports if not report.ok]
    if not failed:
        return f"all {len(reports)} cards are in order"
    return f"{len(failed)} of {len(reports)} cards have faults: {', '.join(failed)}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


# -- JSON and JUnit ------------------------------------------------------------------------------------------------


def json_text(reports: Sequence[CardReport]) -> str:
    return json.dumps({"cards": [report.as_json() for report in reports]}, indent=1, ensure_ascii=False)


def junit_text(reports: Sequence[CardReport]) -> str:
    """JUnit XML: a test suite for each card, with a test case for each snapshot and one for the static faults."""
    root = ElementTree.Element("testsuites", name="cardapp check")
    for report in reports:
        root.append(_suite(report))
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    root.set("time", _seconds(sum(float(suite.get("time", "0")) for suite in root)))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode")


def _suite(report: CardReport) -> ElementTree.Element:
    name = report.loaded.card.id if report.loaded is not None else report.card
    suite = ElementTree.Element("testsuite", name=_clean(name))
    proved = {proof.key for proof in report.proofs}
    case = _add_case(suite, report, STATIC, [fault for fault in report.faults if fault.key not in proved], 0)
    _add_warnings(case, report.path, [warning for warning in report.warnings if warning.key not in proved])
    for proof in report.proofs:
        faults = [fault for fault in report.faults if fault.key == proof.key]
        case = _add_case(suite, report, proof.key, faults, proof.duration_ms, proof.replays)
        _add_warnings(case, report.path, [warning for warning in report.warnings if warning.key == proof.key])
    for key in report.skipped:
        case = _add_case(suite, report, key, [], 0)
        ElementTree.SubElement(case, "skipped", message="not replayed, because of another fault")
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", "0")
    suite.set("skipped", str(len(report.skipped)))
    suite.set("time", _seconds(sum(proof.duration_ms for proof in report.proofs) / 1000))
    return suite


def _add_case(
    suite: ElementTree.Element, report: CardReport, name: str, faults: list[Fault], duration_ms: int, replays: int = 1
) -> ElementTree.Element:
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=suite.get("name", ""),
        name=_clean(name),
        time=_seconds(duration_ms / 1000),
        file=_clean(_shown(report.path)),
    )
    if faults:
        lines = _fault_lines(report.path, faults)
        message = faults[0].detail.splitlines()[0] + (f" (and {len(faults) - 1} more)" if len(faults) > 1 else "")
        message += f" in replay {replays}" if replays > 1 else ""
        failure = ElementTree.SubElement(case, "failure", message=_clean(message), type=faults[0].code)
        failure.text = _clean("\n".join(lines))
    return case


def _add_warnings(case: ElementTree.Element, path: Path, warnings: Sequence[Fault]) -> None:
    if warnings:
        lines = (_warning_line(path, warning) for warning in warnings)
        ElementTree.SubElement(case, "system-out").text = _clean("\n".join(lines))


def _seconds(value: float) -> str:
    return f"{value:.3f}"


def _clean(words: str) -> str:
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", words)
