"""The service's side of the chosen session: which one it is, the activation of checkpoints there, its editor."""
