"""The search: evolution over decision rows, the task scheduler, and the tuning loop."""
