"""The CUDA C of a schedule, and what its machine code and the analytic model say of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilework.kinds.cuda.draft import terms
from tilework.kinds.cuda.facts import Code, blocks_per_sm, code_of
from tilework.kinds.cuda.launches import Launch
from tilework.kinds.cuda.lowering import LOWERING
from tilework.kinds.cuda.source import nvrtc
from tilework.kinds.cuda.source.printer import CudaSource, print_program
from tilework.kinds.cuda.target import CudaTarget
from tilework.lower.listing import Listing

_WORDS = {
    "multiply_adds": "multiply-adds",
    "tensor": "tensor cores",
    "shared": "shared memory",
    "l1": "L1 cache",
    "l2": "L2 cache",
    "issue": "instructions to issue",
    "latency": "latency",
    "dram": "memory",
    "launch": "the launch",
}
"""Terms of the analytic model."""


class CudaLister:
    """See `tilework.lower.listing.Lister`."""

    brief = True

    def listing(self, sketch: Any, row: Sequence[int]) -> Listing:
        """The functions of a schedule in the order in which they are launched.

        Facts of several launches stand in their order. Those of machine code need NVRTC; without
        it they say what to install.
        """
        target = CudaTarget.of(sketch.target)
        source = print_program(LOWERING.lower(sketch, row).program)
        facts = {"launches": _joined(f"{x.grid} x {x.block} threads" for x in source.launches)}
        lacking = nvrtc.available()
        if lacking is None:
            facts.update(_of_code(source, target))
        else:
            facts["registers"] = f"not known: {lacking}"
        facts["bound by (draft)"] = _bound(sketch, row)
        return Listing("CUDA C", _text(source), facts)


LISTING = CudaLister()


def _text(source: CudaSource) -> str:
    """All functions, each below the launches that run it."""
    parts = []
    for entry in source.entries:
        for number, launch in enumerate(source.launches, 1):
            if launch.entry == entry.name:
                parts.append(f"// launch {number}: {_words(launch)}\n")
        parts.append(entry.text.strip() + "\n\n")
    return "".join(parts).rstrip() + "\n"


def _words(launch: Launch) -> str:
    blocks = "1 block" if launch.grid == 1 else f"{launch.grid} blocks"
    shared = f", {launch.shared} bytes of dynamic shared memory" if launch.shared else ""
    return f"{blocks} of {launch.block} threads{shared}"


def _of_code(source: CudaSource, target: CudaTarget) -> dict[str, str]:
    codes = {e.name: code_of(e.name, e.text, target.arch) for e in source.entries}
    pairs = [(launch, codes[launch.entry]) for launch in source.launches]
    return {
        "registers": _joined(_registers(code) for _, code in pairs),
        "shared memory": _joined(
            _size(code.resources.shared_bytes + launch.shared) for launch, code in pairs
        ),
        "occupancy": _joined(_occupancy(launch, code, target) for launch, code in pairs),
        "machine code": _joined(_size(code.resources.code_bytes) for _, code in pairs),
    }


def _size(nbytes: int) -> str:
    return f"{nbytes / 1024:.1f} KiB" if nbytes >= 1024 else f"{nbytes} bytes"


def _registers(code: Code) -> str:
    spilled = f", {code.spilled} bytes spilled" if code.spilled else ""
    return f"{code.resources.registers}{spilled}"


def _occupancy(launch: Launch, code: Code, target: CudaTarget) -> str:
    """Blocks that an SM holds at once, and their share of the threads that it could hold."""
    blocks = blocks_per_sm(launch, code, target.limits)
    share = blocks * launch.block / target.limits.threads_per_sm
    return f"{blocks} an SM, {share:.0%}"


def _bound(sketch: Any, row: Sequence[int]) -> str:
    """Of each kernel the slowest of the analytic model's terms, and its share of the whole."""
    costs = terms(sketch, np.asarray(row, np.int32)[None, :])
    seconds, slowest = costs.kernels()[0], costs.bound()[0]
    return _joined(
        f"{_WORDS.get(name, name)}, {costs.parts[name][0, number] / whole:.0%}"
        for number, (name, whole) in enumerate(zip(slowest, seconds, strict=True))
    )


def _joined(words: Any) -> str:
    return "; ".join(words)
