"""Math functions of generated code: cycles a vector, beside another checkout; every number.

    python benchmarks/vector_math.py [FUNCTION ...] [--against ../before] [--mcpu native,core-avx2]
    python benchmarks/vector_math.py --all [exp tanh erf log1p] [--part 1/4]

A loop over 16 KB that lie in L1 computes a function of four vectors at a time, written by the same
code that writes kernels. Cycles are those of a chain of dependent additions, timed beside it. Each
checkout runs in a process of its own; they take turns, and the medians of 15 turns are printed.

``--all`` asks for e^x, tanh, erf or log1p of all 2^32 float32 numbers (or one part of them) and
compares with that of float64: the largest error in units of the last place where the result is a
normal number, and how many of the others are not what `docs/semantics.md` says.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent.parent
_FUNCTIONS = (
    "copy", "exp", "sigmoid", "silu", "tanh", "expm1", "erf", "gelu", "softplus", "mish", "elu",
    "log1p",
)  # fmt: skip
_KNOWN = ("exp", "tanh", "erf", "log1p")
"""What ``--all`` has another implementation of."""
_TURNS = 15

_CHILD = """
import ctypes, json, sys, time
import numpy as np
from tilework.kinds.cpu.jit import LinkedObjects
from tilework.kinds.cpu.llvm.arithmetic import Arithmetic
from tilework.kinds.cpu.llvm.assembler import emit_object
from tilework.kinds.cpu.llvm.declarations import Declarations
from tilework.kinds.cpu.llvm.function import Function
from tilework.kinds.cpu.llvm.math_calls import MathCalls
from tilework.kinds.cpu.llvm.ssa import Ssa, float_literal
from tilework.kinds.cpu.target import CpuTarget

COUNT = 4096
target = CpuTarget(f"llvm -mcpu={sys.argv[1]} -num-cores=1")
WIDTH = target.lanes()
BITS = target.vector_bits
ABI = f'"prefer-vector-width"="{BITS}" "min-legal-vector-width"="{BITS}"'

class Math:
    def __init__(self, declarations, fn):
        self.arith = Arithmetic(fn, declarations)
        self.calls = MathCalls(self.arith)

    def number(self, x):
        return Ssa(float_literal(x, "float32"), 1, "float32")

    def do(self, op, a, b):
        one, other = (x if isinstance(x, Ssa) else self.number(x) for x in (a, b))
        return self.arith.binary(op, one, other)

    def limited(self, op, x, limit):
        one = self.number(limit)
        return self.arith.select(self.arith.compare(op, x, one), one, x)

    def call(self, name, x):
        if name == "copy":
            return self.do("*", x, x)
        if name == "silu":
            return self.do("*", x, self.call("sigmoid", x))
        if name == "gelu":
            erf = self.call("erf", self.do("*", x, 0.70710678))
            return self.do("*", self.do("*", x, 0.5), self.do("+", erf, 1.0))
        if name == "softplus":
            size = self.do("*", self.call("abs", x), -1.0)
            rest = self.call("log1p", self.call("exp", size))
            return self.do("+", self.limited("<", x, 0.0), rest)
        if name == "mish":
            e = self.call("exp", self.limited(">", x, 40.0))
            n = self.do("*", e, self.do("+", e, 2.0))
            return self.do("*", x, self.do("/", n, self.do("+", n, 2.0)))
        if name == "elu":
            e = self.call("exp", self.limited(">", x, 0.0))
            return self.do("+", self.limited("<", x, 0.0), self.do("-", e, 1.0))
        return self.calls.call(name, [x])

