"""The shapes of a model's outputs where its file does not declare them.

Only the answer to ``get_outputs`` needs these, and to infer them takes the ``onnx`` package and a
pass over the model, together a tenth of a first answer: so that is done when it is asked for.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tilework.errors import NetworkError
from tilework.session.cache import ModuleCache
from tilework.session.facts import Declared, Facts, Source, declared_from, facts_of, loosely

if TYPE_CHECKING:
    import onnx

_VERSION = "outputs 1"
_MOST_OF_A_SHAPE = 1024
"""Elements of constants that shapes may depend on."""


def outputs_of(source: Source, facts: Facts, cache: ModuleCache | None) -> tuple[Declared, ...]:
    """The outputs, with what the file does not declare of them inferred.

    What is declared stands alone if the file is no longer what the facts were read from.
    """
    if all(o.static and o.dtype and (o.shape or not o.tensor) for o in facts.outputs):
        return facts.outputs
    key = ModuleCache.key(_VERSION, facts.digest)
    kept = None if cache is None else _from_json(cache.note(key))
    if kept is None:
        held = source.held
        try:
            kept = _read(source, facts, cache) if held is None else _inferred(held, facts)
        except NetworkError:
            return facts.outputs
        if cache is not None:
            cache.put_note(key, [asdict(o) for o in kept])
    return kept


def _read(source: Source, facts: Facts, cache: ModuleCache | None) -> tuple[Declared, ...]:
    """The outputs of a model that is read again.

    Raises:
        NetworkError: it cannot be read, or is another one.
    """
    again = Source(source.given)
    if facts_of(again, cache).digest != facts.digest:
        raise NetworkError("the file was written in the meantime")
    return _inferred(again.model(), facts)


def _from_json(data: Any) -> tuple[Declared, ...] | None:
    try:
        return declared_from(data)
    except (KeyError, TypeError):
        return None


def _inferred(model: onnx.ModelProto, facts: Facts) -> tuple[Declared, ...]:
    import onnx

    try:
        inferred = onnx.shape_inference.infer_shapes(_bare(model), data_prop=True).graph.output
    except Exception:  # of a model that the importer will have something to say about
        return facts.outputs
    return tuple(map(_merged, facts.outputs, map(loosely, inferred)))


def _bare(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without types of its outputs, and of large constants with the types alone.

    Inference writes a model down and reads it again. No shape depends on that many elements.
    """
    from onnx import ModelProto, helper

    graph = model.graph
    bare = ModelProto(
        ir_version=model.ir_version,
        opset_import=model.opset_import,
        functions=model.functions,
        graph={"name": graph.name, "node": graph.node, "input": graph.input},
    )
    bare.graph.value_info.extend(graph.value_info)
    bare.graph.sparse_initializer.extend(graph.sparse_initializer)
    bare.graph.output.extend(graph.output)
    for value in bare.graph.output:
        value.ClearField("type")
    known = {value.name for value in graph.input}
    for tensor in graph.initializer:
        if math.prod(tensor.dims) <= _MOST_OF_A_SHAPE:
            bare.graph.initializer.append(tensor)
        elif tensor.name not in known:
            kind = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            bare.graph.input.append(kind)
    return bare


def _merged(declared: Declared, inferred: Declared) -> Declared:
    """What is declared, with numbers in the place of symbols where they are known."""
    shape = declared.shape or inferred.shape
    if len(shape) == len(inferred.shape):
        both = zip(shape, inferred.shape, strict=True)
        shape = tuple(i if isinstance(i, int) else d for d, i in both)
    return Declared(declared.name, declared.dtype or inferred.dtype, shape)
