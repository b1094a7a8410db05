"""Reports made of stored rows and the card. Pure: no clock, no socket, no SQL; the pictures come through a callable."""
