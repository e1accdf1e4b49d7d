"""Read a network from an ONNX file.

This module loads and checks the file, binds symbolic extents, walks the graph and collects every
problem before it reports; `convert` says what each operator becomes.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilework.errors import NetworkError
from tilework.graph.ir import Builder, Network
from tilework.graph.onnx.context import Context, Unsupported
from tilework.graph.onnx.convert import CONVERTERS, FOLDABLE

if TYPE_CHECKING:
    import onnx

OLDEST_OPSET = 9
_MAX_LISTED = 20
_FOLD_LIMIT = 2**27  # elements that constant folding at import may produce


def from_onnx(
    path: str | PathLike[str], shapes: Mapping[str, Sequence[int]] | None = None
) -> Network:
    """Read a network from an ONNX file.

    Args:
        path: the file; weights stored beside it are found.
        shapes: full shapes of inputs, by name, for inputs with symbolic extents. A symbolic batch
            (the first extent) is 1 if it is not given.

    Raises:
        NetworkError: the file is missing, corrupt, or uses something unsupported (all of it is
            listed at once), or an input's shape is not known.
    """
    model = _load(Path(path))
    try:
        return _convert(model, Path(path), shapes or {})
    except NetworkError as e:
        raise NetworkError(f"cannot import '{path}': {e}") from e


def _load(path: Path) -> onnx.ModelProto:
    import onnx

    try:
        model = onnx.load(path)
    except FileNotFoundError as e:
        what = "does not exist" if not path.exists() else f"lacks its weight file {e.filename}"
        raise NetworkError(f"the ONNX file '{path}' {what}") from e
    except OSError as e:
        raise NetworkError(f"cannot read the ONNX file '{path}': {e.strerror or e}") from e
    except Exception as e:  # the parsers for the various file forms raise types of their own
        raise NetworkError(f"'{path}' is not a valid ONNX file: {_first_line(e)}") from e
    if not model.graph.node and not model.graph.output:
        raise NetworkError(f"'{path}' is not a valid ONNX file: it holds no network")
    return model


def _convert(model: onnx.ModelProto, path: Path, shapes: Mapping[str, Sequence[int]]) -> Network:
    opset = _opset(model)
    graph = model.graph
    b = Builder(graph.name or path.stem)
    walk = _Walk(b, opset)
    for tensor in graph.initializer:
        walk.constants[tensor.name] = _array(tensor)
    inputs = [i for i in graph.input if i.name not in walk.constants]
    for name, shape in _input_shapes(inputs, shapes).items():
        walk.values[name] = b.input(name, shape)
    for node in graph.node:
        walk.node(node)
    if walk.problems:
        raise NetworkError(_summary(walk.problems))
    outputs = []
    for out in graph.output:
        if out.name in walk.unoffered:
            op = walk.unoffered[out.name]
            raise NetworkError(
                f"its output '{out.name}', a further output of {op}, is unsupported"
            )
        if out.name not in walk.values and out.name not in walk.constants:
            raise NetworkError(f"the file is corrupt: its output '{out.name}' is never computed")
        outputs.append(walk.value(out.name))
    if not outputs:
        raise NetworkError("the file is corrupt: the network has no outputs")
    return b.finish(outputs)


def _opset(model: onnx.ModelProto) -> int:
    import onnx

    versions = [o.version for o in model.opset_import if o.domain in ("", "ai.onnx")]
    newest = onnx.defs.onnx_opset_version()
    if not versions:
        raise NetworkError("the file is corrupt: it names no operator set")
    if not OLDEST_OPSET <= versions[0] <= newest:
        raise NetworkError(
            f"operator set {versions[0]} is not supported; "
            f"export the model with one from {OLDEST_OPSET} to {newest}"
        )
    return versions[0]


def _array(tensor: onnx.TensorProto) -> np.ndarray:
    from onnx import numpy_helper

    try:
        return numpy_helper.to_array(tensor)
    except Exception as e:  # whatever a damaged tensor makes the reader raise
        raise NetworkError(
            f"the file is corrupt: constant '{tensor.name}' cannot be read: {_first_line(e)}"
        ) from e


def _input_shapes(
    inputs: Sequence[Any], given: Mapping[str, Sequence[int]]
) -> dict[str, tuple[int, ...]]:
    """Static shapes of the network's inputs."""
    from onnx import TensorProto

    names = [i.name for i in inputs]
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"its inputs: {', '.join(names)}"
            raise NetworkError(f"the network has no input '{name}'; {hint}")
    result = {}
    bound: dict[str, int] = {}
    for i in inputs:
        if not i.type.HasField("tensor_type"):
            raise NetworkError(f"input '{i.name}' is not a tensor")
        kind = i.type.tensor_type
        if kind.elem_type != TensorProto.FLOAT:
            known = {v: k.lower() for k, v in TensorProto.DataType.items()}
            dtype = known.get(kind.elem_type, "of an unknown type")
            raise NetworkError(f"input '{i.name}' is {dtype}; only float32 inputs are supported")
        if not kind.HasField("shape") and i.name not in given:
            raise NetworkError(f"input '{i.name}' has no shape; pass shapes={{'{i.name}': (...)}}")
        result[i.name] = _bind(i.name, list(kind.shape.dim), given.get(i.name), bound)
    return result


