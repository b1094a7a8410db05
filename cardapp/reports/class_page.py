"""Writes the answers of a class as one self-contained HTML file: student by step, and the hardest questions first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cardapp.layout.escape import html
from cardapp.reports import document
from cardapp.reports.answers_page import STYLE, figures, moment
from cardapp.reports.answers_table import StepRow, said, seen
from cardapp.reports.class_table import CardClass, StepTally, Student
from cardapp.reports.entry import inline_code

LIMIT_OF_THE_CHECK = (
    "The hashes of every file in this table were verified, so none was edited by hand. A chain of events that was "
    "computed again from its start cannot be detected, because the hashes need no secret."
)


def render(classes: Sequence[CardClass], faults: Sequence[str], at: str) -> Iterator[str]:
    """Yield the file in pieces. ``faults`` name the files that were left out, each with the reason."""
    title = " · ".join(each.title for each in classes) or "no answers"
    yield document.opening(f"Class · {title}", STYLE)
    yield '<header><p class="running">Answers of a class</p></header>\n<main>\n'
    yield "".join(f'<p class="fault" role="alert"><strong>Left out:</strong> {html(fault)}</p>\n' for fault in faults)
    for each in classes:
        yield from _class(each)
    yield f"</main>\n<footer><p>{LIMIT_OF_THE_CHECK}</p><p>Written {moment(at)} UTC.</p></footer>\n</body>\n</html>\n"


def _class(found: CardClass) -> Iterator[str]:
    yield f"<h1>{html(found.title)}</h1>\n"
    yield figures(
        {"students" if len(found.students) != 1 else "student": len(found.students), "steps": len(found.steps)}
    )
    yield "<h2>The questions that most students got wrong</h2>\n"
    if found.hardest:
        yield f'<ol class="hardest">{"".join(_hard(step) for step in found.hardest)}</ol>\n'
    else:
        yield "<p>Nobody was wrong at the first try.</p>\n"
    yield "<h2>Student by step</h2>\n"
    yield (
        '<p class="soft">✓ right at the first try, ✗ wrong, ◦ not judged, empty: nothing done; an underline: the '
        "values were looked at first. The title of a cell has the values. Right: how many of the predicted stops were "
        "right at the first try, without looking first.</p>\n"
    )
    yield from _matrix(found)
    yield "<h2>The steps</h2>\n"
    yield from _steps(found)


def _hard(step: StepTally) -> str:
    judged = step.right + step.wrong
    return (
        f'<li><p><span class="count">{step.wrong} of {judged} wrong</span> · step {html(step.row.number)}: '
        f'{html(step.row.title)}</p><p class="question">{inline_code(step.row.question or "")}</p>'
        f'<p class="soft">{_mistakes(step)}</p></li>\n'
    )


def _mistakes(step: StepTally) -> str:
    return ", ".join(f"<code>{html(value)}</code>\N{NO-BREAK SPACE}{count}×" for value, count in step.mistakes)


def _matrix(found: CardClass) -> Iterator[str]:
    head = "".join(
        f'<th scope="col" title="{html(step.row.title)}">{html(step.row.number)}</th>' for step in found.steps
    )
    yield (
        '<div class="scroll" tabindex="0"><table class="matrix"><thead><tr><th scope="col">Student</th>'
        f'<th scope="col">Right</th><th scope="col">Minutes</th>{head}</tr></thead>\n<tbody>\n'
    )
    for student in found.students:
        yield _student(student, found.steps)
    yield "</tbody></table></div>\n"


def _student(student: Student, steps: Sequence[StepTally]) -> str:
    rows = {row.step: row for row in student.rows}
    cells = "".join(_cell(rows.get(step.row.step)) for step in steps)
    summary = student.answers.answers["summary"]
    teacher = ' <span class="looked">Teacher was on</span>' if student.answers.used_teacher else ""
    last = f"{student.file} · card {student.answers.card['version']} · {student.answers.events} events"
    return (
        f'<tr><th scope="row" title="{html(last)}">{html(student.name)}{teacher}</th>'
        f"<td>{summary['right_first']}/{summary['predicted']}</td><td>{round(summary['seconds'] / 60)}</td>"
        f"{cells}</tr>\n"
    )


def _cell(row: StepRow | None) -> str:
    if row is None or not row.tried:
        return "<td></td>"
    sign, tone = {True: ("✓", "right"), False: ("✗", "wrong"), None: ("◦", "soft")}[row.right_first]
    values = "; ".join(text for text in (said(row), f"there is {seen(row)}" if seen(row) else "") if text)
    shown = f"<u>{sign}</u>" if row.looked_first else sign
    return f'<td class="mark {tone}" title="{html(values)}">{shown}</td>'


def _steps(found: CardClass) -> Iterator[str]:
    names = ("Right", "Wrong", "Looked first", "Nothing done")
    head = "".join(f'<th scope="col" class="number">{name}</th>' for name in names)
    yield (
        '<div class="scroll" tabindex="0"><table><thead><tr><th scope="col" class="number">Step</th>'
        f'<th scope="col" class="wide">Question</th>{head}<th scope="col">Wrong values</th></tr></thead>\n<tbody>\n'
    )
    for step in found.steps:
        question = f'<p class="question soft">{inline_code(step.row.question)}</p>' if step.row.question else ""
        counts = (step.right, step.wrong, step.looked, len(found.students) - step.tried)
        cells = "".join(f'<td class="number">{count or ""}</td>' for count in counts)
        yield (
            f'<tr><td class="number">{html(step.row.number)}</td><th scope="row">{html(step.row.title)}{question}</th>'
            f"{cells}<td>{_mistakes(step)}</td></tr>\n"
        )
    yield "</tbody></table></div>\n"
