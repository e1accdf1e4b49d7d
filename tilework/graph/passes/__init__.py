"""Passes: each takes a network and returns an equivalent one that is easier to run fast.

    move_quantised      quantised numbers are moved as bytes
    integer_products    products of dequantised bytes -> products of bytes, scaled once
    multiply_packed     products of matrices of few bits -> products that unpack them
    multiply_bytes      products of matrices of 8 bits and floats -> products that convert them
    simplify_inference  batch norm -> multiply + add; constants on the right, at full rank
    recognize           layer norm, softmax, gelu, swish written out -> one operator each
    fold_constants      operators of constants -> constants
    simplify_algebra    operators that change nothing, or only continue others -> none
    simplify_positions  what is done to numbers in a row -> numbers in a row
    merge_equal         what is computed twice -> once
    fold_pads           padding -> the following convolution or pooling
    find_groups         norms of channels that were reshaped into groups -> group norms
    find_shuffles       channel shuffles, written as reshapes and a transpose -> one operator
    sink_transposes     transposes move behind operators that do not mind them
    convert_layout      NCHW -> NHWC for the whole network
    split_blocks        depth to space, tiling and the like -> reshapes and one move of data
    merge_views         chains of reshapes and transposes -> one, or none
    slice_weights       parts of a dense layer's result -> dense layers of parts of its weights
    fold_transposes     transposes around products -> products that read and write in that order
    pull_factors        products of scaled operands -> scaled products
    fold_repeats        products of what is repeated for several heads -> products of it by groups
    find_gathered       products with gathered matrices -> ones that may read them in place
    sink_reshapes       reshapes move behind elementwise operators
    delay_transposes    transposes do, too, once reshapes have
    fold_scale_back     convolution * s -> convolution with scaled output channels
    fold_scale_forward  (x * s) -> convolution => x -> convolution with scaled input channels
    merge_constants     (x + a) + b -> x + (a + b)
    split_phases        transposed convolutions -> convolutions by phases
    merge_parallel      convolutions that share an input, and are narrow or joined again -> one
    split_groups        convolutions of channel groups -> ones with a dimension of groups
    split_joins         concatenations of very many values -> concatenations of concatenations
    settle_scales       what quantised numbers need of constants is computed

Nodes and constants that nobody needs disappear in every pass (`Builder.finish`). `optimize` runs
them in the order of `PASSES`. Fusion is not a pass but a partition: `fuse`.
"""

from __future__ import annotations

from collections.abc import Callable

from tilework.errors import NetworkError
from tilework.graph.failures import left_alone
from tilework.graph.ir import Network, Node
from tilework.graph.operators import OPERATORS
from tilework.graph.passes.convert_layout import convert_layout
from tilework.graph.passes.find_gathered import find_gathered
from tilework.graph.passes.find_groups import find_groups
from tilework.graph.passes.find_shuffles import find_shuffles
from tilework.graph.passes.fold_constants import fold_constants
from tilework.graph.passes.fold_pads import fold_pads
from tilework.graph.passes.fold_repeats import fold_repeats
from tilework.graph.passes.fold_scale_back import fold_scale_back
from tilework.graph.passes.fold_scale_forward import fold_scale_forward
from tilework.graph.passes.fold_transposes import delay_transposes, fold_transposes
from tilework.graph.passes.integer_products import integer_products
from tilework.graph.passes.merge_constants import merge_constants
from tilework.graph.passes.merge_equal import merge_equal
from tilework.graph.passes.merge_parallel import merge_parallel
from tilework.graph.passes.merge_views import merge_views
from tilework.graph.passes.move_quantised import move_quantised
from tilework.graph.passes.multiply_bytes import multiply_bytes
from tilework.graph.passes.multiply_packed import multiply_packed
from tilework.graph.passes.pull_factors import pull_factors
from tilework.graph.passes.recognize import recognize
from tilework.graph.passes.settle_scales import settle_scales
from tilework.graph.passes.simplify_algebra import simplify_algebra
from tilework.graph.passes.simplify_inference import simplify_inference
from tilework.graph.passes.simplify_positions import simplify_positions
from tilework.graph.passes.sink_reshapes import sink_reshapes
from tilework.graph.passes.sink_transposes import sink_transposes
from tilework.graph.passes.slice_weights import slice_weights
from tilework.graph.passes.split_blocks import split_blocks
from tilework.graph.passes.split_groups import split_groups
from tilework.graph.passes.split_joins import split_joins
from tilework.graph.passes.split_phases import split_phases

