"""Code generation: loop programs to LLVM IR, object code, and callable kernels."""

from __future__ import annotations

from tilework.codegen.jit import aligned_copy, aligned_empty, load_kernel, openmp_runtime
from tilework.codegen.kernel import Kernel, KernelArg, build, generate

__all__ = [
    "Kernel",
    "KernelArg",
    "aligned_copy",
    "aligned_empty",
    "build",
    "generate",
    "load_kernel",
    "openmp_runtime",
]
