"""Which network is meant, for which machine; loading it by name or file."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tilework import dtypes
from tilework.errors import NetworkError

if TYPE_CHECKING:
    import numpy as np

    from tilework.graph import Network, Parts
    from tilework.graph.onnx.files import ReadModel
    from tilework.graph.onnx.ranges import Given
    from tilework.target import Target

Precision = Literal[dtypes.Precision, "int8", "int4"]
"""Of a network. The engine's own say how values are stored; few bits are in the network itself."""
FEW_BITS = ("int8", "int4")
"""Those that ONNX Runtime's quantiser makes."""


@dataclass(frozen=True)
class NetworkSpec:
    """Which network, and in which form: what `extract` needs to find it.

    Attributes:
        network: a built-in network's name, or an ONNX file.
        batch, layout: of a built-in network.
        precision: of weights and of values between kernels; ``int8``: quantised by what samples
            show; ``int4``: weights of matrix products alone, in blocks.
        calibrate: an .npz file of samples for ``int8`` and ``int4``; empty for random ones.
        shapes: texts such as ``"input=1,3,224,224"``, ``"batch=4"`` or ``"seq=1..512"`` for an
            ONNX file; see `parse_shapes`.
        sparse: give it block-sparse weights.
        strict: refuse an ONNX file of which another engine would have to run a part.
        values: texts such as ``"use_cache_branch=1"`` for inputs of an ONNX file that become
            constants; see `parse_values`.
    """

    network: str
    batch: int = 1
    layout: str = "NHWC"
    precision: Precision = "f32"
    shapes: tuple[str, ...] = ()
    sparse: Sparse | None = None
    strict: bool = False
    calibrate: str = ""
    values: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """A short name for file names and records."""
        return network_label(self.network, self.sparse)

    @property
    def source(self) -> str:
        """The ONNX file that has this network as it is; empty if there is none."""
        as_it_is = self.sparse is None and self.precision not in FEW_BITS
        return self.network if is_onnx(self.network) and as_it_is else ""


def target_of(text: str, threads: int | None) -> Target:
    """The target that ``--target`` and ``--threads`` name together.

    Raises:
        TargetError: the text does not name a supported machine.
    """
    from tilework.target import Target

    target = Target(text)
    return target if threads is None else target.with_cores(threads)


def is_onnx(network: str) -> bool:
    """Whether the argument NET means a file, not a built-in network."""
    return network.endswith(".onnx") or "/" in network


def network_label(network: str, sparse: Sparse | None = None) -> str:
    """A short name for file names and records: ``models/Net.onnx`` gives ``Net``."""
    label = Path(network).stem if is_onnx(network) else network
    return label if sparse is None else f"{label}-sparse"


@dataclass(frozen=True)
class Sparse:
    """How weights become block-sparse: see `tilework.sparsify`.

    Attributes:
        sparsity: share of the blocks to prune; None for a network's own zeros.
        block: rows and columns of a block.
    """

    sparsity: float | None
    block: tuple[int, int]

    @property
    def identity(self) -> str:
        """A word that tells networks apart, ``0.85-16x1``."""
        share = "own" if self.sparsity is None else f"{self.sparsity:g}"
        return f"{share}-{self.block[0]}x{self.block[1]}"


def parse_sparse(sparse: str, block: str = "") -> Sparse | None:
    """What ``--sparse`` and ``--block`` ask for; None without ``--sparse``.

    Raises:
        NetworkError: a text has another form.
    """
    if not sparse:
        if block:
            raise NetworkError(f"--block {block}: it belongs to --sparse, which is missing")
        return None
    sizes = (block or "16x1").lower().split("x")
    if len(sizes) != 2 or not all(n.isdecimal() and int(n) for n in sizes):
        raise NetworkError(f"--block {block}: write ROWSxCOLUMNS, such as 16x1")
    try:
        share = None if sparse == "own" else float(sparse)
    except ValueError:
        raise NetworkError(f"--sparse {sparse}: write a share such as 0.85, or own") from None
    return Sparse(share, (int(sizes[0]), int(sizes[1])))


def load_network(
    network: str,
    batch: int = 1,
    layout: str = "NHWC",
    shapes: Sequence[str] = (),
    sparse: Sparse | None = None,
    strict: bool = False,
    content: ReadModel | None = None,
    values: Sequence[str] = (),
) -> Network | Parts:
    """Load a built-in network or an ONNX file; one that cannot be compiled whole comes in parts.

    Args:
        network: a name or a path.
        batch, layout: of a built-in network.
        shapes: texts such as ``"input=1,3,224,224"``, ``"batch=4"`` or ``"seq=1..512"`` for an
            ONNX file; see `parse_shapes`.
        sparse: give it block-sparse weights.
        strict: refuse an ONNX file of which another engine would have to run a part.
        content: of the ONNX file, if it was read already.
        values: texts such as ``"use_cache_branch=1"`` for an ONNX file; see `parse_values`.

    Raises:
        NetworkError: the name is unknown, or the file is missing, corrupt or unsupported; or no
            layer can be sparse.
    """
    import tilework as tw
    from tilework.graph import Parts

    if sparse is not None:
        dense = load_network(network, batch, layout, shapes, None, strict, content, values)
        if isinstance(dense, Parts):
            raise NetworkError(
                f"{network}: --sparse is for networks that run whole; {left_of(dense)}"
            )
        return tw.sparsify(dense, sparse.sparsity, sparse.block)

    if not is_onnx(network):
        if shapes or values:
            option = "--shape" if shapes else "--value"
            raise NetworkError(
                f"{network}: {option} is for ONNX files; a built-in network takes --batch"
            )
        return tw.zoo.get(network, batch=batch, layout=layout)
    if batch != 1:
        raise NetworkError(
            f"{network}: --batch is for built-in networks; an ONNX file brings its own batch "
            "size, or takes --shape"
        )
    source = network if content is None else content
    return tw.from_onnx(source, parse_shapes(shapes), parse_values(values), strict)


