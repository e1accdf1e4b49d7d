"""Whose a difference is: ours, the peer's, the arithmetic's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from _case import Case
from _peer import PeerError, perturbed, run_double, run_evaluator, run_peer
from numpy.typing import NDArray

from tilework.errors import TileworkError

Array = NDArray[Any]
Run = Callable[[Case], Sequence[Array]]

BAD = ("wrong", "undecided", "raw", "crash", "hang")
"""What a run is looked through for; the first two by hand where the judges do not agree."""

_TRIALS = 10
_RELATIVE = {"float16": 1e-2, "bfloat16": 5e-2, "float32": 1e-4, "float64": 1e-8}
_OF_LARGEST = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "float64": 1e-9}


@dataclass(frozen=True)
class Verdict:
    """What came of a case.

    Attributes:
        kind: ``same``: as ONNX Runtime. ``sensitive``: another result than its, which it has too
            when all values are moved by a few units of the last place. ``peer wrong``: as in
            double precision, other than ONNX Runtime. ``undefined``: there are NaN or infinities,
            or more, where results are free. ``refused``: one error line of ours. ``peer``: ONNX
            Runtime does not run it, nor does the evaluator say the same. ``wrong``. ``undecided``:
            no two agree. ``raw``: an error that is no `TileworkError`, or is many lines;
            ``crash``, ``hang``.
        text: more of it, in a line.
    """

    kind: str
    text: str = ""


def judge(case: Case, run: Run) -> Verdict:
    """Run a case both ways."""
    try:
        want = run_peer(case.model, case.inputs)
    except PeerError as e:
        want, refused = [], str(e)
    else:
        refused = ""
    with np.errstate(all="ignore"):
        try:
            got = [np.asarray(o) for o in run(case)]
        except TileworkError as e:
            return Verdict(_kind(str(e)), str(e))
        except Exception as e:
            return Verdict("raw", f"{type(e).__name__}: {e}")
        if refused:
            return _by_the_evaluator(case, got, refused)
        return compare(case, got, want)


def _by_the_evaluator(case: Case, got: Sequence[Array], refused: str) -> Verdict:
    """The verdict where ONNX Runtime lacks an operator for some type."""
    try:
        want = run_evaluator(case.model, case.inputs)
    except PeerError as e:
        return Verdict("peer", f"{refused}; nor the evaluator: {e}")
    alike = len(got) == len(want) and all(
        a.shape == b.shape and close(a, b, "float32").all() for a, b in zip(got, want, strict=True)
    )
    return Verdict("same" if alike else "peer", f"by the evaluator; {refused}")


def _kind(error: str) -> str:
    """What an error of ours says: a reason, or that something is wrong."""
    if "report it" in error or "\n" in error.strip():
        return "raw"
    return "wrong" if "is declared with shape" in error else "refused"


def compare(case: Case, got: Sequence[Array], want: Sequence[Array]) -> Verdict:
    """Compare outputs with those of ONNX Runtime; of a difference, say whose it is."""
    if len(got) != len(want):
        return Verdict("wrong", f"{len(got)} outputs of {len(want)}")
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            kind = "peer wrong" if _inferred(case, i) == list(a.shape) else "wrong"
            return Verdict(
                kind, f"output {i}: {a.dtype}{list(a.shape)}, not {b.dtype}{list(b.shape)}"
            )
    if all(close(a, b).all() for a, b in zip(got, want, strict=True)):
        return Verdict("same")
    values = _within(case)
    grain = max((a.dtype.name for a in values.values()), key=_coarseness, default="float64")
    differing = [
        i for i, (a, b) in enumerate(zip(got, want, strict=True)) if not close(a, b, grain).all()
    ]
    if not differing:
        return Verdict("same")
    if any(map(_odd, values.values())):
        return Verdict("undefined", _told(differing[0], got, want))
    return _whose(case, got, want, differing, grain, values)


def _inferred(case: Case, i: int) -> list[int] | None:
    """The shape of an output that the standard's own inference gives."""
    bare = onnx.ModelProto()
    bare.CopyFrom(case.model)
    bare.graph.output[i].ClearField("type")
    try:
        found = onnx.shape_inference.infer_shapes(bare, data_prop=True, strict_mode=True)
    except Exception:
        return None
    return [d.dim_value for d in found.graph.output[i].type.tensor_type.shape.dim]


def _coarseness(kind: str) -> float:
    return _RELATIVE.get(kind, 0.0)


