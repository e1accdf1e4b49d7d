"""A graph of core operators, and the forms of it that were compiled so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter, is_, itemgetter
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule

from tilework.errors import NetworkError, TileworkError
from tilework.frozen import frozen
from tilework.graph.aten.decompositions import decompositions
from tilework.index.extents import divisor
from tilework.index.symbols import range_of
from tilework.locks import Lock
from tilework.torch.form import Compile, Run, make, make_open
from tilework.torch.notes import say

_version = attrgetter("_version")
Ranges = tuple[tuple[int, int, int, int], ...]
"""Of each number among a graph's inputs the least, the greatest, what it is a multiple of, and
which it is equal to."""


@frozen(eq=False)
class _Form:
    """What runs the graph for one choice of sizes and parameters.

    Attributes:
        sizes: the numbers among the graph's inputs at its first run.
        ranges: which others it runs; None: no others.
        frozen: the parameters, whose values are part of the form.
        versions: of those that count their changes.
        run: what runs the graph.
    """

    sizes: tuple[Any, ...]
    ranges: Ranges | None
    frozen: tuple[Tensor, ...]
    versions: tuple[int, ...]
    run: Run

    def fits(self, sizes: tuple[Any, ...]) -> bool:
        """Whether it runs inputs of these sizes."""
        if self.ranges is None:
            return self.sizes == sizes
        pairs = zip(sizes, self.ranges, strict=True)
        return all(
            low <= n <= high and not n % max(step, 1) and n == sizes[same]
            for n, (low, high, step, same) in pairs
        )


class CompiledGraph:
    """Runs a graph by the form that fits its inputs, which is compiled where there is none yet.

    A parameter is part of a form: one that was changed in place, or replaced, needs a new one.

    Args:
        graph: functional, of core operators.
        is_frozen: whether an input is a parameter or a buffer that the graph does not change.
        compile_network: compiles a network.
        most: forms; what fits none of them is left to PyTorch from then on.
        smallest: see `tilework.torch.Settings`.
        name: of the networks.
    """

    _boxed_call = True  # inputs come in a list

    def __init__(
        self,
        graph: GraphModule,
        is_frozen: Callable[[Any], bool],
        compile_network: Compile,
        most: int,
        smallest: int,
        name: str,
    ) -> None:
        self.graph = graph
        self.forms: list[_Form] = []
        self._is_frozen = is_frozen
        self._compile = compile_network
        self._most, self._smallest, self._name = most, smallest, name
        self._places: list[int] | None = None  # of parameters among the inputs
        self._pick: Callable[[Any], Any] = _nothing
        self._pick_counted: Callable[[Any], Any] = _nothing
        self._pick_sizes: Callable[[Any], Any] = _nothing
        self._closed = False  # it cannot be compiled for open sizes
        self._lock = Lock()

    def __call__(self, args: list[Any]) -> Any:
        """The graph's outputs."""
        sizes, frozen = self._pick_sizes(args), self._pick(args)
        for form in self.forms:
            if (
                form.fits(sizes)
                and all(map(is_, form.frozen, frozen))
                and form.versions == tuple(map(_version, self._pick_counted(args)))
            ):
                return form.run(args)
        return self._new(args)

    def _new(self, args: list[Any]) -> Any:
        with self._lock:
            if self._places is None:
                self._look_at(args)
            sizes, frozen = self._pick_sizes(args), self._pick(args)
            versions = tuple(map(_version, self._pick_counted(args)))
            if len(self.forms) >= self._most:
                say(
                    f"{self._name} has {self._most} compiled forms, for other sizes or "
                    "parameters; what fits none of them is left to PyTorch "
                    "(option 'forms' allows more)"
                )
                return self.graph.forward(*args)
            for form in self.forms:  # somebody else may have been here
                same = form.fits(sizes) and form.versions == versions
                if same and all(map(is_, form.frozen, frozen)):
                    return form.run(args)
            opened = self._open(args)
            run, ranges = opened or (self._run_for(args), None)
            self.forms.insert(0, _Form(sizes, ranges, frozen, versions, run))
        return run(args)

    def _look_at(self, args: Sequence[Any]) -> None:
        """Learn which inputs are parameters, which count their changes, which are sizes."""
        self._places = [
            i for i, x in enumerate(args) if isinstance(x, Tensor) and self._is_frozen(x)
        ]
        self._pick = _picker(self._places)
        self._pick_counted = _picker([i for i in self._places if not args[i].is_inference()])
        self._pick_sizes = _picker([i for i, x in enumerate(args) if not isinstance(x, Tensor)])

    def _open(self, args: Sequence[Any]) -> tuple[Run, Ranges] | None:
        """What runs the graph for ranges of sizes, if it leaves any open and can be made so."""
        examples = [n.meta.get("val") for n in self.graph.graph.find_nodes(op="placeholder")]
        pairs = zip(examples, args, strict=True)
        numbers = [(e, a) for e, a in pairs if not isinstance(a, Tensor)]
        if self._closed or not numbers or any(_no_size(e, a) for e, a in numbers):
            return None
        assert self._places is not None
        constants = {i: args[i].detach() for i in self._places}
        now = {str(e.node.expr): a for e, a in numbers if isinstance(e, torch.SymInt)}
        given = (self._compile, self._smallest, self._name)
        try:
            with torch.no_grad():
                opened = make_open(self.graph, constants, args, now, *given)
        except Exception as e:  # whatever it is that cannot be open: each size is compiled then
            self._closed = True
            say(f"{self._name} is compiled for each size that occurs: {_line(e)}")
            return None
        if opened is None:
            return None
        run, sizes = opened
        extents = [sizes(e) for e, _ in numbers]
        return run, tuple((*range_of(n), divisor(n), extents.index(n)) for n in extents)

    def _run_for(self, args: Sequence[Any]) -> Run:
        def plain(args: Sequence[Any]) -> Any:
            return self.graph.forward(*args)

        assert self._places is not None
        constants = {i: args[i].detach() for i in self._places}
        try:
            with torch.no_grad():
                graph = _static(self.graph, args)
                run = make(graph, constants, args, self._compile, self._smallest, self._name)
        except NetworkError as e:
            say(f"{self._name} is left to PyTorch: {e}")
            return plain
        except TileworkError:
            raise  # a target or a store that the user named
        except Exception as e:  # a gap of ours must not end a program that runs without us
            say(f"{self._name} is left to PyTorch: {type(e).__name__}: {e}")
            return plain
        return plain if run is None else run


