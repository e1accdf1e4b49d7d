"""Ranges for symbols of which nothing is said: those that names suggest, as far as nodes allow.

Where a name says nothing, as ``s72`` does, its place among the inputs may: first is the batch.
A table of 512 positions ends the range of the length that it is sliced by; a mask of ``total``
keys beside ``past + seq`` of them says what ``total`` is. Where a node becomes something else at
some points of a range, the range keeps those at which it is what it is at the least typical one;
but no value is to be too large, and no slice to begin before its tensor, even if it is so there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any

from tilework.errors import NetworkError
from tilework.graph.onnx.context import RangesNeeded, ValuesNeeded
from tilework.graph.onnx.cut import cut_model
from tilework.graph.onnx.importer import convert, opened, telling
from tilework.graph.onnx.inputs import Values, shapes_declared, symbols_declared
from tilework.graph.onnx.narrow import TRIES, narrower
from tilework.graph.onnx.protos import ModelProto
from tilework.graph.onnx.ranges import Given, Shapes, is_range, symbol_of
from tilework.graph.onnx.symbols import evaluated
from tilework.index.symbols import Symbol, Symbolic

if TYPE_CHECKING:
    from tilework.graph.onnx.files import ReadModel
    from tilework.graph.onnx.places import Places

_LENGTH = (1, 1024, (16, 128, 384))
_USUAL: tuple[tuple[tuple[str, ...], tuple[int, int, tuple[int, ...]]], ...] = (
    (("batch",), (1, 16, (1,))),
    (("total", "past_and", "past_plus"), (1, 3072, (64, 512))),
    (("past", "cache"), (1, 2048, (64, 512))),
    (("height", "width", "image"), (32, 1024, (224, 512))),
    (("seq", "len", "time", "frame", "token", "step"), _LENGTH),
)
_SOUND = (1, 1 << 19, (16000, 160000))
_STEP = 32
"""What sizes of images are multiples of where nothing else fits together."""
_COLOURS = (1, 3, 4)
"""Channels of an image."""


def usual_ranges(
    source: str | PathLike[str] | ReadModel | ModelProto,
    values: Values | None = None,
    given: Shapes | None = None,
) -> dict[str, Given]:
    """What to give for each symbol of a model's inputs, so that it becomes one network.

    Args:
        values: of inputs that become constants.
        given: what is given for some symbols and inputs, which stays as it is.

    Returns:
        Ranges, arithmetic of other symbols, and numbers where a node leaves only one, as
        `tilework.from_onnx` takes them, by symbol.

    Raises:
        NetworkError: the model cannot be read, or differs from run to run however narrow the
            ranges are.
    """
    model, places, label = opened(source)
    names = symbols_declared(model.graph.input)
    words = words_of(shapes_declared(model.graph.input))
    said = given or {}
    free = [n for n in names if n not in said and not _follows(n, names)]
    ranges = {n: _usual(n, words.get(n, "")) for n in free}
    with telling(label):
        try:
            return _of_one_network(model, places, {**ranges}, said, values)
        except NetworkError as e:
            others = _other_ranges(ranges)
            if others is None:
                raise
            try:
                return _of_one_network(model, places, others[0], {**said, **others[1]}, values)
            except NetworkError:
                if others[1]:
                    raise
                raise e from None


def _other_ranges(ranges: dict[str, Symbol]) -> tuple[dict[str, Symbol], dict[str, str]] | None:
    """What to try next: images in steps, or lengths as long as sound is; and what follows.

    Networks that halve maps and double them again fit together at multiples alone; those that
    begin with sound need some hundred samples to have a frame.
    """
    images = [name for name, one in ranges.items() if one.low == _STEP]
    lengths = [n for n, s in ranges.items() if (s.low, s.high, s.typicals) == _LENGTH]
    if not images and not lengths:
        return None
    ranges = {**ranges, **{n: Symbol(n, *_SOUND) for n in lengths if not images}}
    others = {}
    for name in images:
        one, step = ranges.pop(name), f"{name}_by_{_STEP}"
        typicals = tuple(n // _STEP for n in one.typicals)
        ranges[step] = Symbol(step, 1, one.high // _STEP, typicals)
        others[name] = f"{_STEP}*{step}"
    return ranges, others


def narrowed(
    source: str | PathLike[str] | ReadModel | ModelProto,
    shapes: Shapes,
    values: Values | None = None,
) -> dict[str, Given]:
    """The part of some ranges in which a model is one network: around typical values.

    Args:
        shapes: what is given for the model's symbols and inputs.
        values: of inputs that become constants.

    Raises:
        NetworkError: as `usual_ranges` does; or something else than ranges is in the way.
    """
    model, places, label = opened(source)
    with telling(label):
        given = {
            n: symbol_of(n, t) for n, t in shapes.items() if isinstance(t, str) and is_range(t)
        }
        ranges = {name: s.symbols[0] for name, s in given.items() if isinstance(s, Symbolic)}
        others = {name: what for name, what in shapes.items() if name not in ranges}
        as_given = {(name, _text(one)): shapes[name] for name, one in ranges.items()}
        parts = _around(model, places, ranges, others, values)
        return {name: as_given.get((name, what), what) for name, what in parts.items()}


def _around(
    model: ModelProto,
    places: Places | None,
    ranges: dict[str, Symbol],
    others: Shapes,
    values: Values | None,
) -> dict[str, Any]:
    """`_of_one_network`, where the least typical values may be too small for one, or alone so."""
    within = {**ranges}
    larger = {n: replace(s, typicals=s.typicals[-1:]) for n, s in ranges.items()}
    try:
        parts = _of_one_network(model, places, within, others, values)
    except NetworkError:
        with suppress(NetworkError):
            return _of_one_network(model, places, larger, others, values)
        raise
    if any(s.low == s.high and ranges[n].typicals[-1] > s.high for n, s in within.items()):
        with suppress(NetworkError):
            return _of_one_network(model, places, larger, others, values)
    return parts


def words_of(shapes: Iterable[Sequence[Hashable]]) -> dict[Hashable, str]:
    """What the places of extents in the inputs say of them: ``batch`` or ``image``.

    Args:
        shapes: of the inputs; a number is known, all else names an extent that is not.
    """
    words: dict[Hashable, set[str]] = {}
    for shape in shapes:
        vary = [d for d, n in enumerate(shape) if not isinstance(n, int)]
        coloured = len(shape) == 4 and shape[1] in _COLOURS
        for d in vary if vary != [0] or len(shape) > 3 else ():
            word = "image" if coloured and d > 1 and vary[-2:] == [2, 3] else ""
            words.setdefault(shape[d], set()).add("batch" if d == 0 else word)
    return {n: each.pop() for n, each in words.items() if len(each) == 1}


def range_around(name: str, seen: Sequence[int], most: int, step: int = 1, word: str = "") -> str:
    """The usual range of a symbol, with room for twice of what was seen where that is not within.

    Args:
        name: of the symbol.
        word: what its place says, see `words_of`.
        seen: values that it has had.
        most: typical values at most; they are of those seen, the least and the largest among them,
            and the least usual one where that is half of these or less: what serves many rows of
            a product costs few a quarter.
        step: the range is of the steps of this length that a value takes.
    """
    usual = _usual(name, word)
    values = sorted({n // step for n in seen} - {0}) or [1]
    last = len(values) - 1
    typicals = {values[round(last * n / (most - 1))] for n in range(most)}
    least = usual.typicals[0]
    typicals |= {least} if step == 1 and 2 * least <= values[0] else set()
    high = usual.high // step
    high = high if values[-1] <= high else 2 * values[-1]
    low = 1 if word == "image" else -(-usual.low // step)  # images may be of any size
    low = min(low, *(n // step for n in seen))
    return _text(Symbol(name, low, high, tuple(sorted(typicals))))


def _of_one_network(
    model: ModelProto,
    places: Places | None,
    ranges: dict[str, Symbol],
    others: Shapes,
    values: Values | None = None,
) -> dict[str, Any]:
    """What to give for symbols of these ranges at most, beside what is given for others."""
    wide = {**ranges}
    try:
        return _narrowed(partial(convert, model, places), ranges, others, values or {})
    except ValuesNeeded:
        raise
    except NetworkError as e:  # another engine may run a part
        ranges.update(wide)
        try:
            return _narrowed(partial(cut_model, model, places), ranges, others, values or {})
        except NetworkError:
            raise e from None


def _narrowed(
    read: Callable[[Shapes, Values], object],
    ranges: dict[str, Symbol],
    others: Shapes,
    values: Values,
) -> dict[str, Any]:
    """The same, where this is how the model is read."""
    equal: dict[str, Given] = {}
    for _ in range(TRIES):
        shapes = {**others, **{name: _text(one) for name, one in ranges.items()}, **equal}
        try:
            read(shapes, values)
        except RangesNeeded as e:
            if not any([narrower(ranges, equal, one) for one in e.comparisons]):
                raise
        else:
            return shapes
    read(shapes, values)
    return shapes


def _usual(name: str, word: str) -> Symbol:
    low, high, typicals = next(
        (
            usual
            for n in (name, word)
            for words, usual in _USUAL
            if any(w in n.lower() for w in words)
        ),
        _LENGTH,
    )
    return Symbol(name, low, high, typicals)


def _follows(name: str, names: Iterable[str]) -> bool:
    """Whether a symbol is arithmetic of others."""
    return evaluated(name, {n: 1 for n in names if n != name}) is not None


def _text(one: Symbol) -> str:
    none = "0|" if one.or_none else ""
    return f"{none}{one.low}..{one.high}:{','.join(map(str, one.typicals))}"
