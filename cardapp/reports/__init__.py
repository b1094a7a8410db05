"""Reports on a card's progress and events. The package uses no clock, socket or SQL: the caller passes the events, the
time and the images."""