def _no_size(example: Any, value: Any) -> bool:
    return type(value) is not int or not isinstance(example, (int, torch.SymInt))


def _line(error: Exception) -> str:
    said = " ".join(str(error).split())[:300]
    return said if isinstance(error, TileworkError) else f"{type(error).__name__}: {said}"


def _nothing(args: Any) -> tuple[Any, ...]:
    return ()


def _picker(places: Sequence[int]) -> Callable[[Any], Any]:
    """A function that takes the items at ``places``, in a tuple."""
    if not places:
        return _nothing
    if len(places) == 1:
        place = places[0]
        return lambda args: (args[place],)
    return itemgetter(*places)


def _static(graph: GraphModule, args: Sequence[Any]) -> GraphModule:
    """The graph for inputs of these sizes, with examples of every value."""
    examples = [n.meta.get("val") for n in graph.graph.find_nodes(op="placeholder")]
    if all(_is_static(e) for e in examples):
        return graph
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    mode = FakeTensorMode(allow_non_fake_inputs=True)
    fakes = [mode.from_tensor(a, static_shapes=True) if isinstance(a, Tensor) else a for a in args]
    with mode:
        return make_fx(lambda *a: graph.forward(*a), decomposition_table=decompositions())(*fakes)


def _is_static(example: Any) -> bool:
    if isinstance(example, Tensor):
        return all(type(n) is int for n in (*example.shape, *example.stride()))
    return not isinstance(example, (torch.SymInt, torch.SymFloat, torch.SymBool))
