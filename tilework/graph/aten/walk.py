"""From an FX graph of core operators to a network, one node after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tilework.frozen import frozen
from tilework.graph.aten.context import AtenContext, Converter, Unsupported, Value
from tilework.graph.aten.convert import CONVERTERS
from tilework.graph.aten.convert.quantised import kept
from tilework.graph.aten.dtypes import dtype_name
from tilework.graph.aten.sizes import Sizes, hints, is_known, unbound
from tilework.graph.failures import left_alone
from tilework.graph.ir import Builder, Network
from tilework.graph.operators import MAX_ELEMENTS
from tilework.index.strides import in_order
from tilework.index.symbols import Undecided

if TYPE_CHECKING:
    import torch
    from torch.fx import GraphModule, Node

_LARGEST_FOLDED = 2**24
_CHECKED = "_assert_tensor_metadata"
"""An operator that asks whether types are what they were when the graph was written."""
"""Elements of a result that is computed now because it depends on constants alone."""


@frozen(eq=False)
class Stays:
    """A node that has no place in a network, and why.

    Attributes:
        ranged: other ranges of sizes may give it one.
    """

    node: Node
    reason: str
    ranged: bool = False


class Passed(NamedTuple):
    """An output of a graph that is one of its placeholders."""

    number: int


class Computed(NamedTuple):
    """An output of a graph that is one of the network's.

    Attributes:
        number: of the network's output.
        order: the dimensions from the outermost in memory to the innermost. The network's output
            has that order, so that the tensor lies in memory as PyTorch's own would.
    """

    number: int
    order: tuple[int, ...]


@frozen(eq=False)
class Translation:
    """What became of a graph.

    Attributes:
        network: with an input for each tensor that is fed, and for each result of a node that
            stays; None if no output of the graph is computed.
        stays: the nodes that are no part of it.
        feeds: numbers of the graph's placeholders that are the network's inputs, in order.
        sizes: names of PyTorch's for sizes that no other input has: behind the placeholders these
            numbers are fed, each to an input that is read by none and as long.
        orders: of each such input, the dimensions from the outermost in memory to the innermost.
        outputs: what each output of the graph is; a tensor that depends on nothing that is fed
            stands here itself, and so does what is no tensor.
        constants: the nodes whose results depend on nothing that is fed, and the results.
    """

    network: Network | None
    stays: tuple[Stays, ...]
    feeds: tuple[int, ...]
    sizes: tuple[str, ...]
    orders: tuple[tuple[int, ...], ...]
    outputs: tuple[Any, ...]
    constants: Mapping[Node, Any]


def from_graph(
    gm: GraphModule,
    constants: Mapping[int, torch.Tensor],
    name: str,
    orders: Mapping[int, Sequence[int]] | None = None,
    input_names: Mapping[int, str] | None = None,
    sizes: Sizes | None = None,
) -> Translation:
    """Translate a graph whose nodes carry example values in ``meta["val"]``.

    Args:
        gm: the graph, functional, of core operators.
        constants: what some of its placeholders are, by number.
        name: of the network.
        orders: how the tensors of placeholders lie in memory, where they are not contiguous: the
            dimensions from the outermost to the innermost. The network's input has that order.
        input_names: of placeholders; by default their own.
        sizes: what the sizes are that the graph leaves open.
    """
    return _Walk(gm, constants, name, orders or {}, input_names or {}, sizes).run()


class _Walk:
    def __init__(
        self,
        gm: GraphModule,
        constants: Mapping[int, torch.Tensor],
        name: str,
        orders: Mapping[int, Sequence[int]],
        names: Mapping[int, str],
        sizes: Sizes | None,
    ) -> None:
        self.gm, self.given, self.orders, self.names = gm, constants, orders, names
        self.b = Builder(name)
        self.c = AtenContext(self.b, int if sizes is None else sizes)
        self.sizes = sizes
        self.env: dict[Node, Any] = {}
        self.stays: list[Stays] = []
        self.feeds: list[int] = []
        self.fed_orders: list[tuple[int, ...]] = []
        self.constant: set[Node] = set()
        self.placeholders: list[Node] = []

    def run(self) -> Translation:
        output = None
        for node in self.gm.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node, len(self.placeholders))
                self.placeholders.append(node)
            elif node.op == "output":
                output = node
            else:
                self._visit(node)
        assert output is not None
        return self._finish(output.args[0])

    # ------------------------------------------------------------ inputs

    def _placeholder(self, node: Node, number: int) -> None:
        import torch

        if number in self.given:
            self.env[node] = self.given[number]
            self.constant.add(node)
            return
        example = node.meta.get("val")
        if isinstance(example, (bool, int, float)):
            self.env[node] = example
            return
        if isinstance(example, torch.SymInt):
            self.env[node] = self.c.extent(example)
            return
        if not isinstance(example, torch.Tensor):
            self.env[node] = None
            return
        if not any(n.op != "output" for n in node.users):
            self.env[node] = None  # handed through
            return
        reason = _unfit(example)
        if reason is not None:
            self.env[node] = Unsupported(reason)
            return
        order = tuple(self.orders.get(number, range(example.ndim)))
        name = self.names.get(number, str(node.name))
        self.env[node] = self._input(name, example, order)
        self.feeds.append(number)
        self.fed_orders.append(order)

    def _input(self, name: str, example: torch.Tensor, order: Sequence[int]) -> Value:
        dtype = dtype_name(example.dtype)
        assert dtype is not None
        shape = [self.c.extent(example.shape[d]) for d in order]
        x = Value(self.b.input(self.b._unique(name), shape, dtype))
        return self.c.transpose(x, [list(order).index(d) for d in range(len(order))])

    # ------------------------------------------------------------ nodes

    def _visit(self, node: Node) -> None:
        try:
            self.env[node] = self._meaning(node)
        except Unsupported as e:
            self._stay(node, str(e), _is_undecided(e))
        except Exception as e:  # whatever a converter makes of what it has not thought of
            self._stay(node, f"{type(e).__name__}: {e}", _is_undecided(e))

    def _meaning(self, node: Node) -> Any:
        import operator

        import torch

        size = node.meta.get("val")
        if isinstance(size, torch.SymInt):
            return self.c.extent(size)
        if node.op == "get_attr":
            self.constant.add(node)
            return _attribute(self.gm, str(node.target))
        if node.op != "call_function":
            raise Unsupported(f"a {node.op}")
        if getattr(node.target, "__name__", "").startswith(_CHECKED):
            return None
        if node.target is operator.getitem:
            (source,) = node.all_input_nodes
            whole = self.env[source]
            if isinstance(whole, Unsupported):
                raise whole
            meaning = whole[node.args[1]]
            if meaning is None:
                raise Unsupported("this result of several is not offered")
            if source in self.constant:
                self.constant.add(node)
            return meaning
        sources = node.all_input_nodes
        for n in sources:
            if isinstance(self.env[n], Unsupported):
                raise self.env[n]
        args, kwargs = _replaced(node.args, self.env), _replaced(node.kwargs, self.env)
        if all(n in self.constant for n in sources) and not kept(node):
            known = self._folded(node, args, kwargs)
            if known is not None:
                self.constant.add(node)
                return known
        self.c.node = node
        return _converter(node)(self.c, *args, **kwargs)

    def _folded(self, node: Node, args: Any, kwargs: Any) -> Any:
        """The result of a node that depends on constants alone; None if it is not for now."""
        import torch

        target = node.target
        if not isinstance(target, torch._ops.OpOverload) or target._schema.is_mutable:
            return None
        if torch.Tag.nondeterministic_seeded in target.tags:
            return None
        example = node.meta.get("val")
        some = example if isinstance(example, (tuple, list)) else [example]
        if any(
            not isinstance(e, torch.Tensor)
            or e.device.type != "cpu"
            or not is_known(e)
            or (e.numel() > _LARGEST_FOLDED and e.numel() > _inputs_size(args))
            for e in some
        ):
            return None
        try:
            plain = target(*_plain(args), **_plain(kwargs))
        except Exception as e:  # of any kind: the network computes it then
            left_alone(f"evaluating {target} of constants", e)
            return None
        if not node.args and not isinstance(plain, torch.Tensor):
            return None
        return tuple(plain) if isinstance(plain, (tuple, list)) else plain

    def _stay(self, node: Node, reason: str, ranged: bool) -> None:
        """Leave a node out: its results are inputs of the network."""
        import torch

        self.stays.append(Stays(node, reason, ranged))
        example = node.meta.get("val")
        if isinstance(example, (tuple, list)):
            some = [
                self._outside(f"{node.name}_{i}", e) if isinstance(e, torch.Tensor) else e
                for i, e in enumerate(example)
            ]
            self.env[node] = tuple(some)
        elif isinstance(example, torch.Tensor):
            self.env[node] = self._outside(str(node.name), example)
        else:
            self.env[node] = Unsupported("it reads a number that is computed")

    def _outside(self, name: str, example: torch.Tensor) -> Any:
        reason = _unfit(example)
        if reason is not None:
            return Unsupported(reason)
        return self._input(name, example, tuple(range(example.ndim)))

    # ------------------------------------------------------------ outputs

    def _finish(self, results: Any) -> Translation:
        names: list[str] = []
        several = isinstance(results, (list, tuple))
        outputs = [self._output(r, names) for r in (results if several else [results])]
        network = self.b.finish(names) if names else None
        sizes: list[str] = []
        if network is not None and self.sizes is not None:
            sizes = sorted({self.sizes.named(s) for s in unbound(network)})
            for number, name in enumerate(sizes, len(self.placeholders)):
                self.b.input(self.b._unique(name), [self.sizes.of(name)], "int8")
                self.feeds.append(number)
                self.fed_orders.append((0,))
            network = self.b.finish(names)
        return Translation(
            network,
            tuple(self.stays),
            tuple(self.feeds),
            tuple(sizes),
            tuple(self.fed_orders),
            tuple(outputs),
            {n: self.env[n] for n in self.constant},
        )

    def _output(self, node: Any, names: list[str]) -> Any:
        import torch

        if not isinstance(node, torch.fx.Node):
            return node
        if node.op == "placeholder":
            return Passed(self.placeholders.index(node))
        x = self.env[node]
        if not isinstance(x, Value):
            return x
        order = memory_order(node.meta["val"])
        name = str(self.c.transpose(x, order))
        if name not in names:
            names.append(name)
        return Computed(names.index(name), order)


def _is_undecided(e: BaseException | None) -> bool:
    return e is not None and (isinstance(e, Undecided) or _is_undecided(e.__cause__))


def memory_order(tensor: torch.Tensor) -> tuple[int, ...]:
    """The dimensions from the outermost in memory to the innermost.

    They are in order where a tensor has gaps or overlaps itself: it is copied then.
    """
    plain = tuple(range(tensor.ndim))
    strides, extents = hints(tensor.stride()), hints(tensor.shape)
    dense = in_order(extents, plain, 0)
    if 0 in extents or all(extents[d] == 1 or strides[d] == dense[d] for d in plain):
        return plain
    order = tuple(sorted(plain, key=lambda d: (-strides[d], extents[d] == 1 and strides[d] == 1)))
    dense = in_order(extents, order, 0)
    return plain if any(extents[d] != 1 and strides[d] != dense[d] for d in plain) else order


def _converter(node: Node) -> Converter:
    target = node.target
    space = getattr(target, "namespace", "")
    name = getattr(target, "__name__", str(target))
    own = space in ("aten", "prims")
    base = name.split(".")[0] if own else f"{space}.{name.split('.')[0]}"
    key = name if name in CONVERTERS else base
    if key not in CONVERTERS and not own:
        raise Unsupported("an operator that is not PyTorch's own" if space else name)
    if key not in CONVERTERS:
        raise Unsupported("no such operator here")
    return CONVERTERS[key]


def _unfit(example: torch.Tensor) -> str | None:
    """Why a tensor cannot be an input of a network; None if it can."""
    if dtype_name(example.dtype) is None:
        return f"element type {example.dtype}"
    if example.device.type != "cpu":
        return f"a tensor on device {example.device}"
    if example.layout.__repr__() != "torch.strided":
        return f"layout {example.layout}"
    if is_known(example) and example.numel() > MAX_ELEMENTS:
        return f"a tensor of {example.numel()} elements"
    return None


def _attribute(gm: GraphModule, path: str) -> Any:
    value: Any = gm
    for part in path.split("."):
        value = getattr(value, part)
    return value


def _inputs_size(args: Any) -> int:
    return max((int(a.numel()) for a in args if hasattr(a, "numel")), default=0)


def _replaced(x: Any, env: Mapping[Node, Any]) -> Any:
    """Arguments with every node replaced by what it means."""
    import torch

    if isinstance(x, torch.fx.Node):
        return env[x]
    if isinstance(x, (list, tuple)):
        return [_replaced(y, env) for y in x]
    if isinstance(x, dict):
        return {k: _replaced(y, env) for k, y in x.items()}
    return x


def _plain(x: Any) -> Any:
    """The same, as PyTorch's operators take it."""
    if isinstance(x, dict):
        return {k: _plain(y) for k, y in x.items()}
    return x
