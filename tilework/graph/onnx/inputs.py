"""The inputs of an ONNX model: element types, and extents with symbols replaced by what is given.

That is a number, or a range: then the extent is one that a run brings (`tilework.index.symbols`).
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tilework.errors import NetworkError
from tilework.graph.onnx.context import RangesNeeded, ShapesRefused
from tilework.graph.onnx.protos import messages, numpy_type
from tilework.graph.onnx.ranges import Given, Shapes, extent_of, symbols_given
from tilework.graph.onnx.symbols import evaluated, names_in, unbound
from tilework.graph.operators import MAX_ELEMENTS
from tilework.graph.operators.base import ANY, ValueType
from tilework.graph.undecided import undecided_reason
from tilework.index.extents import Extent, typicals
from tilework.index.symbols import Symbolic, Undecided, range_of

ELEMENT_TYPES = ANY
"""What an input may consist of."""
Values = Mapping[str, ArrayLike]
"""Numbers or arrays of inputs, by name, that become constants."""


def input_types(
    inputs: Sequence[Any],
    shapes: Shapes,
    values: Values,
) -> dict[str, ValueType]:
    """Types of a model's inputs.

    Args:
        inputs: the model's declarations.
        shapes: full shapes by input name; or by symbol an extent, alone in a sequence, or a
            range (see `tilework.graph.onnx.ranges`). A shape may name symbols that have a range.
        values: arrays of inputs that become constants; such inputs are left out of the result.

    Raises:
        NetworkError: an input is not a tensor of a supported type, or its shape is not known.
    """
    declared = {i.name: i for i in inputs}
    for i in inputs:
        _check_extents(i)
    ranges = symbols_given(shapes)
    symbols = _given_symbols(declared, shapes, values, ranges)
    result: dict[str, ValueType] = {}
    missing: dict[str, tuple[int | str | None, ...]] = {}
    known, known_names = dict(symbols), _names(declared.values())
    for name, i in declared.items():
        dtype = element_type(i)
        if name in values:
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
        given = None if _of_symbol(i, shapes, known_names) else shapes.get(name)
        bound = _bind(i, known) if given is None else _given(name, given, ranges)
        if not all(isinstance(n, int | Symbolic) for n in bound):
            missing[name] = tuple(_dimension_text(d, symbols) for d in _dims(i) or [])
            continue
        shape = tuple(n for n in bound if isinstance(n, int | Symbolic))
        _check_shape(name, shape)
        result[name] = ValueType(shape, dtype)
    if missing:
        numbers = {n: e for n, e in symbols.items() if isinstance(e, int)}
        raise NetworkError(unbound(missing, numbers, declared))
    return result


def _dimension_text(dim: Any, symbols: Mapping[str, Extent]) -> int | str | None:
    """A dimension in a message: its extent or symbol, None where it has neither."""
    extent = symbols.get(symbol_in(dim), _fixed(dim) or symbol_in(dim) or None)
    return str(extent) if isinstance(extent, Symbolic) else extent


def _check_shape(name: str, shape: Sequence[Extent]) -> None:
    for d, n in enumerate(shape):
        least = range_of(n)[0]
        if least < 0:
            raise NetworkError(
                f"input '{name}' has extent {least} in dimension {d}; "
                "an extent is a positive number, or 0 if the input is to be empty"
            )
    large = f"input '{name}' of shape {list(shape)} is too large"
    try:
        if math.prod(shape) > MAX_ELEMENTS:
            raise NetworkError(large)
    except Undecided as e:
        raise RangesNeeded(f"{large} at some points: {undecided_reason(e)}", [e]) from e


def element_type(value: Any) -> str:
    """Element type of a declared value, as NumPy calls it.

    Raises:
        NetworkError: it is not a tensor, or of a type that does not exist.
    """
    if not value.type.HasField("tensor_type"):
        kind = (value.type.WhichOneof("value") or "nothing").removesuffix("_type")
        raise NetworkError(f"input '{value.name}' is not a tensor ({kind})")
    number = value.type.tensor_type.elem_type
    if number == messages().TensorProto.STRING:
        return "string"
    try:
        return str(numpy_type(number))
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


def _given(name: str, shape: Given, ranges: Mapping[str, Extent]) -> tuple[Extent, ...]:
    """The shape that is given for an input; of its symbols each has a range."""
    if isinstance(shape, str):
        raise NetworkError(
            f"'{name}' is an input, and '{shape}' the range of a symbol; give the input a shape "
            "that names the symbol"
        )
    return tuple(extent_of(name, n, ranges) if isinstance(n, str) else n for n in shape)


def symbol_in(dim: Any) -> str:
    """The symbol of a declared dimension, or an empty text.

    Paddle's exporter writes ``?`` for every extent that it does not know: that names none.
    """
    name: str = dim.dim_param
    return name if re.search(r"[^\W\d]", name) else ""


def _fixed(dim: Any) -> int | None:
    """The declared extent; some exporters write 0 or -1 for one that is free."""
    return dim.dim_value if dim.dim_value > 0 else None


def _empty(dim: Any) -> bool:
    """Whether the declared extent is 0, which some exporters write for free ones."""
    return bool(dim.HasField("dim_value")) and dim.dim_value == 0


def _given_symbols(
    declared: Mapping[str, Any],
    shapes: Shapes,
    values: Values,
    ranges: Mapping[str, Extent],
) -> dict[str, Extent]:
    """Extents of symbols that follow from what the caller gave; checks it on the way."""
    known = _names(declared.values())
    texts = [
        n for given in shapes.values() for n in ([given] if isinstance(given, str) else given)
    ]
    named = {word for n in texts if isinstance(n, str) for word in re.findall(r"[^\W\d]\w*", n)}
    symbols: dict[str, Extent] = {}
    empty: list[str] = []  # a decoder's first step has empty pasts, of its cross attention as well

    def bind(symbol: str, extent: Extent) -> None:
        if symbols.setdefault(symbol, extent) != extent:
            raise ShapesRefused(
                f"the symbolic extent '{symbol}' cannot be both {symbols[symbol]} and {extent}"
            )

    for name in values:
        if name not in declared:
            raise ShapesRefused(_no_input(name, declared, ()))
    for name, shape in shapes.items():
        if name not in declared or _of_symbol(declared[name], shapes, known):
            if isinstance(shape, str) and name in named | known:
                if name in known:
                    bind(name, ranges[name])
                continue
            if name not in known:
                raise ShapesRefused(_no_input(name, declared, known))
            if len(shape) != 1 or not str(shape[0]).isdecimal():
                raise ShapesRefused(
                    f"the symbolic extent '{name}' takes one positive number, or 0 if what has it "
                    f"is to be empty, or a range such as 1..512, not {list(shape)}"
                )
            bind(name, int(shape[0]))
            continue
        dims = _dims(declared[name])
        if dims is None:
            continue
        if len(shape) != len(dims):
            raise ShapesRefused(
                f"input '{name}' has {len(dims)} dimensions, the given shape {tuple(shape)}"
            )
        for d, (dim, extent) in enumerate(zip(dims, _given(name, shape, ranges), strict=True)):
            fixed = _fixed(dim)
            if fixed is not None and extent != fixed:
                raise ShapesRefused(
                    f"input '{name}' has extent {fixed} in dimension {d}, not {extent}"
                )
            symbol = symbol_in(dim)
            if symbol and isinstance(extent, int) and extent == 0:
                empty.append(symbol)
            elif symbol:
                bind(symbol, extent)
    for symbol in empty:
        symbols.setdefault(symbol, 0)
    return symbols


def _names(inputs: Iterable[Any]) -> set[str]:
    """The symbols that inputs are declared with, and those that they are arithmetic of."""
    texts = {symbol_in(d) for i in inputs for d in _dims(i) or []} - {""}
    return texts.union(*(names_in(text) for text in texts))


def _of_symbol(value: Any, shapes: Shapes, symbols: set[str]) -> bool:
    """Whether what is given for an input's name is meant for a symbol of the same name."""
    given = shapes.get(value.name, ())
    rank = len(_dims(value) or [])
    return value.name in symbols and (isinstance(given, str) or len(given) == 1 != rank)


