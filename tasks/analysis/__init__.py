"""Questions to a record store: few columns, whole at a time; no record becomes an object.

Each module answers one question with frozen values, ready for tables, JSON and notebooks:
`slower`, `coverage`, `errors`, `night`, `runs`. What they share is in `frames` (reading, and what
counts as the best) and `moments` (what ``since`` means).
"""
