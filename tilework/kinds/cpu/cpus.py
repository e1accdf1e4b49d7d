"""What CPUs have, by LLVM's names: features that decide which instructions code may use.

Four things stand here and nowhere else: the features whose instructions LLVM may choose for the
code that we generate (`CODE_FEATURES`), which feature needs which other (`without`, `with_needs`),
what the name of a CPU promises (`promised`), and what this machine has (`host_features`). Features
for single instructions that no code of ours leads to (AES, random numbers) are left out.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from tilework.errors import TargetError
from tilework.kinds.cpu.permission import tiles_permitted
from tilework.target.host import HOST_PLATFORM

_AT_HWCAP, _AT_HWCAP2 = 16, 26
_HWCAP = {"fullfp16": 10, "dotprod": 20}
_HWCAP2 = {"i8mm": 13, "bf16": 14}

_NEEDS: dict[str, dict[str, tuple[str, ...]]] = {
    "x86_64": {
        "sse2": (), "sse3": ("sse2",), "sse4a": ("sse3",), "ssse3": ("sse3",),
        "sse4.1": ("ssse3",), "sse4.2": ("sse4.1",), "popcnt": (), "movbe": (), "lzcnt": (),
        "prfchw": (), "bmi": (), "bmi2": (), "gfni": ("sse2",), "avx": ("sse4.2",),
        "avx2": ("avx",), "fma": ("avx",), "f16c": ("avx",), "fma4": ("avx", "sse4a"),
        "xop": ("fma4",), "avxvnni": ("avx2",), "avxvnniint8": ("avx2",),
        "avxvnniint16": ("avx2",), "avxifma": ("avx2",), "avxneconvert": ("avx2",),
        "avx512f": ("avx2", "fma", "f16c"), "avx512cd": ("avx512f",), "avx512bw": ("avx512f",),
        "avx512dq": ("avx512f",), "avx512vl": ("avx512f",), "avx512vpopcntdq": ("avx512f",),
        "avx512vnni": ("avx512f",), "avx512ifma": ("avx512f",), "avx512vbmi": ("avx512bw",),
        "avx512vbmi2": ("avx512bw",), "avx512bitalg": ("avx512bw",), "avx512bf16": ("avx512bw",),
        "avx512fp16": ("avx512bw",), "amx-tile": (), "amx-int8": ("amx-tile",),
        "amx-bf16": ("amx-tile",),
    },
    "aarch64": {"neon": (), "sve": ("neon",)},
}  # fmt: skip
"""By architecture: each feature with those that it cannot be without."""

CODE_FEATURES = {arch: frozenset(needs) for arch, needs in _NEEDS.items()}
"""By architecture: features whose instructions LLVM may choose for the code that we generate."""


def with_needs(features: Iterable[str]) -> frozenset[str]:
    """The features and all that they need."""
    out: set[str] = set()
    rest = list(features)
    while rest:
        feature = rest.pop()
        if feature not in out:
            out.add(feature)
            rest += _needs(feature)
    return frozenset(out)


def without(features: Iterable[str], gone: Iterable[str]) -> frozenset[str]:
    """The features less ``gone`` and all that cannot be without them."""
    lost = frozenset(gone)
    return frozenset(f for f in features if not with_needs((f,)) & lost)


def usable(features: Iterable[str]) -> frozenset[str]:
    """The features whose needs are there, too: a hypervisor may leave half of a family."""
    have = frozenset(features)
    return frozenset(f for f in have if with_needs((f,)) <= have)


def roots(features: Iterable[str]) -> list[str]:
    """The features of a set, sorted, without those that need another one of it."""
    have = frozenset(features)
    return sorted(f for f in have if not (with_needs((f,)) - {f}) & have)


def _needs(feature: str) -> tuple[str, ...]:
    return next((needs[feature] for needs in _NEEDS.values() if feature in needs), ())


def promised(cpu: str, arch: str) -> frozenset[str] | None:
    """The code features of a CPU's name as LLVM defines it; None for a name not listed here."""
    return _CPUS.get(arch, {}).get(cpu)


def known_cpus(arch: str) -> list[str]:
    """Names of CPUs that targets of an architecture may carry."""
    return list(_CPUS.get(arch, {}))


def known_architectures() -> list[str]:
    """Architectures that code is generated for."""
    return list(_CPUS)


@lru_cache(maxsize=1)
def host_cpu() -> str:
    """LLVM's name of this machine's CPU.

    Raises:
        TargetError: LLVM is not installed.
    """
    return str(_llvm().get_host_cpu_name())


@lru_cache(maxsize=1)
def host_features() -> frozenset[str]:
    """All that this machine's CPU has and the system lets be used; see `usable`.

    Where LLVM cannot ask the system, it is what the CPU's name promises.
    """
    arch = HOST_PLATFORM.split()[1]
    base = _CPUS.get(arch, {}).get("generic", frozenset())
    if not _host_map():
        return promised(host_cpu(), arch) or base
    asked = {name for name, enabled in _host_map().items() if enabled}
    if "amx-tile" in asked and not tiles_permitted():
        asked.discard("amx-tile")
    return usable(asked | base | hardware_features())


