"""CUDA C of statements."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilework.errors import ScheduleError
from tilework.kinds.cuda.source.expressions import Expressions
from tilework.kinds.cuda.source.indices import flat, mentions
from tilework.kinds.cuda.source.lines import Lines
from tilework.kinds.cuda.source.names import Names
from tilework.kinds.cuda.source.threads import print_combine, print_copy, print_intrinsic
from tilework.kinds.cuda.source.vectors import LANES, VectorStore, is_uniform
from tilework.lower import ir
from tilework.lower.text import bare
from tilework.te.expr import Axis, Expr, Lookup, children, walk

_FEWEST_TERMS = 2


class Statements:
    """Prints the statements of one kernel, line by line."""

    def __init__(self, names: Names, texts: Expressions, lines: Lines) -> None:
        self.names, self.texts, self.lines = names, texts, lines
        self.loops = 0
        self.expanded = 0
        self.combined = False

    def write(self, s: ir.Stmt) -> None:
        """Print a statement.

        Raises:
            ScheduleError: there is no CUDA C for it.
        """
        match s:
            case ir.Seq():
                for one in s.stmts:
                    self.write(one)
            case ir.Store():
                self._store(s)
            case ir.Claim():
                pass
            case ir.For():
                self._for(s)
            case ir.If():
                self._if(s)
            case ir.Let():
                self._let(s)
            case ir.Barrier():
                self.lines.add("__syncthreads();" if s.scope == "block" else "__syncwarp();")
            case ir.Combine():
                again = self.combined or self.loops > 0
                self.combined = True
                print_combine(s, self.texts, self.lines, again=again)
            case ir.AsyncCopy():
                print_copy(s, self.texts, self.lines)
            case ir.Commit():
                self.lines.add("TW_CP_COMMIT();")
            case ir.Wait():
                self.lines.add(f"TW_CP_WAIT({s.left});")
            case ir.Intrinsic():
                print_intrinsic(s, self.texts, self.lines)
            case _:
                raise ScheduleError(f"no CUDA C is known for {type(s).__name__}")

    def _store(self, s: ir.Store) -> None:
        value = self.texts.accumulated(s.buffer, s.indices, s.value)
        self.lines.add(self.texts.store(s.buffer, s.indices, value))

    def _if(self, s: ir.If) -> None:
        self.lines.add(f"if ({bare(self.texts.text(s.cond))}) {{")
        self._inside(s.then)
        if s.orelse is not None:
            self.lines.add("} else {")
            self._inside(s.orelse)
        self.lines.add("}")

    def _let(self, s: ir.Let) -> None:
        value = self.texts.index(s.value)
        if value.isdecimal():
            self.names.known[s.var] = int(value)
        elif value.isidentifier():
            self.names.known[s.var] = value
        else:
            name = self.names.fresh(s.var.name)
            self.lines.add(f"const int {name} = {bare(value)};")
            self.names.known[s.var] = name
        self.write(s.body)

    def _inside(self, s: ir.Stmt) -> None:
        with self.lines.deeper():
            self.write(s)

    # -- loops ----------------------------------------------------------------------------------

    def _for(self, s: ir.For) -> None:
        if s.kind == "vector":
            self._vector(s)
        elif s.kind == "unroll" and _is_looked_up(s.var, s.body):
            self._copies(s, self.write)
        else:
            self._loop(s)

    def _loop(self, s: ir.For) -> None:
        known = dict(self.names.bases)
        if s.kind == "unroll" and not self.expanded:
            self._hoist(s)
        name = self.names.fresh(s.var.name)
        start = self.texts.index(s.start) if isinstance(s.start, Expr) else str(s.start)
        stop = self.texts.index(s.extent) if isinstance(s.extent, Expr) else str(s.extent)
        self.lines.add("#pragma unroll" if s.kind == "unroll" else f"#pragma unroll {s.expand}")
        self.lines.add(f"for (int {name} = {start}; {name} < {stop}; ++{name}) {{")
        self.names.known[s.var] = name
        self.loops += 1
        self.expanded += s.kind == "unroll"
        self._inside(s.body)
        self.expanded -= s.kind == "unroll"
        self.loops -= 1
        self.lines.add("}")
        self.names.bases = known

    def _copies(self, s: ir.For, write: Callable[[ir.Stmt], None]) -> None:
        """The body once for each value of the variable."""
        assert isinstance(s.extent, int)
        for value in range(s.extent):
            self.names.known[s.var] = value
            self.lines.add("{")
            with self.lines.deeper():
                write(s.body)
            self.lines.add("}")
        del self.names.known[s.var]

    def _vector(self, s: ir.For) -> None:
        body, conditions = s.body, []
        while isinstance(body, ir.If) and body.orelse is None:
            if not is_uniform(body.cond, s.var, self.names.known):
                break
            conditions.append(body.cond)
            body = body.then
        if s.extent not in LANES or s.start != 0 or not isinstance(body, ir.Store):
            self._copies(s, self.write)
            return
        self.names.known[s.var] = 0
        where = " && ".join(self.texts.text(c) for c in conditions)
        del self.names.known[s.var]
        self.lines.add(f"if ({bare(where)}) {{" if where else "{")
        with self.lines.deeper():
            VectorStore(body, s.var, self.texts, self.lines).write()
        self.lines.add("}")

    def _hoist(self, s: ir.For) -> None:
        """Name the places in buffers that all copies of an expanded loop begin from."""
        if any(isinstance(x, ir.For) and x.kind == "serial" for x in ir.walk_stmts(s)):
            return  # the innermost loops are the ones that are expanded most
        inner: set[Expr] = {x.var for x in ir.walk_stmts(s) if isinstance(x, ir.For | ir.Let)}
        for buffer, indices in _accesses(s):
            form = flat(buffer, indices, self.names.known)
            outer = form.only(lambda a: a not in inner)
            terms = outer.coefficients
            key = buffer, frozenset((id(a), c) for a, c in terms.items())
            known = key in self.names.bases or not all(isinstance(a, Axis) for a in terms)
            if known or len(terms) < _FEWEST_TERMS or buffer.scope in ("register", "thread"):
                continue
            text = self.texts.sum(outer)
            name = self.names.fresh("at")
            self.lines.add(f"TW_AT({name}, {self.names.buffer(buffer)}, {text});")
            self.names.bases[key] = name


def _accesses(s: ir.Stmt) -> list[tuple[ir.Buffer, Sequence[Expr]]]:
    """Every access that a statement makes to memory."""
    out: list[tuple[ir.Buffer, Sequence[Expr]]] = []
    seen: set[Expr] = set()
    for one in ir.walk_stmts(s):
        if isinstance(one, ir.Store):
            out.append((one.buffer, one.indices))
        waiting = [ir.expressions(one)[-1]] if isinstance(one, ir.Store | ir.If | ir.Let) else []
        while waiting:  # the last part of a node first
            e = waiting.pop()
            if e not in seen:
                seen.add(e)
                waiting += children(e)
                if isinstance(e, ir.Load):
                    out.append((e.buffer, e.indices))
    return out


def _is_looked_up(var: Axis, body: ir.Stmt) -> bool:
    """Whether elements of constant matrices depend on a variable."""
    seen: set[Expr] = set()
    nodes = (
        e for s in ir.walk_stmts(body) for root in ir.expressions(s) for e in walk(root, seen=seen)
    )
    return any(mentions(i, var) for e in nodes if isinstance(e, Lookup) for i in e.indices)