def _bind(
    name: str, dims: list[Any], given: Sequence[int] | None, bound: dict[str, int]
) -> tuple[int, ...]:
    if given is not None and dims and len(given) != len(dims):
        raise NetworkError(f"input '{name}' has {len(dims)} dimensions, the given shape {given}")
    shape: list[int] = []
    symbols: list[str] = []
    for d, dim in enumerate(dims if dims or given is None else [None] * len(given)):
        fixed = dim.dim_value if dim is not None and dim.dim_value > 0 else None
        symbol = dim.dim_param if dim is not None else ""
        if given is not None:
            extent = int(given[d])
            if fixed is not None and extent != fixed:
                raise NetworkError(
                    f"input '{name}' has extent {fixed} in dimension {d}, not {extent}"
                )
        elif fixed is not None:
            extent = fixed
        elif symbol and symbol in bound:
            extent = bound[symbol]
        elif d == 0:
            extent = 1
        else:
            symbols.append(symbol or f"dimension {d}")
            continue
        if extent < 1:
            raise NetworkError(f"input '{name}' has extent {extent} in dimension {d}")
        if symbol:
            bound[symbol] = extent
        shape.append(extent)
    if symbols:
        raise NetworkError(
            f"input '{name}' has symbolic extents ({', '.join(symbols)}); "
            f"pass its shape, for example shapes={{'{name}': (1, 3, 224, 224)}}"
        )
    _check_size(name, shape)
    return tuple(shape)


def _check_size(name: str, shape: Sequence[int]) -> None:
    from tilework.graph.operators import MAX_ELEMENTS

    size = 1
    for n in shape:
        size *= n
    if size > MAX_ELEMENTS:
        raise NetworkError(f"input '{name}' of shape {list(shape)} is too large")


class _Walk(Context):
    """Visits the nodes in order, and keeps going after a problem to find the others."""

    def __init__(self, b: Builder, opset: int) -> None:
        super().__init__(b, opset)
        self.problems: list[tuple[str, str, str]] = []  # (operator, node, reason or "")
        self.unknown: set[str] = set()  # values that depend on a problem
        self.unoffered: dict[str, str] = {}  # further outputs that nobody may read -> operator

    def node(self, node: onnx.NodeProto) -> None:
        where = node.name or (node.output[0] if node.output else "?")
        outputs = [o for o in node.output if o]
        converter = CONVERTERS.get(node.op_type)
        if node.domain not in ("", "ai.onnx"):
            self._problem(f"{node.domain}.{node.op_type}", where, "", outputs)
        elif converter is None and node.op_type not in FOLDABLE:
            self._problem(node.op_type, where, "", outputs)
        elif any(i in self.unknown for i in node.input):
            self.unknown.update(outputs)
        elif any(i in self.unoffered for i in node.input):
            other = next(i for i in node.input if i in self.unoffered)
            reason = (
                f"it reads '{other}', an output of {self.unoffered[other]} that is unsupported"
            )
            self._problem(node.op_type, where, reason, outputs)
        else:
            missing = [
                i for i in node.input if i and i not in self.values and i not in self.constants
            ]
            if missing:
                raise NetworkError(
                    f"the file is corrupt: node '{where}' reads '{missing[0]}', "
                    "which nothing before it defines"
                )
            try:
                self._convert(node, outputs)
            except Unsupported as e:
                self._problem(node.op_type, where, str(e), outputs)
            except (IndexError, KeyError, TypeError, ValueError, OverflowError) as e:
                self._problem(node.op_type, where, f"malformed: {_first_line(e)}", outputs)

    def _convert(self, node: onnx.NodeProto, outputs: list[str]) -> None:
        constant = all(i in self.constants for i in node.input if i)
        if constant and node.op_type in FOLDABLE and node.input:
            self.constants[outputs[0]] = self._fold(node)
            return
        if node.op_type not in CONVERTERS:
            raise Unsupported("its inputs are not constants")
        result = CONVERTERS[node.op_type](self, node)
        found = result if isinstance(result, list) else [result]
        for output, value in zip_longest(node.output, found):
            if not output:
                continue
            if isinstance(value, np.ndarray):
                self.constants[output] = value
            elif value is not None:
                self.values[output] = value
            else:
                self.unoffered[output] = node.op_type

    def _fold(self, node: onnx.NodeProto) -> np.ndarray:
        from onnx.reference import ReferenceEvaluator

        arrays = {i: self.constants[i] for i in node.input if i}
        elements = 1
        for a in arrays.values():
            elements *= max(a.size, 1) if node.op_type in ("Add", "Sub", "Mul", "Div") else 1
        if elements > _FOLD_LIMIT or sum(a.size for a in arrays.values()) > _FOLD_LIMIT:
            raise Unsupported("its constants are too large")
        try:
            results: Any = ReferenceEvaluator(node).run(None, arrays)
            return np.asarray(results[0])
        except Exception as e:  # whatever the evaluator makes of a malformed node
            raise Unsupported(f"cannot be evaluated: {_first_line(e)}") from e

    def _problem(self, op: str, where: str, reason: str, outputs: list[str]) -> None:
        self.problems.append((op, where, reason))
        self.unknown.update(outputs)


def _summary(problems: list[tuple[str, str, str]]) -> str:
    """All problems in one sentence: unsupported operators with their nodes, then the rest."""
    nodes: dict[str, list[str]] = {}
    for op, where, reason in problems:
        text = f"{op}: {reason}" if reason else op
        nodes.setdefault(text, []).append(f"'{where}'")
    parts = []
    for text, names in nodes.items():
        shown = ", ".join(names[:_MAX_LISTED])
        more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
        parts.append(f"{text} (node{'s' if len(names) > 1 else ''} {shown}{more})")
    return f"unsupported: {'; '.join(parts)}"


def _first_line(e: BaseException) -> str:
    lines = str(e).strip().splitlines()
    return lines[0] if lines else type(e).__name__
