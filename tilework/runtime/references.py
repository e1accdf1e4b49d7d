"""Whether everything that an image refers to is there: checked when a module file is opened.

Kernels write where their arguments point, so one wrong offset would damage the process. Where
shapes are symbolic, it is looked at here whether everything is there that is referred to; whether
it is large enough, at each point that a run brings (`tilework.runtime.sites`).
"""

from __future__ import annotations

from tilework.errors import ModuleError
from tilework.index.extents import known, most
from tilework.index.symbols import range_of, symbols_of
from tilework.runtime.arrays import ALIGN
from tilework.runtime.image import Image, Ref, Value
from tilework.runtime.solve import Solver

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
    _check_repeats(image)
    if image.symbols:
        _check_symbolic(image)
    else:
        _check_static(image)
        _check_rooms(image)
    for i, step in enumerate(image.steps):
        _check(
            step.task is None or 0 <= step.task < len(image.report),
            f"step {i} ({step.name}) belongs to task {step.task} of {len(image.report)}",
        )


def _check_static(image: Image) -> None:
    for shared, each in image.workspaces:
        _check(
            0 <= known(shared) < _MOST_BYTES and 0 <= known(each) < _MOST_BYTES,
            f"workspaces of {[shared, each]} bytes",
        )
    sizes = _io_sizes(image)
    blocks = {"arena": image.arena_bytes, "constant": image.constants.nbytes}
    moving, number = image.moving, 0
    for i, step in enumerate(image.steps):
        for ref in step.args:
            where = f"step {i} ({step.name})"
            _check_ref(ref, blocks, sizes, where)
            if number in moving:
                _check_ref(ref, blocks, sizes, where, known(moving[number]))
            number += 1


def _check_repeats(image: Image) -> None:
    """Each repeats steps that no other one does, with an advance for each argument."""
    end = 0
    for repeat in image.repeats:
        steps = image.steps[repeat.first : repeat.first + repeat.count]
        _check(
            end <= repeat.first and 0 < repeat.count == len(steps),
            f"repeats of {repeat.count} steps from {repeat.first} on",
        )
        end = repeat.first + repeat.count
        count = sum(len(step.args) for step in steps)
        _check(len(repeat.advances) == count, f"{len(repeat.advances)} advances for {count}")
        low, high = range_of(repeat.trips)
        _check(low >= 0 and high < _MOST_BYTES, f"{repeat.trips} trips")
        for each in repeat.advances:
            low, high = range_of(each)
            _check(low >= 0 or high <= 0, f"an advance by {each} bytes")
    stray = set(symbols_of(image.numbers)) - set(image.symbols)
    _check(not stray, f"repeats by the symbols {[s.name for s in stray]}")


def _check_symbolic(image: Image) -> None:
    """What goes for every point."""
    _check(not image.arena_bytes, f"an arena of {image.arena_bytes} bytes beside symbols")
    numbers = _io_numbers(image)
    for one in image.lifetimes:
        _check(0 <= one.first <= one.last, f"a lifetime from {one.first} to {one.last}")
    for place in image.places:
        exists = 0 <= place.lifetime < len(image.lifetimes)
        _check(exists, f"a place in value {place.lifetime} of {len(image.lifetimes)}")
    _check_rooms(image)
    room = {"place": len(image.places), "symbol": len(image.symbols), "io": len(numbers)}
    for i, step in enumerate(image.steps):
        for ref in step.args:
            where = f"step {i} ({step.name})"
            if ref.space == "constant":
                _check(ref.at >= 0, f"{where} refers to a constant at byte {ref.at}")
                _check_aligned(ref, where)
                continue
            if ref.space == "behind":
                _check(ref.at in image.ends.continued, f"{where} refers behind buffer {ref.at}")
                continue
            _check(ref.space in room, f"{where} refers to '{ref.space}'")
            _check(
                0 <= ref.at < room[ref.space],
                f"{where} refers to {ref.space} {ref.at} of {room[ref.space]}",
            )
    stray = set(symbols_of(e for v in image.io_values for e in v.shape)) - set(image.symbols)
    _check(not stray, f"unknown symbols {[s.name for s in stray]}")
    Solver("it", image.inputs, image.symbols)


