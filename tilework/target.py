"""Hardware targets: which machine code is generated for, and the numbers that describe it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from tilework.errors import TargetError

_CACHE_DIR = Path("/sys/devices/system/cpu/cpu0/cache")
_KNOWN_OPTIONS = ("mcpu", "num-cores", "mattr")


@dataclass(frozen=True)
class Target:
    """A machine to generate code for, parsed from text such as ``llvm -mcpu=native -num-cores=2``.

    Options: ``-mcpu=NAME`` an LLVM CPU name or ``native`` (default), ``-num-cores=N`` threads that
    parallel loops may use (default: the cores this process may run on), ``-mattr=+f,-g`` extra
    LLVM features. ``str(target)`` is canonical: ``native`` is resolved, so that records of two
    machines of one kind agree.

    Attributes:
        vector_bits: widest vector register the code generator uses.
        num_vector_registers: architectural vector registers of that width.
        l1_bytes, l2_bytes, l3_bytes: data cache sizes; of this machine when the CPU is the host's.

    Raises:
        TargetError: the text does not name a target that Tilework supports.
    """

    text: str = "llvm -mcpu=native"
    kind: str = field(init=False)
    mcpu: str = field(init=False)
    mattr: str = field(init=False)
    num_cores: int = field(init=False)
    features: frozenset[str] = field(init=False, repr=False)
    vector_bits: int = field(init=False)
    num_vector_registers: int = field(init=False)
    l1_bytes: int = field(init=False)
    l2_bytes: int = field(init=False)
    l3_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        words = self.text.split()
        if not words:
            raise TargetError("the target is empty; write for example 'llvm -mcpu=native'")
        kind, options = words[0], _parse_options(words[1:], self.text)
        if kind == "cuda":
            raise TargetError(
                f"target '{self.text}': CUDA targets are not supported yet; use 'llvm'"
            )
        if kind != "llvm":
            raise TargetError(
                f"target '{self.text}': unknown kind '{kind}'; "
                "write 'llvm [-mcpu=NAME] [-num-cores=N]'"
            )
        host, host_features = _host()
        mcpu = options.get("mcpu", "native")
        native = mcpu in ("native", host)
        mcpu = host if mcpu == "native" else mcpu
        features = host_features if native else _features_of(mcpu, self.text)
        features = _apply_mattr(features, options.get("mattr", ""))
        put = object.__setattr__
        put(self, "kind", kind)
        put(self, "mcpu", mcpu)
        put(self, "mattr", options.get("mattr", ""))
        put(self, "num_cores", _cores(options.get("num-cores"), self.text))
        put(self, "features", features)
        bits = 512 if "avx512f" in features else 256 if "avx" in features else 128
        put(self, "vector_bits", bits)
        put(self, "num_vector_registers", 32 if bits == 512 else 16)
        l1, l2, l3 = _cache_sizes() if native else (32 << 10, 1 << 20, 16 << 20)
        put(self, "l1_bytes", l1)
        put(self, "l2_bytes", l2)
        put(self, "l3_bytes", l3)
        mattr = f" -mattr={self.mattr}" if self.mattr else ""
        put(self, "text", f"{kind} -mcpu={mcpu}{mattr} -num-cores={self.num_cores}")

    def __str__(self) -> str:
        return self.text

    def lanes(self, dtype: str = "float32") -> int:
        """Elements of ``dtype`` in one vector register."""
        size = {"float64": 8, "int64": 8, "float16": 2, "bfloat16": 2, "int8": 1}.get(dtype, 4)
        return self.vector_bits // (8 * size)

    def with_cores(self, num_cores: int) -> Target:
        """The same CPU with another number of threads."""
        mattr = f" -mattr={self.mattr}" if self.mattr else ""
        return replace(self, text=f"llvm -mcpu={self.mcpu}{mattr} -num-cores={num_cores}")

    def same_code(self, other: Target) -> bool:
        """Whether code generated for ``other`` is code for this target (threads aside)."""
        return (self.kind, self.mcpu, self.mattr) == (other.kind, other.mcpu, other.mattr)

    def missing_on_host(self) -> list[str]:
        """CPU features that this target's code may use and the host CPU lacks."""
        used = {"avx", "avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl", "bmi2"}
        return sorted((self.features & used) - _host()[1])


def _parse_options(words: list[str], text: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for word in words:
        name, eq, value = word.lstrip("-").partition("=")
        if not word.startswith("-") or not eq or not value:
            raise TargetError(f"target '{text}': '{word}' is not an option; write -name=value")
        if name not in _KNOWN_OPTIONS:
            known = ", ".join("-" + o for o in _KNOWN_OPTIONS)
            raise TargetError(f"target '{text}': unknown option '-{name}'; known options: {known}")
        options[name] = value
    return options


def available_cores() -> int:
    """Cores that this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _cores(value: str | None, text: str) -> int:
    if value is None:
        return available_cores()
    if not value.isdigit() or not 1 <= int(value) <= 1024:
        raise TargetError(f"target '{text}': -num-cores={value} is not a number from 1 to 1024")
    return int(value)


@lru_cache(maxsize=1)
def _host() -> tuple[str, frozenset[str]]:
    import llvmlite.binding as llvm

    on = frozenset(name for name, enabled in llvm.get_host_cpu_features().items() if enabled)
    return llvm.get_host_cpu_name(), on


_AVX2 = frozenset({"sse4.2", "avx", "avx2", "fma", "bmi", "bmi2", "f16c"})
_AVX512 = _AVX2 | {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"}
_CPU_FEATURES: dict[str, frozenset[str]] = {
    "x86-64": frozenset({"sse2"}),
    "x86-64-v2": frozenset({"sse4.2"}),
    **dict.fromkeys(
        ("x86-64-v3", "core-avx2", "haswell", "broadwell", "skylake", "znver1", "znver2",
         "znver3", "alderlake", "raptorlake", "sierraforest", "arrowlake"), _AVX2),
    **dict.fromkeys(
        ("x86-64-v4", "skylake-avx512", "cascadelake", "cooperlake", "cannonlake",
         "icelake-client", "icelake-server", "tigerlake", "rocketlake", "sapphirerapids",
         "emeraldrapids", "graniterapids", "znver4", "znver5"), _AVX512),
}  # fmt: skip


def _features_of(mcpu: str, text: str) -> frozenset[str]:
    if mcpu not in _CPU_FEATURES:
        import difflib

        near = difflib.get_close_matches(mcpu, _CPU_FEATURES, 3) or ["native", "core-avx2"]
        raise TargetError(
            f"target '{text}': unknown CPU '{mcpu}'; did you mean {', '.join(near)}?"
        )
    return _CPU_FEATURES[mcpu]


def _apply_mattr(features: frozenset[str], mattr: str) -> frozenset[str]:
    out = set(features)
    for item in filter(None, mattr.split(",")):
        (out.discard if item.startswith("-") else out.add)(item.lstrip("+-"))
    return frozenset(out)


@lru_cache(maxsize=1)
def _cache_sizes() -> tuple[int, int, int]:
    sizes = {1: 32 << 10, 2: 1 << 20, 3: 16 << 20}
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    for index in sorted(_CACHE_DIR.glob("index*")):
        try:
            level = int((index / "level").read_text())
            kind = (index / "type").read_text().strip()
            text = (index / "size").read_text().strip()
        except (OSError, ValueError):
            continue
        if kind != "Instruction" and level in sizes and text[-1:] in units:
            sizes[level] = int(text[:-1]) * units[text[-1]]
    return sizes[1], sizes[2], sizes[3]
