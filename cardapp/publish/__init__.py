"""Finds layout files, exports a card to HTML, LaTeX and PDF, and checks a whole card."""
