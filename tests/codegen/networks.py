"""Tasks of networks whose generated code is pinned: of the zoo, of files, of recorded programs.

Those of the zoo and of files come through importer, passes and extraction, so that they also tell
when one of these makes another task of a layer; recorded ones are kept as computations.
"""

from __future__ import annotations

from pathlib import Path

import tilework as tw
from tests.codegen.case import TARGETS, Case
from tilework.graph import Network, extract_tasks, zoo
from tilework.task import rules_of
from tilework.te.serial import dag_from_json

_DATA = Path(__file__).parents[1] / "data"
_ZOO = {
    "resnet-18": (
        "conv2d+add+relu 1x56x56x64 k3 s2 -> 128",
        "conv2d+add+multiply+add+relu 1x7x7x512 k3 s1 -> 512",
        "dense+add 1x512 -> 1000",
    ),
    "mobilenet": (
        "conv2d+add+relu+conv2d+add+relu 1x56x56x128 k3 s1 g128 -> 128",
        "conv2d+add+relu 1x28x28x256 k3 s1 g256 -> 256",
        "conv2d+add+relu 1x28x28x128 k1 s1 -> 256",
    ),
    "mlp": ("dense+add+relu 1x784 -> 128",),
}
_FILES = {
    "transformer_opset23": (
        "take+add 50x32",
        "einsum+multiply+where 1x16x4x8",
        "dense+add+gelu 16x32 -> 64",
    ),
    "encoder_decoder_opset21": (
        "phase_conv2d+add 1x8x8x16",
        "group_norm+multiply+add+gelu 1x16x16x16",
        "resample+resample 1x16x16x16",
    ),
    "squeeze_excite_opset21": ("conv2d+add+hard_swish 1x16x16x24 k5 s1 g24 -> 24",),
}
_RECORDED = (
    "conv2d+add+relu 1x17x17x128 k1x7 s1 -> 192",
    "conv2d+add+add+relu 1x14x14x256 k3 s1 -> 256",
    "conv2d+add+relu 1x55x55x16 k1 s1 -> 64",
    "depthwise 14x14x512 k3 s1",
    "einsum 1x6x128x128",
    "max_pool2d 1x55x55x128 k3 s2",
    "dense+add+gelu 128x384 -> 1536",
    "normalize+multiply+add 1x128x384",
)


def of_zoo() -> list[Case]:
    """Tasks of the zoo."""
    return [case for name, some in _ZOO.items() for case in _tasks(name, zoo.get(name), some)]


def of_files() -> list[Case]:
    """Tasks of exported models."""
    folder = _DATA / "models"
    return [
        case
        for name, some in _FILES.items()
        for case in _tasks(name, tw.from_onnx(folder / f"{name}.onnx"), some)
    ]


def _tasks(network: str, net: Network, some: tuple[str, ...]) -> list[Case]:
    """The tasks of these descriptions; who is no longer there is missing from the table, too."""
    tasks, _ = extract_tasks(net, TARGETS["AVX-512, 2 threads"], include_simple_tasks=True)
    first = {t.desc: t for t in reversed(tasks)}
    return [Case(f"{network}: {n}", first[n].compute_dag) for n in some if n in first]


def recorded() -> list[Case]:
    """Workloads of the recorded dataset."""
    from storage import RecordStore  # with it comes pyarrow, which the engine's tests do not have

    store = RecordStore(_DATA / "replay")
    found = {(record.workload, record.workload_key) for record in store.read()}
    keys = dict(sorted(found, reverse=True))  # of one name the first key
    documents = {name: store.workload(keys[name]) for name in _RECORDED}
    return [
        Case(name, dag_from_json(document), rules_of(keys[name]))
        for name, document in documents.items()
        if document is not None
    ]
