"""Schedules as loop programs: what a kind of machine then prints as code, or interprets."""
