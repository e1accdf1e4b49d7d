"""Readable text of a loop program: for people, golden files and `tilework explain`.

    input   x float32[16, 64]
    input   w float32[1, 1, 1, 1, 64, 32]
    output  T_relu float32[16, 32]
    region T_relu, parallel i.0 in 2:
      unroll i.t in 8:
        vector j.t in 32:
          T_matmul.acc[i.t, j.t] = 0f
      for k.1 in 64:
        unroll i.t in 8:
          vector j.t in 32:
            T_matmul.acc[i.t, j.t] += x[(i.0*8) + i.t, k.1]*w[0, 0, 0, 0, k.1, j.t]
      ...

Expressions are written as those of declarations are (`tilework.te.printer`). Where two variables
or buffers of one name are in sight, the second has a number behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilework.index.extents import Extent
from tilework.lower import ir
from tilework.te.expr import Axis, Expr
from tilework.te.printer import expr_text

_LOOPS = {"serial": "for", "unroll": "unroll", "vector": "vector"}


def program_text(program: ir.Program) -> str:
    """A loop program, a line a statement; loops are indented."""
    return "\n".join(_Writer().program(program)) + "\n"


class _Writer:
    """Lines of a program, and the names that were given so far."""

    def __init__(self) -> None:
        self._names: dict[object, str] = {}
        self._used: set[str] = set()

    def program(self, program: ir.Program) -> Iterator[str]:
        for one in program.symbols:
            yield f"symbol  {one.name} in {one.low}..{one.high}"
        buffers = (("input", program.inputs), ("output", program.outputs),
                   ("between", program.temporaries))  # fmt: skip
        for what, several in buffers:
            for buffer in several:
                yield f"{what:7} {self._declared(buffer)}"
        for region in program.regions:
            yield from self._region(region)

    def _region(self, region: ir.Region) -> Iterator[str]:
        shared = [f"{self._name(a)} in {a.extent}" for a in region.parallel]
        threads = [f"{self._name(a)} in {a.extent}" for a in region.threads]
        head = f"region {region.name}"
        if shared:
            head += f", {'blocks' if threads else 'parallel'} {', '.join(shared)}"
        if threads:
            head += f", threads {', '.join(threads)}"
        if region.thread is not None:
            head += f", numbered {self._name(region.thread)}"
        yield f"{head}:"
        yield from self._indented(region.body)

    def _indented(self, body: ir.Stmt) -> Iterator[str]:
        return (f"  {line}" for line in self._stmt(body))

    def _stmt(self, s: ir.Stmt) -> Iterator[str]:
        match s:
            case ir.Seq():
                for one in s.stmts:
                    yield from self._stmt(one)
            case ir.For():
                begin = (
                    ""
                    if isinstance(s.start, int) and not s.start
                    else f"{self._extent(s.start)} to "
                )
                expanded = f", {s.expand} at once" if s.expand > 1 else ""
                active = f", the first {self._bare(s.active)}" if s.active is not None else ""
                end = f"{begin}{self._extent(s.extent)}{expanded}{active}"
                yield f"{_LOOPS[s.kind]} {self._name(s.var)} in {end}:"
                yield from self._indented(s.body)
                self._leave(s.var)
            case ir.If():
                yield f"if {self._bare(s.cond)}:"
                yield from self._indented(s.then)
                if s.orelse is not None:
                    yield "else:"
                    yield from self._indented(s.orelse)
            case ir.Let():
                yield f"let {self._name(s.var)} = {self._bare(s.value)}"
                yield from self._stmt(s.body)
                self._leave(s.var)
            case ir.Store():
                element, value = self._element(s.buffer, s.indices), self._bare(s.value)
                if value.startswith(f"{element} + "):
                    yield f"{element} += {bare(value.removeprefix(f'{element} + '))}"
                else:
                    yield f"{element} = {value}"
            case ir.Claim():
                yield f"claim {self._element(s.buffer, s.indices)}"
            case ir.Matrix():
                yield f"{s.action} by {s.instruction.name}:"
                yield from self._indented(s.body)
            case ir.Barrier():
                yield f"barrier of the {s.scope}"
            case ir.Combine():
                through = f" through {self._name(s.scratch)}" if s.scratch is not None else ""
                yield f"combine {self._name(s.buffer)} by {s.kind}, {s.lanes} lanes{through}"
            case ir.AsyncCopy():
                source = self._element(s.source, s.start)
                when = f" where {self._bare(s.when)}" if s.when is not None else ""
                yield f"copy {self._element(s.target, s.at)} <- {s.count} of {source}{when}"
            case ir.Commit():
                yield "commit copies"
            case ir.Wait():
                yield f"wait for copies but {s.left}"
            case ir.Intrinsic():
                outs, ins = (", ".join(map(self._bare, several)) for several in (s.outs, s.ins))
                yield f"{outs} <- {s.instruction.name}({ins})"

    def _declared(self, buffer: ir.Buffer) -> str:
        own = f" strides {list(buffer.own_strides)}" if buffer.own_strides is not None else ""
        known = "" if buffer.scope in ("input", "output", "global") else f" {buffer.scope}"
        return f"{self._name(buffer)} {buffer.dtype}{list(buffer.shape)}{own}{known}"

    def _element(self, buffer: ir.Buffer, indices: tuple[Expr, ...]) -> str:
        return f"{self._name(buffer)}[{', '.join(map(self._bare, indices))}]"

    def _extent(self, extent: Extent | Expr) -> str:
        return self._bare(extent) if isinstance(extent, Expr) else str(extent)

    def _bare(self, e: Expr) -> str:
        """An expression without parentheses around the whole of it."""
        return bare(expr_text(e, self._name, self._load))

    def _load(self, e: Expr) -> str | None:
        return self._element(e.buffer, e.indices) if isinstance(e, ir.Load) else None

    def _name(self, node: Any) -> str:
        """Of a loop variable or a buffer."""
        name = self._names.get(node)
        if name is None:
            name = self._names[node] = self._new(str(node.name))
        return name

    def _new(self, name: str) -> str:
        number, new = 1, name
        while new in self._used:
            number += 1
            new = f"{name}'{number}"
        self._used.add(new)
        return new

    def _leave(self, variable: Axis) -> None:
        """Behind its loop another variable may have its name."""
        self._used.discard(self._names.pop(variable))


def bare(text: str) -> str:
    """``text`` without a first parenthesis that is closed by the last character."""
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[1:-1] if at == len(text) - 1 > 0 else text
    return text
