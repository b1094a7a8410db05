"""A card's sheets as LaTeX for lualatex: the preamble from the layout's tokens, each part in its frame; pure."""
