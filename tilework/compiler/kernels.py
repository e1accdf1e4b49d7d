"""Kernels and choices that are kept on disk, for the next model, shape or process.

A kernel follows from its task, its schedule, the strides of its arguments, what compiles our text
(`tilework.lower.protocol.Builder.compiler`), and what Tilework itself is; an untuned choice, from
the task and what the draft model knows of the machine. These are the keys, so that nothing is ever
out of date: what has changed has another key. No weights are in it, and nothing of a network.

    an entry: SHA-256 of its key and the rest; JSON of a `Document`; its pieces of code
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tilework.deferred import Deferred, Helpers
from tilework.frozen import frozen
from tilework.index.documents import Symbols, extent_document, table_document
from tilework.index.extents import Extent
from tilework.index.strides import Strides
from tilework.kept import (
    KeptFiles,
    allowed_bytes,
    default_folder,
    keeps,
    key_of,
    shared_folder,
    with_digest,
    without_digest,
)
from tilework.lower.kernel import Kernel, KernelArg
from tilework.lower.protocol import Builder, builder_of
from tilework.model.choice import Choice
from tilework.model.draft import draft_of
from tilework.record import History, Stated
from tilework.revision import code_version
from tilework.runtime.manifest import from_json, to_json
from tilework.space.winograd.weights import WeightTransform
from tilework.target import Target
from tilework.task import SearchTask

FOLDER = "kernels"
_SHARE = 32
"""Kernels have so much of what `tilework.kept.allowed_bytes` says, beside it: some 30,000."""
_KERNEL, _COMMON = ".kernel", ".common"

Cache = str | os.PathLike[str] | bool | None
"""A folder to keep kernels in; None or True: the default one; False: none."""


def kernel_files(cache: Cache = None) -> KeptFiles | None:
    """Where kernels are kept: in ``kernels`` of a cache's folder.

    Raises:
        TileworkError: the limit in the environment is no positive whole number.
    """
    limit, kinds = max(allowed_bytes() // _SHARE, 1), (_KERNEL, _COMMON)
    if isinstance(cache, str | os.PathLike):
        return KeptFiles(Path(cache).expanduser() / FOLDER, limit, "kernels", kinds)
    if cache is False or not keeps():
        return None
    folder, shared = default_folder(FOLDER), shared_folder(FOLDER)
    return KeptFiles(folder, limit, "kernels", kinds, shared)


@frozen
class Document:
    """A `tilework.lower.kernel.Kernel` without its code: of pieces, names and sizes."""

    symbol: str
    pieces: tuple[tuple[str, int], ...]
    code_hash: str
    args: tuple[KernelArg, ...]
    shared_workspace: Extent
    thread_workspace: Extent
    facts: tuple[tuple[str, float], ...]
    unfit: str
    outlook: float
    overwritable: tuple[int, ...]


@frozen
class _Chosen:
    """A choice as it is kept; None: there is none."""

    choice: Choice | None


class Kernels:
    """Kernels and choices of one compile: those that are kept, and those that are made.

    Args:
        target: what the kernels are for.
        files: where they are kept; None: nowhere.
    """

    def __init__(self, target: Target, files: KeptFiles | None = None) -> None:
        self._builder: Builder = builder_of(target)
        self._compiler = "" if files is None else self._builder.compiler(target)
        self._code = "" if files is None else code_version()
        self._files = files if self._compiler else None
        self._target = target
        self._common: tuple[str, Deferred[bytes]] | None = None
        self._kept: dict[str, Kernel] = {}
        self._new: dict[str, Kernel] = {}
        self._chosen: dict[str, _Chosen] = {}
        self._states: dict[int, str | None] = {}

    def kernel(
        self,
        task: SearchTask,
        choice: Choice,
        strides: Mapping[int, Strides] | None,
        helpers: Helpers,
    ) -> Kernel:
        """A kernel, whose code may be still being made; see `Builder.build`."""
        key, kept = ("", None) if self._files is None else self._find(task, choice, strides)
        if kept is not None:
            return kept
        kernel = self._builder.build(task, choice.sketch_id, choice.row, strides, helpers)
        if choice.small is not None:
            number, row, extent, most = choice.small
            small = kernel
            if not _alone(task, choice):
                small = self._builder.build(task, number, row, strides, helpers)
            around = extent, most, task.target
            kernel = self._builder.handed_over(small, kernel, *around, helpers)
        if self._files is not None:
            self._new[key] = kernel
        return kernel

    def common(self, helpers: Helpers) -> None:
        """Have what the process needs beside kernels, from disk or made by ``helpers``."""
        common = self._builder.common(self._target)
        if common is None:
            return
        if self._files is None:
            code = Deferred(common.make)
            common.take(code)
            helpers.start(code)
            return
        name = ("common", self._code, self._compiler, common.follows_from)
        key = key_of(*name)

        def read(path: Path) -> bytes:
            return common.check(without_digest(path.read_bytes(), key))

        kept = self._files.read(key, _COMMON, read)
        code = Deferred(common.make if kept is None else lambda: kept)
        common.take(code)
        if kept is None:
            helpers.start(code)
            self._common = key, code

    def transforms(self, task: SearchTask, choice: Choice) -> Mapping[str, WeightTransform]:
        """What a schedule does to weights before they are packed, by name of the task's input.

        A kernel that is kept says so without the task's space.
        """
        kept = None if self._files is None else self._find(task, choice, None)[1]
        if kept is None:
            from tilework.space import SearchSpace

            return SearchSpace.of(task).sketch(choice.sketch_id).transforms
        packed = (
            (t.name, a.packing) for t, a in zip(task.compute_dag.inputs, kept.args, strict=False)
        )
        return {name: p.transform for name, p in packed if p is not None and p.transform}

    def choice(
        self, what: str, task: SearchTask, parts: Sequence[Any], find: Callable[[], Choice | None]
    ) -> Choice | None:
        """A choice, found by ``find`` where it is not kept.

        Args:
            what, parts: a word and JSON values: what it follows from beside the task, what the
                draft model knows of the machine, and our own code.
        """
        if self._files is None:
            return find()
        machine = draft_of(task.target).machine(task.target)
        looked_at = table_document(task.compute_dag.symbols)
        key = self._key(what, task, [parts, sorted(machine.items()), looked_at])
        try:
            symbols = {s.name: s for s in task.compute_dag.symbols}
            kept = from_json(_Chosen, self._files.note(key), what, symbols)
        except ValueError:  # there is none, or it is no choice
            kept = _Chosen(find())
            self._chosen[key] = kept
        return kept.choice

    def state(self, history: History | None) -> str | None:
        """What a history says of itself, asked once: one compile sees one state of it."""
        if self._files is None or not isinstance(history, Stated):
            return None
        if id(history) not in self._states:
            self._states[id(history)] = history.state()
        return self._states[id(history)]

    def keep(self) -> None:
        """Keep what was made since the last time, once it is whole."""
        files = self._files
        if files is None:
            return
        if self._common is not None:
            key, code = self._common
            named = with_digest(code.result(), key)
            files.write(key, _COMMON, lambda out: out.write(named), prune=False)
            self._common = None
        for key, kernel in self._new.items():
            files.write(key, _KERNEL, partial(_write, key=key, kernel=kernel), prune=False)
        for key, chosen in self._chosen.items():
            files.put_note(key, to_json(chosen), prune=False)
        if self._new or self._chosen:
            files.prune()
        self._new.clear()
        self._chosen.clear()

    def _find(
        self, task: SearchTask, choice: Choice, strides: Mapping[int, Strides] | None
    ) -> tuple[str, Kernel | None]:
        """A kernel's key, and the kernel if it is kept."""
        own = [[i, [*map(extent_document, s)]] for i, s in sorted((strides or {}).items())]
        small = to_json(choice.small)
        key = self._key("kernel", task, [choice.sketch_id, choice.row, small, own])
        if self._files is not None and key not in self._kept and key not in self._new:
            symbols = {s.name: s for s in task.compute_dag.symbols}
            read = partial(_kernel, key=key, symbols=symbols)
            kernel = self._files.read(key, _KERNEL, read)
            if kernel is not None:
                self._kept[key] = kernel
        return key, self._kept.get(key)

    def _key(self, what: str, task: SearchTask, parts: Sequence[Any]) -> str:
        name = (what, self._code, self._compiler, str(task.target), task.workload_key)
        return key_of(*name, json.dumps(parts))


