"""Writes the answers of a learner at a card as one self-contained HTML file: a row for each stop with an event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cardapp.card.answers import AskedStop
from cardapp.card.model import Card, Identity
from cardapp.layout.escape import html, position_url
from cardapp.reports import document
from cardapp.reports.answers_table import LEFT_EMPTY
from cardapp.reports.entry import inline_code

STYLE = document.style_sheet("answers.css")
CONTENT_SECURITY_POLICY = document.policy(STYLE)

_HEAD = "".join(
    f'<th scope="col"{more}>{name}</th>'
    for name, more in (
        ("Step", ' class="number"'),
        ("Stop and question", ' class="wide"'),
        ("Predicted first", ""),
        ("There is", ""),
        ("Right first", ""),
        ("Tries", ' class="number"'),
        ("Looked first", ""),
        ("Answer", ""),
        ("First at", ""),
    )
)


def render(
    *,
    learner: str,
    identity: Identity,
    card: Card,
    stops: Sequence[AskedStop],
    answers: Mapping[str, Any],
    at: str,
    base_url: str,
) -> Iterator[str]:
    """Yield the file in pieces.

    :param answers: from ``card.answers.overview``.
    :param base_url: the address of the running application, without a path.
    """
    summary, known = answers["summary"], {stop.key: stop for stop in stops}
    yield document.opening(f"{learner} · answers · {card.title}", STYLE)
    yield (
        f'<header><h1>{html(learner)}</h1>\n<p class="running"><a href="{html(position_url(base_url, ""))}">'
        f"{html(card.title)}</a> · answers</p>\n</header>\n<main>\n{_figures(summary)}"
    )
    if answers["items"]:
        yield f'<div class="scroll" tabindex="0"><table><thead><tr>{_HEAD}</tr></thead>\n<tbody>\n'
        for item in answers["items"]:
            yield _row(known[item["key"]], item, base_url)
        yield "</tbody></table></div>\n"
    else:
        yield "<p>No answers yet. Predict at a stop of the card, or answer its question.</p>\n"
    yield (
        f"</main>\n<footer><p>{html(identity.id)} {html(identity.version)} · {moment(at)} UTC · source "
        f"<code>{html(identity.source_sha256[:12])}</code></p></footer>\n</body>\n</html>\n"
    )


def _figures(summary: Mapping[str, int]) -> str:
    return figures(
        {
            "of the stops predicted": f"{summary['predicted']}/{summary['stops']}",
            "right at the first try": summary["right_first"],
            "looked at first": summary["looked_first"],
            "minutes of work": round(summary["seconds"] / 60),
        }
    )


def figures(values: Mapping[str, object]) -> str:
    """Render numbers with their labels."""
    rows = "".join(f"<div><dt>{html(name)}</dt><dd>{html(value)}</dd></div>" for name, value in values.items())
    return f'<dl class="figures">{rows}</dl>\n'


def _row(stop: AskedStop, item: Mapping[str, Any], base_url: str) -> str:
    question = f'<p class="question soft">{inline_code(stop.question)}</p>' if stop.question else ""
    said = "<br>".join(_value(row, "said") for row in item["predictions"])
    seen = "<br>".join(_value(row, "seen") for row in item["predictions"])
    answer = html(item["answer"] or "")
    rating = f'<p class="soft">own judgement: {html(item["self"])}</p>' if item["self"] else ""
    return (
        f'<tr><td class="number">{html(stop.number)}</td>'
        f'<th scope="row"><a href="{html(position_url(base_url, stop.key))}">{html(stop.title)}: {html(stop.name)}</a>'
        f"{question}</th><td>{said}</td><td>{seen}</td>{verdict(item['right_first'])}"
        f'<td class="number">{html(item["tries"])}</td><td>{"yes" if item["looked_first"] else ""}</td>'
        f'<td><div class="question">{answer}</div>{rating}</td><td>{moment(item["first_at"])}</td></tr>\n'
    )


def _value(row: Mapping[str, Any], name: str) -> str:
    """The predicted value (``said``) or the one that there is (``seen``); its title is the other notation."""
    shown = row["shown"]
    if name == "said" and row["empty"]:
        text = f"{html(row['expression'])} <em>{LEFT_EMPTY}</em>"
    else:
        text = f"{html(row['expression'])} = {html('–' if shown[name] is None else shown[name])}"
    title = f' title="{html(shown[f"{name}_title"])}"' if shown[f"{name}_title"] else ""
    is_wrong = row["right"] is False and name == "said"
    return f'<code class="wrong"{title}>✗ {text}</code>' if is_wrong else f"<code{title}>{text}</code>"


def verdict(right: object) -> str:
    """Render the cell that says whether the first try was right; an empty one if it was not judged."""
    if right is None:
        return "<td></td>"
    return '<td class="right">✓ yes</td>' if right else '<td class="wrong">✗ no</td>'


def moment(at: object) -> str:
    """Render an RFC 3339 time as day and minute."""
    text = str(at or "")
    return f'<time datetime="{html(text)}">{html(text[:16].replace("T", " "))}</time>' if text else ""
