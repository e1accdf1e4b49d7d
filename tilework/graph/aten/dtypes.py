"""Element types and arrays between PyTorch and NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilework.dtypes import numpy_dtype
from tilework.graph.operators.base import ANY

if TYPE_CHECKING:
    import torch


def dtype_name(dtype: torch.dtype) -> str | None:
    """NumPy's name of an element type; None where networks have no such type."""
    name = str(dtype).removeprefix("torch.")
    return name if name in ANY else None


def array_of(tensor: torch.Tensor) -> NDArray[Any]:
    """A tensor's values as an array, in the same memory where NumPy can name it."""
    import torch

    plain = tensor.detach().resolve_conj().resolve_neg()
    if plain.dtype == torch.bfloat16:
        return np.asarray(plain.contiguous().view(torch.int16).numpy()).view(
            numpy_dtype("bfloat16")
        )
    return np.asarray(plain.numpy())
