"""``torch.compile(model, backend="tilework")``: PyTorch's graphs as compiled networks.

    backend     what torch.compile calls with a graph; gradients are refused
    settings    what ``mode`` and ``options`` say
    compiled    a graph, and the forms of it that were compiled so far
    form        a graph with its constants and sizes fixed: segments, and operators between them
    segment     a compiled network that takes and gives tensors
    partition   which nodes go into segments
    notes       what is said once

Importing `tilework` does not import this package, which needs torch.
"""

from __future__ import annotations

from tilework.torch.backend import backend
from tilework.torch.settings import Settings

__all__ = ["Settings", "backend"]
