"""CPUs as targets: which machine code is generated for, and the numbers that describe it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from tilework.errors import TargetError
from tilework.target.base import Target, parse_cores, parse_options
from tilework.target.host import HOST_PLATFORM

_CACHE_DIR = Path("/sys/devices/system/cpu/cpu0/cache")
_KNOWN_OPTIONS = ("mcpu", "num-cores", "mattr", "mtriple")


@dataclass(frozen=True)
class CpuTarget(Target):
    """A machine to generate code for, parsed from text such as ``llvm -mcpu=native -num-cores=2``.

    Options: ``-mcpu=NAME`` an LLVM CPU name or ``native`` (default), ``-num-cores=N`` threads that
    parallel loops may use (default: the cores this process may run on), ``-mattr=+f,-g`` extra
    LLVM features, ``-mtriple=ARCH-SYSTEM`` a machine of another kind, such as
    ``aarch64-linux-gnu`` (default: this one). ``str(target)`` is canonical: ``native`` is
    resolved, so that records of two machines of one kind agree.

    Attributes:
        triple: LLVM's name of a foreign machine; empty for this machine's kind.
        features: what the CPU has, by LLVM's names.
        vector_bits: widest vector register the code generator uses.
        num_vector_registers: architectural vector registers of that width.
        l1_bytes, l2_bytes, l3_bytes: data cache sizes; of this machine when the CPU is the host's.

    Raises:
        TargetError: the text does not name a target that Tilework supports.
    """

    kind: ClassVar[str] = "llvm"
    mcpu: str = field(init=False)
    mattr: str = field(init=False)
    triple: str = field(init=False)
    features: frozenset[str] = field(init=False, repr=False)
    vector_bits: int = field(init=False)
    num_vector_registers: int = field(init=False)
    l1_bytes: int = field(init=False)
    l2_bytes: int = field(init=False)
    l3_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        options = parse_options(self.text.split()[1:], self.text, _KNOWN_OPTIONS)
        where = _platform_of(options.get("mtriple"), self.text)
        foreign = where != HOST_PLATFORM
        arch = where.split()[1]
        host, host_features = _host()
        mcpu = options.get("mcpu", "generic" if foreign else "native")
        if foreign and mcpu == "native":
            raise TargetError(
                f"target '{self.text}': -mcpu=native is this {HOST_PLATFORM} machine; name a CPU "
                f"of {where}, such as -mcpu=generic"
            )
        native = not foreign and mcpu in ("native", host)
        mcpu = host if mcpu == "native" else mcpu
        features = host_features if native else _features_of(mcpu, arch, self.text)
        features = _apply_mattr(features, options.get("mattr", ""))
        put = object.__setattr__
        put(self, "mcpu", mcpu)
        put(self, "mattr", options.get("mattr", ""))
        put(self, "triple", options["mtriple"] if foreign else "")
        put(self, "platform", where)
        put(self, "num_cores", parse_cores(options.get("num-cores"), self.text))
        put(self, "features", features)
        bits = 512 if "avx512f" in features else 256 if "avx" in features else 128
        put(self, "vector_bits", bits)
        put(self, "num_vector_registers", 32 if bits == 512 or "neon" in features else 16)
        l1, l2, l3 = _cache_sizes() if native else (32 << 10, 1 << 20, 16 << 20)
        put(self, "l1_bytes", l1)
        put(self, "l2_bytes", l2)
        put(self, "l3_bytes", l3)
        put(self, "text", self._text(self.num_cores))

    def lanes(self) -> int:
        """Float32 elements in one vector register."""
        return self.vector_bits // 32

    def with_cores(self, num_cores: int) -> CpuTarget:
        """The same CPU with another number of threads."""
        return replace(self, text=self._text(num_cores))

    def _text(self, num_cores: int) -> str:
        triple = f" -mtriple={self.triple}" if self.triple else ""
        mattr = f" -mattr={self.mattr}" if self.mattr else ""
        return f"{self.kind} -mcpu={self.mcpu}{triple}{mattr} -num-cores={num_cores}"

    def missing_on_host(self) -> list[str]:
        """What this target's code may use and the host lacks: CPU features, or its platform."""
        if self.platform != HOST_PLATFORM:
            return [f"a machine with {self.platform}"]
        used = {"avx", "avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl", "bmi2",
                "avx512bf16"}  # fmt: skip
        return sorted((self.features & used) - _host()[1])


