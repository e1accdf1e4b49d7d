"""``python -m tests.flows.still_cli``: the command line, timed as `tests.flows.still` says."""

from __future__ import annotations

import pytest

from flows.cli import main
from tests.flows.still import still

if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:
        still(patch)
        main()
