"""One model with inputs: what is generated, judged, made smaller, and kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Case:
    """A model and the arrays that it is run on, by input name."""

    model: onnx.ModelProto
    inputs: dict[str, Array]

    def save(self, folder: Path, name: str) -> Path:
        """Write ``name.onnx`` and its inputs as ``name.npz``; returns the model's path."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.onnx"
        path.write_bytes(self.model.SerializeToString())
        if self.inputs:
            np.savez_compressed(path.with_suffix(".npz"), **_plain(self.inputs))
        return path

    @classmethod
    def load(cls, path: Path) -> Case:
        """What `save` wrote."""
        model = onnx.load(path)
        kinds = {i.name: i.type.tensor_type.elem_type for i in model.graph.input}
        inputs = {}
        if path.with_suffix(".npz").exists():
            with np.load(path.with_suffix(".npz")) as file:
                for name in file.files:
                    kind = onnx.helper.tensor_dtype_to_np_dtype(kinds[name])
                    array = file[name]
                    inputs[name] = array if array.dtype == kind else array.view(kind)
        return cls(model, inputs)


def _plain(arrays: dict[str, Array]) -> dict[str, Array]:
    """NumPy files know no bfloat16: its bits are kept."""
    return {n: a.view(np.uint16) if a.dtype.name == "bfloat16" else a for n, a in arrays.items()}
