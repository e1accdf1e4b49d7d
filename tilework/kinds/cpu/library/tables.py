"""What differs between the libraries of two networks, as C: `sources/library.c` includes it."""

from __future__ import annotations

from collections.abc import Sequence

from tilework.dtypes import dtype_bytes
from tilework.frozen import frozen
from tilework.index.extents import Extent, known_shape
from tilework.kinds.cpu.calls import RUN_SYMBOL
from tilework.kinds.cpu.library.extents import (
    Extents,
    level_tables,
    number_places,
    number_sizes,
    shared_tables,
)
from tilework.kinds.cpu.library.initialisers import listed as _list
from tilework.kinds.cpu.library.initialisers import text as _text
from tilework.kinds.cpu.library.weights import Placed
from tilework.runtime.image import Image, Value
from tilework.runtime.sites import Sites
from tilework.version import __version__

ABI = 1
"""Of libraries: what callers of one may rely on. Headers, and loaders that know no header, check
it; raise it when a structure or a function of `sources/net.h` changes."""
SYMBOLIC_ABI = 2
"""The same of libraries whose shapes a run brings: they have `sources/symbolic.h` besides, and who
takes all shapes for numbers must refuse them. It differs from `ABI`."""
MADE_BY = f"Tilework {__version__}"

_SPACES = {"arena": 0, "constant": 1, "io": 2, "place": 3, "symbol": 4, "behind": 5}
_NUMBER = 6
_CODES = {"bool": 6, "bfloat16": 4}
_PREFIX = "l{}_"


@frozen(eq=False)
class Level:
    """Code for one kind of CPU.

    Attributes:
        name: as users call it.
        image: the network compiled for it.
        placed: where its constants lie.
    """

    name: str
    image: Image
    placed: Placed


@frozen
class WeightsFile:
    """Weights beside the library.

    Attributes:
        name: of the file.
        nbytes: of the weights, with which it begins.
        line: what follows them, and says whose they are.
    """

    name: str
    nbytes: int
    line: str


@frozen
class WeightsInside:
    """Weights inside the library.

    Attributes:
        name: of the file that they come from.
        align: at whose multiples of bytes they begin.
    """

    name: str
    align: int


def symbol_prefix(number: int) -> str:
    """What the symbols of a level's code begin with."""
    return _PREFIX.format(number)


def tables_text(title: str, levels: Sequence[Level], weights: WeightsInside | WeightsFile) -> str:
    """The whole file.

    Args:
        title: name of the network.
        levels: best first.
        weights: where they are.
    """
    first = levels[0].image
    lines = [
        f"#define NUM_INPUTS {len(first.inputs)}",
        f"#define NUM_OUTPUTS {len(first.outputs)}",
        f"#define NUM_IO {len(first.io_values)}",
        "void tw_pool_stop(void);" if first.cores > 1 else "",
        f"#define STOP_THREADS() {'tw_pool_stop()' if first.cores > 1 else '((void)0)'}",
        *_weights(weights),
        *_values("inputs", first.inputs),
        *_values("outputs", first.outputs),
        f"static const uint32_t output_io[] = {_list(v.io for v in first.outputs)};",
    ]
    if first.symbols:
        lines += _symbolic(levels)
    else:
        for i, level in enumerate(levels):
            workspaces = [known_shape(pair) for pair in level.image.workspaces]
            lines += _code(i, level, workspaces, [None] * _count_refs(level.image))
    lines += [
        "static const code codes[] = {",
        *(_code_row(i, level) for i, level in enumerate(levels)),
        "};",
        "static const tw_level levels[] = {",
        *(_level(level) for level in levels),
        "};",
        "static const tw_description tw_description_here = {",
        f"  {abi_of(first)}, {len(first.inputs)}, {len(first.outputs)}, {len(levels)}, "
        f"{first.num_threads}, {first.cores},",
        f"  {_text(title)}, {_text(MADE_BY)}, inputs, outputs, levels,",
        "};",
    ]
    return "\n".join(lines) + "\n"


def abi_of(image: Image) -> int:
    """The version of a library's interface."""
    return SYMBOLIC_ABI if image.symbols else ABI


def _weights(weights: WeightsInside | WeightsFile) -> list[str]:
    if isinstance(weights, WeightsInside):
        return [
            f"#define WEIGHTS_INSIDE {_text(weights.name)}",
            f'#define WEIGHTS_ALIGN "{weights.align}"',
        ]
    return [
        f"#define WEIGHTS_FILE {_text(weights.name)}",
        f"#define WEIGHTS_LINE {_text(weights.line)}",
        f"#define WEIGHTS_BYTES {weights.nbytes}ull",
    ]


