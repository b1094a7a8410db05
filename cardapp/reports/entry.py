"""Renders an event as an entry of the lesson report: time, actor, position, event, proof and images."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cardapp.card import answers
from cardapp.card.catalog import Catalog
from cardapp.card.model import Identity
from cardapp.errors import CardAppError
from cardapp.layout.diagram import memory, svg
from cardapp.layout.diagram.arena import arena_from_reading
from cardapp.layout.escape import html, position_url
from cardapp.reports.answers_table import LEFT_EMPTY
from cardapp.reports.event_text import Event, headline, tone
from cardapp.state import events

_CODE = re.compile(r"`([^`\n]+)`")
_ASKED = (answers.PREDICTION, answers.ANSWER, answers.SELF, events.PREDICTION_JUDGED, events.PROGRESS_CHANGED)
"""Kinds of events that are shown with the question that they answer."""
_WITH_TEXT = (answers.SELF, answers.HINT, events.ANNOTATION_ADDED, events.ANNOTATION_REMOVED)
_ARENA_WIDTH = 120.0
"""Width of the diagram in mm. The diagram is scaled to the width of the page, and then its text is as large as the
caption."""


@dataclass(frozen=True)
class CardContext:
    """The current card, and the application's address without a path."""

    catalog: Catalog
    identity: Identity
    base_url: str

    def title(self, key: str) -> str:
        return self.catalog.title(key)

    def link(self, key: str) -> str:
        """Render the breadcrumb of a key as a link to the position. A key that the card no longer has is shown as
        text."""
        if self.catalog.find(key) is None:
            return f'<span class="trail"><code>{html(key)}</code> <em>no longer in this card</em></span>'
        names = [item.title for item in self.catalog.trail(key)] or [self.title(key)]
        trail = '<span class="sep"> › </span>'.join(f"<span>{html(name)}</span>" for name in names)
        return f'<a class="trail" href="{html(position_url(self.base_url, key))}">{trail}</a>'


def entry(event: Event, context: CardContext, picture: Callable[[str], bytes]) -> Iterator[str]:
    """Yield the entry in pieces. Each image is a separate piece, so that only one image at a time is in memory."""
    yield (
        f'<article class="entry {tone(event)}" id="e{event["seq"]}">\n{clock(event["at"])}\n<div class="what">\n'
        f"<h3>{html(headline(event, context.title(event['key'])))}</h3>\n"
        f'<p class="meta"><span class="actor">{html(event["actor"])}</span>{context.link(event["key"])}'
        f'{_revision(event, context)}<a class="seq" href="#e{event["seq"]}">{event["seq"]}</a></p>\n'
    )
    yield "".join(_body(event, context))
    for pinned in event["evidence"]:
        if not pinned["withdrawn"]:
            yield _figure(pinned, picture)
    yield "</div></article>\n"


def clock(at: str) -> str:
    """Render the time of day (UTC) of an RFC 3339 time. The full time is the tooltip."""
    return f'<time datetime="{html(at)}" title="{html(at)}">{html(at[11:19])}</time>'


def _revision(event: Event, context: CardContext) -> str:
    card = event["card"]
    if card["source_sha256"] == context.identity.source_sha256:
        return ""
    source, version = html(card["source_sha256"]), html(card["version"])
    return f'<span class="revision" title="source {source}">card {version}, another source revision</span>'


def _body(event: Event, context: CardContext) -> Iterator[str]:
    kind, data = event["kind"], event["data"]
    if kind in _ASKED:
        yield _question(event["key"], context)
    if kind.startswith("checkpoint."):
        yield from _checkpoint(event["seq"], data)
    elif kind == events.PROGRESS_CHANGED:
        yield _quoted(data.get("note"))
    elif kind == events.EVIDENCE_ADDED and data.get("event_seq") is not None:
        entry_seq, caption = html(data["event_seq"]), html(data.get("caption") or data.get("name"))
        yield f'<p>“{caption}”, shown at <a href="#e{entry_seq}">entry {entry_seq}</a>.</p>\n'
    elif kind == answers.PREDICTION:
        yield _quoted(data.get("text"))
        yield _members(data.get("values") or {})
    elif kind == events.PREDICTION_JUDGED:
        yield _judgement(data)
    elif kind in _WITH_TEXT:
        yield _quoted(data.get("text"))
    elif kind not in events.BACKEND_KINDS:
        yield _quoted(data.get("text"))
        yield _members({name: value for name, value in data.items() if name != "text"})


def _question(key: str, context: CardContext) -> str:
    """Render the question of the step at the position ``key`` or above it."""
    steps = context.catalog.steps
    step = steps.get(key) or steps.get(key.rpartition("/")[0])
    return f'<p class="question">{inline_code(step.question)}</p>\n' if step is not None and step.question else ""


