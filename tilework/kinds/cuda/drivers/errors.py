"""CUDA's error numbers: which of them say what about a kernel, a process, a device.

The numbers are those of ``cudaError_t``, with which those of ``CUresult`` agree where both exist.
"""

from __future__ import annotations

from tilework.errors import DeviceError, DeviceLost, LaunchError

OUT_OF_MEMORY = 2

_REFUSED = frozenset(
    (
        1,  # invalid value
        8,  # invalid device function
        9,  # invalid configuration: too many threads, no blocks
        13,  # invalid symbol
        98,  # invalid device function
        200,  # invalid image
        209,  # no code for this device in it
        218,  # invalid PTX
        222,  # PTX of a newer version
        300,  # invalid source
        500,  # symbol not found
        701,  # too many registers or too much shared memory for one block
        720,  # cooperative launch too large
    )
)
"""A launch or a module that the device did not take; it is none the worse."""

_BROKEN = frozenset(
    (
        4,  # the driver is shutting down
        201,  # invalid context
        226,  # contained memory error
        700,  # illegal address
        702,  # launch timed out
        709,  # the context is destroyed
        710,  # assertion
        713,  # the context is destroyed by a peer
        714,  # stack error
        715,  # illegal instruction
        716,  # misaligned address
        717,  # invalid address space
        718,  # invalid program counter
        719,  # launch failure
        999,  # unknown
    )
)
"""Every later call in this process fails, too: CUDA wants it "terminated and relaunched"."""

_LOST = {
    3: "the driver cannot be initialised; a process cannot use it whose parent has, before it "
    "forked: start workers anew (spawn)",
    35: "the NVIDIA driver is too old for this CuPy: update the driver, or install "
    "tilework[cuda12] instead of tilework[cuda13]",
    46: "another program has the device for itself: end it, or set the device's compute mode to "
    "Default",
    100: "there is no CUDA device",
    101: "there is no such CUDA device",
    214: "the device's memory is damaged (an ECC error that cannot be corrected)",
    220: "the link to the device is damaged",
    802: "the device's system is not ready: is the fabric manager running?",
    803: "the NVIDIA driver and its libraries are of different versions: restart the machine",
    804: "the NVIDIA driver's compatibility package does not fit this device",
}


def device_error(number: int, text: str, doing: str) -> DeviceError:
    """An error of CUDA as one of ours.

    Args:
        number: CUDA's.
        text: CUDA's words for it.
        doing: what was asked for.
    """
    said = f"{doing}: {text}"
    if number in _LOST:
        return DeviceLost(f"{_LOST[number]} ({said})")
    if number in _REFUSED:
        return LaunchError(said)
    return DeviceError(said, fatal=number in _BROKEN)


def no_memory_text(nbytes: int, free: int, total: int) -> str:
    """That an allocation failed, and who may be to blame."""
    gib = 2.0**30
    return (
        f"the device has no {nbytes / gib:.2f} GiB left: {free / gib:.2f} of {total / gib:.1f} "
        "GiB are free; end other programs that use it, or take a smaller batch"
    )
