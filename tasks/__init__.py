"""Stages of a tuning run: plain functions (`tasks.stages`) and their Prefect shells."""

OWNER = "tilework"  # tells it from other packages of this name: tilework/shadows.py
