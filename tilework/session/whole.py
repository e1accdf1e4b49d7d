"""The form of a model for all shapes within ranges, or within the part that one network serves."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from tilework.errors import TileworkError

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray

    from tilework.graph.onnx.files import ReadModel
    from tilework.runtime.parts import AnyModule

Ranges = Mapping[str, str | tuple[int | str, ...]]
"""By symbol: a range, or a number, alone in a tuple; by input: its shape."""


class Forms(Protocol):
    """The part of `tilework.session.forms.Forms` by which one form for many shapes is made."""

    @property
    def values(self) -> Mapping[str, NDArray[Any]]:
        """Of inputs that are constants of the form."""
        ...

    def over(self, ranges: Ranges) -> AnyModule | None:
        """The form for all shapes within ranges."""
        ...

    def takes(self, ranges: Ranges) -> bool:
        """Whether the model can be read for these ranges."""
        ...

    def let_go(self, form: AnyModule, serves: Callable[[Mapping[str, Any]], bool]) -> None:
        """Let go of narrower forms, and of those for shapes that this one ``serves``."""
        ...

    def read(self) -> ReadModel | onnx.ModelProto:
        """The model as the importer takes it."""
        ...

    def note(self, what: object, *name: str) -> None:
        """Tell later processes something of this model."""
        ...

    def noted(self, *name: str) -> object:
        """What an earlier process has told."""
        ...

    def warn(self, what: str, why: str) -> None:
        """Say something, once of its kind."""
        ...


def form_over(forms: Forms, given: Ranges, in_place: bool) -> tuple[AnyModule | None, Ranges]:
    """The form for all shapes within ranges, or within the part of them that it can serve.

    That is without 0, or where the model is one network.

    Returns:
        The form, None if values of inputs decide shapes; and the part.

    Raises:
        TileworkError: there is no such form.
    """
    served = _served(forms, given)
    try:
        return forms.over(served), served
    except TileworkError as e:
        refused = e
    for narrower in (_with_elements,) if in_place else (_with_elements, _as_one_network):
        try:
            part = narrower(forms, given)
            if part is not None:
                form = forms.over(part)
                forms.note(dict(part), "served", _text(given))
                return form, part
        except TileworkError:
            continue
    raise refused


def less_than(given: Ranges, served: Ranges) -> list[str]:
    """The ranges that hold less than what was given, 0 apart."""
    from tilework.graph.onnx.ranges import without_0

    plain = without_0(given, given)
    each = without_0(served, served).items()
    return [f"{symbol}={range_}" for symbol, range_ in each if plain.get(symbol) != range_]


def _with_elements(forms: Forms, given: Ranges) -> Ranges | None:
    """The ranges without 0 where the form cannot have it; None if none holds it."""
    from tilework.graph.onnx.ranges import holding_0, without_0

    without = holding_0(given)
    for symbol in [*without] if len(without) > 1 else ():
        rest = [s for s in without if s != symbol]
        without = rest if forms.takes(without_0(given, rest)) else without
    return without_0(given, without) if without else None


def _as_one_network(forms: Forms, given: Ranges) -> Ranges:
    """The ranges without 0, each as far as all nodes stay what they are at typical values."""
    from tilework.graph.onnx.ranges import holding_0, shapes_of, without_0
    from tilework.graph.onnx.usual import narrowed

    return shapes_of(narrowed(forms.read(), without_0(given, holding_0(given)), forms.values))


def _served(forms: Forms, ranges: Ranges) -> Ranges:
    """The ranges that an earlier process found the form to serve; else the given ones."""
    kept = forms.noted("served", _text(ranges))
    if not isinstance(kept, dict):
        return ranges
    return {s: r if isinstance(r, str) else tuple(r) for s, r in kept.items()}


def _text(ranges: Ranges) -> str:
    return json.dumps(sorted(ranges.items()))
