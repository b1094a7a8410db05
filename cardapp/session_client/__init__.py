"""The service's access to the chosen session: the connection, the activation of checkpoints, SYNC, and the editor."""
