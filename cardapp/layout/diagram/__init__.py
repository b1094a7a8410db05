"""Diagrams of a card. Each is laid out once in millimetres, and rendered as SVG and TikZ.

``activity``, ``states`` and ``memory`` lay out diagrams of the classes in ``shapes``; ``svg`` and ``tikz`` render them.
A renderer computes no positions, so HTML and PDF show the same diagram.
"""
