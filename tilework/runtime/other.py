"""What another engine runs of a network: ONNX Runtime, an extra that is imported here alone.

Arrays are handed over where they lie: inputs are read from the caller's memory, outputs of a known
shape are written into arrays that are ready for our kernels, and those whose extents data decide
stay where the engine put them. Its threads sleep between runs, so that they do not keep cores
from ours.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.dtypes import numpy_dtype
from tilework.errors import ModuleError
from tilework.frozen import frozen
from tilework.locks import Lock
from tilework.runtime.arrays import ALIGN, aligned_empty

Array = NDArray[Any]

OLDEST = (1, 20)
INSTALL = "pip install 'tilework[onnxruntime]'"

_NAMES = {"float": "float32", "double": "float64"}
_PLAIN = {
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16",
    "bfloat16", "float32", "float64",
}  # fmt: skip
"""Element types whose arrays need no copy."""
_BFLOAT16 = 16  # ONNX's number of the type that NumPy does not have
_LONGEST = 400  # characters of the engine's own messages
_SILENT = 4


@frozen(eq=False)
class OtherModel:
    """A part of a network as ONNX Runtime takes it.

    Attributes:
        model: a serialized ONNX model. Its large constants lie outside of it, in the file
            ``location``, which need not be there.
        weights: these constants, by name.
        location: the file that ``model`` names.
        inputs, outputs: names, in order.
        operators: the kinds of its nodes, each once.
    """

    model: bytes
    weights: Mapping[str, Array]
    location: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    operators: tuple[str, ...]


@frozen
class OtherValue:
    """What the engine says of an input or output.

    Attributes:
        kind: its text, such as ``tensor(float)``.
        dtype: its element type; empty if it is no tensor of a type that NumPy has.
        shape: a text or None for extents that are not known.
    """

    kind: str
    dtype: str
    shape: tuple[int | str | None, ...]


@frozen
class Weight:
    """Where a large constant lies in the file of a part's weights, in bytes from its beginning."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int

    @property
    def nbytes(self) -> int:
        """Its size."""
        return math.prod(self.shape) * numpy_dtype(self.dtype).itemsize