@lru_cache(maxsize=1)
def hardware_features() -> frozenset[str]:
    """What LLVM leaves out when it asks an AArch64 Linux, and the system tells."""
    if HOST_PLATFORM != "linux aarch64":
        return frozenset()
    ask = ctypes.CDLL(None).getauxval
    ask.argtypes, ask.restype = [ctypes.c_ulong], ctypes.c_ulong
    return features_of_hwcaps(ask(_AT_HWCAP), ask(_AT_HWCAP2))


def features_of_hwcaps(hwcap: int, hwcap2: int) -> frozenset[str]:
    """Features by the two words in which Linux tells those of AArch64 (``asm/hwcap.h``)."""
    first = {name for name, bit in _HWCAP.items() if hwcap >> bit & 1}
    return frozenset(first | {name for name, bit in _HWCAP2.items() if hwcap2 >> bit & 1})


def llvm_knows(feature: str, native: bool) -> bool:
    """Whether the LLVM library that is installed has a feature; told for this architecture."""
    return not native or feature in _host_map()


@lru_cache(maxsize=1)
def _host_map() -> dict[str, bool]:
    return dict(_llvm().get_host_cpu_features())


def _llvm() -> Any:
    try:
        import llvmlite.binding as llvm
    except ImportError as e:
        raise TargetError(
            f"targets of kind 'llvm' need the package llvmlite ({e}): pip install llvmlite, or "
            "write 'reference' for the interpreter"
        ) from e
    return llvm


def _features(*parts: str | frozenset[str]) -> frozenset[str]:
    given = (p.split() if isinstance(p, str) else p for p in parts)
    return with_needs(f for part in given for f in part)


_V2 = _features("sse4.2 popcnt")
_V3 = _features(_V2, "avx2 bmi bmi2 f16c fma lzcnt movbe")
_V4 = _features(_V3, "avx512f avx512bw avx512cd avx512dq avx512vl")
_BROADWELL = _features(_V3, "prfchw")
_ALDERLAKE = _features(_BROADWELL, "gfni avxvnni")
_SIERRAFOREST = _features(_ALDERLAKE, "avxifma avxneconvert avxvnniint8")
_SKYLAKE_512 = _features(_V4, "prfchw")
_CASCADELAKE = _features(_SKYLAKE_512, "avx512vnni")
_CANNONLAKE = _features(_SKYLAKE_512, "avx512ifma avx512vbmi")
_ICELAKE = _features(_CANNONLAKE, "gfni avx512bitalg avx512vbmi2 avx512vnni avx512vpopcntdq")
_SAPPHIRE = _features(_ICELAKE, "avx512bf16 avx512fp16 avxvnni amx-int8 amx-bf16")
_ZEN = _features(_BROADWELL, "sse4a")
_ZEN4 = _features(_ICELAKE, "sse4a avx512bf16")
_SVE = _features("sve")

_CPUS: dict[str, dict[str, frozenset[str]]] = {
    "x86_64": {
        **dict.fromkeys(("x86-64", "generic"), _features("sse2")),
        **dict.fromkeys(("x86-64-v2", "nehalem"), _V2),
        **dict.fromkeys(("x86-64-v3", "core-avx2", "haswell"), _V3),
        **dict.fromkeys(("broadwell", "skylake"), _BROADWELL),
        **dict.fromkeys(("znver1", "znver2", "znver3"), _ZEN),
        **dict.fromkeys(("alderlake", "raptorlake"), _ALDERLAKE),
        **dict.fromkeys(("sierraforest", "arrowlake"), _SIERRAFOREST),
        "x86-64-v4": _V4,
        "skylake-avx512": _SKYLAKE_512,
        "cascadelake": _CASCADELAKE,
        "cooperlake": _features(_CASCADELAKE, "avx512bf16"),
        "cannonlake": _CANNONLAKE,
        **dict.fromkeys(("icelake-client", "icelake-server", "tigerlake", "rocketlake"), _ICELAKE),
        **dict.fromkeys(("sapphirerapids", "emeraldrapids", "graniterapids"), _SAPPHIRE),
        "znver4": _ZEN4,
        "znver5": _features(_ZEN4, "avxvnni"),
    },
    "aarch64": {
        **dict.fromkeys(
            ("generic", "cortex-a53", "cortex-a72", "cortex-a76", "neoverse-n1", "cortex-a35",
             "cortex-a55", "cortex-a57", "cortex-a73", "cortex-a75", "cortex-a77", "cortex-a78",
             "cortex-x1"),
            _features("neon"),
        ),
        **dict.fromkeys(
            ("neoverse-v1", "neoverse-n2", "neoverse-v2", "neoverse-n3", "neoverse-v3", "grace",
             "cortex-a510", "cortex-a710", "cortex-x2", "a64fx"),
            _SVE,
        ),
        **dict.fromkeys(
            ("apple-m1", "apple-m2", "apple-m3", "apple-m4", "ampere1"),
            _features("neon"),
        ),  # not oryon-1: LLVM 22 ends the process at its first pair of vector loads
    },
}  # fmt: skip
