"""Shows the progress report (``teams``) as a page: its Markdown rendered as one self-contained HTML file."""

from __future__ import annotations

from cardapp.card.model import Card
from cardapp.layout.html.text_blocks import unmeasured
from cardapp.reports import document

STYLE = document.style_sheet("answers.css")
CONTENT_SECURITY_POLICY = document.policy(STYLE)


def render(learner: str, card: Card, report: str) -> str:
    """Return the file. ``report`` is the Markdown of ``teams.render``."""
    return (
        f"{document.opening(f'{learner} · progress report · {card.title}', STYLE)}"
        f"<main>\n{unmeasured(report, keys=(), rank=1)}</main>\n"
        '<footer><p>Progress report · <a href="teams.md">as Markdown, to paste into a chat</a></p></footer>\n'
        "</body>\n</html>\n"
    )
