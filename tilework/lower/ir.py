"""The loop program: what one schedule lowers to, before any target language.

Grammar::

    program  = buffers, regions
    region   = parallel loops (fused, may be none) around a statement
    stmt     = Seq(stmts) | For(var, extent, kind, body, start, active) | If(cond, then, orelse)
             | Store(buffer, indices, value) | Claim(buffer, indices) | Let(var, value, body)
             | Matrix(action, instruction, rows, column, group, body)
             | Barrier | Combine | AsyncCopy | Commit | Wait | Intrinsic       threads of a block
    kind     = serial | unroll | vector
    value    = te expression whose reads are Load(buffer, indices) and whose axes are loop vars

A ``vector`` loop is executed for all its points at once; an ``unroll`` loop is expanded. A buffer
of scope ``register`` is indexed by expanded loops only: its elements live in registers, across
serial loops as well.

Extents, shapes and integer literals may be expressions of numbers that a run brings: the program's
symbols (`tilework.index.symbols`). It is one program for all their values.

On machines whose threads come in blocks (GPUs), the parallel loops of a region are the grid, each
point of which is a block of ``Region.threads``; buffers of scope ``block`` are shared by the
threads of a block, and `Barrier` is where they wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Literal

from tilework.frozen import frozen
from tilework.index.extents import Extent, size
from tilework.index.strides import reach, row_major
from tilework.index.symbols import Symbol, Symbolic, symbols_of
from tilework.once import cached_property
from tilework.space.instructions import Instruction, Ints
from tilework.te.expr import Axis, Call, Expr
from tilework.te.parts import Parts, preorder
from tilework.te.trees import literals

SCOPES = ("input", "output", "updated", "global", "block", "thread", "register")
_INNER, _EXPRESSIONS = Parts("Stmt"), Parts("Expr", "Load")


@frozen(eq=False)
class Buffer:
    """A row-major array.

    Attributes:
        scope: see `SCOPES`; ``updated``: the first input, as output; ``global``: results from one
            region to the next; ``block``, ``thread``: there once a block of threads, a thread.
        streamed: how many bytes ahead of a load it pays to ask for its elements, which are read
            in order and come from memory; 0: not at all. Of symbols where a run decides.
        own_strides: those of an argument that lies inside a larger array, or of a ``block`` buffer
            that is padded or transposed; None for a dense array.
    """

    name: str
    shape: tuple[Extent, ...]
    dtype: str
    scope: str
    streamed: int | Expr = 0
    own_strides: tuple[Extent, ...] | None = None

    @cached_property
    def strides(self) -> tuple[Extent, ...]:
        """Elements between neighbours in each dimension."""
        return row_major(self.shape) if self.own_strides is None else self.own_strides

    @property
    def size(self) -> Extent:
        """Number of elements."""
        return size(self.shape)

    @property
    def reach(self) -> Extent:
        """Elements from the first to the end of the last one, those between included."""
        return 0 if self.size == 0 else reach(self.shape, self.strides, 1)


@frozen(eq=False)
class Load(Expr):
    """One element of a buffer."""

    buffer: Buffer
    indices: tuple[Expr, ...]


@frozen(eq=False)
class Dot(Call):
    """A sum and several products by an instruction of the machine: a call that tells its meaning.

    Arguments are the sum, then the elements of the left operand, which are neighbours in memory,
    then those of the right one, which are neighbours, too.
    """

    instruction: Instruction

    @staticmethod
    def of(
        instruction: Instruction, acc: Expr, left: Sequence[Expr], right: Sequence[Expr]
    ) -> Dot:
        """The call."""
        return Dot(acc.dtype, instruction.name, (acc, *left, *right), instruction)

    @property
    def operands(self) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
        """Elements of the left and of the right operand."""
        split = 1 + self.instruction.terms
        return self.args[1:split], self.args[split:]

    @cached_property
    def meaning(self) -> Expr:
        """The same without the instruction."""
        return self.instruction.meaning(self.args[0], *self.operands)


@frozen(eq=False)
class Store:
    """``buffer[indices] = value``."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr


