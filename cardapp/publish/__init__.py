"""Layout files, the export of a card to HTML, LaTeX and PDF, and the check of a whole card."""
