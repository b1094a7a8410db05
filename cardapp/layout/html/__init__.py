"""The HTML emitter: writes a card's sheets as one self-contained file without script, with embedded fonts."""