def left_of(net: Network | Parts) -> str:
    """What another engine runs of a network, in one line; empty if nothing."""
    from tilework.graph import Parts

    return net.left.text if isinstance(net, Parts) else ""


def write_onnx(net: Network | Parts, path: str) -> None:
    """Write a network as an ONNX file; the large constants of one in parts lie beside it.

    Raises:
        NetworkError: it cannot be written, or an operator has no ONNX form.
    """
    from tilework.graph import Parts
    from tilework.runtime.folder import write_model

    if not isinstance(net, Parts):
        net.to_onnx(path)
        return
    try:
        write_model(net.whole(()), Path(path))
    except OSError as e:
        raise NetworkError(f"cannot write the ONNX file '{path}': {e.strerror or e}") from e


def parse_shapes(texts: Sequence[str]) -> dict[str, Given]:
    """Shapes and symbols by name from texts.

    ``"input=1,3,224,224"`` is a shape, ``"batch=4"`` a symbol's extent, ``"seq=1..512:16,64"`` its
    range and typical values, and ``"input=batch,seq"`` a shape of symbols that have a range.

    Raises:
        NetworkError: a text has another form, or a name comes twice.
    """
    shapes: dict[str, Given] = {}
    for text in texts:
        name, _, extents = text.rpartition("=")
        parts = [n.strip() for n in extents.split(",")]
        if re.fullmatch(r"[\d ,x]+", extents):
            parts = [n.strip() for n in extents.replace("x", ",").split(",")]
        known = ".." in extents or all(n.isdecimal() or re.search(r"[^\W\d]", n) for n in parts)
        if not name or not known:
            raise NetworkError(
                f"--shape {text}: write NAME=1,3,224,224, or SYMBOL=4, or SYMBOL=1..512:16,64"
            )
        if name in shapes:
            raise NetworkError(f"--shape {text}: '{name}' is given twice")
        plain = tuple(int(n) if n.isdecimal() else n for n in parts)
        single = len(plain) == 1 and isinstance(plain[0], str)
        shapes[name] = extents.strip() if ".." in extents or single else plain
    return shapes


def parse_values(texts: Sequence[str]) -> dict[str, Any]:
    """Values of inputs by name from texts: ``"sr=16000"``, ``"cached=true"``, ``"sizes=1,2"``.

    Raises:
        NetworkError: a text has another form, or a name comes twice.
    """
    values: dict[str, Any] = {}
    for text in texts:
        name, _, rest = text.partition("=")
        try:
            numbers = [json.loads(word) for word in rest.split(",")]
        except ValueError:
            numbers = [None]
        if not name or not all(isinstance(n, int | float) for n in numbers):
            raise NetworkError(f"--value {text}: write NAME=1, NAME=true, or NAME=1,2,3")
        if name in values:
            raise NetworkError(f"--value {text}: '{name}' is given twice")
        values[name] = numbers if "," in rest else numbers[0]
    return values


def given_values(spec: NetworkSpec) -> dict[str, np.ndarray]:
    """The inputs of an ONNX file that are constants of a network, as runs of the file take them.

    Raises:
        NetworkError: the file does not allow a value.
    """
    if not spec.values:
        return {}
    from tilework.graph.onnx.importer import opened
    from tilework.graph.onnx.inputs import as_declared

    model, *_ = opened(spec.network)
    values = parse_values(spec.values)
    return {i.name: as_declared(i, values[i.name]) for i in model.graph.input if i.name in values}


ANY = "any"
"""Stands for ranges of all symbols of which nothing else is said."""


def ranges_for_any(
    network: str, texts: Sequence[str], values: Sequence[str] = ()
) -> tuple[str, ...]:
    """What ``--shape`` was given, with ranges in the place of ``any``.

    Raises:
        NetworkError: the file cannot be read, or differs from run to run however narrow ranges
            are; or it is no ONNX file.
    """
    given = tuple(text for text in texts if text != ANY)
    if len(given) == len(texts):
        return given
    if not is_onnx(network):
        raise NetworkError(f"--shape any is for ONNX files, not for '{network}'")
    from tilework.graph.onnx.usual import usual_ranges

    names = parse_shapes(given)
    usual = usual_ranges(Path(network), parse_values(values), names).items()
    text = {n: what if isinstance(what, str) else ",".join(map(str, what)) for n, what in usual}
    return (*given, *(f"{name}={what}" for name, what in text.items() if name not in names))


def fingerprint(
    network: str, batch: int, layout: str, shapes: Sequence[str] = (), values: Sequence[str] = ()
) -> str:
    """Identity of a network's content: the file's hash, or name and shape of a built-in one."""
    if not is_onnx(network):
        return f"{network}-b{batch}-{layout}"
    with open(network, "rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    for name, shape in sorted(parse_shapes(shapes).items()):
        digest.update(f"{name}={shape}".encode())
    for name, value in sorted(parse_values(values).items()):
        digest.update(f"{name}={value}".encode())
    return digest.hexdigest()[:16]
