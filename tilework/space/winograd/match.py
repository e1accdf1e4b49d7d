"""Which convolutions have a Winograd form: windows of 3, 5 or 7 taps that move by one element."""

from __future__ import annotations

from tilework.frozen import frozen
from tilework.index.extents import known, most
from tilework.index.symbols import is_static
from tilework.space.winograd.matrices import MOST_TRANSFORMED
from tilework.te.affine import linear
from tilework.te.dag import ComputeDAG
from tilework.te.expr import Axis, Binary, Cast, Expr, Read, Reduce, reads
from tilework.te.tensor import Compute, Placeholder, Tensor

_MIN_CHANNELS = 16


@frozen
class Window:
    """One dimension of the data: ``stride * output + step * tap``, or one of the two terms.

    Attributes:
        output: the output axis that moves along it; None for the channels.
        tap: the reduce axis; None where no window moves along it.
        transformed: whether it is cut into tiles of outputs.
    """

    output: Axis | None
    tap: Axis | None
    stride: int
    step: int
    transformed: bool = False


@frozen(eq=False)
class Conv:
    """A convolution over channels that come last, in data and output.

    Attributes:
        windows: one per dimension of the data; the last one is the channels'.
        weight_axes: axis of each dimension of the weights.
        groups: the axis before the output's channels, where each of its points has channels and
            weights of its own; else none.
    """

    op: Compute
    data: Tensor
    weight: Tensor
    windows: tuple[Window, ...]
    weight_axes: tuple[Axis, ...]
    groups: tuple[Axis, ...] = ()

    @property
    def taps(self) -> int:
        """Extent of the transformed windows: the same for all."""
        return next(w.tap.points for w in self.windows if w.transformed and w.tap is not None)

    def saving(self, tile: int) -> float:
        """Multiplications of the form with this tile, relative to the direct form.

        Where a run decides how many outputs there are, of the most that there may be.
        """
        out, taps = 1.0, self.taps
        for w in self.windows:
            if w.transformed and w.output is not None:
                points = most(w.output.extent)
                out *= -(-points // tile) * (tile + taps - 1) / (taps * points)
        return out


def match(dag: ComputeDAG) -> Conv | None:
    """The DAG's only convolution that has a Winograd form, if there is exactly one."""
    matches = [c for op in dag.compute_ops if (c := _match(dag, op)) is not None]
    return matches[0] if len(matches) == 1 else None


def _match(dag: ComputeDAG, op: Compute) -> Conv | None:
    body = op.body
    if not isinstance(body, Reduce) or body.kind != "sum" or op.dtype != "float32":
        return None
    if not is_static(a.extent for a in (*op.axes[-1:], *op.reduce_axes)):
        return None
    source = body.source
    if not (isinstance(source, Binary) and source.op == "*"):
        return None
    data, weight = _stored(source.a), _stored(source.b)
    if isinstance(data, Read) and data.tensor.name in op.attrs.get("layout_free", ()):
        data, weight = weight, data
    if not (isinstance(data, Read) and isinstance(weight, Read)) or not op.axes:
        return None
    axes = _weights(dag, op, weight)
    if axes is None:
        return None
    windows = _windows(op, data)
    if windows is None or not {*op.reduce_axes, op.axes[-1]} <= set(axes):
        return None
    groups = tuple(a for a in op.axes[:-1] if a in axes)
    if groups and not _are_groups(groups, windows):
        return None
    channels = windows[-1].tap
    assert channels is not None
    if min(channels.typical, op.axes[-1].typical) < _MIN_CHANNELS:
        return None
    return Conv(op, data.tensor, weight.tensor, windows, axes, groups)


def _are_groups(axes: tuple[Axis, ...], windows: tuple[Window, ...]) -> bool:
    """Whether they are one axis, that of the dimension before the channels."""
    *_, last, _channels = windows
    return axes == (last.output,) and last.tap is None and last.stride == 1


def _stored(e: Expr) -> Expr:
    """A factor as it lies in memory: bfloat16 is converted where it is read."""
    return e.a if isinstance(e, Cast) and e.a.dtype == "bfloat16" else e


def _weights(dag: ComputeDAG, op: Compute, weight: Read) -> tuple[Axis, ...] | None:
    """Axes of the weights: constants that nothing else reads, each element once."""
    placed = weight.tensor.op
    if not isinstance(placed, Placeholder) or placed.name not in op.attrs.get("layout_free", ()):
        return None
    uses = sum(r.tensor.op is placed for o in dag.compute_ops for r in reads(o.body))
    axes = tuple(i for i in weight.indices if isinstance(i, Axis))
    whole = [a.extent for a in axes] == list(weight.tensor.shape)
    return axes if uses == 1 and whole and len(set(axes)) == len(axes) else None


def _windows(op: Compute, data: Read) -> tuple[Window, ...] | None:
    """What moves along each dimension of the data; None for anything but a convolution."""
    out: list[Window] = []
    for index in data.indices:
        form = linear(index)
        if form is None or form.const or any(c < 0 for c in form.coefficients.values()):
            return None
        spatial = [a for a in form.coefficients if a.kind == "spatial"]
        taps = [a for a in form.coefficients if a.kind == "reduce"]
        if len(spatial) > 1 or len(taps) > 1 or not form.coefficients:
            return None
        y = spatial[0] if spatial else None
        r = taps[0] if taps else None
        stride = known(form.step(y)) if y is not None else 1
        step = known(form.step(r)) if r is not None else 1
        out.append(Window(y, r, stride, step))
    moved = [w.output for w in out if w.output is not None]
    summed = [w.tap for w in out if w.tap is not None]
    if moved != list(op.axes[:-1]) or sorted(map(id, summed)) != sorted(map(id, op.reduce_axes)):
        return None
    if out[-1].output is not None or any(w.output is None for w in out[:-1]):
        return None
    fit = [
        (i, w.tap.points)
        for i, w in enumerate(out[:-1])
        if w.tap is not None and w.tap.points in MOST_TRANSFORMED and (w.stride, w.step) == (1, 1)
        and w.output is not None and most(w.output.extent) > 1
    ]  # fmt: skip
    if not fit:
        return None
    fewest = min(extent for _, extent in fit)
    alike = [i for i, extent in fit if extent == fewest]
    for i in alike[-MOST_TRANSFORMED[fewest] :]:
        w = out[i]
        out[i] = Window(w.output, w.tap, w.stride, w.step, transformed=True)
    return tuple(out)
