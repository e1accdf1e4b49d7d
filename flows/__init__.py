"""Prefect flows and the command line: what happens in which order."""

OWNER = "tilework"  # tells it from other packages of this name: tilework/shadows.py
