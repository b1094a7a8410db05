"""The layout of a card: layout files, sheets, diagrams, and the HTML and LaTeX emitters. Pure code."""