def _no_input(name: str, declared: Mapping[str, Any], symbols: Sequence[str] | set[str]) -> str:
    names = [*declared, *sorted(symbols)]
    near = difflib.get_close_matches(name, names, n=1)
    theirs = f"; its symbols: {', '.join(sorted(symbols))}" if symbols else ""
    hint = f"did you mean '{near[0]}'?" if near else f"its inputs: {', '.join(declared)}{theirs}"
    return f"the network has no input '{name}'; {hint}"


def _bind(value: Any, symbols: dict[str, Extent]) -> tuple[Extent | str | None, ...]:
    """The declared shape with symbols replaced; a first extent that nobody gave is 1.

    Where nothing says an extent its symbol stays, or None.
    """
    shape: list[Extent | str | None] = []
    dims = _dims(value) or []
    for d, dim in enumerate(dims):
        extent: Extent | None = _fixed(dim)
        name = symbol_in(dim)
        if extent is None and name:
            extent = symbols.get(name, evaluated(name, symbols))
        if extent is None and d == 0:
            extent = 1
            if name:
                symbols[name] = 1
        if extent is None and _empty(dim) and not _empty(dims[0]):
            extent = 0
        shape.append(name or None if extent is None else extent)
    return tuple(shape)


def as_declared(declared: Any, given: ArrayLike) -> np.ndarray:
    """What is given for an input, as an array of its type; a number is one of each element.

    Raises:
        NetworkError: the declaration does not allow it.
    """
    dims, dtype = _dims(declared), element_type(declared)
    array = np.asarray(given)
    if not isinstance(given, np.ndarray):
        with np.errstate(invalid="ignore"):
            typed = array.astype(dtype)
        array = typed if np.array_equal(typed, array) else array
        shape = [_fixed(d) for d in dims or ()]
        if not array.ndim and None not in shape:
            array = np.full([n or 0 for n in shape], array)
    fits = dims is None or (
        len(dims) == array.ndim
        and all(_fixed(d) in (None, n) for d, n in zip(dims, array.shape, strict=True))
    )
    if str(array.dtype) != dtype or not fits:
        raise NetworkError(
            f"the value given for input '{declared.name}' is {array.dtype}{list(array.shape)}, "
            f"which its declaration ({dtype}) does not allow"
        )
    return array


