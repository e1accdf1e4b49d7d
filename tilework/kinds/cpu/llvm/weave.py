"""Long chains of instructions on several vectors, side by side.

What follows a sum of bytes is a chain of some forty instructions, each of which waits for the one
before. A core looks some hundred instructions ahead: vector by vector it would see two chains at
most, and wait for them most of the time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tilework.lower.ir import VALUES, For, Load, Stmt, Store
from tilework.te.expr import Call, walk

_NAMES = re.compile(r"%[\w.]+")
_DEFINED = re.compile(r"^ *(%[\w.]+) = ", re.MULTILINE)
_BESIDE = 4
"""Chains side by side: more would need more registers than there are."""
_BESIDE_SUMS = 3
"""The same where their first operands are in registers."""


def beside(loop: For, vector_bits: int) -> int:
    """How many of a loop's vectors are computed side by side; 0 where one after the other is well.

    Those that are quantised, where all that they need is in memory: registers are free. Sums in
    registers leave few: there vectors of 512 bits are woven that are quantised more than once.

    Args:
        loop: a vector loop, or an expanded one around it.
        vector_bits: of a register.
    """
    body: Stmt = loop
    while isinstance(body, For) and body.kind in ("unroll", "vector"):
        body = body.body
    if not isinstance(body, Store) or body.buffer.scope == "register":
        return 0
    nodes = list(walk(body.value, VALUES))
    rounds = sum(isinstance(n, Call) and n.name == "round" for n in nodes)
    if any(isinstance(n, Load) and n.buffer.scope == "register" for n in nodes):
        return _BESIDE_SUMS if rounds > 1 and vector_bits == 512 else 0
    return _BESIDE if rounds else 0


def woven(chains: Sequence[Sequence[str]], count: int) -> list[str]:
    """The instructions of chains in turns, ``count`` at a time, each behind those that it needs.

    Args:
        chains: lines of one block, chain by chain; none reads what another one stores.
        count: of chains side by side.
    """
    return [
        line for i in range(0, len(chains), count) for line in _in_turns(chains[i : i + count])
    ]


def _in_turns(chains: Sequence[Sequence[str]]) -> list[str]:
    defined = [[set(_DEFINED.findall(line)) for line in chain] for chain in chains]
    waiting = {name for chain in defined for names in chain for name in names}
    out: list[str] = []
    places = [0] * len(chains)
    before = -1
    while before < len(out):  # a first one that is not at its end can always go on
        before = len(out)
        for i, chain in enumerate(chains):
            if places[i] == len(chain):
                continue
            line, own = chain[places[i]], defined[i][places[i]]
            if waiting.isdisjoint(set(_NAMES.findall(line)) - own):
                out.append(line)
                waiting -= own
                places[i] += 1
    if len(out) < sum(map(len, chains)):
        raise AssertionError("an instruction needs what a later one defines")
    return out