def _alone(task: SearchTask, choice: Choice) -> bool:
    """Whether the row for small extents is the other one with no loop in parallel."""
    from tilework.space import SearchSpace
    from tilework.space.decision import alone

    (number, large), (other, small) = choice.schedules
    if number != other:
        return False
    sketch = SearchSpace.of(task).sketch(number)
    return bool((alone(sketch.check(large), sketch.decisions) == sketch.check(small)).all())


def _write(out: Any, key: str, kernel: Kernel) -> None:
    pieces = kernel.objects
    document = Document(
        kernel.symbol,
        tuple((name, len(code)) for name, code in pieces),
        kernel.code_hash,
        kernel.args,
        kernel.shared_workspace,
        kernel.thread_workspace,
        tuple(kernel.facts.items()),
        kernel.unfit,
        kernel.outlook,
        tuple(sorted(kernel.overwritable)),
    )
    head = json.dumps(to_json(document)).encode()
    data = head + b"\n" + b"".join(code for _, code in pieces)
    out.write(with_digest(data, key))


def _kernel(path: Path, key: str, symbols: Symbols) -> Kernel:
    """The kernel in a file; its symbols are those of its task.

    Raises:
        OSError: it cannot be read.
        ValueError: it is damaged.
    """
    head, _, code = without_digest(path.read_bytes(), key).partition(b"\n")
    document = from_json(Document, json.loads(head), "kernel", symbols)
    pieces, at = [], 0
    for name, size in document.pieces:
        pieces.append((name, code[at : at + size]))
        at += size
    if at != len(code):
        raise ValueError("its pieces are not what it holds")
    return Kernel(
        document.symbol,
        tuple(pieces),
        document.code_hash,
        document.args,
        document.shared_workspace,
        document.thread_workspace,
        dict(document.facts),
        document.unfit,
        document.outlook,
        frozenset(document.overwritable),
    )
