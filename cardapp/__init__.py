"""The card application: worksheets that bring a real debugger to every state they describe."""
