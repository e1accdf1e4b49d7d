"""The version of the rules of GPUs, by itself: whoever asks of records alone needs no more."""

RULES_VERSION = 1
"""Raised whenever a sketch or the meaning of its columns changes: rows of another version are
never replayed."""
