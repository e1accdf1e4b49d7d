"""CPUs as targets: which machine code is generated for, and the numbers that describe it."""

from __future__ import annotations

import difflib
import math
import os
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from tilework.errors import TargetError
from tilework.kinds.cpu import cpus
from tilework.target.base import Target, parse_cores, parse_options
from tilework.target.chains import ChainLimits
from tilework.target.host import HOST_PLATFORM, processor_maker

_CACHE_DIR = Path("/sys/devices/system/cpu/cpu0/cache")
_BFLOAT16 = "avx512bf16"
_MOST_L3_BYTES = 16 << 20  # of a thread: virtual machines tell the whole cache of their hosts
_CORE_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
_CORE_OPERATIONS = 2 * 64 * 6.5e9  # twice two multiply-adds of 16 float32, at the highest clocks
_NARROW = 4  # values of 8 bits
_TILES = 16  # matrix units
_WINOGRAD = 4  # tiles of 4 x 4; records count the direct convolution
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
        l1_bytes, l2_bytes, l3_bytes: data cache sizes; of this machine when the CPU is the host's,
            of L3 what it may count on.

    Raises:
        TargetError: the text does not name a target that Tilework supports.
    """

    kind: ClassVar[str] = "llvm"
    machine: ClassVar[str] = "CPU"
    ranges: ClassVar[bool] = True
    repeats: ClassVar[bool] = True
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
        host = cpus.host_cpu()
        mcpu = options.get("mcpu", "generic" if foreign else "native")
        if foreign and mcpu == "native":
            raise TargetError(
                f"target '{self.text}': -mcpu=native is this {HOST_PLATFORM} machine; name a CPU "
                f"of {where}, such as -mcpu=generic"
            )
        mattr = options.get("mattr", "")
        native = not foreign and (mcpu == "native" or (mcpu == host and _host_has(mcpu, mattr)))
        mcpu = host if mcpu == "native" else mcpu
        if native:
            features = _apply_mattr(cpus.host_features(), mattr)
            mattr = _with_masked(mattr, mcpu, arch, features)
        else:
            features = _apply_mattr(_promised(mcpu, arch, self.text), mattr)
        put = object.__setattr__
        put(self, "mcpu", mcpu)
        put(self, "mattr", mattr)
        put(self, "triple", options["mtriple"] if foreign else "")
        put(self, "platform", where)
        put(self, "num_cores", parse_cores(options.get("num-cores"), self.text))
        put(self, "features", features)
        bits = 512 if "avx512f" in features else 256 if "avx" in features else 128
        put(self, "vector_bits", bits)
        put(self, "num_vector_registers", 32 if bits == 512 or "neon" in features else 16)
        l1, l2, l3 = cache_sizes() if native else (32 << 10, 1 << 20, 16 << 20)
        put(self, "l1_bytes", l1)
        put(self, "l2_bytes", l2)
        put(self, "l3_bytes", min(l3, _MOST_L3_BYTES * (os.cpu_count() or 1)))
        put(self, "text", self._text(self.num_cores))

    def lanes(self) -> int:
        """Float32 elements in one vector register."""
        return self.vector_bits // 32

    def most_operations(self) -> float:
        """Twice what the fastest core multiplies, with all that a kernel may save."""
        tiles = _TILES if any(f.startswith("amx") for f in self.features) else 1
        return self.num_cores * _CORE_OPERATIONS * _NARROW * tiles * _WINOGRAD

    def code_features(self) -> frozenset[str]:
        """Features whose instructions code for this target may use."""
        return self.features & cpus.CODE_FEATURES[self.platform.split()[1]]

    def llvm_features(self) -> str:
        """Every code feature with its sign, so that LLVM uses none that the target lacks.

        The CPU's name alone would stand for what its maker built, whatever the system lets be
        used. Last come items of ``-mattr`` that no decision of ours depends on.
        """
        arch = self.platform.split()[1]
        known, have = cpus.CODE_FEATURES[arch], self.code_features()
        native = arch == HOST_PLATFORM.split()[1]
        signed = [f"-{f}" for f in sorted(known - have) if cpus.llvm_knows(f, native)]
        signed += [f"+{f}" for f in sorted(have)]
        others = (i for i in self.mattr.split(",") if i and i.lstrip("+-") not in known)
        return ",".join([*signed, *others])

    def require_precision(self, precision: str) -> None:
        """Bfloat16 needs its dot products; see `Target.require_precision`."""
        if precision in ("f16", "tf32"):
            raise TargetError(
                f"precision {precision} needs a GPU with tensor cores: target '{self}' multiplies "
                "float32 or bfloat16; use precision f32 or bf16, or a cuda target"
            )
        if precision != "f32" and _BFLOAT16 not in self.features:
            raise TargetError(
                f"precision {precision} needs a CPU with {_BFLOAT16}, which target '{self}' "
                "lacks: use precision f32, or name a target that has it (sapphirerapids, znver4 "
                "or newer)"
            )

    def chain_limits(self) -> ChainLimits:
        """Tiles that stay in a core's own cache, and values that would not."""
        return ChainLimits(max_channels=1024, max_taps=25, min_bytes=1 << 20)

    @property
    def reads_through_indices(self) -> bool:
        """A register tile has one matrix, whose place is found once."""
        return True

    @property
    def joins_windows(self) -> tuple[str, ...]:
        """Bfloat16 is multiplied in pairs; a matrix unit takes many neighbours of either type."""
        unit = not {"amx-int8", "amx-bf16"}.isdisjoint(self.features)
        narrow = unit or _BFLOAT16 in self.features
        return ("bfloat16",) * narrow + ("uint8",) * unit

    @property
    def stores_words(self) -> bool:
        """A vector is of one type, and lanes are stored side by side."""
        return True

    @property
    def multiplies_bytes(self) -> bool:
        """With VNNI four products and their sum are one instruction."""
        return not {"avx512vnni", "avxvnni"}.isdisjoint(self.features)

    @property
    def looks_up_bytes(self) -> bool:
        """Four registers hold a table, and two instructions look into it."""
        return "avx512vbmi" in self.features

    @property
    def bounds_weights(self) -> bool:
        """Without VNNI sums of two products are added in 16 bits, if they fit."""
        features = self.features
        return "ssse3" in features and {"avx512vnni", "avxvnni"}.isdisjoint(features)

    def relatives(self) -> list[Target]:
        """The same CPU with other numbers of threads: registers and near caches are the same."""
        counts = [n for n in _CORE_COUNTS if n != self.num_cores]
        counts.sort(key=lambda n: (abs(math.log2(n / self.num_cores)), n))
        return [self.with_cores(n) for n in counts]

    def traits(self) -> dict[str, str]:
        """What this machine's CPU has, and its near caches; see `Target.traits`.

        LLVM knows a CPU by numbers that a hypervisor may change: two machines of one kind may
        carry different names. The last cache is left out, since a virtual machine sees any part
        of it.
        """
        code = self.code_features()
        if self.triple or self.mcpu != cpus.host_cpu() or code != _host_code():
            return {}
        return {
            "kind": self.kind,
            "platform": self.platform,
            "maker": processor_maker(),
            "features": ",".join(sorted(code)),
            "L1": f"{self.l1_bytes >> 10} KiB",
            "L2": f"{self.l2_bytes >> 10} KiB",
            "threads": str(self.num_cores),
        }

    def _text(self, num_cores: int) -> str:
        triple = f" -mtriple={self.triple}" if self.triple else ""
        mattr = f" -mattr={self.mattr}" if self.mattr else ""
        return f"{self.kind} -mcpu={self.mcpu}{triple}{mattr} -num-cores={num_cores}"

    def missing_on_host(self) -> list[str]:
        """What this target's code may use and the host lacks: CPU features, or its platform."""
        if self.platform != HOST_PLATFORM:
            return [f"a machine with {self.platform}"]
        return sorted(self.code_features() - cpus.host_features())


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
    if arch not in cpus.known_architectures() or system is None:
        raise TargetError(
            f"target '{text}': -mtriple={triple} is not supported; write ARCH-SYSTEM with one of "
            f"{', '.join(cpus.known_architectures())} and one of {', '.join(known)}, such as "
            "aarch64-linux-gnu"
        )
    return f"{'win32' if system == 'windows' else system} {arch}"


