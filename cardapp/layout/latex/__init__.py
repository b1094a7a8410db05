"""The LaTeX emitter: a card's sheets for lualatex."""
