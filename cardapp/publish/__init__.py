"""Finds layout files, and exports a card to HTML, LaTeX and PDF."""
