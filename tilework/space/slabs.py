"""Slabs: all stages of a few rows, then those of the next few.

Softmax and norms are several stages over the same rows, which meet in nothing::

    top[i]  = max over k of x[i, k]
    e[i, k] = exp(x[i, k] - top[i])
    sum[i]  = sum over k of e[i, k]
    y[i, k] = e[i, k] / sum[i]

Stage by stage each of them takes all the data through the caches. A slab is the same computation
of fewer rows, whose data stay near. Its sketches are those of that small computation, on one core;
the threads share slabs. Convolutions are cut so by `tilework.space.winograd.slabs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from types import MappingProxyType

from tilework.frozen import frozen
from tilework.index.extents import Extent, known, most, nbytes, size, typical
from tilework.once import cached_property
from tilework.space.winograd.weights import WeightTransform
from tilework.target import Target
from tilework.te.analysis import AccessAnalysis
from tilework.te.dag import ComputeDAG
from tilework.te.expr import Axis, Expr, Read, reads, rewritten, walk
from tilework.te.tensor import Compute, Operation, Placeholder, Tensor, make_compute

Places = tuple[int | None, ...]
"""By dimension of a tensor: the number of the row axis that it is, or None."""
Margin = tuple[int, int]


@frozen(eq=False)
class Slabs:
    """How a computation is cut into slabs.

    Attributes:
        whole, part: the computation, and that of one slab; the same tensors in the same order.
        places: by tensor, in this order, which dimensions are rows.
        rows, counts: by row axis: points in a slab, and number of slabs.
        cores: of the machine; slabs are computed by one each.
        vars: by row axis, the number of a slab: what depends on the place of its rows says so. Of
            an axis with rows that are shared, its first row.
        margins: by tensor and row axis, how many rows before its place a slab's rows begin, and
            how many more there are than of the output.
        form, transforms: of the part, where it is a variant (`tilework.space.sketch.Sketch`).
        shared: by row axis, rows of the last slab that are also of the one before it, which writes
            them. None where no axis has any.
        ragged: numbers of row axes whose last slab may reach beyond the last row. Nothing is
            stored there; what is read is an element all the same, or not read.
    """

    whole: ComputeDAG
    part: ComputeDAG
    places: tuple[Places, ...]
    rows: tuple[int, ...]
    counts: tuple[Extent, ...]
    cores: int
    vars: tuple[Axis, ...]
    margins: tuple[tuple[Margin, ...], ...]
    form: str = ""
    transforms: Mapping[str, WeightTransform] = field(default_factory=dict)
    shared: tuple[int, ...] = ()
    ragged: tuple[int, ...] = ()

    @property
    def each(self) -> int:
        """Slabs that the busiest core computes, typically."""
        return -(-typical(size(self.counts)) // self.cores)

    @cached_property
    def argument_bytes(self) -> float:
        """Bytes of all inputs and outputs, typically."""
        return float(sum(typical(nbytes(t.shape, t.dtype)) for t in self.whole.tensors))

    @cached_property
    def weight_bytes(self) -> float:
        """Bytes of weights that a variant has in place of the whole's."""
        return float(sum(4 * known(size(t.shape)) for t in self.transforms.values()))

    def __str__(self) -> str:
        return f"slabs of {'x'.join(map(str, self.rows))} rows"