def layout(weights: Mapping[str, Array]) -> tuple[Weight, ...]:
    """Where large constants lie in the file of a part's weights: in order, each aligned."""
    placed, at = [], 0
    for name, array in weights.items():
        placed.append(Weight(name, str(array.dtype), array.shape, at))
        at += -(-array.nbytes // ALIGN) * ALIGN
    return tuple(placed)


def engine(operators: Sequence[str] = ()) -> Any:
    """The module ``onnxruntime``.

    Args:
        operators: what is to be run by it, for the message.

    Raises:
        ModuleError: it is not installed, or too old.
    """
    what = f"{shortened(operators)}: left to ONNX Runtime" if operators else "ONNX Runtime"
    wanted = ".".join(map(str, OLDEST))
    try:
        import onnxruntime
    except ImportError as e:
        raise ModuleError(f"{what}, which is not installed: {INSTALL} ({wanted} or newer)") from e
    here = tuple(map(int, re.findall(r"\d+", onnxruntime.__version__)[:2]))
    if here < OLDEST:
        raise ModuleError(
            f"{what}, of which {onnxruntime.__version__} is installed and {wanted} is needed: "
            f"{INSTALL} --upgrade"
        )
    return onnxruntime


def version() -> str:
    """The engine's name and version; its name alone where it is not installed."""
    try:
        return "ONNX Runtime " + ".".join(engine().__version__.split(".")[:2])
    except ModuleError:
        return "ONNX Runtime"


def shortened(names: Sequence[str], most: int = 8) -> str:
    """Names in a list that stays short."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


class OtherPart:
    """A part that ONNX Runtime runs. Several Python threads may run one part at once.

    Args:
        label: names the part in messages.
        threads: of a run; see `set_threads`.
        adjust: changes the engine's options in place, if need be.
    """

    def __init__(
        self,
        model: OtherModel,
        label: str,
        threads: int,
        adjust: Callable[[Any], object] | None = None,
    ) -> None:
        self.model, self.label, self._adjust = model, label, adjust
        self.num_threads = threads
        self._sessions: dict[int, Any] = {}
        self._opening = Lock()

    def set_threads(self, threads: int) -> None:
        """Set the number of threads of the runs to come; the engine opens the part anew."""
        self.num_threads = threads

    def values(self) -> dict[str, OtherValue]:
        """What the engine says of inputs and outputs; opens the part.

        Raises:
            ModuleError: it is not there, or cannot open the part.
        """
        session = self.session(self.num_threads)
        return {v.name: _value(v) for v in (*session.get_inputs(), *session.get_outputs())}

    def run(self, values: Mapping[str, Any], into: Mapping[str, Array], threads: int) -> list[Any]:
        """Run once.

        Args:
            values: of all inputs, by name: arrays, or whatever else the engine takes.
            into: arrays for outputs of a known shape, by name; they are written.
            threads: number of threads.

        Returns:
            A value per output, those of ``into`` among them.

        Raises:
            ModuleError: a node fails; the message names it and the part.
        """
        return Binding(self, threads)(values, into)

    def session(self, threads: int) -> Any:
        """The engine's session for so many threads."""
        with self._opening:
            if threads not in self._sessions:
                opened = self._open(threads)
                self._sessions = {threads: opened}  # one at a time: each has weights of its own
            return self._sessions[threads]

    def failed(self, error: Exception, doing: str) -> ModuleError:
        """An error of the engine as one of ours."""
        said = " ".join(str(error).split())
        if len(said) > _LONGEST:
            said = f"{said[:_LONGEST]} ..."
        return ModuleError(f"{self.label}: {version()} cannot {doing} it: {said}")

    def _open(self, threads: int) -> Any:
        ort = engine(self.model.operators)
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = _SILENT
        # threads spin within a run, which a recurrent layer's many small products need, and not
        # after it, on cores that our parts want
        options.add_session_config_entry("session.force_spinning_stop", "1")
        if self._adjust is not None:
            self._adjust(options)
        weights = self.model.weights
        try:
            if weights:
                held = [ort.OrtValue.ortvalue_from_numpy(a) for a in weights.values()]
                options.add_external_initializers(list(weights), held)
            return ort.InferenceSession(
                self.model.model, options, providers=["CPUExecutionProvider"]
            )
        except Exception as e:  # of a kind for each of the engine's codes
            raise self.failed(e, "open") from e


class Binding:
    """Runs of a part, one after the other, that bind again only what lies elsewhere."""

    def __init__(self, part: OtherPart, threads: int) -> None:
        self._part = part
        self._session = part.session(threads)
        self._ort = engine()
        self._inputs = {v.name: _value(v) for v in self._session.get_inputs()}
        self._outputs = {v.name: _value(v) for v in self._session.get_outputs()}
        every = (*self._inputs.values(), *self._outputs.values())
        self._plain = all(v.dtype in _PLAIN for v in every)
        self._binding: Any = self._session.io_binding() if self._plain else None
        self._bound: dict[str, Any] = {}

    def __call__(self, values: Mapping[str, Any], into: Mapping[str, Array]) -> list[Any]:
        """See `OtherPart.run`."""
        names = self._part.model.outputs
        try:
            if self._binding is None:
                results = self._session.run(list(names), {n: values[n] for n in self._inputs})
                return [_into(into.get(n), a) for n, a in zip(names, results, strict=True)]
            for name, value in self._inputs.items():
                self._bind_input(name, value, values[name])
            for name in names:
                self._bind_output(name, into.get(name))
            self._session.run_with_iobinding(self._binding)
        except ModuleError:
            raise
        except Exception as e:  # of a kind for each of the engine's codes
            raise self._part.failed(e, "run") from e
        if all(name in into for name in names):
            return [into[name] for name in names]
        fetched = self._binding.get_outputs()
        return [
            into[name] if name in into else _array(value, self._outputs[name].dtype)
            for name, value in zip(names, fetched, strict=True)
        ]

    def _bind_input(self, name: str, wanted: OtherValue, given: Any) -> None:
        if self._bound.get(name) is given:
            return
        array = np.asarray(given)
        if not array.flags.c_contiguous:
            array = array.copy()
        if array.dtype != numpy_dtype(wanted.dtype):
            raise ModuleError(
                f"{self._part.label}: {name} is {array.dtype}, and {wanted.dtype} is needed"
            )
        self._binding.bind_ortvalue_input(name, self._shared(array))
        self._bound[name] = array  # the engine knows its memory alone; a copy is made anew

    def _bind_output(self, name: str, into: Array | None) -> None:
        if into is None:
            self._binding.bind_output(name)
        elif self._bound.get(name) is not into:
            self._binding.bind_ortvalue_output(name, self._shared(into))
            self._bound[name] = into

    def _shared(self, array: Array) -> Any:
        """The engine's value of an array, in the same memory."""
        make = self._ort.OrtValue
        if array.dtype == numpy_dtype("bfloat16"):
            return make.ortvalue_from_numpy_with_onnx_type(array.view(np.uint16), _BFLOAT16)
        return make.ortvalue_from_numpy(array)


def inferred(model: bytes) -> dict[str, OtherValue]:
    """What the engine knows of the outputs of a model before a run; nothing where it fails."""
    try:
        ort = engine()
        options = ort.SessionOptions()
        options.log_severity_level = _SILENT
        options.intra_op_num_threads = 1
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception:  # it is not there, or does not take the model; who runs it will tell
        return {}
    return {v.name: _value(v) for v in session.get_outputs()}


def room(dtype: str, shape: Sequence[int | None] | None) -> Array | None:
    """An array for an output; None where its extents, or its type, are not known before."""
    if shape is None or dtype not in _PLAIN:
        return None
    known = [n for n in shape if n is not None]
    if len(known) < len(shape) or not math.prod(known):
        return None
    return aligned_empty(known, dtype)


def _value(said: Any) -> OtherValue:
    match = re.fullmatch(r"tensor\((\w+)\)", said.type)
    dtype = _NAMES.get(match[1], match[1]) if match else ""
    shape = tuple(None if isinstance(n, int) and n < 0 else n for n in said.shape or ())
    return OtherValue(said.type, dtype if dtype in _PLAIN else "", shape)


def _into(room: Array | None, value: Any) -> Any:
    """A value, moved to where it belongs if that is said."""
    if room is None:
        return value
    if room.shape != value.shape or room.dtype != value.dtype:
        raise ValueError(
            f"a result of {room.dtype}{list(room.shape)} turns out as "
            f"{value.dtype}{list(value.shape)}"
        )
    room[...] = value
    return room


def _array(value: Any, dtype: str) -> Array:
    """What the engine computed, in its own memory."""
    if dtype != "bfloat16":
        array: Array = value.numpy()
        return array
    import ctypes

    shape = tuple(value.shape())
    if not math.prod(shape):
        return np.empty(shape, numpy_dtype(dtype))
    size = 2 * math.prod(shape)
    raw = (ctypes.c_char * size).from_address(value.data_ptr())
    return np.frombuffer(raw, np.uint16).view(numpy_dtype(dtype)).reshape(shape).copy()
