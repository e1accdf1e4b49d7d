"""The boundary to LLVM: IR text in, object code out. It runs few of its passes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tilework.kinds.cpu.jit import llvm, skip_passes
from tilework.kinds.cpu.target import CpuTarget
from tilework.locks import Lock

_MANY_REGISTERS_BITS = 512
"""Vectors of this width are in 32 registers; others are in 16, or nobody has tried."""
_emitting = Lock()


@lru_cache(maxsize=16)
def _machine(mcpu: str, features: str, triple: str, effort: int = 2) -> Any:
    binding = llvm()
    if triple:
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
        kind = binding.Target.from_triple(triple)
    else:
        kind = binding.Target.from_default_triple()
    return kind.create_target_machine(
        cpu=mcpu, features=features, opt=effort, reloc="pic", codemodel="default"
    )


def _module(text: str, target: CpuTarget, effort: int = 2) -> tuple[Any, Any]:
    machine = _machine(target.mcpu, target.llvm_features(), target.triple, effort)
    head = f'target triple = "{machine.triple}"\ntarget datalayout = "{machine.target_data}"\n'
    return llvm().parse_assembly(head + text), machine


def emit_object(text: str, target: CpuTarget, *, calls_only: bool = False) -> bytes:
    """Object code of LLVM IR text for the target.

    Args:
        calls_only: the functions call others, one after the other, and do nothing else that takes
            time. LLVM is spared the effort of its optimising code generator, which takes over a
            millisecond for each of them, however short.
    """
    module, machine = _module(text, target, 0 if calls_only else 2)
    with _emitting:
        skip_passes(target.vector_bits >= _MANY_REGISTERS_BITS)
        return bytes(machine.emit_object(module))


def emit_assembly(text: str, target: CpuTarget) -> str:
    """Assembly of LLVM IR text for the target."""
    module, machine = _module(text, target)
    with _emitting:
        skip_passes(target.vector_bits >= _MANY_REGISTERS_BITS)
        return str(machine.emit_assembly(module))
