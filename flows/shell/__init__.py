"""Prefect as a shell that may break: what a flow tells its server goes out from the side.

The search waits for nothing that a server answers. Events, logs, pages, names and final states are
handed to one `Publisher`, which sends them in a thread of its own, keeps them on disk while the
server is away, and sends them when it is back (docs/prefect.md).
"""

from __future__ import annotations

from flows.shell.published import PublishedRun, published

__all__ = ["PublishedRun", "published"]
