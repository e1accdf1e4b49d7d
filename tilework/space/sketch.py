"""A sketch: blocks with open decisions, and array operations over its decision matrices."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilework.errors import ScheduleError
from tilework.frozen import frozen
from tilework.once import cached_property
from tilework.space.blocks import Block
from tilework.space.decision import Decision, Rows, around
from tilework.space.nest import BlockNest, Face, typical
from tilework.space.plan import StagePlan
from tilework.space.programs import RowPrograms
from tilework.space.protocol import space_of
from tilework.space.sampling import RowSampling
from tilework.space.siblings import stages_of
from tilework.space.slabs import Slabs, on_one_core
from tilework.space.winograd import WeightTransform
from tilework.target import Target
from tilework.te import ComputeDAG
from tilework.te.tensor import Compute

if TYPE_CHECKING:
    from tilework.space.moves import Moves

# What a choice does without is imported by those who use it.

_MOVES = 4
"""Draws of the decisions that a row does not bring along from another sketch."""


@frozen(eq=False)
class Sketch:
    """A family of schedules of one task; one row of integers selects one schedule.

    Attributes:
        id: position among the task's sketches.
        blocks: root loop nests in execution order.
        target: the machine, whose registers and lanes bound the tiles.
        dag: what the blocks compute: the task's DAG, or a variant with the same outputs.
        steps: the derivation in words, for people.
        plans: what becomes of each stage, in the order in which it was decided.
        form: what a variant is, in words; empty for the task's own DAG.
        transforms: how a variant's weights differ from the task's, by placeholder name.
        cuts: how reductions were cut into partial results, in words, by name.
        slabs: where blocks and ``dag`` are those of one slab: what the slabs are of.
    """

    id: int
    blocks: tuple[Block, ...]
    target: Target
    dag: ComputeDAG
    steps: tuple[str, ...] = ()
    plans: Mapping[Compute, StagePlan] = field(default_factory=dict)
    form: str = ""
    transforms: Mapping[str, WeightTransform] = field(default_factory=dict)
    cuts: Mapping[str, str] = field(default_factory=dict)
    slabs: Slabs | None = None

    @property
    def name(self) -> str:
        """The derivation in words."""
        return "; ".join(self.steps)

    @cached_property
    def stages(self) -> Mapping[str, Hashable]:
        """By name of a stage, what becomes of it: `tilework.space.siblings` compares them."""
        return stages_of(self.plans, self.cuts)

    @cached_property
    def by_block(self) -> tuple[tuple[Decision, ...], ...]:
        """The decisions of each block, in column order."""
        out = []
        col = 0
        on = on_one_core(self.target, self.slabs)
        for block in self.blocks:
            name, own = block.op.name, []
            prefix = f"{name}." if len(self.blocks) > 1 else ""
            for d in space_of(self.target).decisions(block, on):
                columns = tuple(range(col, col + d.choices.shape[1]))
                shown = d.name if d.attached is not None else prefix + d.name
                key = f"{name}.{d.name}"
                own.append(Decision(shown, columns, d.choices, d.kind, key, d.axis, d.attached))
                col += len(columns)
            out.append(tuple(own))
        return tuple(out)

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        """All decisions in column order."""
        return tuple(d for own in self.by_block for d in own)

    @cached_property
    def num_decisions(self) -> int:
        """Columns of a decision row."""
        return sum(len(d.columns) for d in self.decisions)

    @cached_property
    def num_live(self) -> int:
        """Decisions with more than one choice."""
        return sum(len(d.choices) > 1 for d in self.decisions)

    @cached_property
    def programs(self) -> RowPrograms:
        """Its rows as programs."""
        on = on_one_core(self.target, self.slabs)
        return RowPrograms(self.id, self.blocks, self.by_block, on)

    def check(self, rows: Sequence[int] | Sequence[Sequence[int]] | Rows) -> Rows:
        """Rows as a matrix of the right width.

        Raises:
            ScheduleError: the number of columns does not fit this sketch.
        """
        matrix = np.asarray(rows, dtype=np.int32)
        matrix = matrix.reshape(1, -1) if matrix.ndim == 1 else matrix
        if matrix.shape[1] != self.num_decisions:
            raise ScheduleError(
                f"sketch {self.id} takes {self.num_decisions} decisions per row, "
                f"got {matrix.shape[1]}; the row belongs to another sketch or rules version"
            )
        return matrix

    def nests(self, rows: Rows, extent: Face = typical) -> list[BlockNest]:
        """Loop nests of all blocks for the given rows."""
        pairs = zip(self.blocks, self.by_block, strict=True)
        return [BlockNest.of(block, rows, own, extent) for block, own in pairs]

    def describe(self, row: Sequence[int]) -> str:
        """The schedule that a row selects: steps with numbers, then the loop tree.

        Raises:
            ScheduleError: the row does not fit the sketch.
        """
        from tilework.space.describe import describe

        nests = self.nests(self.check(np.asarray(row, dtype=np.int32)))
        notes = [space_of(self.target).notes(nest) for nest in nests]
        return describe(f"sketch {self.id}", self.form, self.plans, self.cuts, nests, notes)

    # -- population operators ---------------------------------------------------------------

    def sample(self, rng: np.random.Generator, n: int) -> Rows:
        """Up to ``n`` valid random rows (fewer only if valid ones are very rare)."""
        return self._sampling.rows(rng, n)

    def mutate(
        self,
        rng: np.random.Generator,
        rows: Rows,
        taken: NDArray[np.uint64] | None = None,
    ) -> Rows:
        """One child of each row by the moves of `tilework.space.moves`.

        Children are other programs than all parents, than each other and than those of the row
        hashes ``taken``, or, where none was found in a few draws, copies of their parents.
        """
        own = self.row_hash(rows)
        known = own if taken is None else np.concatenate([own, taken])
        return self._moves.children(rng, rows, self.programs.judged, known)

    @cached_property
    def _sampling(self) -> RowSampling:
        return RowSampling(self.programs, self.num_decisions)

    @cached_property
    def _moves(self) -> Moves:
        from tilework.space.moves import Moves

        return Moves(self.by_block)

    def crossover(self, rng: np.random.Generator, a: Rows, b: Rows) -> Rows:
        """Children that take each decision from either parent; invalid ones fall back to ``a``."""
        out = a.copy()
        for d in self.decisions:
            from_b = np.flatnonzero(rng.random(len(a)) < 0.5)
            out[from_b[:, None], d.columns] = b[from_b[:, None], d.columns]
        bad = ~self.valid(out)
        out[bad] = a[bad]
        return out

    def moved(self, rng: np.random.Generator, other: Sketch, rows: Rows) -> Rows:
        """Rows of this sketch like ``rows`` of another one: computed at another place, or cut.

        Decisions that both sketches have are kept, or take the nearest choice where their choices
        differ; the others are drawn, a few times if need be. Rows that are not valid then are
        dropped.
        """
        out = np.empty((len(rows), self.num_decisions), np.int32)
        theirs = {d.key: d for d in other.decisions}
        free = []
        for d in self.decisions:
            same = theirs.get(d.key)
            if same is None or len(same.columns) != len(d.columns):
                free.append(d)
                continue
            taken = rows[:, same.columns]
            out[:, d.columns] = taken if _equal(d, same) else d.nearest(taken)
        good = np.zeros(len(rows), bool)
        for _ in range(_MOVES if free else 1):
            left = np.flatnonzero(~good)
            for d in free:
                picks = d.choices[rng.integers(len(d.choices), size=len(left))]
                out[left[:, None], d.columns] = picks
            good[left] = self.valid(out[left])
        return out[good]

    def neighbours(self, rows: Rows) -> list[Rows]:
        """Of each row, all valid rows that differ from it in exactly one decision."""
        near = around(rows, [(d.columns, d.choices) for d in self.decisions])
        changed = near.reshape(-1, rows.shape[1])
        good = (near != rows[:, None]).any(axis=2).reshape(-1)
        good &= self.programs.within_limits(self.programs.parts(changed))
        each = zip(near, good.reshape(len(rows), -1), strict=True)
        return [own[valid] for own, valid in each]

    def valid(self, rows: Rows) -> NDArray[np.bool_]:
        """Which rows lower to a program within the target's limits (all others are refused)."""
        return self.programs.valid(rows)

    def canonical(self, rows: Rows) -> Rows:
        """The rows with columns that have no effect set to zero: the same programs.

        Valid rows stay valid. Where a target has one core, which loops threads would share has no
        effect: the code differs in how loops are counted, and the row with zeros is the faster one
        by a percent.
        """
        return self.programs.canonical(rows, self.programs.parts(rows))

    # -- identity ----------------------------------------------------------------------------

    def row_hash(self, rows: Rows) -> NDArray[np.uint64]:
        """A 64-bit identity of each row's program: columns without effect do not count."""
        return self.programs.hashes(rows, self.programs.parts(rows))


def _equal(one: Decision, other: Decision) -> bool:
    """Whether two decisions have the same choices."""
    return one.choices is other.choices or np.array_equal(one.choices, other.choices)
