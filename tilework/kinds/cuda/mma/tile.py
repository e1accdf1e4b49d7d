"""Tiles of a product on tensor cores: what a row decides, and what it needs, for P rows at once.

A block of threads computes ``block_m`` x ``block_n`` points, each of its warps ``warp_m`` x
``warp_n`` of them in registers. Pieces of both operands arrive in shared memory ``block_k`` terms
at a time, ``stages - 1`` fetches ahead of the one that is multiplied.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilework.frozen import frozen
from tilework.kinds.cuda.architectures import WARP, ArchLimits
from tilework.kinds.cuda.mma.instructions import COLUMNS, ROWS
from tilework.kinds.cuda.mma.product import Factor, Product, product_of
from tilework.space.blocks import Block
from tilework.space.decision import Open
from tilework.space.nest import BlockNest, Ints

_BLOCKS = (16, 32, 64, 128, 256)
_WARPS = (16, 32, 64, 128)
_ROW_BYTES = (32, 64, 128)
"""Of ``block_k`` terms: whole pieces, at most as long as all banks of shared memory."""
STAGES = (2, 3, 4, 5)
MOST_WARPS = 16
MOST_ACCUMULATORS = 128
"""Of a thread: of its 255 registers, operands and addresses take some hundred."""
MOST_MULTIPLIED = 256
"""Instructions of tensor cores in a warp's text, so that compilers need well below a second."""
MOST_ALONE = 64
"""Elements that a thread fetches one by one at a time, each of which stands in its text."""
_OTHER_REGISTERS = 40
"""For addresses, counters and guards, beside accumulators and operands."""


def decisions(block: Block) -> list[Open]:
    """What a row decides about a product, in the order of its columns."""
    product = product_of(block)
    _, m, n, k = product.extents
    inner = [b // product.itemsize for b in _ROW_BYTES]
    fitting = [t for t in inner if t < 2 * k] or inner[:1]
    return [
        _open("block_m", _reaching(_BLOCKS, m)),
        _open("block_n", _reaching(_BLOCKS, n)),
        _open("block_k", fitting),
        _open("warp_m", _reaching(_WARPS, m)),
        _open("warp_n", _reaching(_WARPS, n)),
        _open("stages", STAGES),
    ]


def _reaching(sizes: tuple[int, ...], extent: int) -> list[int]:
    """Sizes up to the first one that covers the extent."""
    return [s for i, s in enumerate(sizes) if i == 0 or sizes[i - 1] < extent]


def _open(name: str, choices: list[int] | tuple[int, ...]) -> Open:
    return Open(name, np.array(choices, np.int32).reshape(-1, 1), name)


@frozen(eq=False)
class Tiles:
    """The tiles of P rows.

    Attributes:
        product: what is multiplied.
        block_m, block_n, block_k, warp_m, warp_n, stages: the row's columns.
    """

    product: Product
    block_m: Ints
    block_n: Ints
    block_k: Ints
    warp_m: Ints
    warp_n: Ints
    stages: Ints

    @staticmethod
    def of(nest: BlockNest) -> Tiles:
        """The tiles of a nest of form ``mma``."""
        names = ("block_m", "block_n", "block_k", "warp_m", "warp_n", "stages")
        columns = (np.maximum(nest.values[name], 1) for name in names)
        return Tiles(product_of(nest.block), *columns)

    @property
    def warps(self) -> Ints:
        """Of a block."""
        return (self.block_m // self.warp_m) * (self.block_n // self.warp_n)

    @property
    def threads(self) -> Ints:
        """Of a block."""
        return self.warps * WARP

    @property
    def grid(self) -> Ints:
        """Blocks."""
        batch, m, n, _ = self.product.extents
        return batch * -(-m // self.block_m) * -(-n // self.block_n)

    @property
    def fetches(self) -> Ints:
        """Times that a block fetches ``block_k`` terms of its operands."""
        return -(-self.product.extents[3] // self.block_k)

    @property
    def stage_bytes(self) -> Ints:
        """Of shared memory that one fetch fills."""
        return (self.block_m + self.block_n) * self.block_k * self.product.itemsize

    @property
    def shared(self) -> Ints:
        """Bytes of shared memory that a block declares."""
        return self.stages * self.stage_bytes

    @property
    def accumulators(self) -> Ints:
        """Registers of a thread that hold sums."""
        return self.warp_m * self.warp_n // WARP

    @property
    def fragments(self) -> Ints:
        """Registers of a thread that hold operands of one step along k."""
        return self.warp_m // ROWS * 4 + self.warp_n // COLUMNS * 2

    @property
    def multiplied(self) -> Ints:
        """Instructions of tensor cores in the text of one fetch."""
        steps = self.block_k // self.product.step
        return steps * (self.warp_m // ROWS) * (self.warp_n // COLUMNS)

    def pieces(self, factor: Factor) -> Ints:
        """Of one operand that a thread fetches at a time."""
        rows = self.block_m if factor is self.product.a else self.block_n
        pieces = rows * self.block_k // self.product.piece
        return -(-pieces // np.maximum(self.threads, 1))

    @property
    def overhang(self) -> NDArray[np.float64]:
        """Points of m, n and k in tiles for each one that there is."""
        batch, m, n, k = self.product.extents
        inside = self.grid * self.block_m * self.block_n / (batch * m * n)
        return inside * (self.fetches * self.block_k) / k


def valid(nest: BlockNest, limits: ArchLimits) -> NDArray[np.bool_]:
    """Which rows are kernels within the limits of an architecture."""
    t = Tiles.of(nest)
    positive = np.ones(nest.count, bool)
    for name in ("block_m", "block_n", "block_k", "warp_m", "warp_n", "stages"):
        positive &= nest.values[name] >= 1
    piece = t.product.piece
    whole = (t.warp_m % ROWS == 0) & (t.warp_n % (2 * COLUMNS) == 0) & (t.warp_m > 0)
    whole &= (t.block_m % t.warp_m == 0) & (t.block_n % t.warp_n == 0) & (t.warp_n > 0)
    whole &= (t.block_k % t.product.step == 0) & (t.block_k % piece == 0)
    whole &= (t.stages >= min(STAGES)) & (t.stages <= max(STAGES))
    held = t.accumulators + t.fragments + _OTHER_REGISTERS
    room = limits.registers_per_sm // np.maximum(t.threads, 1)
    fits = (t.accumulators <= MOST_ACCUMULATORS) & (t.multiplied <= MOST_MULTIPLIED)
    fits &= (held <= room) & (held <= limits.registers_per_thread)
    fits &= (t.shared <= limits.shared_per_block) & (t.warps <= MOST_WARPS)
    for factor in (t.product.a, t.product.b):
        if not factor.whole:
            fits &= t.pieces(factor) * piece <= MOST_ALONE
    ahead = t.stages - 1 <= np.maximum(t.fetches, 1)  # more would fetch nothing
    return np.asarray(positive & whole & fits & ahead & np.full(nest.count, limits.mma))
