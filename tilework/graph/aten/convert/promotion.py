"""PyTorch's rules for operands of different types: what an operator computes in."""

from __future__ import annotations

from typing import Any

from tilework.graph.aten.context import AtenContext, Unsupported, Value
from tilework.graph.aten.dtypes import dtype_name


def operands(
    c: AtenContext, *given: Any, numbers: int | None = None, to_float: bool = False
) -> list[Value]:
    """The first arguments of a node as values of the one type that it computes in.

    Args:
        c: the translation; the arguments of its node carry their example values.
        given: what the arguments mean.
        numbers: how many of the node's arguments count; by default as many as ``given``.
        to_float: whether integers become floats.
    """
    dtype = common_type(c.node.args[: numbers or len(given)], to_float=to_float)
    return [c.value(x, dtype) for x in given]


def common_type(args: Any, *, to_float: bool = False) -> str:
    """The element type that operands of an elementwise operator are brought to.

    Args:
        args: nodes with example values, or numbers.
        to_float: whether integers become floats.

    Raises:
        Unsupported: networks have no such type.
    """
    import torch
    from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as KIND
    from torch._prims_common import elementwise_dtypes

    examples = [a.meta["val"] if isinstance(a, torch.fx.Node) else a for a in args]
    kind = KIND.INT_TO_FLOAT if to_float else KIND.DEFAULT
    _, result = elementwise_dtypes(*examples, type_promotion_kind=kind)
    name = dtype_name(result)
    if name is None:
        raise Unsupported(f"element type {result}")
    return name
