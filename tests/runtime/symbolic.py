"""A module of symbolic shapes whose kernels are written by hand.

x (seq, 8), y (past, 8), z (past + seq, 8)
a = x + x          b = a + x           both in the arena
c = [y + y; b]     (past + seq, 8), its parts computed in their places
d = c + z          u = d + d           v = b + b
"""

from __future__ import annotations

import numpy as np

from tilework import Target
from tilework.index.extents import nbytes
from tilework.index.symbols import symbol
from tilework.kinds.cpu.llvm.assembler import emit_object
from tilework.kinds.cpu.llvm.driver import driver_object
from tilework.runtime import Module
from tilework.runtime.arena import Lifetime
from tilework.runtime.image import Image, Place, Ref, Step, Value

PAST, SEQ = symbol("past", 0, 512, (0, 128)), symbol("seq", 1, 600, (1, 16, 384))
BOTH = PAST + SEQ
_SUM = """
define void @{name}(ptr %args, ptr %ws, i32 %threads) nounwind {{
  %a = load ptr, ptr %args
  %at1 = getelementptr ptr, ptr %args, i64 1
  %b = load ptr, ptr %at1
  %at2 = getelementptr ptr, ptr %args, i64 2
  %c = load ptr, ptr %at2
  %n0 = add i64 0, 0
{sizes}
  %n = mul i64 %n{count}, 8
  br label %test
test:
  %i = phi i64 [0, %0], [%next, %body]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %end
body:
  %pa = getelementptr float, ptr %a, i64 %i
  %pb = getelementptr float, ptr %b, i64 %i
  %pc = getelementptr float, ptr %c, i64 %i
  %va = load float, ptr %pa
  %vb = load float, ptr %pb
  %sum = fadd float %va, %vb
  store float %sum, ptr %pc
  %next = add i64 %i, 1
  br label %test
end:
  ret void
}}
"""


def kernel(name, count, target):
    """Object code of a sum of two arrays of 8 times the sum of ``count`` symbols elements."""
    sizes = "\n".join(
        f"  %q{i} = getelementptr ptr, ptr %args, i64 {3 + i}\n"
        f"  %p{i} = load ptr, ptr %q{i}\n"
        f"  %s{i} = load i64, ptr %p{i}\n"
        f"  %n{i + 1} = add i64 %n{i}, %s{i}"
        for i in range(count)
    )
    return emit_object(_SUM.format(name=name, sizes=sizes, count=count), target)


def image(cores=1, **changes):
    target = Target(f"llvm -mcpu=native -num-cores={cores}")
    shapes = {"seq": (SEQ, 8), "past": (PAST, 8), "both": (BOTH, 8)}
    symbols = {"past": (0,), "seq": (1,), "both": (0, 1)}
    inputs = (
        Value("x", shapes["seq"], "float32", 0),
        Value("y", shapes["past"], "float32", 1),
        Value("z", shapes["both"], "float32", 2),
    )
    outputs = (
        Value("u", shapes["both"], "float32", 3),
        Value("v", shapes["seq"], "float32", 4),
    )
    size = {name: nbytes(shape, "float32") for name, shape in shapes.items()}
    places = (Place(0, 0), Place(1, 0), Place(2, 0), Place(2, size["past"]), Place(3, 0))

    def step(which, *at):
        refs = tuple(Ref(space, n, size[which]) for space, n in at)
        numbers = tuple(Ref("symbol", n, 8) for n in symbols[which])
        return Step(f"add_{which}", (*refs, *numbers), "add", f"add {which}", 8.0, 3 * size[which])

    a, b, c, inner, d = (("place", i) for i in range(5))
    x, y, z, u, v = (("io", i) for i in range(5))
    steps = (
        step("seq", x, x, a),
        step("seq", a, x, b),
        step("past", y, y, c),
        step("seq", b, b, inner),
        step("both", c, z, d),
        step("both", d, d, u),
        step("seq", b, b, v),
    )
    names = {"past": 1, "seq": 1, "both": 2}
    code = {f"{name}.o": kernel(f"add_{name}", count, target) for name, count in names.items()}
    fields = {
        "name": "sums",
        "target": str(target),
        "platform": target.platform,
        "num_threads": cores,
        "cores": cores,
        "needs": (),
        "inputs": inputs,
        "outputs": outputs,
        "steps": steps,
        "arena_bytes": 0,
        "workspaces": ((size["both"], 64 * SEQ),),
        "constants": np.zeros(64, np.uint8),
        "code": {"run.o": driver_object(steps, target), **code},
        "report": (),
        "symbols": tuple(s for e in (PAST, SEQ) for s in e.symbols),
        "lifetimes": (
            Lifetime(size["seq"], 0, 1),
            Lifetime(size["seq"], 1, 6),
            Lifetime(size["both"], 2, 4),
            Lifetime(size["both"], 4, 5),
        ),
        "places": places,
    }
    return Image(**{**fields, **changes})


def module(**changes):
    return Module(image(**changes))


def inputs(past, seq, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((n, 8), np.float32) for n in (seq, past, past + seq)]


def expected(x, y, z):
    b = (x + x) + x
    d = np.concatenate([y + y, b + b]) + z
    return [d + d, b + b]
