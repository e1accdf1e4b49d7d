"""``python tests/undisturbed.py SCRIPT ...``: a script on a usual machine that seems to be idle.

The tests beside it take its cores now and then. Samples that they disturb are discarded, and
where most are, timing goes on for four times as long as it was asked to. And what a virtual
machine shows of its host's caches may be so large that to read from beyond them takes seconds.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    from tilework.kinds.cpu import target
    from tilework.runtime.samples import RunDelay

    RunDelay.seconds = lambda _: 0.0  # type: ignore[method-assign]
    target.cache_sizes = lambda: (32 << 10, 1 << 20, 16 << 20)
    del sys.argv[0]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
