"""LLVM IR text of one function: basic blocks, loops, and values hoisted to where they belong.

Text is written directly: building a kernel this way takes a few milliseconds, an object model of
the same instructions several times that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class BasicBlock:
    """A basic block in three parts, so that phis and hoisted values can still be added later."""

    label: str
    phis: list[str] = field(default_factory=list)
    hoisted: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The block's text."""
        return [f"{self.label}:", *self.phis, *self.hoisted, *self.body]


class Function:
    """A function under construction.

    ``depth`` counts the open loops. Values that depend on loop variables up to depth d can be
    emitted once in the head of the loop at depth d (``hoist``), and are forgotten when it closes.

    Attributes:
        heads: the open loops' first blocks, as positions among all, behind that of the function.
        branch_depth: of the innermost branch that is a home of its own; 0 outside of all.
    """

    def __init__(self, header: str) -> None:
        self.header = header
        self.blocks = [BasicBlock("entry")]
        self.homes: list[BasicBlock] = [self.blocks[0]]
        self.heads = [0]
        self.caches: list[dict[object, str]] = [{}]
        self.branch_depth = 0
        self._next = 0

    @property
    def block(self) -> BasicBlock:
        """The block that instructions go to."""
        return self.blocks[-1]

    @property
    def depth(self) -> int:
        """Number of open loops."""
        return len(self.homes) - 1

    def name(self) -> str:
        """A fresh value name."""
        self._next += 1
        return f"%v{self._next}"

    def names(self, count: int) -> list[str]:
        """So many fresh value names, in order."""
        first, self._next = self._next + 1, self._next + count
        return [f"%v{n}" for n in range(first, self._next + 1)]

    def label(self, hint: str) -> str:
        """A fresh block label."""
        self._next += 1
        return f"{hint}{self._next}"

    def emit(self, text: str) -> str:
        """Append ``name = text`` to the current block and return the name."""
        self._next += 1
        name = f"%v{self._next}"
        self.blocks[-1].body.append(f"  {name} = {text}")
        return name

    def line(self, text: str) -> None:
        """Append an instruction without a result."""
        self.blocks[-1].body.append("  " + text)

    def hoist(self, depth: int, key: object, text: str) -> str:
        """The value of ``text`` computed once in the loop head at ``depth``; cached by ``key``."""
        cache = self.caches[depth]
        name = cache.get(key)
        if name is None:
            name = cache[key] = self.name()
            self.homes[depth].hoisted.append(f"  {name} = {text}")
        return name

    def begin(self, label: str) -> BasicBlock:
        """Start a new block (the previous one must have been ended by a branch)."""
        self.blocks.append(BasicBlock(label))
        return self.blocks[-1]

    def open_loop(self, label: str) -> BasicBlock:
        """Start a loop head and make it the home of values of the new depth."""
        self.heads.append(len(self.blocks))
        head = self.begin(label)
        self.homes.append(head)
        self.caches.append({})
        return head

    def close_loop(self) -> None:
        """Leave the innermost loop: what was hoisted into it is no longer available."""
        self.heads.pop()
        self.homes.pop()
        self.caches.pop()

    @contextmanager
    def home(self, block: BasicBlock) -> Iterator[None]:
        """A branch as the home of what it alone needs: elsewhere nothing is computed for it."""
        home, cache, outer = self.homes[-1], self.caches[-1], self.branch_depth
        self.homes[-1], self.caches[-1], self.branch_depth = block, dict(cache), self.depth
        yield
        self.homes[-1], self.caches[-1], self.branch_depth = home, cache, outer

    def text(self) -> str:
        """The whole function."""
        lines = [self.header + " {"]
        for b in self.blocks:
            lines += b.lines()
        lines.append("}")
        return "\n".join(lines)