def _checkpoint(seq: int, data: Mapping[str, Any]) -> Iterator[str]:
    if data.get("reason"):
        code = f' <code class="code">{html(data["code"])}</code>' if data.get("code") else ""
        yield f'<p class="reason">{html(data["reason"])}{code}</p>\n'
    observed = data.get("observed")
    if isinstance(observed, Mapping):
        yield _proof(observed)
        if isinstance(observed.get("allocator"), Mapping):
            yield _arena_figure(f"e{seq}", observed["allocator"])
    facts = [f"{data['duration_ms']:.0f} ms"] if isinstance(data.get("duration_ms"), int | float) else []
    if data.get("generation") is not None:
        facts.append(f"generation {data['generation']}")
    if facts:
        yield f'<p class="facts">{html(" · ".join(facts))}</p>\n'


def _proof(observed: Mapping[str, Any]) -> str:
    """Render a table of the checks, followed by the watched expressions without an expected value."""
    checks = observed.get("checks") or []
    rows = [_check(check) for check in checks]
    checked = {check.get("name") for check in checks}
    for name, reading in (observed.get("values") or {}).items():
        if name not in checked:
            label = f'<th scope="row"><code>{html(name)}</code></th>'
            rows.append(f'<tr class="seen">{label}<td></td>{_value(reading)}<td></td></tr>')
    if not rows:
        return ""
    head = "<tr><th>Checked</th><th>Expected by the card</th><th>Observed in the program</th><th></th></tr>"
    return f'<table class="proof"><thead>{head}</thead>\n<tbody>{"".join(rows)}</tbody></table>\n'


def _check(check: Mapping[str, Any]) -> str:
    match = check.get("match")
    row = "seen" if match is None else "equal" if match else "different"
    sign = {"equal": "✓", "different": "✗"}.get(row)
    mark = f'<td class="mark" title="{row}">{sign}</td>' if sign else "<td></td>"
    return (
        f'<tr class="{row}"><th scope="row"><code>{html(check.get("name"))}</code></th>'
        f"<td><code>{html(check.get('expected'))}</code></td><td><code>{html(_or_dash(check.get('actual')))}</code></td>{mark}</tr>"
    )


def _judgement(data: Mapping[str, Any]) -> str:
    """Render a table of the predicted values, each beside the actual value."""
    seen, right = data.get("seen") or {}, data.get("right") or {}
    said = {name: text if text.strip() else LEFT_EMPTY for name, text in (data.get("said") or {}).items()}
    rows = [
        _check(
            {"name": name, "expected": said.get(name, LEFT_EMPTY), "actual": seen.get(name), "match": right.get(name)}
        )
        for name in (said | right)
    ]
    has = "The card has" if data.get("by") == "card" else "The program has"
    head = f"<tr><th>Predicted</th><th>Said</th><th>{has}</th><th></th></tr>"
    return f'<table class="proof"><thead>{head}</thead>\n<tbody>{"".join(rows)}</tbody></table>\n'


def _value(reading: object) -> str:
    if not isinstance(reading, Mapping):
        return f"<td><code>{html(_or_dash(reading))}</code></td>"
    if reading.get("value") is None:
        return f"<td><em>{html(reading.get('error') or 'not read')}</em></td>"
    return f"<td><code>{html(reading['value'])}</code></td>"


def _or_dash(value: object) -> object:
    return "–" if value is None else value


def _quoted(text: object) -> str:
    return f"<blockquote>{inline_code(text)}</blockquote>\n" if text else ""


def inline_code(text: object) -> str:
    """Render a text that a user typed. Only backticks around code are interpreted as markup."""
    return _CODE.sub(r"<code>\1</code>", html(text))


def _members(data: Mapping[str, Any]) -> str:
    if not data:
        return ""
    shown = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for name, value in data.items()
    }
    rows = "".join(f"<dt>{html(name)}</dt><dd>{html(value)}</dd>" for name, value in shown.items())
    return f'<dl class="members">{rows}</dl>\n'


def _figure(pinned: Mapping[str, Any], picture: Callable[[str], bytes]) -> str:
    caption = pinned["caption"]
    try:
        content = base64.b64encode(picture(pinned["name"])).decode("ascii")
    except CardAppError as error:
        return f'<p class="missing">{html(caption)} {html(error.detail)}</p>\n'
    size = f'width="{int(pinned["width"])}" height="{int(pinned["height"])}"'
    return (
        f'<figure class="evidence"><img {size} alt="{html(caption or "evidence")}" '
        f'src="data:{html(pinned["media_type"])};base64,{content}">'
        f"<figcaption>{html(caption)} {clock(pinned['at'])}</figcaption></figure>\n"
    )


def _arena_figure(name: str, reading: Mapping[str, Any]) -> str:
    """Render the memory of the arena as a bar with a caption. Returns "" if the reading ``{base, size, used,
    high_water, blocks}`` is invalid. ``name`` is unique on the page."""
    found = arena_from_reading(reading)
    if found is None:
        return ""
    diagram = svg.render(memory.strip(name, "the arena", found, _ARENA_WIDTH))
    return f'<figure class="arena">{diagram}<figcaption>{html(memory.occupancy(found))}</figcaption></figure>\n'
