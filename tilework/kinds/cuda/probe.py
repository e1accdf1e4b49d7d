"""Which CUDA devices are here.

The driver is asked by a process of its own: a process that has initialised CUDA cannot use it in
children that it forks, and this one may have some. Where there is no driver no process is started.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from functools import lru_cache

from tilework.frozen import frozen

_LIMIT_S = 60.0
_ASK = """
import ctypes, json
cuda = ctypes.CDLL({library!r})
def attribute(which, device):
    value = ctypes.c_int()
    return value.value if cuda.cuDeviceGetAttribute(ctypes.byref(value), which, device) == 0 else 0
code, count, version, found = cuda.cuInit(0), ctypes.c_int(), ctypes.c_int(), []
cuda.cuDriverGetVersion(ctypes.byref(version))
if code == 0:
    code = cuda.cuDeviceGetCount(ctypes.byref(count))
for number in range(count.value if code == 0 else 0):
    device, name = ctypes.c_int(), ctypes.create_string_buffer(256)
    if cuda.cuDeviceGet(ctypes.byref(device), number) or cuda.cuDeviceGetName(name, 256, device):
        continue
    nbytes = ctypes.c_size_t()
    cuda.cuDeviceTotalMem_v2(ctypes.byref(nbytes), device)
    facts = [attribute(a, device) for a in {wanted}]
    found.append([name.value.decode(errors="replace"), nbytes.value] + facts)
print(json.dumps([code, version.value, found]))
"""
# numbers of CUdevice_attribute in cuda.h: compute capability (major, minor), multiprocessors,
# clock in kHz, bytes of the L2 cache; clock in kHz and width in bits of the memory
_WANTED = (75, 76, 16, 13, 38, 36, 37)


@frozen
class FoundDevice:
    """A device that is here.

    Attributes:
        name: what the driver calls it.
        arch: its architecture, such as ``sm_90``.
        sms: its multiprocessors.
        ghz: its highest clock; 0 where the driver does not tell.
        l2_bytes: size of its second-level cache.
        memory_bytes: of its own memory, or of its share of it; 0 where the driver does not tell.
        memory_ghz, memory_bits: clock and width of that memory; 0 likewise.
    """

    name: str
    arch: str
    sms: int
    ghz: float
    l2_bytes: int
    memory_bytes: int = 0
    memory_ghz: float = 0.0
    memory_bits: int = 0

    def facts(self) -> tuple[tuple[str, str], ...]:
        """What tells this device from others of its name; for `DeviceIdentity`."""
        known = {
            "arch": self.arch,
            "multiprocessors": str(self.sms),
            "clock": f"{1e3 * self.ghz:.0f} MHz",
            "L2": f"{self.l2_bytes >> 10} KiB",
            "memory": f"{round(self.memory_bytes / 2**30)} GiB",
            "memory clock": f"{1e3 * self.memory_ghz:.0f} MHz",
            "memory width": f"{self.memory_bits} bits",
        }
        return tuple((name, text) for name, text in known.items() if not text.startswith("0 "))


@frozen
class Found:
    """What a look around found.

    Attributes:
        devices: in the driver's order.
        driver: newest version of CUDA that the driver serves, such as ``(13, 0)``; zeros without.
        why_none: why there are no devices; empty if there are.
    """

    devices: tuple[FoundDevice, ...] = ()
    driver: tuple[int, int] = (0, 0)
    why_none: str = ""


@lru_cache(maxsize=1)
def look() -> Found:
    """The devices that CUDA programs of this process could use, looked up once."""
    library = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        ctypes.CDLL(library)
    except OSError:
        return Found(why_none=f"there is no NVIDIA driver ({library} cannot be loaded)")
    return ask([sys.executable, "-I", "-c", _ASK.format(library=library, wanted=_WANTED)])


def ask(command: list[str]) -> Found:
    """What a program says that asks the driver; see the module's text."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=_LIMIT_S, text=True)
    except subprocess.TimeoutExpired:
        return Found(why_none=f"the NVIDIA driver did not answer within {_LIMIT_S:g} s")
    except OSError as e:
        return Found(why_none=f"the NVIDIA driver could not be asked ({e})")
    try:
        code, version, rows = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return Found(why_none=f"the NVIDIA driver could not be asked ({last})")
    driver = (version // 1000, version % 1000 // 10)
    if code:
        return Found((), driver, f"the NVIDIA driver reports error {code} (100: no device)")
    devices = tuple(
        FoundDevice(name, f"sm_{major}{minor}", sms, khz / 1e6, l2, nbytes, m_khz / 1e6, bits)
        for name, nbytes, major, minor, sms, khz, l2, m_khz, bits in rows
    )
    return Found(devices, driver, "" if devices else "the NVIDIA driver finds no device")
