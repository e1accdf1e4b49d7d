"""The inputs of an ONNX model: element types, and extents with symbols replaced by numbers."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from operator import index
from typing import Any

import numpy as np

from tilework.errors import NetworkError
from tilework.graph.onnx.symbols import evaluated, unbound
from tilework.graph.operators import MAX_ELEMENTS
from tilework.graph.operators.base import ANY, ValueType

ELEMENT_TYPES = ANY
"""What an input may consist of."""


def input_types(
    inputs: Sequence[Any],
    shapes: Mapping[str, Sequence[int]],
    values: Mapping[str, np.ndarray],
) -> dict[str, ValueType]:
    """Static types of a model's inputs.

    Args:
        inputs: the model's declarations.
        shapes: full shapes by input name; or an extent, alone in a sequence, by symbol.
        values: arrays of inputs that become constants; such inputs are left out of the result.

    Raises:
        NetworkError: an input is not a tensor of a supported type, or its shape is not known.
    """
    declared = {i.name: i for i in inputs}
    for i in inputs:
        _check_extents(i)
    symbols = _given_symbols(declared, shapes, values)
    result: dict[str, ValueType] = {}
    missing: dict[str, tuple[int | str | None, ...]] = {}
    known = dict(symbols)
    for name, i in declared.items():
        dtype = element_type(i)
        if name in values:
            _check_value(i, values[name], dtype)
            continue
        if dtype not in ELEMENT_TYPES:
            raise NetworkError(
                f"input '{name}' is {dtype}; only {', '.join(ELEMENT_TYPES)} inputs are supported"
            )
        if name not in shapes and not i.type.tensor_type.HasField("shape"):
            raise NetworkError(
                f"input '{name}' is declared without a shape; give it one, such as "
                f"--shape {name}=1,16, in Python shapes={{'{name}': (1, 16)}}"
            )
        given = shapes.get(name)
        bound = _bind(i, known) if given is None else _given(name, given)
        if not all(isinstance(n, int) for n in bound):
            missing[name] = tuple(
                symbols.get(d.dim_param, _fixed(d) or d.dim_param or None) for d in _dims(i) or []
            )
            continue
        shape = tuple(n for n in bound if isinstance(n, int))
        if min(shape, default=1) < 0:
            raise NetworkError(
                f"input '{name}' has extent {min(shape)} in dimension {shape.index(min(shape))}; "
                "an extent is a positive number, or 0 if the input is to be empty"
            )
        if math.prod(shape) > MAX_ELEMENTS:
            raise NetworkError(f"input '{name}' of shape {list(shape)} is too large")
        result[name] = ValueType(shape, dtype)
    if missing:
        raise NetworkError(unbound(missing, symbols, declared))
    return result


def element_type(value: Any) -> str:
    """Element type of a declared value, as NumPy calls it.

    Raises:
        NetworkError: it is not a tensor, or of a type that does not exist.
    """
    from onnx import TensorProto, helper

    if not value.type.HasField("tensor_type"):
        kind = (value.type.WhichOneof("value") or "nothing").removesuffix("_type")
        raise NetworkError(f"input '{value.name}' is not a tensor ({kind})")
    number = value.type.tensor_type.elem_type
    if number == TensorProto.STRING:
        return "string"
    try:
        return str(helper.tensor_dtype_to_np_dtype(number))
    except KeyError:
        raise NetworkError(f"input '{value.name}' is of an unknown type ({number})") from None


def _dims(value: Any) -> list[Any] | None:
    kind = value.type.tensor_type
    return list(kind.shape.dim) if kind.HasField("shape") else None


def _check_extents(value: Any) -> None:
    """Refuse a declaration of negative extents, but for the -1 that some exporters write."""
    for d, dim in enumerate(_dims(value) or []):
        if dim.dim_value < -1:
            raise NetworkError(
                f"the file is corrupt: input '{value.name}' is declared with extent "
                f"{dim.dim_value} in dimension {d}; export the model with a positive number or a "
                "symbol there"
            )


def _given(name: str, shape: Sequence[int]) -> tuple[int, ...]:
    try:
        return tuple(index(n) for n in shape)
    except TypeError:
        raise NetworkError(
            f"the shape given for input '{name}' does not consist of whole numbers: {tuple(shape)}"
        ) from None


def _fixed(dim: Any) -> int | None:
    """The declared extent; some exporters write 0 or -1 for one that is free."""
    return dim.dim_value if dim.dim_value > 0 else None


def _empty(dim: Any) -> bool:
    """Whether the declared extent is 0, which some exporters write for free ones."""
    return bool(dim.HasField("dim_value")) and dim.dim_value == 0


def _given_symbols(
    declared: Mapping[str, Any],
    shapes: Mapping[str, Sequence[int]],
    values: Mapping[str, np.ndarray],
) -> dict[str, int]:
    """Extents of symbols that follow from what the caller gave; checks it on the way."""
    known = {d.dim_param for i in declared.values() for d in _dims(i) or [] if d.dim_param}
    symbols: dict[str, int] = {}

    def bind(symbol: str, extent: int) -> None:
        if symbols.setdefault(symbol, extent) != extent:
            raise NetworkError(
                f"the symbolic extent '{symbol}' cannot be both {symbols[symbol]} and {extent}"
            )

    for name in values:
        if name not in declared:
            raise NetworkError(_no_input(name, declared, ()))
    for name, shape in shapes.items():
        if name not in declared:
            if name not in known:
                raise NetworkError(_no_input(name, declared, known))
            if len(shape) != 1 or int(shape[0]) < 0:
                raise NetworkError(
                    f"the symbolic extent '{name}' takes one positive number, or 0 if what has it "
                    f"is to be empty, not {list(shape)}"
                )
            bind(name, int(shape[0]))
            continue
        dims = _dims(declared[name])
        if dims is None:
            continue
        if len(shape) != len(dims):
            raise NetworkError(
                f"input '{name}' has {len(dims)} dimensions, the given shape {tuple(shape)}"
            )
        for d, (dim, extent) in enumerate(zip(dims, shape, strict=True)):
            fixed = _fixed(dim)
            if fixed is not None and int(extent) != fixed:
                raise NetworkError(
                    f"input '{name}' has extent {fixed} in dimension {d}, not {extent}"
                )
            if dim.dim_param:
                bind(dim.dim_param, int(extent))
    return symbols


def _no_input(name: str, declared: Mapping[str, Any], symbols: Sequence[str] | set[str]) -> str:
    names = [*declared, *sorted(symbols)]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"its inputs: {', '.join(declared)}"
    return f"the network has no input '{name}'; {hint}"


def _bind(value: Any, symbols: dict[str, int]) -> tuple[int | str | None, ...]:
    """The declared shape with symbols replaced; a first extent that nobody gave is 1.

    Where nothing says an extent its symbol stays, or None.
    """
    shape: list[int | str | None] = []
    dims = _dims(value) or []
    for d, dim in enumerate(dims):
        extent = _fixed(dim)
        if extent is None and dim.dim_param:
            extent = symbols.get(dim.dim_param, evaluated(dim.dim_param, symbols))
        if extent is None and d == 0:
            extent = 1
            if dim.dim_param:
                symbols[dim.dim_param] = 1
        if extent is None and _empty(dim) and not _empty(dims[0]):
            extent = 0
        shape.append(dim.dim_param or None if extent is None else extent)
    return tuple(shape)


def _check_value(declared: Any, array: np.ndarray, dtype: str) -> None:
    dims = _dims(declared)
    fits = dims is None or (
        len(dims) == array.ndim
        and all(_fixed(d) in (None, n) for d, n in zip(dims, array.shape, strict=True))
    )
    if str(array.dtype) != dtype or not fits:
        raise NetworkError(
            f"the value given for input '{declared.name}' is {array.dtype}{list(array.shape)}, "
            f"which its declaration ({dtype}) does not allow"
        )
