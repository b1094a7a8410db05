"""What an author of cards uses: checks, replays, repair, records."""
