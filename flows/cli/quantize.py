"""``tilework quantize``: a network of 8 or 4 bits from one of float32."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from flows.cli import options
from flows.cli.form import NetworkForm
from flows.cli.output import console, print_json
from flows.numbers import plural, size

if TYPE_CHECKING:
    from tasks.quantise import Quantised
    from tasks.weights_quantiser import WeightsOnly


def quantize(
    network: options.Network,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The file to write; default: NET.int8.onnx here, or NET.int4.onnx.",
        ),
    ] = None,
    calibrate: Annotated[
        str,
        typer.Option(
            "--calibrate",
            metavar="FILE.npz",
            help="Samples of the inputs: an array for each, by name, in numpy.savez's form. "
            "Default: a few random ones, which say nothing of real data.",
        ),
    ] = "",
    scheme: Annotated[
        Literal["static", "dynamic"],
        typer.Option(
            "--scheme",
            help="static: ranges of data as on the samples. dynamic: computed in each run, in "
            "front of matrix products.",
        ),
    ] = "static",
    method: Annotated[
        Literal["minmax", "entropy", "percentile"],
        typer.Option("--method", help="How ranges follow from the samples."),
    ] = "minmax",
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", metavar="NODE", help="A node that stays in float32; repeatable."),
    ] = None,
    reduce_range: Annotated[
        bool,
        typer.Option(
            "--reduce-range",
            help="Weights use 7 of their 8 bits: about half the time on x86 CPUs without VNNI, "
            "and a little more error.",
        ),
    ] = False,
    weights: Annotated[
        Literal["int4", "int8"] | None,
        typer.Option(
            "--weights",
            help="Weights of matrix products alone get so few bits, packed in blocks; data stay "
            "float. For decoders of language models.",
        ),
    ] = None,
    block: Annotated[
        int,
        typer.Option(
            "--block", help="Of --weights: neighbours of a scale, a power of two from 16 on."
        ),
    ] = 32,
    zeros: Annotated[
        bool,
        typer.Option("--zeros", help="Of --weights: each block has a zero point, too."),
    ] = False,
    level: Annotated[
        int,
        typer.Option(
            "--level",
            help="Of --weights, the products' accuracy_level: at 4 data are rounded to 8 bits on "
            "the way, which is faster; below they are not.",
        ),
    ] = 4,
    batch: options.Batch = 1,
    layout: options.Layout = "NHWC",
    shape: options.Shapes = None,
    json: options.Json = False,
) -> None:
    """Make a network of 8 or 4 bits from NET by ONNX Runtime's quantiser, and say what it lost.

    Both networks run on the samples: NET in float32, by ONNX Runtime, and the new one here. How
    far they are apart is printed; whether that is too far, only you can say.

    [bold]Examples[/]

      tilework quantize model.onnx --calibrate images.npz

      tilework quantize bert.onnx --scheme dynamic --shape batch=1 --shape seq=1..512

      tilework quantize decoder.onnx --weights int4 --block 32

      tilework tune model.int8.onnx
    """
    from tasks.network import network_label
    from tasks.quantise import quantise
    from tasks.quantiser import QuantiseRequest
    from tilework.target import Target

    place = output or f"{network_label(network)}.{weights or 'int8'}.onnx"
    packed = _packed(weights, block, zeros, level, (scheme, method), reduce_range)
    quantised = quantise(
        QuantiseRequest(
            network, place, calibrate, scheme, method, tuple(keep or ()), batch, layout,
            NetworkForm(shape=shape).settings(network)["shapes"], packed, reduce_range,
        )
    )  # fmt: skip
    if json:
        print_json(quantised)
        return
    for line in _lines(quantised, calibrate, scheme, packed):
        console().print(line, markup=False)
    if packed is None and not reduce_range and Target().bounds_weights:
        console().print(_REDUCE, markup=False)


_REDUCE = (
    "This CPU has no VNNI: networks of 8 bits take about half the time here where weights use 7 "
    "of them (--reduce-range)"
)


def _packed(
    weights: str | None,
    block: int,
    zeros: bool,
    level: int,
    ranges: tuple[str, str],
    reduce_range: bool,
) -> WeightsOnly | None:
    """What ``--weights`` and its options say."""
    from tasks.weights_quantiser import WeightsOnly
    from tilework.errors import NetworkError

    given = WeightsOnly(4, block, zeros, level)
    if weights is None:
        if given != WeightsOnly(4):
            raise NetworkError("--block, --zeros and --level belong to --weights int4 or int8")
        return None
    if ranges != ("static", "minmax"):
        raise NetworkError("--scheme and --method are of data, which --weights leaves in float")
    if reduce_range:
        raise NetworkError("--reduce-range is of products of bytes, and --weights makes none")
    return replace(given, bits=int(weights.removeprefix("int")))


def _lines(
    quantised: Quantised, calibrate: str, scheme: str, packed: WeightsOnly | None
) -> list[str]:
    """What is printed: the file, what is in few bits, and the loss."""
    kind = "random sample" if quantised.random else "sample"
    of = "" if quantised.random else f" of {calibrate}"
    seen = f"seen on {quantised.samples} {kind}{plural(quantised.samples)}{of}"
    ranges = "computed in each run" if scheme == "dynamic" else seen
    of_all = f"{quantised.narrow} of {quantised.products} convolutions and products"
    first = f"{of_all} in 8 bits; ranges {ranges}"
    if packed is not None:
        points = ", with zero points" if packed.zeros else ""
        first = f"{of_all} with weights of {packed.bits} bits, blocks of {packed.block}{points}"
    lines = [
        first,
        str(quantised.loss),
        f"Network: {quantised.output}, {size(quantised.after)} (before: {size(quantised.before)})",
    ]
    if quantised.random:
        lines.append("Random samples are unlike real data: --calibrate takes some of yours")
    return lines
