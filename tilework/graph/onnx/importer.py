"""Read a network from an ONNX file.

This module checks the model as a whole; `files` and `tensors` read the parts, `inputs` binds
symbolic extents, `walk` visits the nodes, `fold` evaluates shape arithmetic, and `convert` says
what each operator becomes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from tilework.errors import NetworkError
from tilework.graph.elements import require_elements
from tilework.graph.ir import Builder, Network
from tilework.graph.onnx.context import ValuesNeeded
from tilework.graph.onnx.convert.scales import KEPT_AS
from tilework.graph.onnx.files import ReadModel, read
from tilework.graph.onnx.inputs import (
    Values,
    as_declared,
    element_type,
    has_free_extents,
    input_types,
)
from tilework.graph.onnx.masked import choices
from tilework.graph.onnx.messages import first_line, one_line
from tilework.graph.onnx.nothing import or_nothing
from tilework.graph.onnx.places import Places, places_of
from tilework.graph.onnx.protos import ModelProto, ValueInfoProto
from tilework.graph.onnx.ranges import Loose, Shapes, shapes_of
from tilework.graph.onnx.reads import in_order
from tilework.graph.onnx.scopes import initial_constants
from tilework.graph.onnx.walk import Walk
from tilework.index.extents import Extent
from tilework.index.symbols import range_of

OLDEST_OPSET = 6
_OF_ALL_RELEASES = 22
"""The newest one of the oldest release of ``onnx`` that serves."""


def from_onnx(
    source: str | PathLike[str] | ReadModel | ModelProto,
    shapes: Loose | None = None,
    values: Values | None = None,
) -> Network:
    """Read a network from an ONNX file.

    Args:
        source: the file, whose weights may stand in other files (see `places`); or a model.
        shapes: full shapes of inputs, by name, for inputs with symbolic extents; or the extent
            of a symbol: ``{"batch": 4}``. A symbolic batch (the first extent) is 1
            if it is not given. A symbol with a range stays one, and a run brings its number:
            ``{"seq": "1..512"}``, with typical values ``"1..512:16,64,128"``.
        values: numbers or arrays of inputs, by name, that become constants of the network. They
            are needed where shapes depend on them.

    Raises:
        ValuesNeeded: shapes within the network depend on the values of inputs.
        NetworkError: the file is missing, corrupt, or uses something unsupported (all of it is
            listed at once), or an input's shape is not known.
    """
    model, places, label = opened(source)
    with telling(label):
        return convert(model, places, shapes_of(shapes), values or {})


def opened(
    source: str | PathLike[str] | ReadModel | ModelProto,
) -> tuple[ModelProto, Places | None, str]:
    """A model, where its weight files are, and what to call it in messages.

    Raises:
        NetworkError: the file is missing, or not an ONNX file.
    """
    if isinstance(source, str | PathLike):
        source = read(Path(source))
    if isinstance(source, ReadModel):
        places = places_of(source.path, source.content, source.briefly)
        return source.model, places, f"'{source.path}'"
    return source, None, "the model"


@contextmanager
def telling(label: str) -> Iterator[None]:
    """Errors of an import, each in one line that says of which model."""
    try:
        yield
    except ValuesNeeded as e:
        raise ValuesNeeded(f"cannot import {label}: {e}", e.inputs) from e
    except NetworkError as e:
        raise NetworkError(f"cannot import {label}: {one_line(e)}") from e
    except MemoryError as e:
        raise NetworkError(f"cannot import {label}: it needs too much memory") from e
    except Exception as e:  # a damaged file may hold what no reader has thought of
        raise NetworkError(
            f"cannot import {label}: {type(e).__name__}: {first_line(e)}; "
            "check it with onnx.checker, and report it if that finds nothing"
        ) from e


def convert(
    model: ModelProto,
    places: Places | None,
    shapes: Shapes,
    values: Values,
) -> Network:
    """The network of a model.

    Raises:
        ValuesNeeded: shapes within the network depend on the values of inputs.
        NetworkError: see `from_onnx`; the message does not name the model.
    """

    def read(shapes: Shapes) -> Network:
        return _converted(model, places, shapes, values)

    try:
        return read(shapes)
    except ValuesNeeded:
        raise
    except NetworkError:
        net = or_nothing(shapes, read)
        if net is None:
            raise
        return net


def _converted(
    model: ModelProto,
    places: Places | None,
    shapes: Shapes,
    values: Values,
) -> Network:
    graph = model.graph
    walk = Walk(Builder(graph.name or "model"), opset_of(model), places, model.functions)
    for name, array in initial_constants(graph, walk):
        walk.define(name, array)
    inputs = [i for i in graph.input if i.name not in walk.constants]  # IR 3 lists both
    define_inputs(walk, inputs, shapes, values)
    walk.graph(choices(graph, in_order(graph.node)))
    if not graph.output:
        raise NetworkError("the file is corrupt: the network has no outputs")
    outputs = [walk.output(o.name) for o in graph.output]
    is_open = any(has_free_extents(i) for i in inputs)
    for declared, value in zip(graph.output, outputs, strict=True):
        _check_declared(declared, walk.b.types[value], is_open)
    net = walk.b.finish(outputs, [o.name for o in graph.output])
    require_elements(net)
    return net


def define_inputs(
    walk: Walk,
    inputs: Sequence[ValueInfoProto],
    shapes: Shapes,
    values: Values,
) -> None:
    """Declare the inputs of a model, and the constants that the values of some become.

    Raises:
        NetworkError: see `tilework.graph.onnx.inputs.input_types`.
    """
    for name, kind in input_types(inputs, shapes, values).items():
        walk.input(name, kind.shape, kind.dtype)
    for i in inputs:
        if i.name in values:
            walk.define(i.name, as_declared(i, values[i.name]))


def opset_of(model: ModelProto) -> int:
    """The version of the standard operators.

    Raises:
        NetworkError: it is none that is supported.
    """
    versions: list[int] = [o.version for o in model.opset_import if o.domain in ("", "ai.onnx")]
    if versions and OLDEST_OPSET <= versions[0] <= _OF_ALL_RELEASES:
        return versions[0]
    import onnx

    newest: int = onnx.defs.onnx_opset_version()
    if not model.opset_import:
        raise NetworkError("the file is corrupt: it names no operator set")
    if not versions:
        return newest  # there are only operators of other sets
    if not OLDEST_OPSET <= versions[0] <= newest and not _unchanged(model, versions[0]):
        raise NetworkError(
            f"operator set {versions[0]} is not supported; "
            f"export the model with one from {OLDEST_OPSET} to {newest}"
        )
    return versions[0]


def _unchanged(model: ModelProto, version: int) -> bool:
    """Whether all operators of an older set mean the same in the oldest that is supported."""
    from onnx import defs

    def same(op: str) -> bool:
        try:
            since = [defs.get_schema(op, v, "").since_version for v in (version, OLDEST_OPSET)]
        except defs.SchemaError:
            return False
        return since[0] == since[1]

    return 1 <= version < OLDEST_OPSET and all(same(n.op_type) for n in model.graph.node)


def _may_be(extent: Extent, number: int) -> bool:
    """Whether an extent is a number, at some point at least."""
    low, high = range_of(extent)
    return low <= number <= high


def _check_declared(declared: Any, computed: Any, is_open: bool) -> None:
    """Compare an output's declaration with what is computed.

    Args:
        is_open: whether inputs have free extents: then numbers may be those that an exporter saw,
            and only a number of dimensions is what it says.

    Raises:
        NetworkError: they contradict each other.
    """
    kind = declared.type.tensor_type
    if not declared.type.HasField("tensor_type"):
        return
    if kind.elem_type and element_type(declared) != computed.dtype:
        if element_type(declared) in KEPT_AS:
            raise NetworkError(
                f"unsupported: the output '{declared.name}' is {element_type(declared)}, and runs "
                "return no such numbers: put DequantizeLinear behind them"
            )
        raise NetworkError(
            f"the file is corrupt: its output '{declared.name}' is declared as "
            f"{element_type(declared)}, but {computed.dtype} is computed"
        )
    if not kind.HasField("shape"):
        return
    dims = [d.dim_value if d.dim_value > 0 else None for d in kind.shape.dim]
    other_rank = len(dims) != len(computed.shape)
    if dims and (not any(dims) or (other_rank and not all(dims))):
        return  # exporters name extents, and lose count of them behind an If, or by mistake
    pairs = () if is_open or other_rank else zip(dims, computed.shape, strict=True)
    if other_rank or any(d is not None and not _may_be(n, d) for d, n in pairs):
        shape = [d.dim_param or d.dim_value for d in kind.shape.dim]
        raise NetworkError(
            f"the file is corrupt: its output '{declared.name}' is declared with shape {shape}, "
            f"but has {list(computed.shape)}"
        )
