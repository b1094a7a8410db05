"""The card application: worksheets about a program. A debugger reproduces each program state that they describe."""

__version__ = "0.1.0"
