"""What a card is: pure rules, no clock, no socket, no SQL, no HTTP."""
