"""Operations on the database. Each can be repeated, may run several times at once, and reports what it did."""

from collections.abc import Callable

Say = Callable[[str], None]
"""Prints a line of an operation's report."""