def _values(name: str, values: Sequence[Value]) -> list[str]:
    shapes = [f"static const int64_t {name}_shape{i}[] = {_list(map(_number, v.shape))};"
              for i, v in enumerate(values)]  # fmt: skip
    rows = [
        f"  {{{_text(v.name)}, {_text(v.dtype)}, {name}_shape{i}, {_number(v.nbytes)}, "
        f"{len(v.shape)}, {_dlpack_code(v.dtype)}, {8 * dtype_bytes(v.dtype)}, 1}},"
        for i, v in enumerate(values)
    ]
    none = [] if values else ["  {0},"]
    return [*shapes, f"static const tw_value {name}[] = {{", *rows, *none, "};"]


def _number(extent: Extent) -> int:
    """An extent as a number; -1 where a run decides it."""
    return extent if isinstance(extent, int) else -1


def _dlpack_code(dtype: str) -> int:
    """DLPack's number for a family of element types."""
    family = 0 if dtype.startswith("int") else 1 if dtype.startswith("uint") else 2
    return _CODES.get(dtype, family)


def _count_refs(image: Image) -> int:
    return len(image.refs) + len(image.numbers)


def _symbolic(levels: Sequence[Level]) -> list[str]:
    """Tables of extents, and of each level the numbers of those that it has."""
    first = levels[0].image
    extents, lines = Extents(first.symbols), list[str]()
    number_sizes(first, extents)
    for level in levels:  # first all that is never negative
        number_places(level.image, extents)
    num_sizes = len(extents)
    for i, level in enumerate(levels):
        image = level.image
        reaches = extents.numbers([*(ref.nbytes for ref in image.refs), *image.numbers])
        pairs = [(extents.number(a), extents.number(b)) for a, b in image.workspaces]
        lines += [*_code(i, level, pairs, reaches), *level_tables(i, image, extents)]
        lines.append(f"static const repeat repeats{i}[] = {_list(_repeats(image))};")
    values = (*first.inputs, *first.outputs)
    return [
        f"#define NUM_SYMBOLS {len(first.symbols)}",
        f"#define NUM_DIMENSIONS {sum(len(v.shape) for v in values)}",
        f"#define NUM_ROOMS {len(first.rooms)}",
        *shared_tables(first, extents, num_sizes),
        *lines,
    ]


def _code(
    number: int, level: Level, workspaces: Sequence[tuple[int, ...]], reaches: Sequence[int | None]
) -> list[str]:
    image, places = level.image, list[tuple[int, int]]()
    for ref in image.refs:
        at = level.placed.at(ref.at) if ref.space == "constant" else ref.at
        places.append((at, _SPACES[ref.space]))
    # what is negative is so much less than 2 to the 64
    places += [(n % (1 << 64) if isinstance(n, int) else 0, _NUMBER) for n in image.numbers]
    refs = [
        f"{{{at}{'ull' * (at >= 1 << 63)}, {space}{'' if reach is None else f', {reach}'}}}"
        for (at, space), reach in zip(places, reaches, strict=True)
    ]
    run = f"{symbol_prefix(number)}{RUN_SYMBOL}"
    return [
        f'__attribute__((visibility("hidden"))) void {run}(void **, void *, int32_t);',
        f"static const ref refs{number}[] = {_list(refs)};",
        f"static const pair workspaces{number}[] = {_pairs(workspaces)};",
        f"static const pair ranges{number}[] = {_pairs(level.placed.ranges)};",
    ]


def _repeats(image: Image) -> list[str]:
    """Of each, the first argument, how many there are, and where the numbers are."""
    rows, numbers = list[str](), len(image.refs)
    for repeat in image.repeats:
        first = sum(len(step.args) for step in image.steps[: repeat.first])
        rows.append(f"{{{first}, {len(repeat.advances)}, {numbers}}}")
        numbers += len(repeat.numbers)
    return rows


def _code_row(number: int, level: Level) -> str:
    image = level.image
    row = (
        f"{symbol_prefix(number)}{RUN_SYMBOL}, refs{number}, workspaces{number}, ranges{number}, "
        f"{_count_refs(image)}, {len(image.workspaces)}, {len(level.placed.ranges)}, "
        f"{image.arena_bytes}"
    )
    if image.symbols:
        row += f", lifetimes{number}, places{number}, repeats{number}, {len(image.lifetimes)}"
        row += f", {len(image.repeats)}"
    return f"  {{{row}}},"


def _level(level: Level) -> str:
    image = level.image
    usual = Sites(image).named(None)
    own = usual.arena_bytes + usual.workspace_bytes(1)
    return (
        f"  {{{_text(level.name)}, {_text(image.target)}, {_text(' '.join(image.needs))}, "
        f"{level.placed.nbytes}, {own}}},"
    )


def _pairs(pairs: Sequence[tuple[int, ...]]) -> str:
    return _list(f"{{{a}, {b}}}" for a, b in pairs)
