"""Reports on a card's progress and events. No clock, socket or SQL: the caller passes rows, time and images."""