Pass = Callable[[Network], Network]

PASSES: tuple[Pass, ...] = (
    move_quantised,
    integer_products,
    multiply_packed,
    multiply_bytes,
    simplify_inference,
    recognize,
    fold_constants,
    simplify_algebra,
    simplify_positions,
    merge_equal,
    fold_pads,
    merge_views,
    find_groups,
    find_shuffles,
    sink_transposes,
    merge_views,
    convert_layout,
    split_blocks,
    merge_views,
    slice_weights,
    merge_views,
    fold_transposes,
    pull_factors,
    fold_repeats,
    find_gathered,
    sink_reshapes,
    delay_transposes,
    merge_views,
    simplify_algebra,
    fold_scale_back,
    fold_scale_forward,
    merge_constants,
    split_phases,
    merge_equal,
    merge_parallel,
    split_groups,
    sink_reshapes,
    simplify_algebra,
    split_joins,
    merge_views,
    settle_scales,
)


# what has no computation of its own until a pass has replaced it
_REPLACED: dict[Pass, Callable[[Node], bool]] = {
    simplify_inference: lambda n: n.op == "batch_norm",
    convert_layout: lambda n: str(n.attrs.get("layout", "")).startswith("NC"),
    split_blocks: lambda n: OPERATORS[n.op].declare is None and n.op != "reshape",
    split_phases: lambda n: n.op.startswith("conv_transpose"),
    split_groups: lambda n: n.attrs.get("groups", 1) > 1,
}


def optimize(
    net: Network, passed: Callable[[str, Network, Network], None] = lambda *_: None
) -> Network:
    """Run all passes.

    A pass that fails, or whose network has other inputs or outputs than before, is left out.

    Args:
        net: the network.
        passed: hears of each pass: its name, the network before it, and the one after it.

    Raises:
        NetworkError: a pass that must not be left out cannot rewrite the network; the message
            names it.
    """
    for run in PASSES:
        try:
            new = run(net)
            _check(net, new)
        except Exception as e:  # a rule that has not thought of such a network
            if run in _REPLACED and any(_REPLACED[run](n) for n in net.nodes):
                raise NetworkError(
                    f"the pass {run.__name__} cannot rewrite the network '{net.name}': "
                    f"{type(e).__name__}: {e}; report it with the network (net.to_onnx writes it)"
                ) from e
            left_alone(f"the pass {run.__name__} on the network '{net.name}'", e)
        else:
            passed(run.__name__, net, new)
            net = new
    return net


def _check(old: Network, new: Network) -> None:
    """Check that a network takes and returns what the one before it did.

    Raises:
        NetworkError: it does not.
    """
    if dict(old.inputs) != dict(new.inputs):
        raise NetworkError("the inputs have changed")
    if [old.types[v] for v in old.outputs] != [new.types[v] for v in new.outputs]:
        raise NetworkError("the types of the outputs have changed")


__all__ = [
    "PASSES", "Pass", "convert_layout", "delay_transposes", "find_gathered", "find_groups",
    "find_shuffles", "fold_constants", "fold_pads", "fold_repeats", "fold_scale_back",
    "fold_scale_forward", "fold_transposes", "integer_products", "merge_constants",
    "merge_equal", "merge_parallel", "merge_views", "move_quantised", "multiply_bytes",
    "multiply_packed", "optimize", "pull_factors", "recognize", "settle_scales",
    "simplify_algebra", "simplify_inference", "simplify_positions", "sink_reshapes",
    "sink_transposes", "slice_weights", "split_blocks", "split_groups", "split_joins",
    "split_phases",
]  # fmt: skip
