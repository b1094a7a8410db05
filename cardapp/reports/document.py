"""The frame of a report that is one self-contained HTML file: no script, one inline style sheet, images as ``data:``
URIs, and a Content-Security-Policy that allows nothing else."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files

from cardapp.layout.escape import html
from cardapp.layout.html import theme


def style_sheet(name: str, *more: str) -> str:
    """The sheets' fonts and colours, ``more`` rules, and then those of the file ``name`` in this package."""
    return "".join(
        (
            theme.fonts(),
            theme.BACKGROUND,
            f":root{{{theme.properties(theme.COLORS)}}}\n",
            theme.on_dark_screen(theme.COLORS),
            *more,
            files(__package__).joinpath(name).read_text(encoding="utf-8"),
        )
    )


def policy(style: str) -> str:
    """The Content-Security-Policy of a report with this style sheet."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; font-src data:; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


def opening(title: str, style: str) -> str:
    """The file up to the beginning of its body."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{html(policy(style))}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{html(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
    )
