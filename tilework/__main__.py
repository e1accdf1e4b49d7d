"""``python -m tilework``, and the console script: the command line, once it is known to be ours.

The engine knows nothing of the layers above it. The command line is reached by its name, as an
entry point would, so that a shadow in the place of `flows` is told before it is imported.
"""

from __future__ import annotations

import importlib
import sys

from tilework.shadows import shadowed


def main() -> None:
    """Entry point of the console script; exit code 2 where other packages stand in our place."""
    line = shadowed()
    if line is not None:
        print(f"error: {line}", file=sys.stderr)  # noqa: T201
        sys.exit(2)
    importlib.import_module("flows.cli").main()


if __name__ == "__main__":
    main()