def has_free_extents(value: Any) -> bool:
    """Whether a declaration leaves an extent to a run, or all of them."""
    dims = _dims(value)
    return dims is None or any(_fixed(d) is None for d in dims)


def shapes_declared(inputs: Sequence[Any]) -> list[list[int | str]]:
    """Shapes of a model's inputs: numbers and symbols; an empty text is neither."""
    tensors = (i for i in inputs if i.type.HasField("tensor_type"))
    return [[_fixed(d) or symbol_in(d) for d in _dims(i) or []] for i in tensors]


def symbols_declared(inputs: Sequence[Any]) -> list[str]:
    """The symbols of a model's inputs, in the order in which they come."""
    texts = [n for shape in shapes_declared(inputs) for n in shape if isinstance(n, str) and n]
    return list(dict.fromkeys(name for text in texts for name in names_in(text)))


def at_typical(
    inputs: Sequence[Any], shapes: Shapes, symbols: Mapping[str, Extent]
) -> dict[str, tuple[int, ...]]:
    """What is given for a model's inputs and symbols, with typical values for ranges.

    Args:
        inputs: the model's declarations.
        symbols: by name, as `tilework.graph.onnx.ranges.symbols_given` has them.
    """
    names = _names(inputs) | {i.name for i in inputs}
    at: dict[str, tuple[int, ...]] = {}
    for name, what in shapes.items():
        if name in names and isinstance(what, str):
            at[name] = typicals((symbols[name],))
        elif name in names:
            at[name] = typicals(
                extent_of(name, n, symbols) if isinstance(n, str) else n for n in what
            )
    return at
