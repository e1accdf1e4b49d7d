"""What differs between the libraries of two networks, as C: `sources/library.c` includes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tilework.dtypes import dtype_bytes
from tilework.index.extents import known_shape
from tilework.kinds.cpu.calls import RUN_SYMBOL
from tilework.kinds.cpu.library.weights import Placed
from tilework.runtime.image import Image, Value

ABI = 1
"""Of libraries: what callers of one may rely on. Headers, and loaders that know no header, check
it; raise it when a structure or a function of `sources/net.h` changes."""

_SPACES = {"arena": 0, "constant": 1, "io": 2}
_CODES = {"bool": 6, "bfloat16": 4}
_PREFIX = "l{}_"


@dataclass(frozen=True, eq=False)
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


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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


def tables_text(
    title: str, made_by: str, levels: Sequence[Level], weights: WeightsInside | WeightsFile
) -> str:
    """The whole file.

    Args:
        title: name of the network.
        made_by: name and version of the program.
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
    for i, level in enumerate(levels):
        lines += _code(i, level)
    lines += [
        "static const code codes[] = {",
        *(
            f"  {{{symbol_prefix(i)}{RUN_SYMBOL}, refs{i}, workspaces{i}, ranges{i}, "
            f"{_count_refs(level.image)}, {len(level.image.workspaces)}, "
            f"{len(level.placed.ranges)}, {level.image.arena_bytes}}},"
            for i, level in enumerate(levels)
        ),
        "};",
        "static const tw_level levels[] = {",
        *(_level(level) for level in levels),
        "};",
        "static const tw_description tw_description_here = {",
        f"  {ABI}, {len(first.inputs)}, {len(first.outputs)}, {len(levels)}, "
        f"{first.num_threads}, {first.cores},",
        f"  {_text(title)}, {_text(made_by)}, inputs, outputs, levels,",
        "};",
    ]
    return "\n".join(lines) + "\n"


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
    shapes = [f"static const int64_t {name}_shape{i}[] = {_list(v.shape)};"
              for i, v in enumerate(values)]  # fmt: skip
    rows = [
        f"  {{{_text(v.name)}, {_text(v.dtype)}, {name}_shape{i}, {v.nbytes}, {len(v.shape)}, "
        f"{_dlpack_code(v.dtype)}, {8 * dtype_bytes(v.dtype)}, 1}},"
        for i, v in enumerate(values)
    ]
    none = [] if values else ["  {0},"]
    return [*shapes, f"static const tw_value {name}[] = {{", *rows, *none, "};"]


def _dlpack_code(dtype: str) -> int:
    """DLPack's number for a family of element types."""
    family = 0 if dtype.startswith("int") else 1 if dtype.startswith("uint") else 2
    return _CODES.get(dtype, family)


def _count_refs(image: Image) -> int:
    return sum(len(step.args) for step in image.steps)


def _code(number: int, level: Level) -> list[str]:
    pairs = [known_shape(pair) for pair in level.image.workspaces]
    refs = []
    for step in level.image.steps:
        for ref in step.args:
            at = level.placed.at(ref.at) if ref.space == "constant" else ref.at
            refs.append(f"{{{at}, {_SPACES[ref.space]}}}")
    run = f"{symbol_prefix(number)}{RUN_SYMBOL}"
    return [
        f'__attribute__((visibility("hidden"))) void {run}(void **, void *, int32_t);',
        f"static const ref refs{number}[] = {_list(refs)};",
        f"static const pair workspaces{number}[] = {_pairs(pairs)};",
        f"static const pair ranges{number}[] = {_pairs(level.placed.ranges)};",
    ]


def _level(level: Level) -> str:
    image = level.image
    own = image.arena_bytes + image.workspace_bytes(1)
    return (
        f"  {{{_text(level.name)}, {_text(image.target)}, {_text(' '.join(image.needs))}, "
        f"{level.placed.nbytes}, {own}}},"
    )


def _pairs(pairs: Sequence[tuple[int, ...]]) -> str:
    return _list(f"{{{a}, {b}}}" for a, b in pairs)


def _list(items: Iterable[object]) -> str:
    """An initialiser; C has no empty one."""
    return "{" + (", ".join(map(str, items)) or "0") + "}"


def _text(text: str) -> str:
    """A C string of any text, in ASCII."""
    out = ""
    for byte in text.encode("utf-8", "surrogateescape"):
        plain = 32 <= byte < 127 and chr(byte) not in '"\\?'
        out += chr(byte) if plain else f"\\{byte:03o}"
    return f'"{out}"'
