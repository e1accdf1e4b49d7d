"""Code of AMX, a matrix unit: eight registers (tiles) of up to 16 rows of 64 bytes.

How many rows and bytes a tile has is set for all of them at once, by a table of 64 bytes. That
takes some 40 nanoseconds, so that it is done where a function begins, or, where its register
tiles have several shapes, where one follows another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilework.errors import ScheduleError
from tilework.frozen import frozen
from tilework.index.form import Form, constant
from tilework.kinds.cpu.llvm.load_store import LoadStore
from tilework.kinds.cpu.llvm.ssa import BYTES
from tilework.lower.ir import Dot, For, Load, Matrix, Stmt, Store, walk_stmts
from tilework.space.dots import BYTE, BytesOfWord
from tilework.space.instructions import Instruction
from tilework.space.matrix_unit import REGISTERS
from tilework.te.affine import linear
from tilework.te.expr import Axis, Expr, walk
from tilework.te.trees import PARTS

PRODUCTS = {n: n for n in ("tdpbusd", "tdpbsud", "tdpbf16ps")}
"""By name of `tilework.kinds.cpu.instructions`: LLVM's name of what multiplies."""

_WORD = 4  # bytes of a sum, and of a group of terms
_Shape = tuple[int, int, int, int]


@frozen
class Assigned:
    """What each register holds while a tile of some shape is computed.

    Sums come first, then the operands of the side with fewer blocks, which wait; those of the
    other side pass by.

    Attributes:
        rows, columns: of each block, along either side.
        left, right: registers of the operands of each.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]

    @staticmethod
    def of(instruction: Instruction, shape: _Shape) -> Assigned:
        """Registers for a tile of a shape."""
        outer, height, width, _ = shape
        rows = _cut(height, instruction.rows) * outer
        columns = _cut(width, instruction.columns)
        first = len(rows) * len(columns)
        fewer = min(len(rows), len(columns))
        waits = tuple(range(first, first + fewer))
        passing = range(first + fewer, REGISTERS)
        if len(rows) <= len(columns):
            return Assigned(rows, columns, waits, _in_turns(columns, passing))
        return Assigned(rows, columns, _in_turns(rows, passing), waits)

    def sums(self, i: int, j: int) -> int:
        """The register of the sums of a block."""
        return i * len(self.columns) + j

    def table(self, groups: int) -> bytes:
        """What the unit is told: bytes of a row of each register, and rows."""
        out = bytearray(64)
        out[0] = 1

        def put(register: int, rows: int, words: int) -> None:
            out[16 + 2 * register : 18 + 2 * register] = (_WORD * words).to_bytes(2, "little")
            out[48 + register] = rows

        for i, rows in enumerate(self.rows):
            put(self.left[i], rows, groups)
            for j, columns in enumerate(self.columns):
                put(self.sums(i, j), rows, columns)
        for j, columns in enumerate(self.columns):
            put(self.right[j], groups, columns)
        return bytes(out)


def _cut(points: int, size: int) -> tuple[int, ...]:
    whole, rest = divmod(points, size)
    return (size,) * whole + (rest,) * (rest > 0)


def _in_turns(sizes: tuple[int, ...], registers: Sequence[int]) -> tuple[int, ...]:
    """Registers of blocks that pass by; smaller ones have a register of their own."""
    largest = max(sizes)
    turns = registers if min(sizes) == largest else registers[:-1]
    return tuple(
        turns[i % len(turns)] if size == largest else registers[-1] for i, size in enumerate(sizes)
    )


class MatrixUnit:
    """Emits what the unit does in one region.

    Raises:
        ScheduleError: an operand lies in another order than the unit reads.
    """

    def __init__(self, memory: LoadStore, body: Stmt) -> None:
        self.memory = memory
        self.addresses, self.fn = memory.addresses, memory.fn
        self.integers, self.bindings = self.addresses.integers, memory.bindings
        self.declarations = memory.declarations
        statements = [s for s in walk_stmts(body) if isinstance(s, Matrix)]
        if not all(map(self._in_order, statements)):
            raise ScheduleError("an operand lies in another order than a matrix unit reads")
        self._tables = list(dict.fromkeys(map(self._table, statements)))
        self._current = ""

    def begin(self) -> None:
        """Where the function begins."""
        if len(self._tables) == 1:
            self._call("ldtilecfg", f"ptr {self._tables[0]}")
        elif self._tables:
            self._current = self.fn.emit("alloca ptr")
            self.fn.line(f"store ptr null, ptr {self._current}")

    def end(self) -> None:
        """Where it ends: the system need not keep the registers any more."""
        if self._tables:
            self._call("tilerelease")

    def emit(self, s: Matrix) -> None:
        """The statement."""
        for var in (*s.rows, s.column, s.group):
            self.bindings.bind(var, 0)
        to = Assigned.of(s.instruction, s.shape)
        if s.action in ("clear", "load"):
            self._shaped(self._table(s))
        if s.action == "clear":
            for number in range(len(to.rows) * len(to.columns)):
                self._call("tilezero", f"i8 {number}")
        elif s.action == "multiply":
            self._multiply(s, to)
        else:
            self._moved(s, to)

    def _multiply(self, s: Matrix, to: Assigned) -> None:
        """Each operand is read once; those of the side with fewer blocks wait for the others."""
        left, right = (_stored(operand[0]) for operand in _operands(s))
        assert isinstance(left, Load) and isinstance(right, Load)
        blocks = [(i, j) for i in range(len(to.rows)) for j in range(len(to.columns))]
        if len(to.rows) <= len(to.columns):
            blocks.sort(key=lambda at: at[::-1])
        read: set[tuple[str, int]] = set()
        for i, j in blocks:
            if ("left", i) not in read:
                self._move("tileloadd64", to.left[i], s, left, s.rows[-1], (i, 0))
            if ("right", j) not in read:
                self._move("tileloadd64", to.right[j], s, right, s.group, (0, j))
            read |= {("left", i), ("right", j)}
            registers = to.sums(i, j), to.left[i], to.right[j]
            self._call(PRODUCTS[s.instruction.name], *(f"i8 {n}" for n in registers))

    def _moved(self, s: Matrix, to: Assigned) -> None:
        """Sums come from memory, or go there."""
        name = "tileloadd64" if s.action == "load" else "tilestored64"
        store = _store(s.body)
        access = store.value if s.action == "load" else store
        assert isinstance(access, Load | Store)
        for i in range(len(to.rows)):
            for j in range(len(to.columns)):
                self._move(name, to.sums(i, j), s, access, s.rows[-1], (i, j))
        if s.action == "store":
            self.memory.invalidate(store.buffer)

    def _move(
        self,
        name: str,
        register: int,
        s: Matrix,
        access: Load | Store,
        along: Axis,
        block: tuple[int, int],
    ) -> None:
        """Move a block of a matrix, whose rows follow each other ``along`` a variable."""
        form = self._form(access)
        assert form is not None
        const, terms, _, _ = self.bindings.split(form)
        *outer, row = s.rows
        around, first = divmod(block[0], -(-row.points // s.instruction.rows))
        for var in reversed(outer):
            around, at = divmod(around, var.points)
            const += at * form.step(var)
        const += s.instruction.rows * first * form.step(row)
        const += s.instruction.columns * block[1] * form.step(s.column)
        pointer = self.addresses.pointer(access.buffer, terms, const)
        apart = self.integers.literal(form.step(along) * BYTES[access.buffer.dtype])
        self._call(name, f"i8 {register}", f"ptr {pointer}", f"i64 {apart}")

    def _shaped(self, table: str) -> None:
        """Have the registers shaped by a table; nothing where they are all the time."""
        if not self._current:
            return
        fn = self.fn
        before = fn.emit(f"load ptr, ptr {self._current}")
        same = fn.emit(f"icmp eq ptr {before}, {table}")
        other, done = fn.label("shape"), fn.label("shaped")
        fn.line(f"br i1 {same}, label %{done}, label %{other}")
        fn.begin(other)
        self._call("ldtilecfg", f"ptr {table}")
        fn.line(f"store ptr {table}, ptr {self._current}")
        fn.line(f"br label %{done}")
        fn.begin(done)

    def _table(self, s: Matrix) -> str:
        """The name of the constant that shapes the registers for a statement's tile."""
        name = f"@tiles_{'_'.join(map(str, s.shape))}"
        data = Assigned.of(s.instruction, s.shape).table(s.shape[-1])
        text = "".join(f"\\{byte:02X}" for byte in data)
        known = self.declarations.definitions
        known[name] = f'{name} = internal constant [{len(data)} x i8] c"{text}", align 64'
        return name

    def _call(self, name: str, *arguments: str) -> None:
        """An intrinsic without a result; numbers of registers stand in its code."""
        kinds = (a.split()[0] for a in arguments)
        given = ", ".join(f"{kind} immarg" if kind == "i8" else kind for kind in kinds)
        self.declarations.declare(f"declare void @llvm.x86.{name}({given})")
        self.fn.line(f"call void @llvm.x86.{name}({', '.join(arguments)})")

    def _form(self, access: Load | Store) -> Form[Axis] | None:
        return self.addresses.flat(access.buffer, access.indices)

    def _in_order(self, s: Matrix) -> bool:
        """Whether what a statement reads and writes lies as the unit takes it."""
        if s.action == "clear":
            return True
        store = _store(s.body)
        if s.action != "multiply":
            access = store.value if s.action == "load" else store
            form = self._form(access) if isinstance(access, Load | Store) else None
            return form is not None and (s.column.points == 1 or form.step(s.column) == 1)
        left, right = _operands(s)
        count, still = len(left), dict.fromkeys(s.rows, 0)
        if not self._neighbours(left, {s.group: count, s.column: 0}):
            return False
        if BytesOfWord.of(right[0]) is not None:
            return self._whole_words(right, {s.column: 1, **still})
        return self._neighbours(right, {s.column: count, **still})

    def _whole_words(self, elements: Sequence[Expr], steps: Mapping[Axis, int]) -> bool:
        """Whether a group's elements are all bytes of a word, and groups lie as `_neighbours`."""
        words = [w for w in map(BytesOfWord.of, elements) if w is not None]
        shifts = [linear(w.shift) for w in words if w.mask == 2**BYTE - 1]
        if shifts != [constant(BYTE * n) for n in range(_WORD)]:
            return False
        forms = [self._form(w.word) for w in words if isinstance(w.word, Load)]
        first = forms[0] if len(forms) == len(elements) else None
        if first is None or any(f != first for f in forms):
            return False
        return all(first.step(v) == n for v, n in steps.items() if v.points > 1)

    def _neighbours(self, elements: Sequence[Expr], steps: Mapping[Axis, int]) -> bool:
        """Whether a group's elements follow each other, and groups do along some variables."""
        forms = [self._form(e) for e in elements if isinstance(e, Load)]
        first = forms[0] if len(forms) == len(elements) else None
        if first is None or any(first.step(v) != n for v, n in steps.items() if v.points > 1):
            return False
        return all(
            form is not None
            and form.coefficients == first.coefficients
            and form.const == first.const + n
            for n, form in enumerate(forms)
        )


def _stored(e: Expr) -> Expr:
    """What is read for the first element of a group: itself, or the word that has it."""
    word = BytesOfWord.of(e)
    return e if word is None else word.word


def _store(body: Stmt) -> Store:
    """What stands in the loops."""
    while isinstance(body, For):
        body = body.body
    assert isinstance(body, Store)
    return body


def _operands(s: Matrix) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """A group of the data and one of the weights, which have the columns."""
    dot = _store(s.body).value
    assert isinstance(dot, Dot)
    left, right = dot.operands
    moves = any(node is s.column for node in walk(left[0], PARTS))
    return (right, left) if moves or BytesOfWord.of(left[0]) is not None else (left, right)
