"""The card application: worksheets that bring a real debugger to every state they describe."""

__version__ = "0.1.0"
