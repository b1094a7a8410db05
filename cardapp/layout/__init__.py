"""What a card looks like: the layout file, the sheets a card fills with it, its diagrams, and the emitters; pure."""
