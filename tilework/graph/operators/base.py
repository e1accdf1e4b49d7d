"""What the compiler knows of an operator: its result's type, its computation, how it fuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from tilework import te
from tilework.frozen import frozen
from tilework.index.extents import Extent
from tilework.ops.elementwise import broadcast_shape

Shape = tuple[Extent, ...]
Attrs = Mapping[str, Any]

FLOATS = ("float16", "bfloat16", "float32", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = (*SIGNED, *UNSIGNED)
NUMBERS = (*FLOATS, *INTEGERS)
ANY = (*NUMBERS, "bool")


class ValueType(NamedTuple):
    """Type of a value: its extents, outermost first, and its NumPy dtype name."""

    shape: Shape
    dtype: str = "float32"


class Pattern(IntEnum):
    """How an operator's output elements depend on its inputs; larger is harder to fuse."""

    ELEMENTWISE = 0
    BROADCAST = 1
    INJECTIVE = 2  # each output element is one input element, found anywhere
    REDUCE = 3  # sums and the like: cheap operators in front are computed with it
    ANCHOR = 4  # heavy: convolutions, products, pooling; cheap operators behind join it
    OPAQUE = 8  # never fused


# (types of the inputs, attributes) -> type of the output; raises ValueError with the reason
Infer = Callable[[Sequence[ValueType], Attrs], ValueType]
# (attributes, input tensors, whether all but the first are constants) -> output tensor
Declare = Callable[[Attrs, Sequence[te.Tensor], bool], te.Tensor]
# (attributes, permutation of the dimensions) -> attributes for permuted inputs; dimension d of
# a permuted value is dimension perm[d] of the old one
Permute = Callable[[Attrs, Sequence[int]], dict[str, Any]]


@frozen
class Operator:
    """One operator of the network language.

    Attributes:
        name: as it stands in nodes.
        infer: type of the result; raises ValueError where the inputs do not fit.
        declare: declares what it computes; None for operators that passes replace, and for views.
        pattern: how it fuses.
        permute: set for operators that work on permuted dimensions just as well: what becomes of
            their attributes. Such operators follow the layout of the convolutions around them.
        permuted_inputs: how many of the leading inputs have the permuted dimensions; None for all.
    """

    name: str
    infer: Infer
    declare: Declare | None
    pattern: Pattern
    permute: Permute | None = None
    permuted_inputs: int | None = None


def declared(function: Callable[..., te.Tensor], *names: str) -> Declare:
    """Declaration by ``function`` of the inputs; attributes ``names`` it takes by these names."""
    return lambda attrs, t, free: function(*t, **{n: attrs[n] for n in names if n in attrs})


def shaped(rule: Callable[[Sequence[Shape], Attrs], Shape], dtypes: Sequence[str] = ANY) -> Infer:
    """Inference from a rule on shapes: all inputs share one of ``dtypes``, so does the result."""

    def infer(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
        return ValueType(rule([t.shape for t in types], attrs), common_dtype(types, dtypes))

    return infer


BYTES = ("int8", "uint8")
WORDS = ("int16", "uint16")


def summed(rule: Callable[[Sequence[Shape], Attrs], Shape], dtypes: Sequence[str]) -> Infer:
    """Inference of sums of products: both factors share one of ``dtypes``, so does the result.

    With the attribute ``sums="int32"`` factors are bytes or words with any signs, and are
    multiplied and summed as int32; with ``sums="float32"`` the right ones are, of float32.
    """
    plain = shaped(rule, dtypes)

    def infer(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
        sums = attrs.get("sums", "")
        if not sums:
            return plain(types, attrs)
        if sums not in ("int32", "float32"):
            raise ValueError(f"products are summed in int32 or float32, not in {sums}")
        whole = (*BYTES, *WORDS, *(() if sums == "float32" else ("int32",)))
        for t, possible in zip(
            types, ((sums,) if sums == "float32" else whole, whole), strict=True
        ):
            common_dtype([t], possible)
        return ValueType(rule([t.shape for t in types], attrs), sums)

    return infer


def common_dtype(types: Sequence[ValueType], dtypes: Sequence[str] = ANY) -> str:
    """The element type that all inputs share.

    Raises:
        ValueError: they differ, or it is none of ``dtypes``.
    """
    different = {t.dtype for t in types}
    if len(different) != 1:
        raise ValueError(f"the inputs have different types: {', '.join(t.dtype for t in types)}")
    (dtype,) = different
    if dtype not in dtypes:
        raise ValueError(f"it is not defined for {dtype}")
    return dtype


def normal_axis(axis: int, rank: int) -> int:
    """``axis`` counted from the front.

    Raises:
        ValueError: there is no such dimension.
    """
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} does not exist: there are {rank} dimensions")
    return axis % rank


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """NumPy's broadcast shape of ``shapes``.

    Raises:
        ValueError: the shapes do not broadcast.
        Undecided: at some points they do, and at others they do not.
    """
    try:
        return broadcast_shape(*shapes)
    except ValueError:  # who says so names the operands
        raise ValueError("the shapes do not broadcast") from None


# ---------------------------------------------------------------- kinds of `permute`


def unmoved(attrs: Attrs, perm: Sequence[int]) -> dict[str, Any]:
    """For operators whose attributes name no dimensions."""
    return dict(attrs)


def moved_axes(*names: str) -> Permute:
    """For attributes that hold a dimension's number, or several."""

    def permute(attrs: Attrs, perm: Sequence[int]) -> dict[str, Any]:
        new = dict(attrs)
        for name in names:
            old = attrs.get(name)
            if isinstance(old, int):
                new[name] = list(perm).index(old % len(perm))
            elif old is not None:
                new[name] = tuple(list(perm).index(d % len(perm)) for d in old)
        return new

    return permute


def moved_lists(*names: str) -> Permute:
    """For attributes that hold one entry per dimension."""

    def permute(attrs: Attrs, perm: Sequence[int]) -> dict[str, Any]:
        return {**attrs, **{n: tuple(attrs[n][d] for d in perm) for n in names if n in attrs}}

    return permute