def _host_has(mcpu: str, mattr: str) -> bool:
    """Whether this machine, whose CPU has that name, also has what the name and ``mattr`` say.

    Where a hypervisor hides a part of the CPU, the bare name is that of another machine.
    """
    arch = HOST_PLATFORM.split()[1]
    promised = cpus.promised(mcpu, arch)
    if promised is None:
        return True
    return _apply_mattr(promised, mattr) & cpus.CODE_FEATURES[arch] <= cpus.host_features()


def _host_code() -> frozenset[str]:
    """What code for this machine may use."""
    return cpus.host_features() & cpus.CODE_FEATURES[HOST_PLATFORM.split()[1]]


def _with_masked(mattr: str, mcpu: str, arch: str, features: frozenset[str]) -> str:
    """``mattr`` and what a machine lacks of what its CPU's name promises; often nothing."""
    promised = cpus.promised(mcpu, arch) or frozenset()
    masked = cpus.roots(_apply_mattr(promised, mattr) - features)
    return ",".join(filter(None, (mattr, *(f"-{f}" for f in masked))))


def _promised(mcpu: str, arch: str, text: str) -> frozenset[str]:
    """What a CPU's name promises.

    Raises:
        TargetError: the name is not known.
    """
    features = cpus.promised(mcpu, arch)
    if features is None:
        other = next((a for a in cpus.known_architectures() if cpus.promised(mcpu, a)), None)
        if other is not None:
            raise TargetError(
                f"target '{text}': {mcpu} is a CPU of {other}, this target is {arch}: add "
                f"-mtriple={other}-linux-gnu"
            )
        known = cpus.known_cpus(arch)
        near = difflib.get_close_matches(mcpu, known, 3) or ["native", *known[2:3]]
        raise TargetError(
            f"target '{text}': unknown CPU '{mcpu}'; did you mean {', '.join(near)}?"
        )
    return features


def _apply_mattr(features: frozenset[str], mattr: str) -> frozenset[str]:
    """Features after the items of ``-mattr``, in order; needs are handled as LLVM handles them."""
    for item in filter(None, mattr.split(",")):
        name = item.lstrip("+-")
        if item.startswith("-"):
            features = cpus.without(features, (name,))
        else:
            features = features | cpus.with_needs((name,))
    return features


@lru_cache(maxsize=1)
def cache_sizes() -> tuple[int, int, int]:
    """Bytes of this machine's L1 (of data), L2 and L3; typical ones where it does not tell."""
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