@frozen(eq=False)
class Claim:
    """The element is about to be written: its place may be fetched now. Computes nothing."""

    buffer: Buffer
    indices: tuple[Expr, ...]


@frozen(eq=False)
class For:
    """``for var in range(start, extent)``; expressions must stay within ``0 .. var.extent``.

    Only serial loops have another start than 0. Of these the target may expand ``expand`` copies
    of the body; 1 leaves it to itself.

    Attributes:
        active: of a vector loop, how many of its points count, from the first on: others store
            nothing and read nothing. From 1 to ``extent``; None if all do.
    """

    var: Axis
    extent: Extent | Expr
    kind: str
    body: Stmt
    start: Extent | Expr = 0
    expand: int = 1
    active: Expr | None = None


@frozen(eq=False)
class If:
    """``if cond: then else: orelse``."""

    cond: Expr
    then: Stmt
    orelse: Stmt | None = None


@frozen(eq=False)
class Seq:
    """Statements in order."""

    stmts: tuple[Stmt, ...]


@frozen(eq=False)
class Let:
    """``var = value; body``: an index that is computed once."""

    var: Axis
    value: Expr
    body: Stmt


Action = Literal["clear", "load", "multiply", "store"]


@frozen(eq=False)
class Matrix:
    """Loops that a matrix unit does to all sums of a register tile at once.

    ``body`` says what they compute: expanded loops over groups of terms (of ``multiply``) and
    rows, and a vector loop over columns, those of one iteration left out, around one `Store`. It
    sets sums to 0 or to what is in memory, adds a `Dot` to each, or stores them.

    Attributes:
        instruction: the unit's.
        rows, column: variables of the loops; blocks of the unit have rows along the last of the
            former.
        group: that over groups of terms, of as many points as one instruction takes groups; in all
            statements on one tile.
    """

    action: Action
    instruction: Instruction
    rows: tuple[Axis, ...]
    column: Axis
    group: Axis
    body: Stmt

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Points of the loops, equal in all statements on one tile.

        Those of the outer rows together, of the last rows, of columns and of groups.
        """
        *outer, row = self.rows
        around = prod(v.points for v in outer)
        return around, row.points, self.column.points, self.group.points


@frozen(eq=False)
class Barrier:
    """All threads of the block (or of the warp) wait for each other and see what they wrote."""

    scope: Literal["block", "warp"] = "block"


@frozen(eq=False)
class Combine:
    """Each of ``lanes`` neighbouring threads gets the reduction of all their elements.

    Element by element of a ``register`` buffer. All threads of the block take part.

    Attributes:
        kind: one of `tilework.te.nodes.REDUCTIONS`.
        lanes: a power of two.
        scratch: of scope ``block``, needed above 32 lanes: an element for each warp and element of
            the buffer.
    """

    buffer: Buffer
    kind: str
    lanes: int
    scratch: Buffer | None = None


@frozen(eq=False)
class AsyncCopy:
    """``count`` neighbours are on their way from a global to a ``block`` buffer; see `Wait`.

    Where ``when`` is false they are zeros, and the source is not read.
    """

    target: Buffer
    at: tuple[Expr, ...]
    source: Buffer
    start: tuple[Expr, ...]
    count: int
    when: Expr | None = None


@frozen(eq=False)
class Commit:
    """The thread's copies since the last one are a group."""


@frozen(eq=False)
class Wait:
    """The thread's copies have arrived, but for those of its ``left`` latest groups."""

    left: int


@frozen(eq=False)
class Gather:
    """Threads of a warp get elements at places that others name.

    Attributes:
        name: of the instruction.
        registers: that each thread gets, of 32 bits.
        element: by the numbers of thread, register and part of it: the thread that names the
            place, and how far behind it the element lies.
    """

    name: str
    registers: int
    element: Callable[[Ints, Ints, Ints], tuple[Ints, Ints]]


