"""The ONNX backend interface: `prepare`, `run_model`, `run_node`, `supports_device`.

Tools that speak this interface (`onnx.backend.base`) can run models with Tilework:

    import tilework.backend as backend

    outputs = backend.prepare(onnx.load("model.onnx")).run([x])

A model whose inputs have symbolic extents is compiled at its first run, and once more for every
other combination of shapes. The same holds for inputs whose *values* decide a shape (the target
of a Reshape, the bounds of a Slice): a compiled network is static, so it is compiled for the
values of the run. The last few compiled networks are kept.

Options, as keyword arguments of `prepare`, `run_model` and `run_node`: ``target`` (text or
`tilework.Target`; by default this CPU), ``records`` (where measured schedules are looked up),
``num_threads``, ``precision``, ``strict`` (refuse what cannot be compiled, which ONNX Runtime runs
otherwise, if it is installed).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx.backend.base import Backend, BackendRep, namedtupledict

from tilework.cache import BoundedCache
from tilework.compiler import compile
from tilework.errors import ModuleError
from tilework.graph import Network, Parts, from_onnx
from tilework.graph.onnx import ValuesNeeded
from tilework.graph.onnx.cut import cut
from tilework.runtime import Module
from tilework.runtime.names import in_order
from tilework.runtime.parts import PartedModule

_KEPT = 8
_OPTIONS = ("target", "records", "num_threads", "precision", "strict")

Array = NDArray[Any]


class TileworkRep(BackendRep):
    """A model ready to run.

    Attributes:
        inputs: names of the inputs that `run` takes, in order.
        outputs: names of what it returns, in order.
    """

    def __init__(self, model: onnx.ModelProto, options: Mapping[str, Any]) -> None:
        self._model = model
        self._options = options
        constants = {t.name for t in model.graph.initializer}
        self.inputs = [i.name for i in model.graph.input if i.name not in constants]
        self.outputs = [o.name for o in model.graph.output]
        self._results = namedtupledict("Outputs", self.outputs)
        self._bound: tuple[str, ...] = ()  # inputs whose values decide shapes
        self._modules: BoundedCache[object, Module | PartedModule] = BoundedCache(_KEPT)
        given = [i for i in model.graph.input if i.name not in constants]
        if all(_static(i) or not i.type.HasField("tensor_type") for i in given):
            try:
                self._modules.put(self._key({}), self._compile(self._read({}, {})))
            except ValuesNeeded as e:
                self._bound = e.inputs

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Array, ...]:
        """Run the model once.

        Args:
            inputs: arrays by name, or in order, or the only one.
            kwargs: none are known; they are there for the interface.

        Returns:
            One array per output, in a tuple that is also readable by the outputs' names.

        Raises:
            ModuleError: inputs are missing, unknown, or of another shape or element type.
            NetworkError: the model cannot be compiled for these shapes or values.
        """
        arrays = self._named(inputs)
        while True:
            try:
                module = self._module(arrays)
                break
            except ValuesNeeded as e:
                if not set(e.inputs) - set(self._bound):
                    raise
                self._bound = tuple(dict.fromkeys((*self._bound, *e.inputs)))
        return self._results(*module.run({n: arrays[n] for n in module.inputs}))

    def _module(self, arrays: Mapping[str, Array]) -> Module | PartedModule:
        """The network compiled for the shapes of ``arrays`` and the values that decide shapes."""
        tensors = {n: a for n, a in arrays.items() if isinstance(a, np.ndarray)}

        def compiled() -> Module | PartedModule:
            values = {n: arrays[n] for n in self._bound}
            shapes = {n: a.shape for n, a in tensors.items() if n not in values}
            return self._compile(self._read(shapes, values))

        return self._modules.get_or_make(self._key(arrays), compiled)

    def _key(self, arrays: Mapping[str, Array]) -> object:
        """What a compiled network depends on; nothing where the model itself says all of it."""
        symbolic = [i.name for i in self._model.graph.input if not _static(i)]
        shapes = [
            (n, np.shape(arrays[n])) for n in symbolic if isinstance(arrays.get(n), np.ndarray)
        ]
        values = [(n, arrays[n].shape, arrays[n].tobytes()) for n in self._bound]
        return (*shapes, *values)

    def _read(self, shapes: Mapping[str, Any], values: Mapping[str, Array]) -> Network | Parts:
        if self._options.get("strict", False):
            return from_onnx(self._model, shapes, values)
        return cut(self._model, shapes, values, ask=True)

    def _compile(self, net: Network | Parts) -> Module | PartedModule:
        options = {k: v for k, v in self._options.items() if k != "strict"}
        target = options.pop("target", None) or "llvm -mcpu=native"
        return compile(net, target, **options)

    def _named(self, inputs: Any) -> dict[str, Array]:
        given = [inputs] if isinstance(inputs, np.ndarray) else inputs
        names = ", ".join(self.inputs)
        arrays = in_order(self.inputs, given, lambda: f"the model takes the inputs {names}")
        return {n: _value(a) for n, a in zip(self.inputs, arrays, strict=True)}


class TileworkBackend(Backend):
    """The interface as the class that `onnx.backend.base` describes."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> TileworkRep:
        """Compile a model for repeated runs.

        Args:
            model: the model; it is not changed.
            device: ``"CPU"``.
            kwargs: see the module.

        Raises:
            NetworkError: the model is corrupt or uses something unsupported.
            ModuleError: the device or an option is unknown.
        """
        if not cls.supports_device(device):
            raise ModuleError(f"device '{device}' is not supported; use 'CPU'")
        unknown = [k for k in kwargs if k not in _OPTIONS]
        if unknown:
            raise ModuleError(
                f"unknown option {', '.join(unknown)}; there are {', '.join(_OPTIONS)}"
            )
        return TileworkRep(model, kwargs)

    @classmethod
    def run_model(
        cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any
    ) -> tuple[Array, ...]:
        """Compile a model and run it once; see `prepare` and `TileworkRep.run`."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Array, ...]:
        """Run one operator on arrays.

        Args:
            node: the operator; the names of its inputs are free.
            inputs: arrays by name or in order.
            device: ``"CPU"``.
            outputs_info: element type and shape of each output; not needed.
            kwargs: ``opset_version`` (by default the newest that is known), and see the module.
        """
        version = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        names = [n for n in dict.fromkeys(node.input) if n]
        if isinstance(inputs, Mapping):
            arrays = {n: np.asarray(inputs[n]) for n in names if n in inputs}
        else:
            given = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
            arrays = {n: np.asarray(a) for n, a in zip(names, given, strict=False)}
        graph = onnx.helper.make_graph(
            [node],
            node.op_type,
            [_info(n, a) for n, a in arrays.items()],
            [onnx.ValueInfoProto(name=n) for n in node.output if n],
        )
        opsets = [onnx.helper.make_opsetid(node.domain, version)]
        model = onnx.helper.make_model(graph, opset_imports=opsets)
        return cls.run_model(model, arrays, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether models run on ``device``: ``"CPU"``, also with a number behind a colon."""
        return device.split(":")[0] == "CPU"


prepare = TileworkBackend.prepare
run_model = TileworkBackend.run_model
run_node = TileworkBackend.run_node
supports_device = TileworkBackend.supports_device

__all__ = [
    "TileworkBackend", "TileworkRep", "prepare", "run_model", "run_node", "supports_device",
]  # fmt: skip


def _value(given: Any) -> Any:
    """An array; sequences, and optional values that are not there, as they are."""
    return given if given is None or isinstance(given, list) else np.asarray(given)


def _info(name: str, array: Array) -> onnx.ValueInfoProto:
    kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.helper.make_tensor_value_info(name, kind, array.shape)


def _static(value: onnx.ValueInfoProto) -> bool:
    kind = value.type.tensor_type
    return kind.HasField("shape") and all(d.dim_value > 0 for d in kind.shape.dim)
