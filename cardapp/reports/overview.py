"""Renders the head of the lesson report: the progress (a ring, three figures, a bar for each task), and the card's
activity diagram with the current position marked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from cardapp.card.catalog import Catalog
from cardapp.card.model import Card
from cardapp.layout.diagram import activity, svg
from cardapp.layout.diagram.shapes import Room
from cardapp.layout.escape import html, position_url
from cardapp.reports.entry import CardContext

_ROOM = Room(165.0, 215.0)
"""The largest width and height of a diagram in mm. The style sheet scales the diagram to the width of the page. With
these limits, the text of the scaled diagram is as large as a caption, and the diagram fits a sheet of paper."""


@dataclass(frozen=True)
class TaskTally:
    """Counts of a task's steps. ``failed`` counts the steps whose last replay did not end with the state ready."""

    title: str
    total: int
    approved: int
    ready: int
    failed: int


def tallies(catalog: Catalog, progress: Mapping[str, Any]) -> list[TaskTally]:
    """Return the counts of each task in document order. ``progress`` is from ``card.progress.overview``."""
    steps: dict[str, list[Mapping[str, Any]]] = {}
    for item in progress["items"]:
        steps.setdefault(item["key"].partition("/")[0], []).append(item)
    return [_tally(task.title, steps.get(task.key, [])) for task in catalog.at("task")]


def _tally(title: str, items: Sequence[Mapping[str, Any]]) -> TaskTally:
    states = [item["last_result"]["state"] for item in items if item["last_result"]]
    ready = states.count("ready")
    approved = sum(item["status"] == "approved" for item in items)
    return TaskTally(title, len(items), approved, ready, len(states) - ready)


def overview(catalog: Catalog, progress: Mapping[str, Any]) -> str:
    """Render the report's progress section."""
    summary = progress["summary"]
    execution = summary["execution"]
    figures = (
        ("good", execution["ready"], "match the card"),
        ("bad", execution["failed"], "last replay not ready"),
        ("quiet", execution["never_run"], "never replayed"),
    )
    shown = "".join(
        f'<div class="figure {tone}"><strong>{html(count)}</strong><span>{html(words)}</span></div>'
        for tone, count, words in figures
    )
    bars = "".join(_bar(tally) for tally in tallies(catalog, progress))
    return (
        '<section class="overview" aria-label="Progress">\n'
        f'<div class="ring">{_ring(summary["percent"])}<p><strong>{summary["approved"]} of {summary["total"]}</strong>'
        f' steps approved</p></div>\n<div class="figures">{shown}</div>\n'
        f'<table class="tasks"><tbody>{bars}</tbody></table>\n</section>\n'
    )


def _ring(percent: float) -> str:
    # The circle's circumference is 100, so a dash of length N covers N percent.
    circle = 'cx="18" cy="18" r="15.9155"'
    return (
        f'<svg viewBox="0 0 36 36" aria-hidden="true"><circle class="track" {circle}/>'
        f'<circle class="part" {circle} stroke-dasharray="{percent:.1f} 100" transform="rotate(-90 18 18)"/>'
        f'<text x="18" y="20.6">{percent:.0f}%</text></svg>'
    )


def _bar(tally: TaskTally) -> str:
    share = 100 * tally.approved / tally.total if tally.total else 0
    bar = (
        '<svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="track" width="100" height="6"/><rect class="part" width="{share:.1f}" height="6"/></svg>'
    )
    return (
        f'<tr><th scope="row">{html(tally.title)}</th><td class="bar">{bar}</td>'
        f'<td class="count">{tally.approved} / {tally.total}</td></tr>\n'
    )


def position_diagram(card: Card, context: CardContext, current: str) -> Iterator[str]:
    """Yield the section with the current position, one string per diagram. ``current`` is the key of the current
    position. Each shape links to the position that it shows."""
    caption = '<span lang="en">No position is selected. The beginning of the card is marked.</span>'
    if current:
        caption = f'<span lang="en">Current position:</span> {context.link(current)}'
    yield (
        '<section class="position" aria-labelledby="position">\n<h2 id="position">Current position</h2>\n'
        f'<figure lang="{html(card.language)}">\n<figcaption>{caption}</figcaption>\n'
    )
    mark: str | None = current
    for diagram in activity.of_card(card, _ROOM):
        drawn = svg.render(diagram, mark, partial(position_url, context.base_url))
        if svg.HERE in drawn:
            mark = None  # A task may continue in further diagrams, but is marked only once.
        yield drawn
    yield "</figure>\n</section>\n"
