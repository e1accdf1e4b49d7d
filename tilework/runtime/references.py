"""Whether everything that an image refers to is there: checked when a module file is opened.

Kernels write where their arguments point, so one wrong offset would damage the process.
"""

from __future__ import annotations

from tilework.errors import ModuleError
from tilework.runtime.arrays import ALIGN
from tilework.runtime.image import Image, Ref, Value

_MOST_BYTES = 1 << 46
_MOST_THREADS = 4096
_MOST_DIMENSIONS = 32


def check_references(image: Image) -> None:
    """Refuse an image whose parts do not fit together.

    Raises:
        ModuleError: an argument lies outside its block, an io buffer is missing or of two sizes,
            or a size makes no sense; the message says which.
    """
    _check(image.inputs or image.outputs, "it has neither inputs nor outputs")
    _check(1 <= image.num_threads <= _MOST_THREADS, f"{image.num_threads} threads")
    _check(1 <= image.cores <= _MOST_THREADS, f"{image.cores} cores")
    _check(0 <= image.arena_bytes < _MOST_BYTES, f"an arena of {image.arena_bytes} bytes")
    for pair in image.workspaces:
        _check(all(0 <= size < _MOST_BYTES for size in pair), f"workspaces of {list(pair)} bytes")
    sizes = _io_sizes(image)
    blocks = {"arena": image.arena_bytes, "constant": image.constants.nbytes}
    for i, step in enumerate(image.steps):
        where = f"step {i} ({step.name})"
        for ref in step.args:
            _check_ref(ref, blocks, sizes, where)
        _check(
            step.task is None or 0 <= step.task < len(image.report),
            f"{where} belongs to task {step.task} of {len(image.report)}",
        )


def _io_sizes(image: Image) -> list[int]:
    """Bytes of each io buffer, by number."""
    names = [v.name for v in image.inputs]
    _check(len(set(names)) == len(names), f"two inputs of one name among {names}")
    numbers = [v.io for v in image.inputs]
    _check(numbers == list(range(len(numbers))), f"inputs in the io buffers {numbers}")
    sizes: dict[int, int] = {}
    for value in (*image.inputs, *image.outputs):
        _check_value(value)
        known = sizes.setdefault(value.io, value.nbytes)
        _check(known == value.nbytes, f"{value.name} and another value in io buffer {value.io}")
    _check(sorted(sizes) == list(range(len(sizes))), f"io buffers {sorted(sizes)}")
    return [sizes[i] for i in range(len(sizes))]


def _check_value(value: Value) -> None:
    _check(
        len(value.shape) <= _MOST_DIMENSIONS
        and all(extent >= 0 for extent in value.shape)
        and value.nbytes < _MOST_BYTES,
        f"{value.name} of shape {list(value.shape)}",
    )


def _check_ref(ref: Ref, blocks: dict[str, int], io: list[int], where: str) -> None:
    if ref.space == "io":
        _check(0 <= ref.at < len(io), f"{where} refers to io buffer {ref.at} of {len(io)}")
        start, size = 0, io[ref.at]
    else:
        _check(ref.space in blocks, f"{where} refers to '{ref.space}'")
        start, size = ref.at, blocks[ref.space]
    _check(
        start >= 0 and ref.nbytes >= 0 and start + ref.nbytes <= size,
        f"{where} refers to bytes {start} to {start + ref.nbytes} of the {size} of '{ref.space}'",
    )
    _check(
        ref.space != "constant" or ref.at % ALIGN == 0,
        f"{where} refers to a constant at byte {ref.at}, which is no multiple of {ALIGN}",
    )


def _check(good: object, wrong: str) -> None:
    if not good:
        raise ModuleError(wrong)
