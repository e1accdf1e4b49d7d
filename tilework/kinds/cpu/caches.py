"""What the caches of all CPUs that we know have in common."""

from __future__ import annotations

LINE_BYTES = 64
PAGE_BYTES = 4096
