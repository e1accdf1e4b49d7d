"""Tensor expressions: declare what is computed, not how."""

from __future__ import annotations

from tilework.te import functions
from tilework.te.dag import ComputeDAG
from tilework.te.evaluate import evaluate
from tilework.te.expr import Axis, Const, Expr, Read, Reduce
from tilework.te.functions import *  # noqa: F403 (its names stand once, in its __all__)
from tilework.te.tensor import Compute, Placeholder, Tensor, compute, placeholder, reduce_axis

__all__ = [
    "Axis", "Compute", "ComputeDAG", "Const", "Expr", "Placeholder", "Read", "Reduce",
    "Tensor", "compute", "evaluate", "placeholder", "reduce_axis",
]  # fmt: skip
__all__ += functions.__all__
