"""A network in parts: networks of ours, and what another engine runs between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilework.frozen import frozen
from tilework.graph.ir import Network
from tilework.runtime.left import Left
from tilework.runtime.other import OtherModel
from tilework.runtime.parts_image import PartValue


@frozen(eq=False)
class OurPart:
    """A part that is compiled.

    Attributes:
        network: what it computes.
        inputs, outputs: the values of the whole that it reads and writes, in the network's order.
        other: the same as a model of the other engine, should it not compile.
    """

    network: Network
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    other: Callable[[], OtherModel]


@frozen(eq=False)
class TheirPart:
    """A part that the other engine runs."""

    model: OtherModel

    @property
    def inputs(self) -> tuple[str, ...]:
        """The values that it reads."""
        return self.model.inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """The values that it writes."""
        return self.model.outputs


@frozen(eq=False)
class Parts:
    """A network of which another engine runs some parts.

    Attributes:
        name: of the network.
        inputs: what a run takes, by name, in order.
        outputs: names of the values that it returns, in order.
        values: what parts hand over, by name, inputs and outputs of the network with it.
        parts: in the order in which they run.
        left: what the other engine runs.
        refused: why it is not ours, in one line.
        whole: all of it as one model of the other engine, with further values as outputs.
        notes: what became of parts that were to be ours.
        again: the same with nothing given away that we can convert, should the other engine lack
            it; None if nothing was given away.
    """

    name: str
    inputs: Mapping[str, PartValue]
    outputs: tuple[str, ...]
    values: Mapping[str, PartValue]
    parts: tuple[OurPart | TheirPart, ...]
    left: Left
    refused: str
    whole: Callable[[tuple[str, ...]], OtherModel]
    notes: tuple[str, ...] = ()
    again: Callable[[], Parts] | None = None

    @property
    def networks(self) -> tuple[Network, ...]:
        """Our parts."""
        return tuple(p.network for p in self.parts if isinstance(p, OurPart))


def networks_of(net: Network | Parts) -> tuple[Network, ...]:
    """What of a network is compiled."""
    return net.networks if isinstance(net, Parts) else (net,)
