"""The boundary to LLVM: IR text in, object code out. It runs few of its passes.

Several threads may call `emit_object` at once, and LLVM serves them beside each other: what it
works on belongs to one call (`tilework.kinds.cpu.llvm.binding`) or to one thread.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

from tilework.kinds.cpu.jit import llvm
from tilework.kinds.cpu.llvm.binding import emit
from tilework.kinds.cpu.passes import passes_skipped
from tilework.kinds.cpu.target import CpuTarget

_MOST_MACHINES = 16
_own = threading.local()


class _Machine(NamedTuple):
    """LLVM's code generator for a CPU, and what its modules begin with."""

    machine: Any
    head: str


def emit_object(text: str, target: CpuTarget, *, calls_only: bool = False) -> bytes:
    """Object code of LLVM IR text for the target.

    Args:
        calls_only: the functions call others, one after the other, and do nothing else that takes
            time. LLVM is spared the effort of its optimising code generator, which takes over a
            millisecond for each of them, however short.

    Raises:
        RuntimeError: LLVM cannot read the text, or makes no code of it.
    """
    return _emitted(text, target, 0 if calls_only else 2, "object")


def emit_assembly(text: str, target: CpuTarget) -> str:
    """Assembly of LLVM IR text for the target."""
    return _emitted(text, target, 2, "assembly").decode()


def _emitted(text: str, target: CpuTarget, effort: int, what: str) -> bytes:
    with passes_skipped(target.vector_bits):
        settings = _machine(target.mcpu, target.llvm_features(), target.triple, effort)
        return emit(settings.head + text, settings.machine, what == "object")


def _machine(mcpu: str, features: str, triple: str, effort: int = 2) -> _Machine:
    """This thread's code generator: one changes while it works, so that threads share none."""
    known: dict[tuple[object, ...], _Machine] = _own.__dict__.setdefault("machines", {})
    key = (mcpu, features, triple, effort)
    if key not in known:
        if len(known) >= _MOST_MACHINES:
            known.clear()
        known[key] = _new_machine(*key)
    return known[key]


def _new_machine(mcpu: str, features: str, triple: str, effort: int) -> _Machine:
    binding = llvm()
    if triple:
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
        kind = binding.Target.from_triple(triple)
    else:
        kind = binding.Target.from_default_triple()
    machine = kind.create_target_machine(
        cpu=mcpu, features=features, opt=effort, reloc="pic", codemodel="default"
    )
    layout = machine.target_data
    return _Machine(
        machine, f'target triple = "{machine.triple}"\ntarget datalayout = "{layout}"\n'
    )
