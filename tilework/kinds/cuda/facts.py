"""What the machine code of a kernel says before it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tilework.cache import BoundedCache
from tilework.frozen import frozen
from tilework.kinds.cuda.architectures import ArchLimits, resident_blocks
from tilework.kinds.cuda.launches import Launch
from tilework.kinds.cuda.source import nvrtc
from tilework.kinds.cuda.source.cubin import Resources, resources_of
from tilework.kinds.cuda.source.elf import read_cubin
from tilework.kinds.cuda.source.nvrtc import BuildError
from tilework.kinds.cuda.source.sass import multiply_adds, opcode_counts_of

_CODES: BoundedCache[tuple[str, str], Code] = BoundedCache(512)


@frozen
class Code:
    """Machine code of one function, and what it says.

    Attributes:
        name: of the function.
        cubin: the code.
        resources: what it takes.
        spilled: bytes that a thread stores and loads for want of registers.
        opcodes: how often each instruction stands in it.
    """

    name: str
    cubin: bytes
    resources: Resources
    spilled: int
    opcodes: Counter[str]


def code_of(name: str, text: str, arch: str) -> Code:
    """The machine code of a function; equal names have equal text.

    Raises:
        TargetError: nothing can be compiled here, or not for this architecture.
        BuildError: the compiler refuses the text.
    """
    return _CODES.get_or_make((name, arch), lambda: _compiled(name, text, arch))


def _compiled(name: str, text: str, arch: str) -> Code:
    compiled = nvrtc.compile_text(text, arch, name)
    cubin = read_cubin(compiled.cubin)
    resources = resources_of(cubin)
    if set(resources) != {name}:
        raise BuildError(f"{name} for {arch}: the code holds {', '.join(resources) or 'nothing'}")
    # a compiler that words its log in another way leaves the stack, which holds little else
    spilled = compiled.spilled.get(name, resources[name].stack_bytes)
    return Code(name, compiled.cubin, resources[name], spilled, opcode_counts_of(cubin)[name])


def blocks_per_sm(launch: Launch, code: Code, limits: ArchLimits) -> int:
    """Blocks of a launch that an SM holds at once.

    Raises:
        BuildError: not one fits.
    """
    taken = code.resources
    shared = taken.shared_bytes + launch.shared
    blocks = int(resident_blocks(limits, taken.registers, launch.block, shared))
    if blocks == 0:
        raise BuildError(
            f"{code.name} does not fit an SM of {limits.name}: {launch.block} threads of "
            f"{taken.registers} registers, {shared} bytes of shared memory"
        )
    return blocks


def facts_of(
    launches: Sequence[Launch], codes: Mapping[str, Code], limits: ArchLimits
) -> dict[str, float]:
    """Facts of a kernel for `tilework.lower.kernel.Kernel`.

    Of several launches the largest number counts, but for the resident blocks the smallest, and of
    instructions (``ffma``, float32 multiply-adds; ``hmma``, those of tensor cores) the sum.

    Raises:
        BuildError: a launch does not fit an SM.
    """
    used = [(launch, codes[launch.entry]) for launch in launches]
    taken = [code.resources for _, code in used]
    shared = [code.resources.shared_bytes + launch.shared for launch, code in used]
    return {
        "registers": max(r.registers for r in taken),
        "spill_bytes": max(code.spilled for _, code in used),
        "stack_bytes": max(r.stack_bytes for r in taken),
        "shared_bytes": max(shared),
        "code_bytes": max(r.code_bytes for r in taken),
        "blocks_per_sm": min(blocks_per_sm(launch, code, limits) for launch, code in used),
        "ffma": sum(multiply_adds(code.opcodes) for _, code in used),
        "hmma": sum(code.opcodes["HMMA"] for _, code in used),
    }


def why_unfit(codes: Sequence[Code]) -> str:
    """Why a kernel is not worth measuring; empty if it is.

    Threads that spill wait for memory in their innermost loops; an equal schedule with smaller
    tiles is always near.
    """
    worst = max(codes, key=lambda code: code.spilled)
    if not worst.spilled:
        return ""
    return (
        f"{worst.name} spills registers: its threads store and load {worst.spilled} bytes, beside "
        f"{worst.resources.registers} registers"
    )
