"""UML diagrams of a card from one coordinate model: laid out once in millimetres, drawn as SVG and as TikZ.

``activity`` and ``states`` and ``memory`` lay out, ``svg`` and ``tikz`` draw; what passes between them is ``model``.
A renderer computes no position: whatever a page shows, the PDF shows in the same place.
"""
