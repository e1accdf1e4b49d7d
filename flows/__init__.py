"""Prefect flows and the command line: what happens in which order."""
