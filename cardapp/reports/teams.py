"""Writes the progress report as short Markdown, to paste into a Microsoft Teams message.

Teams supports headings, bold text, tables, lists and links, but no HTML, task lists or nested tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cardapp.card.catalog import Catalog
from cardapp.card.model import Card, Identity
from cardapp.layout.escape import markdown, position_url
from cardapp.layout.text import Paragraph, Run, parse
from cardapp.reports.answers_table import LEFT_EMPTY
from cardapp.reports.event_text import Event, where_links_work
from cardapp.reports.overview import tallies

MAX_ANSWERS = 20
"""The report has at most this number of answers to questions."""
MAX_NOTES = 10
"""The report has at most this number of the card's last notes."""
_MAX_RESULTS = 8
_MAX_WRONG = 8
"""The report names at most this number of stops with a wrong prediction."""


def render(
    *,
    learner: str,
    identity: Identity,
    card: Card,
    catalog: Catalog,
    progress: Mapping[str, Any],
    answers: Mapping[str, Any],
    notes: Iterable[Event],
    at: str,
    base_url: str,
) -> Iterator[str]:
    """Yield the report in pieces.

    :param progress: from ``card.progress.overview``.
    :param answers: from ``card.answers.overview``.
    :param notes: this card's last ``MAX_NOTES`` events of kind ``note``, in order.
    :param base_url: the address of the running application, without a path.
    """
    yield _heading(learner, card, progress, base_url)
    yield from _table(catalog, progress)
    yield from _section("Predictions", _predictions(answers, catalog, base_url))
    yield from _section("Answers", _answers(answers, catalog, base_url))
    yield from _section("Notes on steps", _step_notes(progress, base_url))
    yield from _section("Latest notes", _latest_notes(notes, catalog, base_url))
    yield from _section("Last replays", _results(progress, base_url))
    yield _foot(identity, at)


def _heading(learner: str, card: Card, progress: Mapping[str, Any], base_url: str) -> str:
    summary = progress["summary"]
    execution = summary["execution"]
    return (
        f"## {markdown(learner)} · {markdown(card.title)}\n\n"
        f"**{summary['approved']} of {summary['total']} steps approved ({summary['percent']:g} %)** · replays: "
        f"{execution['ready']} ready, {execution['failed']} not ready, {execution['never_run']} never run · "
        f"[open the card]({position_url(base_url, '')})\n\n"
        f"{markdown(where_links_work(base_url))}\n"
    )


def _foot(identity: Identity, at: str) -> str:
    """Return the line with the card's id and version, the time, and the card's source revision."""
    source = identity.source_sha256[:12]
    return f"\n{markdown(identity.id)} {markdown(identity.version)} · {_moment(at)} UTC · source `{source}`\n"


