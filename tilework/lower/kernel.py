"""A built program: code, and what its caller must hand to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from tilework.deferred import Awaited
from tilework.frozen import frozen
from tilework.index.extents import Extent, exchanged, nbytes
from tilework.index.symbols import Symbol
from tilework.lower.ir import Program
from tilework.space.packing import Packing


@frozen
class KernelArg:
    """One argument: its shape as passed (packed shape for packed weights), and its role.

    Attributes:
        role: ``input``, ``output``, or ``symbol``: the address of a number that the run brings,
            in whose words shapes and workspaces are.
    """

    name: str
    shape: tuple[Extent, ...]
    dtype: str
    role: str
    packing: Packing | None = None

    @property
    def nbytes(self) -> Extent:
        """Size of the argument in bytes."""
        return nbytes(self.shape, self.dtype)


def kernel_args(program: Program, packing: Mapping[int, Packing]) -> tuple[KernelArg, ...]:
    """The arguments of a program's kernel: inputs, outputs, then symbols by name.

    Args:
        program: what the kernel computes.
        packing: how constants are packed, by the position of the input.
    """
    inputs = (
        KernelArg(b.name, b.shape, b.dtype, "input", packing.get(i))
        for i, b in enumerate(program.inputs)
    )
    outputs = (KernelArg(b.name, b.shape, b.dtype, "output") for b in program.outputs)
    symbols = (KernelArg(s.name, (), "int64", "symbol") for s in program.symbols)
    return (*inputs, *outputs, *symbols)


@frozen
class Kernel:
    """Code of one scheduled task, in words of the target's kind.

    On a CPU the function has the C signature
    ``void symbol(void **args, void *workspace, int32_t threads)`` with 64-byte aligned pointers;
    ``args`` are the task's inputs, then its outputs, then the addresses of the values of the
    symbols, each an ``int64_t``.

    Attributes:
        pieces: symbol and object code of the kernel and of each of its regions, which may be still
            being made (`tilework.lower.protocol.Builder.build`). Equal symbols hold equal code,
            whatever kernel they come from.
        code_hash: hash of the generated program text, equal for equal programs.
        shared_workspace, thread_workspace: bytes needed once, and once per thread.
        facts: what is known of the code without running it, by name, such as its registers.
        unfit: why it is not worth measuring, such as registers that it spills; often empty.
        outlook: how many times as fast the draft model finds the program, now that its code is
            known, as it found the schedule.
        overwritable: positions of the inputs that its output may take the place of, as its loop
            program proves (`tilework.lower.inplace`).
    """

    symbol: str
    pieces: tuple[tuple[str, bytes | Awaited[bytes]], ...]
    code_hash: str
    args: tuple[KernelArg, ...]
    shared_workspace: Extent
    thread_workspace: Extent
    facts: Mapping[str, float] = field(default_factory=dict)
    unfit: str = ""
    outlook: float = 1.0
    overwritable: frozenset[int] = frozenset()

    @property
    def objects(self) -> tuple[tuple[str, bytes], ...]:
        """The pieces once they are made; an error of making one is raised here."""
        return tuple(
            (symbol, code if isinstance(code, bytes) else code.result())
            for symbol, code in self.pieces
        )

    def __getstate__(self) -> dict[str, object]:
        """A pickled kernel is whole."""
        return {**self.__dict__, "pieces": self.objects}

    def of_symbols(self, by: Mapping[Symbol, Symbol]) -> Kernel:
        """The same code in the words of other symbols, whose names have the same order."""
        if not by:
            return self
        shared, each = exchanged((self.shared_workspace, self.thread_workspace), by)
        names = {s.name: other.name for s, other in by.items()}
        args = tuple(
            replace(a, name=names.get(a.name, a.name))
            if a.role == "symbol"
            else replace(a, shape=exchanged(a.shape, by))
            for a in self.args
        )
        return replace(self, args=args, shared_workspace=shared, thread_workspace=each)

    def workspace_bytes(self, threads: int) -> Extent:
        """Bytes of workspace for a run with ``threads`` threads."""
        return self.shared_workspace + threads * self.thread_workspace
