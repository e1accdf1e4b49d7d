"""Kernels: from a task, a sketch and a decision row to object code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from tilework.cache import BoundedCache
from tilework.deferred import Deferred, Helpers
from tilework.index.extents import Extent
from tilework.index.strides import Strides
from tilework.index.symbols import certain
from tilework.kept import key_of
from tilework.kinds.cpu.code_features import used_features
from tilework.kinds.cpu.jit import llvm
from tilework.kinds.cpu.llvm.assembler import emit_object
from tilework.kinds.cpu.llvm.driver import driver_object
from tilework.kinds.cpu.passes import LEFT_OUT
from tilework.kinds.cpu.target import CpuTarget
from tilework.kinds.cpu.team import Team, team_to_load
from tilework.lower.inplace import overwritable
from tilework.lower.kernel import Kernel, kernel_args
from tilework.lower.protocol import Builder, Linked
from tilework.overriding import override
from tilework.runtime.image import Step
from tilework.runtime.repeats import Repeat
from tilework.stages import stage, watch_here
from tilework.target import Target
from tilework.target.host import HOST_PLATFORM
from tilework.task import SearchTask

if TYPE_CHECKING:
    from tilework.kinds.cpu.llvm.program import IrModule, LlvmSource

# What lowers and writes is imported by the first kernel that is made: a start that finds all of
# its kernels on disk does without.

_Key = tuple[str, str, str, str]
_OBJECTS: BoundedCache[_Key, bytes] = BoundedCache(256)
_UNDER_WAY: WeakValueDictionary[_Key, Deferred[bytes]] = WeakValueDictionary()


def build(
    task: SearchTask,
    sketch_id: int,
    row: Sequence[int],
    strides: Mapping[int, Strides] | None = None,
    helpers: Helpers | None = None,
) -> Kernel:
    """Lower, generate and assemble one candidate: `tilework.lower.protocol.Builder`."""
    from tilework.kinds.cpu.llvm.program import generate_program, region_keys
    from tilework.kinds.cpu.lowering import LOWERING
    from tilework.space import SearchSpace

    sketch = SearchSpace.of(task).sketch(sketch_id)
    with stage("lower"):
        lowered = LOWERING.lower(sketch, row, strides)
        program, target = lowered.program, CpuTarget.of(task.target)
    with stage("write"):
        keys = None if strides else region_keys(sketch, row)
        source = generate_program(program, target, keys)
    pieces = (
        (m.symbol, _object(m, target, m.symbol == source.symbol, helpers)) for m in source.modules
    )
    return Kernel(
        source.symbol,
        tuple(pieces),
        source.code_hash,
        kernel_args(program, lowered.packing),
        source.shared_workspace,
        source.thread_workspace,
        overwritable=overwritable(program) - lowered.packing.keys(),
    )


def generate(task: SearchTask, sketch_id: int, row: Sequence[int]) -> LlvmSource:
    """LLVM IR of one candidate."""
    from tilework.kinds.cpu.llvm.program import generate_program, region_keys
    from tilework.kinds.cpu.lowering import LOWERING
    from tilework.space import SearchSpace

    sketch = SearchSpace.of(task).sketch(sketch_id)
    program, target = LOWERING.lower(sketch, row).program, CpuTarget.of(task.target)
    return generate_program(program, target, region_keys(sketch, row))


def _object(
    module: IrModule, target: CpuTarget, main: bool, helpers: Helpers | None
) -> bytes | Deferred[bytes]:
    """Object code of a module; candidates that share a region share its code."""
    key = (module.symbol, target.mcpu, target.llvm_features(), target.triple)
    watch = watch_here()

    def make() -> bytes:
        try:
            with stage("emit", watch):
                return _OBJECTS.get_or_make(
                    key, lambda: emit_object(module.text, target, calls_only=main)
                )
        finally:
            _UNDER_WAY.pop(key, None)

    if helpers is None or key in _OBJECTS:
        return make()
    deferred = _UNDER_WAY.get(key)
    if deferred is None:
        deferred = _UNDER_WAY[key] = Deferred(make)
        helpers.start(deferred)
    return deferred


def _enough(one: Extent, other: Extent) -> Extent:
    """The larger of two sizes, or both together where that is another one from run to run."""
    if certain(lambda: one <= other):
        return other
    return one if certain(lambda: other <= one) else one + other


class CpuBuilder(Builder):
    """`tilework.lower.protocol.Builder` for CPUs."""

    build = staticmethod(build)

    @override
    def handed_over(
        self,
        small: Kernel,
        large: Kernel,
        extent: Extent,
        most: int,
        target: Target,
        helpers: Helpers | None = None,
    ) -> Kernel:
        from tilework.kinds.cpu.llvm.handed_over import handed_over

        module = handed_over(small, large, extent, most)
        own = (module.symbol, _object(module, CpuTarget.of(target), True, helpers))
        return Kernel(
            module.symbol,
            tuple(dict([own, *large.pieces, *small.pieces]).items()),
            module.symbol,
            large.args,
            _enough(small.shared_workspace, large.shared_workspace),
            _enough(small.thread_workspace, large.thread_workspace),
            overwritable=small.overwritable & large.overwritable,
        )

    @override
    def compiler(self, target: Target) -> str:
        cpu = CpuTarget.of(target)
        left_out = LEFT_OUT.get(cpu.vector_bits, ())
        sizes = (cpu.l1_bytes, cpu.l2_bytes, cpu.l3_bytes)
        version = ".".join(map(str, llvm().llvm_version_info))
        return f"llvm{version}.{key_of(repr((left_out, cpu.llvm_features(), sizes)))[:8]}"

    @override
    def common(self, target: CpuTarget) -> Team | None:
        here = target.num_cores > 1 and target.platform == HOST_PLATFORM
        return team_to_load() if here and not target.missing_on_host() else None

    @override
    def link(
        self,
        steps: Sequence[Step],
        kernels: Sequence[Kernel],
        target: CpuTarget,
        repeats: Sequence[Repeat] = (),
    ) -> Linked:
        """Object files: ``run.o`` holds the functions that call all kernels."""
        code = {f"{symbol}.o": code for k in kernels for symbol, code in k.objects}
        return Linked(
            {"run.o": driver_object(steps, target, repeats), **code}, used_features(target)
        )


BUILDER = CpuBuilder()