def _table(catalog: Catalog, progress: Mapping[str, Any]) -> Iterator[str]:
    yield "\n| Task | Approved | Pending | Ready | Not ready |\n|:---|---:|---:|---:|---:|\n"
    for tally in tallies(catalog, progress):
        pending = tally.total - tally.approved
        yield f"| {markdown(tally.title)} | {tally.approved} | {pending} | {tally.ready} | {tally.failed} |\n"


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines under their title. Without lines, the title is left out too."""
    for number, line in enumerate(lines):
        yield f"- {line}\n" if number else f"\n### {title}\n\n- {line}\n"


def _predictions(answers: Mapping[str, Any], catalog: Catalog, base_url: str) -> Iterator[str]:
    """Yield the number of stops that were right at the first try, then the wrong stops in document order."""
    summary = answers["summary"]
    if summary["predicted"]:
        looked = f", {summary['looked_first']} looked at first" if summary["looked_first"] else ""
        yield f"{summary['right_first']} of {summary['predicted']} predicted stops right at the first try{looked}"
    wrong = [item for item in answers["items"] if item["right_first"] is False]
    for item in wrong[:_MAX_WRONG]:
        rows = [row for row in item["predictions"] if row["right"] is False]
        values = "; ".join(map(_mistake, rows))
        yield f"✗ {_asked(item, catalog, base_url)}: {values}"
    if len(wrong) > _MAX_WRONG:
        yield f"✗ and {len(wrong) - _MAX_WRONG} more"


def _mistake(row: Mapping[str, Any]) -> str:
    said = LEFT_EMPTY if row["empty"] else f"said {markdown(row['shown']['said'])}"
    seen = row["shown"]["seen"]
    there = "" if seen is None else f" is {markdown(seen)}"
    return f"{markdown(row['expression'])}{there}, {said}"


def _answers(answers: Mapping[str, Any], catalog: Catalog, base_url: str) -> Iterator[str]:
    """Yield each answer to a question once, with the question."""
    told: set[tuple[str, str]] = set()
    answered = [item for item in answers["items"] if item["answer"]]
    for item in answered:
        if (said := (item["question"], item["answer"])) in told:
            continue
        if len(told) == MAX_ANSWERS:
            yield f"and more: {len(answered)} stops are answered"
            return
        told.add(said)
        rated = f" (rated by themselves: {markdown(item['self'])})" if item["self"] else ""
        yield f"{_asked(item, catalog, base_url)}: “{markdown(item['answer'])}”{rated}"


def _asked(item: Mapping[str, Any], catalog: Catalog, base_url: str) -> str:
    """Return the link to a stop, and the question of its step."""
    question = f" *{_question(item['question'])}*" if item["question"] else ""
    return f"{_link(catalog.item(item['key']).title, item['key'], base_url)}{question}"


def _question(text: str) -> str:
    """Return a question on one line. Its code stays code, and all other markup becomes plain text."""
    paragraphs = [block.spans for block in parse(text) if isinstance(block, Paragraph)]
    lines = [[span for span in spans if isinstance(span, Run)] for spans in paragraphs]
    if sum(len(run.text) for line in lines for run in line) * 2 < len(text):  # a list, a table or a block of code
        return markdown(text)
    return " ".join("".join(_code(run.text) if run.code else _plain(run.text) for run in line) for line in lines)


def _plain(text: str) -> str:
    """Escape plain words within a line. The blanks around them are kept."""
    if text.isspace():
        return " "
    return text[:1].isspace() * " " + markdown(text) + text[-1:].isspace() * " "


def _code(text: str) -> str:
    return markdown(text) if "`" in text else f"`{text}`"


def _step_notes(progress: Mapping[str, Any], base_url: str) -> Iterator[str]:
    for item in progress["items"]:
        if item["note"]:
            mark = "✓" if item["status"] == "approved" else "☐"
            yield f"{mark} {_link(item['title'], item['key'], base_url)}: {markdown(item['note'])}"


def _latest_notes(notes: Iterable[Event], catalog: Catalog, base_url: str) -> Iterator[str]:
    for event in notes:
        item = catalog.find(event["key"])
        where = _link(item.title, item.key, base_url) if item is not None else markdown(event["key"])
        text = markdown(event["data"].get("text", ""))
        yield f"{_moment(event['at'])} {markdown(event['actor'])}, {where}: {text}"


def _results(progress: Mapping[str, Any], base_url: str) -> Iterator[str]:
    """Yield the latest results, the newest first."""
    run = [item for item in progress["items"] if item["last_result"]]
    for item in sorted(run, key=lambda item: str(item["last_result"]["at"]), reverse=True)[:_MAX_RESULTS]:
        result = item["last_result"]
        mark = "✓" if result["state"] == "ready" else "✗"
        code = f" ({markdown(result['code'])})" if result.get("code") else ""
        outcome = f"{markdown(result['state'])}{code}, {_moment(result['at'])}"
        yield f"{mark} {_link(item['title'], item['key'], base_url)}: {outcome}"


def _link(title: str, key: str, base_url: str) -> str:
    return f"[{markdown(title)}]({position_url(base_url, key)})"


def _moment(at: str) -> str:
    return markdown(at[:16].replace("T", " "))
