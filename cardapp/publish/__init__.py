"""What hands a card out or checks it: layout files, export to HTML, LaTeX and PDF, and the check of a whole card."""
