"""A card's sheets as one HTML file that needs nothing else: no script, no other file, fonts inside; pure."""
