"""Values that a run may leave without elements: what may read them."""

from __future__ import annotations

from tilework.errors import NetworkError
from tilework.graph.ir import Network
from tilework.index.extents import Extent
from tilework.index.symbols import Symbolic, range_of, symbols_of

_LENGTHEN = ("append_rows", "concat")


def require_elements(net: Network) -> None:
    """Refuse a network in which anything but what lengthens a past reads what may be empty.

    An empty past in front of new positions is a shape like others. Loops over no elements, and
    sums of none, are not: kernels have at least one.

    Raises:
        NetworkError: the message names the value and the symbol.
    """
    for name in net.outputs:
        if 0 in (shape := net.types[name].shape) and name in net.producer:
            raise NetworkError(f"the output '{name}' has no elements: its shape is {list(shape)}")
    for node in net.nodes:
        read = () if node.op in _LENGTHEN else node.inputs
        for value in (*read, node.name):
            for d, n in enumerate(net.types[value].shape):
                if isinstance(n, Symbolic) and range_of(n)[0] <= 0:
                    raise NetworkError(_may_be_empty(net, value, d, n, node.op))


def _may_be_empty(net: Network, value: str, d: int, n: Extent, op: str) -> str:
    what = f"input '{value}'" if value in net.inputs else f"'{value}'"
    names = [s.name for s in symbols_of([n])]
    return (
        f"{what} has extent {n} in dimension {d}, which may be 0; begin the range of "
        f"{' or '.join(names)} at 1, and compile the network without elements there by itself, "
        f"with --shape {names[0]}=0: only a concatenation takes both, and {op} is none"
    )
