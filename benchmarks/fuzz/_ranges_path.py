"""ONNX models of which an extent is a symbol, compiled once and run at several of its values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from _case import Array, Case
from _judge import Verdict, judge
from _maker import make
from _minimise import smaller
from _operators import OPERATORS
from _peer import PeerError, run_peer

import tilework as tw

SYMBOL = "n"
HIGHEST = 40
_POINTS = (1, 2, 3, 7, 8, 9, 13, 15, 16, 17, 24, 31, 32, 33, 37, HIGHEST)
_RUNS = 5


@dataclass(frozen=True, eq=False)
class Ranged:
    """A case, the dimensions of its inputs that are the symbol, and values of the symbol."""

    case: Case
    open: frozenset[tuple[str, int]]
    points: tuple[int, ...]


class RangesPath:
    """See `_paths.Path`."""

    def make(self, seed: int) -> Ranged:
        """Some or all input dimensions of one extent become the symbol.

        Raises:
            ValueError: ONNX Runtime runs no such variant at another value.
        """
        case = make(seed, OPERATORS)
        rng = np.random.default_rng(seed)
        extents = {n for array in case.inputs.values() for n in array.shape if n}
        for n in rng.permutation(sorted(extents)):
            dims = [
                (x, d) for x, a in case.inputs.items() for d, e in enumerate(a.shape) if e == n
            ]
            for chosen in (dims, [dims[int(rng.integers(len(dims)))]]):
                points = [int(n), *map(int, rng.permutation(_POINTS))]
                ranged = Ranged(case, frozenset(chosen), tuple(dict.fromkeys(points)))
                runs = tuple(p for p in ranged.points if _runs(at(ranged, p)))
                if len(runs) > 1:
                    return Ranged(case, ranged.open, runs[:_RUNS])
        raise ValueError("no extent is free")

    def check(self, case: Ranged) -> Verdict:
        """The module beside ONNX Runtime at each point; the first verdict that is not good."""
        threads = 1 + len(case.case.model.graph.node) % 4 // 3
        target = tw.Target(f"llvm -mcpu=native -num-cores={threads}")
        at_all = f"1..{HIGHEST}:" + ",".join(map(str, case.points[:2]))
        verdict = Verdict("refused", "no point")
        try:
            module = tw.compile(
                tw.from_onnx(opened(case), {SYMBOL: at_all}), target, None, cache=False
            )
        except tw.TileworkError as e:
            return Verdict("raw" if "report it" in str(e) else "refused", str(e))
        except Exception as e:
            return Verdict("raw", f"{type(e).__name__}: {e}")
        for point in case.points:
            verdict = judge(at(case, point), lambda c: list(module.run(c.inputs)))
            if verdict.kind not in ("same", "sensitive", "undefined"):
                return Verdict(verdict.kind, f"{SYMBOL} = {point}: {verdict.text}")
        return verdict

    def smaller(self, case: Ranged, still: Callable[[Ranged], bool]) -> Ranged:
        """The smallest model whose inputs with the symbol are there, for which ``still`` holds."""
        names = {name for name, _ in case.open}

        def wrapped(other: Case) -> Ranged:
            open_dims = frozenset((x, d) for x, d in case.open if x in other.inputs)
            return Ranged(other, open_dims, case.points)

        def holds(other: Case) -> bool:
            fed = set(other.inputs) - set(case.case.inputs)
            return not fed and bool(names & set(other.inputs)) and still(wrapped(other))

        return wrapped(smaller(case.case, holds))

    def save(self, case: Ranged, folder: Path, name: str) -> Path:
        """Keep it with the symbol in its inputs; `load` reads it."""
        path = Case(opened(case), case.case.inputs).save(folder, name)
        path.with_suffix(".points").write_text(" ".join(map(str, case.points)))
        return path

    def load(self, path: Path) -> Ranged:
        """What `save` kept."""
        case = Case.load(path)
        dims = frozenset(
            (value.name, i)
            for value in case.model.graph.input
            for i, dim in enumerate(value.type.tensor_type.shape.dim)
            if dim.dim_param
        )
        points = tuple(map(int, path.with_suffix(".points").read_text().split()))
        return Ranged(case, dims, points)

    def describe(self, case: Ranged) -> str:
        """Its operators."""
        return " ".join(n.op_type for n in case.case.model.graph.node)


def opened(case: Ranged) -> onnx.ModelProto:
    """The model with the symbol in its inputs."""
    model = onnx.ModelProto()
    model.CopyFrom(case.case.model)
    for value in model.graph.input:
        for i, dim in enumerate(value.type.tensor_type.shape.dim):
            if (value.name, i) in case.open:
                dim.dim_param = SYMBOL
    return model


def at(case: Ranged, point: int) -> Case:
    """The static case of a point: arrays are cut, or begin again."""
    model = onnx.ModelProto()
    model.CopyFrom(case.case.model)
    inputs: dict[str, Array] = dict(case.case.inputs)
    for name, axis in case.open:
        inputs[name] = np.take(inputs[name], range(point), axis=axis, mode="wrap")
    for value in model.graph.input:
        for dim, n in zip(value.type.tensor_type.shape.dim, inputs[value.name].shape, strict=True):
            dim.dim_value = n
    return Case(model, inputs)


def _runs(case: Case) -> bool:
    try:
        run_peer(case.model, case.inputs)
    except PeerError:
        return False
    return True


PATH = RangesPath()