def slabs_of(dag: ComputeDAG, least: int, wanted: int, cores: int) -> Slabs | None:
    """The slabs of a computation that reduces its rows more than once; None where none pay.

    Args:
        least: bytes of what stages read, of all rows together, from which on slabs may pay.
        wanted: the same of one slab, about.
        cores: that share the slabs.
    """
    if len(dag.outputs) != 1 or not _by_rows(dag):
        return None
    places = _rows(dag)
    if places is None:
        return None
    output = dag.outputs[0].op
    read = sum(_bytes(op) for op, at in places.items() if op is not output and any_row(at))
    extents = [n for n, r in zip(output.shape, places[output], strict=True) if r is not None]
    rows = _cut(extents, max(most(size(extents)) * wanted // read, 1))
    counts = tuple(n // r for n, r in zip(extents, rows, strict=True))
    if read < least or most(size(counts)) < max(2, 2 * cores):
        return None
    if dag.symbols and size(rows) == 1:
        return None
    part = part_of(dag, places, rows)
    at, margins = tuple(places[t.op] for t in dag.tensors), (((0, 0),) * len(rows),)
    return Slabs(dag, part, at, rows, counts, cores, slab_vars(counts), margins * len(dag.tensors))


def slab_vars(counts: Sequence[Extent]) -> tuple[Axis, ...]:
    """The number of a slab, by row axis."""
    return tuple(Axis("int32", f"slab{i}", n, "loop") for i, n in enumerate(counts))


def on_one_core(target: Target, slabs: Slabs | None) -> Target:
    """The machine that the blocks of a sketch have: those of a slab, if it is one, one core."""
    return target if slabs is None else target.with_cores(1)


def any_row(places: Places) -> bool:
    """Whether a tensor has rows at all."""
    return any(r is not None for r in places)


def _by_rows(dag: ComputeDAG) -> bool:
    """Whether stages reduce several times, without products of operands that are used again."""
    sums = [op for op in dag.compute_ops if op.reduce_axes]
    plain = all("bsr" not in op.attrs and "const_axes" not in op.attrs for op in sums)
    if len(sums) < 2 or not plain:
        return False
    facts = AccessAnalysis.of(dag)
    return not any(map(facts.needs_multi_level_tiling, sums))


def _rows(dag: ComputeDAG) -> Mapping[Operation, Places] | None:
    """The leading axes of the output that all stages have, as many as there are."""
    output = dag.outputs[0].op
    assert isinstance(output, Compute)
    for count in range(len(output.axes) - 1, 0, -1):
        places = _placed(dag, output, count)
        if places is not None:
            return places
    return None


def _placed(dag: ComputeDAG, output: Operation, count: int) -> dict[Operation, Places] | None:
    extents = output.shape[:count]
    places: dict[Operation, Places] = {
        output: (*range(count), *(None,) * (len(output.shape) - count))
    }
    for op in reversed(dag.ops):
        if not isinstance(op, Compute):
            continue
        if not place_reads(op, places, extents):
            return None
    return places


def place_reads(op: Compute, places: dict[Operation, Places], extents: tuple[Extent, ...]) -> bool:
    """Put what a stage reads into ``places``; False where it does not read its own rows alone."""
    row = {a: r for a, r in zip(op.axes, places[op], strict=True) if r is not None}
    seen = 0
    for read in reads(op.body):
        at = tuple(row.get(i) if isinstance(i, Axis) else None for i in read.indices)
        seen += sum(r is not None for r in at)
        if not _fits(read, at, extents) or places.setdefault(read.tensor.op, at) != at:
            return False
    # else a row's number means something
    return seen == sum(isinstance(n, Axis) and n in row for n in walk(op.body))


def _fits(read: Read, at: Places, extents: tuple[Extent, ...]) -> bool:
    """Whether an array is read at its own rows: a stage at all of them, an input at any."""
    rows = [r for r in at if r is not None]
    pairs = zip(read.tensor.shape, at, strict=True)
    same = all(r is None or n == extents[r] for n, r in pairs) and len(set(rows)) == len(rows)
    return same and (len(rows) == len(extents) or isinstance(read.tensor.op, Placeholder))


def _cut(extents: Sequence[Extent], wish: int) -> tuple[int, ...]:
    """About as many rows as wished for, whole inner axes first; no slab is shorter.

    Of an axis whose extent a run decides there is one row, and those of outer axes lie apart.
    """
    out = []
    for n in reversed(extents):
        if not isinstance(n, int):
            out.append(1)
            continue
        out.append(max(r for r in range(1, min(n, wish) + 1) if n % r == 0))
        wish = max(wish // n, 1) if out[-1] == n else 1
    return tuple(reversed(out))


def part_of(
    dag: ComputeDAG,
    places: Mapping[Operation, Places],
    rows: tuple[int, ...],
    beyond: Mapping[Operation, tuple[int, ...]] = MappingProxyType({}),
    bodies: Mapping[Operation, Expr] = MappingProxyType({}),
) -> ComputeDAG:
    """The computation of one slab.

    Args:
        beyond: rows that arrays have beyond those of the output, by row axis.
        bodies: of stages of a slab that are others than those of the whole.
    """
    smaller_of: dict[Operation, Operation] = {}

    def tensor(old: Tensor) -> Tensor:
        return Tensor(smaller(old.op))

    def smaller(op: Operation) -> Operation:
        if op not in smaller_of:
            pairs = zip(op.shape, places[op], strict=True)
            more = beyond.get(op, (0,) * len(rows))
            shape = tuple(n if r is None else rows[r] + more[r] for n, r in pairs)
            smaller_of[op] = (
                stage(op, shape) if isinstance(op, Compute) else replace(op, shape=shape)
            )
        return smaller_of[op]

    def stage(op: Compute, shape: tuple[Extent, ...]) -> Compute:
        axes = {a: replace(a, extent=n) for a, n in zip(op.axes, shape, strict=True)}

        def moved(node: Expr, kids: tuple[Expr, ...]) -> Expr | None:
            if isinstance(node, Axis):
                return axes.get(node)
            if isinstance(node, Read):
                return Read(node.dtype, tensor(node.tensor), kids)
            return None

        body = rewritten(bodies.get(op, op.body), moved)
        return make_compute(op.name, tuple(axes.values()), body, op.attrs)

    return ComputeDAG([tensor(t) for t in dag.tensors])


def _bytes(op: Operation) -> int:
    return most(nbytes(op.shape, op.dtype))