@frozen(eq=False)
class Bits:
    """A register gets the bits of a function of a float: one of `tilework.te.functions`."""

    name: str


@frozen(eq=False)
class Intrinsic:
    """What the threads of a warp do by one instruction.

    ``outs`` and ``ins`` name the first of a thread's registers of each operand; a multiplying
    `Instruction` has its sums as ``outs``. What a gather reads is shared by the block.
    """

    instruction: Instruction | Gather | Bits
    outs: tuple[Load, ...]
    ins: tuple[Load, ...]


BlockStmt = Barrier | Combine | AsyncCopy | Commit | Wait | Intrinsic
"""Statements for machines whose threads come in blocks."""
Stmt = Store | Claim | For | If | Seq | Let | Matrix | BlockStmt


@frozen(eq=False)
class Region:
    """A root nest.

    ``parallel`` loop variables are fused, outermost first, and shared out among threads in
    contiguous chunks; an empty tuple means that one thread runs the body.

    Attributes:
        threads: on machines whose threads come in blocks, the fused loop variables of a block's
            threads, outermost first; each point of the parallel loops is a block.
        thread: stands for the thread's number in its block, if anything asks for it.
        least_blocks: blocks that should fit a multiprocessor at once, which bounds the registers
            of a thread; 0 leaves it to the compiler.
        own: arguments of which a point of the parallel loops has places for itself, alike in all.
    """

    name: str
    parallel: tuple[Axis, ...]
    body: Stmt
    threads: tuple[Axis, ...] = ()
    thread: Axis | None = None
    least_blocks: int = 0
    own: frozenset[Buffer] = frozenset()

    @property
    def blocks(self) -> Extent:
        """Points of the parallel loops."""
        return size(a.extent for a in self.parallel)

    @property
    def block_size(self) -> Extent:
        """Threads of a block."""
        return size(a.extent for a in self.threads)


@frozen(eq=False)
class Program:
    """A lowered schedule: regions run one after another over shared buffers."""

    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    temporaries: tuple[Buffer, ...]
    regions: tuple[Region, ...]

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """The numbers that a run brings, by name; none where all extents are known."""
        return symbols_of(self._extents())

    def _extents(self) -> Iterator[Extent]:
        for buffer in (*self.inputs, *self.outputs, *self.temporaries):
            yield from (*buffer.shape, *buffer.strides)
        asked: list[Expr] = []
        for region in self.regions:
            yield from (a.extent for a in (*region.parallel, *region.threads))
            for stmt in walk_stmts(region.body):
                if isinstance(stmt, For):
                    ends = (stmt.extent, stmt.start, stmt.var.extent)
                    yield from (n for n in ends if not isinstance(n, Expr))
                asked += expressions(stmt)
        yield from (n.value for n in literals(asked) if isinstance(n.value, Symbolic))


def walk_stmts(stmt: Stmt) -> Iterator[Stmt]:
    """All statements in ``stmt``, outer first."""
    return preorder((stmt,), _INNER)


def parts_of(stmt: Stmt) -> tuple[Stmt, ...]:
    """The statements that a statement is made of."""
    return _INNER[type(stmt)](stmt)


def expressions(stmt: Stmt) -> tuple[Expr, ...]:
    """What a statement itself evaluates, and the places of an instruction's operands."""
    return _EXPRESSIONS[type(stmt)](stmt)


VALUES = Parts("Expr")
"""What a value is computed from: not the indices of a load."""
VALUES[Load] = lambda e: ()


def seq(*stmts: Stmt | None) -> Stmt:
    """Statements in order, without needless nesting."""
    kept = [s for s in stmts if s is not None]
    return kept[0] if len(kept) == 1 else Seq(tuple(kept))
