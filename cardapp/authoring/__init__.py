"""Tools for authors of cards: checks, replays, repairs, records."""
