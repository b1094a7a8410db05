"""One-shot tasks on the database. Each is idempotent, may run several times at once, and reports what it did."""