def close(got: Array, want: Array, grain: str = "float64") -> NDArray[np.bool_]:
    """Which elements are equal but for rounding.

    Args:
        grain: the coarsest type of floats within the model, whose rounding errors are in the
            results, whatever these are stored as.
    """
    if want.dtype.name not in _RELATIVE:
        return np.asarray(got == want)
    name = max(want.dtype.name, grain, key=_coarseness)
    a, b = got.astype(np.float64), want.astype(np.float64)
    finite = np.abs(b[np.isfinite(b)])
    near = _OF_LARGEST[name] * max(finite.max(initial=0.0), 1e-30)
    equal = np.isclose(a, b, rtol=_RELATIVE[name], atol=near, equal_nan=True)
    return np.asarray(equal)


def _within(case: Case) -> dict[str, Array]:
    """All values within the model, as ONNX Runtime computes them, and its inputs.

    Where one is NaN, infinite or beyond 1e15, results are free.
    """
    made = [n for node in case.model.graph.node for n in node.output if n]
    names = list(dict.fromkeys(made))
    every = onnx.ModelProto()
    every.CopyFrom(case.model)
    del every.graph.output[:]
    every.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names)
    try:
        values = zip(names, run_peer(every, case.inputs), strict=True)
    except PeerError:
        return dict(case.inputs)
    return {**case.inputs, **dict(values)}


def _odd(array: Array) -> bool:
    if array.dtype.name not in _RELATIVE:
        return False
    limit = 6e4 if array.dtype.name == "float16" else 1e15
    wide = array.astype(np.float64)
    return bool(not np.isfinite(wide).all() or (np.abs(wide) > limit).any())


def _whose(
    case: Case,
    got: Sequence[Array],
    want: Sequence[Array],
    differing: Sequence[int],
    grain: str,
    within: Mapping[str, Array],
) -> Verdict:
    told = _told(differing[0], got, want)
    try:
        exact = run_double(case.model, case.inputs)
        moved = [
            run_double(*perturbed(case.model, case.inputs, within, s)) for s in range(_TRIALS)
        ]
    except Exception as e:  # the evaluator has gaps of its own
        exact, moved = [], []
        told += f"; no third opinion ({type(e).__name__}: {str(e).splitlines()[0][:80]})"
    kinds = set()
    for i in differing:
        a, b = got[i], want[i]
        bad = ~close(a, b, grain)
        known = i < len(exact) and exact[i].shape == b.shape
        if not known:
            kinds.add(_by_the_peer(case, within, i, a, b, bad))
            continue
        truth = exact[i].astype(b.dtype)
        ours, theirs = close(a, truth, grain), close(b, truth, grain)
        each = [m[i].astype(np.float64) for m in (*moved, exact) if m[i].shape == b.shape]
        ours, theirs = ours | _reached(a, each), theirs | _reached(b, each)
        if ours[bad].all():
            kinds.add("sensitive" if theirs[bad].all() else "peer wrong")
        else:
            kinds.add("wrong" if theirs[bad & ~ours].any() else "undecided")
    for kind in ("wrong", "undecided", "peer wrong"):
        if kind in kinds:
            return Verdict(kind, told)
    return Verdict("sensitive", told)


def _by_the_peer(
    case: Case, within: Mapping[str, Array], i: int, a: Array, b: Array, bad: NDArray[np.bool_]
) -> str:
    """The verdict where there is no evaluation in double precision."""
    each = [b.astype(np.float64)]
    for seed in range(_TRIALS):
        try:
            moved = run_peer(*perturbed(case.model, case.inputs, within, seed))
            each.append(moved[i].astype(np.float64))
        except (PeerError, IndexError):
            return "undecided"
    return "sensitive" if _reached(a, each)[bad].all() else "undecided"


def _reached(array: Array, each: Sequence[Array]) -> NDArray[np.bool_]:
    """Which elements rounding may have made of what they should be: within twice its range."""
    low, high = np.min(each, axis=0), np.max(each, axis=0)
    room = 2 * (high - low)
    wide = array.astype(np.float64)
    return np.asarray((wide >= low - room) & (wide <= high + room) & (high > low))


def _told(i: int, got: Sequence[Array], want: Sequence[Array]) -> str:
    a, b = got[i], want[i]
    bad = ~close(a, b)
    at = tuple(int(n[0]) for n in np.nonzero(bad)) if bad.ndim else ()
    return (
        f"output {i} {b.dtype}{list(b.shape)}: {int(bad.sum())} of {bad.size} elements differ, "
        f"the first {list(at)}: {a[at]!r}, not {b[at]!r}"
    )
