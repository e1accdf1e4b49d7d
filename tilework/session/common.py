"""One form for the shapes that a session meets, where no form for given ranges serves them.

That is where nothing was said of ranges, or where values of inputs decide shapes: then each
combination of values has a form of this kind, over the ranges that were given if some were. The
first combination of shapes gets a form of its own. The second, and what has varied becomes a
symbol with a range around all that came, and so does a batch, which costs a run of one nothing,
and a size of images if the other did; what else has not varied stays a number. A shape beyond
makes a wider form. What one serves goes.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import product
from keyword import iskeyword
from typing import TYPE_CHECKING

import numpy as np

from tilework.cache import BoundedCache
from tilework.errors import ShapeError, TileworkError
from tilework.locks import Lock
from tilework.session.facts import Declared
from tilework.session.whole import Forms, Ranges, form_over

if TYPE_CHECKING:
    from tilework.runtime.parts import AnyModule

Shapes = Mapping[str, tuple[int, ...]]
Column = str | tuple[int, ...]
"""A dimension by its symbol's name; by the values that it has had, if it has none."""

_MOST = 64
"""Combinations that are kept, and so the number of times that a form is made wider."""

_REMEMBERED = 256
"""Combinations of which it is known that the form serves them."""

_VAIN = 2
"""Times that a wider form may fail to serve the shape that it was made for."""

_TYPICAL = 4
"""Values at most that schedules are chosen for."""

_STEPS = (32, 256)
"""Powers of two whose multiples a symbol's values are tried as, one after another: networks that
halve maps and double them again fit together at such sizes alone."""

_STEPPED = 16
"""Values that may be multiples: none below."""

EACH = "each shape gets a form of its own"
"""What is said where one form cannot serve several."""

log = logging.getLogger(__name__)


class Common:
    """The form that shapes share.

    Args:
        forms: of the model.
        inputs: of the model.
        given: ranges of its symbols, if any are: else those around what comes.
    """

    def __init__(self, forms: Forms, inputs: Sequence[Declared], given: Ranges) -> None:
        self._forms, self._inputs, self._given = forms, inputs, given
        self._seen: list[dict[str, tuple[int, ...]]] | None = None
        self._form: AnyModule | None = None
        self._served: BoundedCache[object, AnyModule] = BoundedCache(_REMEMBERED)
        self._vain = 0
        self._making = Lock()

    def serving(self, key: object, shapes: Shapes) -> AnyModule | None:
        """The form that serves inputs of some shapes; None where they get one of their own.

        Args:
            key: of the shapes.
        """
        form = self._served.get(key)
        if form is None or form is not self._form:
            form = self._form
            if form is None or not _serves(form, shapes):
                with self._making:  # threads that meet new shapes at once share what one makes
                    form = self._serving(shapes)
            if form is not None:
                self._served.put(key, form)
        return form

    def _serving(self, shapes: Shapes) -> AnyModule | None:
        if self._within(shapes):
            return self._form
        if self._seen is None:
            self._seen, refused = self._earlier()
            self._vain = _VAIN if refused else 0
            if len(self._seen) > 1:
                self._form = self._wider(self._seen)
                return self._serving(shapes)
        seen = self._seen
        if shapes in seen or self._vain == _VAIN or len(seen) == _MOST:
            return None
        wider = [*seen, dict(shapes)]
        if not seen:
            self._keep(wider)
            return None
        form = self._wider(wider)
        if form is None:
            self._vain = _VAIN
            self._keep(seen, refused=True)
            return None
        if not all(_serves(form, one) for one in wider if one == shapes or self._within(one)):
            self._vain += 1
            return None
        self._form = form
        self._served.clear()
        self._forms.let_go(form, partial(_serves, form))
        self._keep(wider)
        served = ", ".join(f"{s.name}={s.low}..{s.high}" for s in form.symbols)
        log.warning("%s: shapes vary: one form serves %s; shapes= gives others", form.name, served)
        return form

    def _within(self, shapes: Shapes) -> bool:
        return self._form is not None and _serves(self._form, shapes)

    def _wider(self, seen: Sequence[Shapes]) -> AnyModule | None:
        """The form for all shapes around these; None if there is none, and a warning says why.

        Given ranges come first; where they do not serve what was seen they are not asked again.
        """
        if self._given:
            with suppress(TileworkError):
                form = form_over(self._forms, self._given, in_place=False)[0]
                if form is not None and all(_serves(form, one) for one in seen):
                    return form
            self._given = {}
        refused = ""
        tried: list[Ranges] = []
        for longest, wider in product((1, *_STEPS), (True, False)):
            for ranges in self._ranges(seen, longest, wider):
                if ranges in tried:
                    continue
                tried.append(ranges)
                try:
                    return form_over(self._forms, ranges, in_place=False)[0]
                except TileworkError as e:
                    refused = refused or str(e)
        if refused:
            self._forms.warn(EACH, refused)
        return None

    def _ranges(self, seen: Sequence[Shapes], longest: int, wider: bool) -> list[Ranges]:
        """What to give, one after another: symbols that were always sums of others may stay so."""
        ranges, sums = (
            ranges_of(self._inputs, seen, longest, wider, related) for related in (False, True)
        )
        if sums == ranges or self._forms.takes(ranges):
            return [ranges]
        return [sums, ranges] if self._forms.takes(sums) else [ranges, sums]

    def _earlier(self) -> tuple[list[dict[str, tuple[int, ...]]], bool]:
        """The shapes that earlier processes met, and whether no form could serve them all."""
        kept = self._forms.noted("shapes")
        each, refused = kept if isinstance(kept, list) and len(kept) == 2 else ([], False)
        return [{name: tuple(shape) for name, shape in one.items()} for one in each], refused

    def _keep(self, seen: list[dict[str, tuple[int, ...]]], refused: bool = False) -> None:
        self._seen = seen
        self._forms.note([seen, refused], "shapes")


