"""The service's side of the chosen session: the connection, the activation of checkpoints, SYNC, the editor."""
