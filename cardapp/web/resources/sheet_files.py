"""The card's sheets as files to keep, hand out or print. They equal those of ``cardapp emit``, in the card's layout."""

from __future__ import annotations

from urllib.parse import quote

from cardapp.authoring import proof_records
from cardapp.card.source import LoadedCard
from cardapp.layout.html.document import CONTENT_SECURITY_POLICY
from cardapp.publish import export, layouts
from cardapp.web.http import Reply, Request

HTML = "text/html; charset=utf-8"
PDF = "application/pdf"


def html(request: Request) -> Reply:
    """The sheets as one self-contained HTML file."""
    policy = f"{CONTENT_SECURITY_POLICY}; frame-ancestors 'none'"
    return _file(request, "html", HTML).with_headers(("Content-Security-Policy", policy))


def pdf(request: Request) -> Reply:
    """The sheets as PDF. LuaLaTeX takes some seconds."""
    return _file(request, "pdf", PDF)


def _file(request: Request, form: str, media_type: str) -> Reply:
    settings, served = request.services.settings, request.services.card_loader.current()
    loaded = LoadedCard(served.card, served.identity, served.path)
    proved = proof_records.phrase(proof_records.last(loaded, settings.state_database))
    environment = {"CARD_STATE_DIR": str(settings.state_dir)}
    made = export.emit(loaded, layouts.find(served.card.layout), form, environment, proved)
    name = quote(f"{served.identity.id}.{form}", safe="")
    return Reply(
        made.content, media_type=media_type, headers=(("Content-Disposition", f"attachment; filename={name}"),)
    )