def _serves(form: AnyModule, shapes: Shapes) -> bool:
    try:
        form.require({name: np.broadcast_to(np.int8(0), shape) for name, shape in shapes.items()})
    except ShapeError:
        return False
    return bool(form.symbols)


def ranges_of(
    inputs: Sequence[Declared],
    seen: Sequence[Shapes],
    longest: int = 1,
    wider: bool = False,
    related: bool = False,
) -> Ranges:
    """What to give for a model's symbols and inputs, so that one form serves all of these shapes.

    Dimensions of one symbol share it as far as they have been equal: ONNX Runtime takes others as
    well, and the pasts of a decoder's cross attention are empty in front of its first token. Those
    without a name that have always been equal do, too.

    Args:
        inputs: of the model.
        seen: shapes of all inputs, by name.
        longest: of a symbol's values only multiples of up to this number are served, as far as
            all that were seen are: 32 serves a model that halves an image five times.
        wider: a symbol that is a batch, by its name or place, has a range though it has not
            varied; so has one size of images if the other has.
        related: a symbol that has always been the sum of two others, or of one and a number, stays
            so: a mask is as long as the past and the new tokens together.

    Returns:
        Ranges, numbers and shapes, as `tilework.from_onnx` takes them.
    """
    columns: dict[Column, tuple[int, ...]] = {}
    places: dict[str, list[Column]] = {}
    for i in (i for i in inputs if i.tensor and not i.static):
        places[i.name] = []
        for d, declared in enumerate(i.shape):
            values = tuple(one[i.name][d] for one in seen)
            place = declared if isinstance(declared, str) else values
            if columns.setdefault(place, values) != values:
                columns[place := values] = values
            places[i.name].append(place)
    opened = _opened(inputs, columns) if wider else (set(), set())
    behind = _behind(columns)
    columns |= {name: values for name, (values, _, _) in behind.items()}
    texts, ranges = _texts(columns, longest, places, behind, *opened)
    if related:
        _relate(columns, texts, ranges)
    shapes = {name: tuple(texts[place] for place in each) for name, each in places.items()}
    return {**shapes, **ranges}


def _opened(
    inputs: Sequence[Declared], columns: Mapping[Column, tuple[int, ...]]
) -> tuple[set[str], set[str]]:
    """The symbols that are batches; and sizes of images, if one of them has varied."""
    from tilework.graph.onnx.usual import words_of

    words = {n: w for n, w in words_of(i.shape for i in inputs).items() if isinstance(n, str)}
    batches = {n for n, word in words.items() if "batch" in f"{n} {word}".lower()}
    sizes = {n for n, word in words.items() if word == "image" and n in columns}
    return batches, sizes if any(len(set(columns[n])) > 1 for n in sizes) else set()


Behind = Mapping[str, tuple[tuple[int, ...], int, str]]
"""By a symbol that no dimension is alone: its values, and of which times it which one is."""


