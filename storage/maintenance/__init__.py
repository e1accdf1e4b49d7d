"""Looking after a store while others write it: compact, check, repair, distill, vacuum, merge.

All of it works on files and footers (`storage.files`, `storage.names`, `storage.compacts`); none
of it makes objects of records. Each step is whole, or undone by the next run, wherever it is
killed.
"""
