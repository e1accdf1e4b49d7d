"""Models by NNSmith 0.1.0, unmodified; what is newer than it is met around it.

It was written for NumPy before 1.24, whose aliases of built-in types it uses, and for the exporter
that traces TorchScript, which PyTorch 2.9 and newer take only when asked.
"""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import random
import warnings
from typing import Any

import numpy as np
import onnx
from _case import Case


@functools.cache
def _nnsmith(kind: str) -> tuple[Any, Any, Any]:
    """What generates, the class of a model of this kind (``onnx``, ``torch``), its operators."""
    for name in ("bool", "int", "float", "object", "complex", "str"):
        if name not in np.__dict__:
            setattr(np, name, __builtins__[name])
    import torch

    export = torch.onnx.export
    torch.onnx.export = functools.partial(export, dynamo=False)
    warnings.filterwarnings("ignore")
    from nnsmith.abstract.extension import activate_ext
    from nnsmith.graph_gen import model_gen
    from nnsmith.materialize import Model
    from nnsmith.narrow_spec import auto_opset

    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    with contextlib.redirect_stdout(io.StringIO()):
        made = Model.init(kind, backend_target="cpu")
        made.add_seed_setter()
        operators = auto_opset(made, None, vulops=False)
        activate_ext(opset=operators, factory=None)
    return model_gen, made, operators


def generate(seed: int, kind: str = "onnx") -> Any:
    """NNSmith's model of a seed, with weights, and its oracle; needs ``nnsmith`` and ``torch``."""
    model_gen, made, operators = _nnsmith(kind)
    import torch

    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)
    with contextlib.redirect_stdout(io.StringIO()):
        graph = model_gen(
            opset=operators,
            method="symbolic-cinit",
            seed=seed,
            max_elem_per_tensor=4096,
            max_nodes=1 + seed % 9,
            timeout_ms=3000,
        )
        model = made.from_gir(graph.make_concrete())
        model.refine_weights()
        return model, model.make_oracle()


def nnsmith_case(seed: int) -> Case:
    """NNSmith's ONNX model of a seed."""
    model, oracle = generate(seed)
    proto = onnx.ModelProto()
    proto.CopyFrom(model.native_model)
    return Case(proto, {n: np.asarray(a) for n, a in oracle.input.items()})
