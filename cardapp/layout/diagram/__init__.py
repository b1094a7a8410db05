"""Diagrams of a card: laid out once in millimetres, rendered as SVG and TikZ.

``activity``, ``states`` and ``memory`` lay out diagrams of the classes in ``shapes``; ``svg`` and ``tikz`` render
these. A renderer computes no positions, so HTML and PDF show the same diagram.
"""
