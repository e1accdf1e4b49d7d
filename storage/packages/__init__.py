"""Packages: the best records of networks for targets in one file, to be shared and installed.

`manifest` says what one is about, `package` reads, writes and checks the file, `make` makes one of
stores or of packages, `signing` tells who made it, `installed` keeps those of this user,
`index` says the same without Parquet, `used` finds what a compile looks at, `history` lets it
ask them, `knowledge` puts a store and all packages together, and `diff`
compares.
"""

from __future__ import annotations

from storage.packages.knowledge import Knowledge, knowledge

__all__ = ["Knowledge", "knowledge"]