def _behind(columns: Mapping[Column, tuple[int, ...]]) -> Behind:
    """The symbols that dimensions are arithmetic of, as ``4*rows`` is of ``rows``."""
    from tilework.graph.onnx.symbols import evaluated, names_in

    behind: dict[str, tuple[tuple[int, ...], int, str]] = {}
    for declared, values in columns.items():
        (name, *more) = names_in(declared) if isinstance(declared, str) else ("", "")
        if more or name in columns or name in behind:
            continue
        base, one = (evaluated(str(declared), {name: n}) for n in (0, 1))
        if isinstance(base, int) and isinstance(one, int) and one > base >= 0:
            times = one - base
            behind[name] = tuple((n - base) // times for n in values), times, str(declared)
    return behind


def _sums(columns: Mapping[Column, tuple[int, ...]]) -> list[str]:
    """The dimensions that are the arithmetic of others that they are called."""
    from tilework.graph.onnx.symbols import evaluated

    names = {n: values for n, values in columns.items() if isinstance(n, str)}
    return [
        name
        for name, values in names.items()
        if all(
            evaluated(name, {n: each[row] for n, each in names.items() if n != name}) == value
            for row, value in enumerate(values)
        )
    ]


def _symbol(place: str, others: Collection[str]) -> str:
    """A name of a symbol, which arithmetic may have in it, for that of a dimension."""
    name = re.sub(r"\W", "_", place)
    name = name if name.isidentifier() and not iskeyword(name) else f"_{name}"
    while name in others:
        name += "_"
    return name


def _texts(
    columns: Mapping[Column, tuple[int, ...]],
    longest: int,
    places: Mapping[str, Sequence[Column]],
    behind: Behind,
    batches: Collection[str],
    sizes: Collection[str],
) -> tuple[dict[Column, int | str], dict[str, str]]:
    """What stands for dimensions, by their names or values; and the ranges of its symbols."""
    from tilework.graph.onnx.usual import range_around, words_of

    texts: dict[Column, int | str] = {}
    ranges: dict[str, str] = {}
    opened = {p for p, each in columns.items() if len({*each}) > 1 or p in batches or p in sizes}
    opened |= {name for name, (_, _, declared) in behind.items() if declared in opened}
    varies = {p: p if p in opened else values[0] for p, values in columns.items()}
    words = words_of([varies[p] for p in each] for each in places.values())
    sums = _sums(columns)
    for number, (place, values) in enumerate(columns.items()):
        if place not in opened:
            texts[place] = values[0]
        elif place not in sums:
            _, times, declared = behind.get(str(place), (values, 1, place))
            step = math.gcd(longest, *values) if min(values) >= _STEPPED else 1
            name = str(place) if isinstance(place, str) else f"extent_{number}"
            name = _symbol(f"{name}_by_{step}" if step > 1 else name, {*ranges, *places})
            texts[place] = f"{step}*{name}" if step > 1 else name
            word = "batch" if declared in batches else words.get(declared, "")
            each = [n * times for n in values]
            ranges[name] = range_around(name, each, _TYPICAL, step * times, word)
    for sum_ in sums:
        text = re.sub(r"[^\W\d]\w*", lambda word: f"({texts[word[0]]})", sum_)
        texts.setdefault(sum_, text)
    return texts, ranges


def _relate(
    columns: Mapping[Column, tuple[int, ...]],
    texts: dict[Column, int | str],
    ranges: dict[str, str],
) -> None:
    """Write what has always been a sum of others as that, in place of a range of its own."""
    free = {p: np.array(columns[p]) for p, text in texts.items() if text in ranges}
    for place in [*free]:
        values = free.pop(place)
        rest = {p: values - other for p, other in free.items()}
        sums = [f"{texts[p]}" for p, k in rest.items() if not k.any()]
        sums += [f"{texts[p]} + {k[0]}" for p, k in rest.items() if k[0] > 0 and (k == k[0]).all()]
        sums += [
            f"{texts[p]} + {texts[q]}"
            for p, left in rest.items()
            for q, other in free.items()
            if p != q and (left == other).all()
        ]
        if not sums:
            free[place] = values
            continue
        name = str(texts[place])
        del ranges[name]
        for p, text in texts.items():  # what is a sum of this one, too
            if isinstance(text, str):
                texts[p] = re.sub(rf"\b{name}\b", f"({sums[0]})", text)