def _platform_of(triple: str | None, text: str) -> str:
    """Operating system and architecture that a triple means; None is this machine's.

    Raises:
        TargetError: code for it cannot be generated.
    """
    if triple is None:
        return HOST_PLATFORM
    words = triple.split("-")
    arch = {"arm64": "aarch64", "amd64": "x86_64", "x86-64": "x86_64"}.get(words[0], words[0])
    known = ("linux", "darwin", "windows")
    system = next((name for word in words[1:] for name in known if word.startswith(name)), None)
    if arch not in _CPU_FEATURES or system is None:
        raise TargetError(
            f"target '{text}': -mtriple={triple} is not supported; write ARCH-SYSTEM with one of "
            f"{', '.join(_CPU_FEATURES)} and one of {', '.join(known)}, such as aarch64-linux-gnu"
        )
    return f"{'win32' if system == 'windows' else system} {arch}"


@lru_cache(maxsize=1)
def _host() -> tuple[str, frozenset[str]]:
    import llvmlite.binding as llvm

    on = frozenset(name for name, enabled in llvm.get_host_cpu_features().items() if enabled)
    return llvm.get_host_cpu_name(), on


_AVX2 = frozenset({"sse4.2", "avx", "avx2", "fma", "bmi", "bmi2", "f16c"})
_AVX512 = _AVX2 | {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"}
_X86: dict[str, frozenset[str]] = {
    **dict.fromkeys(("x86-64", "generic"), frozenset({"sse2"})),
    **dict.fromkeys(("x86-64-v2", "nehalem"), frozenset({"sse2", "sse4.1", "sse4.2"})),
    **dict.fromkeys(
        ("x86-64-v3", "core-avx2", "haswell", "broadwell", "skylake", "znver1", "znver2",
         "znver3", "alderlake", "raptorlake", "sierraforest", "arrowlake"), _AVX2),
    **dict.fromkeys(
        ("x86-64-v4", "skylake-avx512", "cascadelake", "cooperlake", "cannonlake",
         "icelake-client", "icelake-server", "tigerlake", "rocketlake", "sapphirerapids",
         "emeraldrapids", "graniterapids", "znver4", "znver5"), _AVX512),
    **dict.fromkeys(
        ("cooperlake", "sapphirerapids", "emeraldrapids", "graniterapids", "znver4", "znver5"),
        _AVX512 | {"avx512bf16"}),
}  # fmt: skip
_ARM: dict[str, frozenset[str]] = dict.fromkeys(
    ("generic", "cortex-a53", "cortex-a72", "cortex-a76", "neoverse-n1", "neoverse-v1",
     "neoverse-n2", "neoverse-v2", "apple-m1", "apple-m2", "ampere1"), frozenset({"neon"}),
)  # fmt: skip
_CPU_FEATURES = {"x86_64": _X86, "aarch64": _ARM}
"""Features that decide the width and number of vector registers, by architecture and CPU."""


def _features_of(mcpu: str, arch: str, text: str) -> frozenset[str]:
    known = _CPU_FEATURES.get(arch, {})
    if mcpu not in known:
        import difflib

        near = difflib.get_close_matches(mcpu, known, 3) or ["native", *list(known)[2:3]]
        raise TargetError(
            f"target '{text}': unknown CPU '{mcpu}'; did you mean {', '.join(near)}?"
        )
    return known[mcpu]


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
