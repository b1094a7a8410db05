"""The card: its model and its rules. Pure code without clock, socket, SQL or HTTP."""