def _check_rooms(image: Image) -> None:
    """Each holds an input and an output, which may be shorter in one dimension, and no others."""
    _check(len(image.ends.continued) == len(image.rooms), "two rooms in one io buffer")
    for room in image.rooms:
        _check_value(room)
        inside = [v for v in (*image.inputs, *image.outputs) if v.io == room.io]
        _check(
            len(inside) == 2 and inside[0].name == room.name and inside[1] in image.outputs,
            f"room {room.name} for {[v.name for v in inside]}",
        )
        _check(
            0 <= room.axis < len(room.shape)
            and all(v.dtype == room.dtype and len(v.shape) == len(room.shape) for v in inside),
            f"room {room.name} of another rank or type than what is there",
        )
        for d, (whole, past, now) in enumerate(
            zip(room.shape, *(v.shape for v in inside), strict=True)
        ):
            longer = most(past) < most(now) <= most(whole)
            _check(
                whole == past == now or (d == room.axis and longer),
                f"room {room.name} of shape {list(room.shape)} for {list(inside[1].shape)}",
            )


def _io_numbers(image: Image) -> list[int]:
    """The numbers of the io buffers."""
    names = [v.name for v in image.inputs]
    _check(len(set(names)) == len(names), f"two inputs of one name among {names}")
    numbers = [v.io for v in image.inputs]
    _check(numbers == list(range(len(numbers))), f"inputs in the io buffers {numbers}")
    for value in (*image.inputs, *image.outputs):
        _check_value(value)
    io = sorted({v.io for v in (*image.inputs, *image.outputs)})
    _check(io == list(range(len(io))), f"io buffers {io}")
    return io


def _io_sizes(image: Image) -> list[int]:
    """Bytes of each io buffer, by number."""
    numbers = _io_numbers(image)
    sizes: dict[int, int] = {}
    for value in (*image.inputs, *image.outputs):
        size = known(value.nbytes)
        fits = sizes.setdefault(value.io, size) == size
        _check(fits, f"{value.name} and another value in io buffer {value.io}")
    return [sizes[i] for i in numbers]


def _check_value(value: Value) -> None:
    few = len(value.shape) <= _MOST_DIMENSIONS
    static = [extent for extent in value.shape if isinstance(extent, int)]
    size = value.nbytes
    small = not isinstance(size, int) or size < _MOST_BYTES
    _check(
        few and all(extent >= 0 for extent in static) and small,
        f"{value.name} of shape {list(value.shape)}",
    )


def _check_ref(ref: Ref, blocks: dict[str, int], io: list[int], where: str, away: int = 0) -> None:
    """Whether a reference lies in its block, so many bytes further on."""
    if ref.space == "io":
        _check(0 <= ref.at < len(io), f"{where} refers to io buffer {ref.at} of {len(io)}")
        start, size = 0, io[ref.at]
    else:
        _check(ref.space in blocks, f"{where} refers to '{ref.space}'")
        start, size = ref.at, blocks[ref.space]
    start, reach = start + away, known(ref.nbytes)
    _check(
        start >= 0 and reach >= 0 and start + reach <= size,
        f"{where} refers to bytes {start} to {start + reach} of the {size} of '{ref.space}'",
    )
    if ref.space == "constant":
        _check_aligned(ref, where)


def _check_aligned(ref: Ref, where: str) -> None:
    _check(
        ref.at % ALIGN == 0,
        f"{where} refers to a constant at byte {ref.at}, which is no multiple of {ALIGN}",
    )


def _check(good: object, wrong: str) -> None:
    if not good:
        raise ModuleError(wrong)