def function(name):
    declarations = Declarations(target.features)
    fn = Function("define void @f(ptr %x, ptr %y, i64 %n, i64 %mask) #0")
    math = Math(declarations, fn)
    vector = f"<{WIDTH} x float>"
    fn.line("br label %l")
    fn.begin("l")
    fn.line("%i = phi i64 [0, %entry], [%j, %l]")
    fn.line("%w = and i64 %i, %mask")
    for what in "xy":
        fn.line(f"%p{what} = getelementptr {vector}, ptr %{what}, i64 %w")
    values = []
    for u in range(4):
        at = fn.emit(f"getelementptr {vector}, ptr %px, i64 {u}")
        values.append(Ssa(fn.emit(f"load {vector}, ptr {at}, align 4"), WIDTH, "float32"))
    for u, value in enumerate(values):
        out = math.call(name, value)
        at = fn.emit(f"getelementptr {vector}, ptr %py, i64 {u}")
        fn.line(f"store {vector} {out.ssa}, ptr {at}, align 4")
    fn.line("%j = add i64 %i, 4")
    fn.line("%c = icmp slt i64 %j, %n")
    fn.line("br i1 %c, label %l, label %e")
    fn.begin("e")
    fn.line("ret void")
    text = "\\n".join([declarations.text(), fn.text(), f"attributes #0 = {{ nounwind {ABI} }}"])
    return linked(text, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

def linked(text, *types):
    objects = LinkedObjects(emit_object(text, target))
    made = ctypes.CFUNCTYPE(None, *types)(objects.address("f"))
    made.objects = objects
    return made

def clock():
    chain, last = [], "%b"
    for k in range(32):
        chain += [f"  %s{k} = add i64 {last}, %i", f"  %a{k} = xor i64 %s{k}, %n"]
        last = f"%a{k}"
    return linked("\\n".join([
        "define void @f(ptr %x, i64 %n) {", "entry:", "  br label %l", "l:",
        "  %i = phi i64 [0, %entry], [%j, %l]", f"  %b = phi i64 [3, %entry], [{last}, %l]",
        *chain,
        "  %j = add i64 %i, 1", "  %c = icmp slt i64 %j, %n", "  br i1 %c, label %l, label %e",
        "e:", f"  store i64 {last}, ptr %x", "  ret void", "}",
    ]), ctypes.c_void_p, ctypes.c_int64)

space = np.zeros(3 * COUNT, np.float32)
first = -space.ctypes.data // 4 % 16
x, y = space[first:first + COUNT], space[first + COUNT + 512:][:COUNT]
x[:] = np.random.default_rng(0).standard_normal(COUNT) * 3
made, ticks = {}, clock()

def timed(call):
    began = time.perf_counter()
    call()
    return time.perf_counter() - began

def every(name, exact, first, last):
    worst, at, wrong, kinds = 0.0, 0.0, 0, [0, 0, 0]
    for begin in range(first, last, 1 << 22):
        x = np.arange(begin, begin + (1 << 22), dtype=np.uint32).view(np.float32)
        y = np.empty_like(x)
        function_of(x.ctypes.data, y.ctypes.data, x.size // WIDTH, -1)
        odd = np.isnan(x)
        if name == "exp":
            under, over = x < np.float32(-87.33654), x >= np.float32(88.722839)
            wrong += int((np.signbit(y) & ~odd).sum())
        elif name == "log1p":
            odd |= x < -1
            under, over = (np.abs(x) < 1.2e-38) | (x == -1), np.isposinf(x)
            wrong += int(((np.signbit(y) != np.signbit(x)) & ~odd & (x != 0)).sum())
            wrong += int((np.isneginf(y) != (x == -1)).sum())
            wrong += int((np.abs(y[under & (x != -1)]) > 1.4e-38).sum())
        else:
            under, over = np.abs(x) < 1.2e-38, np.zeros_like(odd)
            wrong += int((np.signbit(y) != np.signbit(x))[~odd].sum() + (np.abs(y) > 1).sum())
            wrong += int((np.abs(y[under]) > 1.4e-38).sum())
        wrong += int((np.isnan(y) != odd).sum() + (np.isposinf(y) != over).sum())
        wrong += int(((y == 0) & (x != 0) if name != "exp" else (y == 0) != under).sum())
        kinds = [n + int(k.sum()) for n, k in zip(kinds, (y == 0, over, odd))]
        usual = ~(odd | under | over)
        want = exact(x[usual].astype(np.float64))
        unit = np.spacing(want.astype(np.float32)).astype(np.float64)
        error = np.abs(y[usual] - want) / unit
        if error.size and error.max() > worst:
            worst, at = float(error.max()), float(x[usual][error.argmax()])
    return worst, at, wrong, *kinds

if len(sys.argv) > 2:
    name = sys.argv[4]
    function_of = function(name)
    if name == "erf":
        from scipy.special import erf as exact
    else:
        exact = getattr(np, name)
    with np.errstate(invalid="ignore"):
        print(json.dumps(every(name, exact, int(sys.argv[2]), int(sys.argv[3]))), flush=True)
    sys.exit()

for line in sys.stdin:
    name = line.strip()
    if name not in made:
        made[name] = function(name)
    n = COUNT // WIDTH
    at = x.ctypes.data, y.ctypes.data
    made[name](*at, 20 * n, n - 1)
    t = timed(lambda: made[name](*at, 100 * n, n - 1))
    hz = 64e4 / timed(lambda: ticks(at[1], 10000))
    print(json.dumps(t * hz / (100 * n)), flush=True)
"""


class Checkout:
    """A process that runs the functions of one checkout on one CPU's instructions."""

    def __init__(self, folder: Path, mcpu: str, *numbers: int | str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CHILD, mcpu, *map(str, numbers)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def cycles(self, name: str) -> float:
        """Cycles a vector of one turn."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{name}\n")
        self._process.stdin.flush()
        return float(self.answer())

    def answer(self) -> Any:
        """What it says next."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("the process of a checkout ended")
        return json.loads(line)

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()


def compare(functions: list[str], mcpu: str, other: Path | None) -> None:
    """Prints a line for each function."""
    folders = [_HERE, *([other.resolve()] if other else [])]
    children = [Checkout(folder, mcpu) for folder in folders]
    times: dict[str, list[list[float]]] = {f: [[] for _ in children] for f in functions}
    for _ in range(_TURNS):
        for name in functions:
            for child, found in zip(children, times[name], strict=True):
                found.append(child.cycles(name))
    for name in functions:
        medians = [statistics.median(found) for found in times[name]]
        ratio = f"{medians[0] / medians[1]:7.2f}" if other else ""
        print(f"{mcpu:12} {name:10}" + "".join(f"{m:8.1f}" for m in medians) + ratio, flush=True)
    for child in children:
        child.close()


def try_all(function: str, mcpu: str, part: str) -> None:
    """Prints a line about one part of all numbers."""
    number, parts = map(int, part.split("/"))
    size = (1 << 32) // parts
    child = Checkout(_HERE, mcpu, (number - 1) * size, number * size, function)
    worst, at, wrong, zeros, infinities, nans = child.answer()
    child.close()
    print(
        f"{function} {mcpu} {part}: {worst:.3f} ulp at {at:.9g}; {zeros} zeros, "
        f"{infinities} infinities, {nans} NaN; {wrong} not what they should be",
        flush=True,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("functions", nargs="*", metavar="FUNCTION", default=_FUNCTIONS)
    add("--against", type=Path, help="folder of another checkout")
    add("--mcpu", default="native,core-avx2,x86-64", help="CPUs whose instructions are used")
    add("--all", action="store_true", help="exp, tanh, erf, log1p of all float32 numbers instead")
    add("--part", default="1/1", help="with --all: the first of four parts is 1/4")
    return parser.parse_args()


def main() -> None:
    """Run and print."""
    args = _arguments()
    for mcpu in args.mcpu.split(","):
        if args.all:
            for function in args.functions:
                if function in _KNOWN:
                    try_all(function, mcpu, args.part)
            continue
        compare(list(args.functions), mcpu, args.against)


if __name__ == "__main__":
    main()
