"""The API's side of the chosen session: which one it is, its checkpoint guard, its editor."""
