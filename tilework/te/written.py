"""Attributes of a computation that puts new rows into a cache."""

WRITTEN = "rows_written"
"""Along which dimension rows of the first input are replaced, where the third says."""
IN_PLACE = "in_place"
"""Whether input and output are one buffer, so that all other rows are there already."""
