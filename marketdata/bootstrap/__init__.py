"""One-shot tasks on the database. Each can be run again, also at the same time as itself, and says what it did."""
