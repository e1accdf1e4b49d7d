"""What a model's file says of itself: its content's digest, its inputs and outputs.

Reading these takes protobuf, which is slow to import, and the digest takes all bytes of the file.
So both are kept in the cache: the facts by the digest, and the digest by the files' sizes and
times.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilework.errors import NetworkError
from tilework.frozen import frozen
from tilework.kept import key_of
from tilework.runtime.content import Content, Untouched, let_go, read_content, unreadable
from tilework.session import ahead
from tilework.session.cache import ModuleCache
from tilework.stages import stage

if TYPE_CHECKING:
    import onnx

    from tilework.graph.onnx.files import ReadModel

_VERSION = "facts 4"
_SETTLED_NS = 2_000_000_000
"""A file that was written this long ago has another time when it is written again."""
_LONG = 2**22
"""Bytes of a file whose digest takes milliseconds."""
_PIECE = 2**24
"""Bytes that are in memory at once while the digest of a mapped file is made."""
_MOST_KEPT = 2**31
"""Bytes of a file that is no model: what a protobuf message may not have."""


@frozen
class Declared:
    """An input or output as the file declares it: an extent is a number, a symbol, or None.

    The type is that of the elements, or of what NumPy has none of as ONNX writes it:
    ``tensor(string)``, ``seq(tensor(float))``.
    """

    name: str
    dtype: str
    shape: tuple[int | str | None, ...]

    @property
    def plain(self) -> bool:
        """Whether it is a tensor of numbers."""
        return "(" not in self.dtype

    @property
    def tensor(self) -> bool:
        """Whether it is a tensor."""
        return self.plain or self.dtype.startswith("tensor(")

    @property
    def static(self) -> bool:
        """Whether all extents are numbers."""
        return all(isinstance(n, int) for n in self.shape)


@frozen
class Facts:
    """What is to be known of a model before it is compiled.

    Attributes:
        digest: of its content, weights in other files included; of how its files look where
            nothing is kept by it.
        inputs: what a run takes; constants that are listed as inputs are none.
        outputs: what it returns, as far as the file declares it: `tilework.session.outputs`.
        overridable: constants that are listed as inputs.
        files: other files with weights, relative to the model's.
        about: names, versions and descriptions of the file.
    """

    digest: str
    inputs: tuple[Declared, ...]
    outputs: tuple[Declared, ...]
    overridable: tuple[Declared, ...]
    files: tuple[str, ...]
    about: dict[str, Any]


class Source:
    """A model's file, or its serialized bytes; what was read of it is kept until `let_go`.

    Attributes:
        given: the file, or the bytes.
        files: those whose digests were made, which may have been mapped.
    """

    def __init__(self, given: Path | bytes) -> None:
        self.given = given
        self._content: Content | None = None
        self._read: ReadModel | onnx.ModelProto | None = None
        self.files = Untouched()

    def digest(self, file: BufferedReader) -> str:
        """SHA-256 of the model's own file, whose content is kept if it may be a model."""
        size = os.fstat(file.fileno()).st_size
        if size >= _MOST_KEPT:
            return _digest(file)

        def read() -> str:
            self._content = content = read_content(file, size, briefly=True)
            return _digest_of_content(content)

        with stage("read"):
            return read() if size < _LONG else ahead.importing(read)

    def looks(self, file: BufferedReader) -> str:
        """How the model's own file looks, whose content is kept as by `digest`."""
        size = os.fstat(file.fileno()).st_size
        if size < _MOST_KEPT:
            with stage("read"):
                self._content = read_content(file, size, briefly=True)
        return _looks(file)

    def model(self) -> onnx.ModelProto:
        """The model; large constants may be without their data.

        Raises:
            NetworkError: it is none.
        """
        return _model_of(self.read())

    def read(self) -> ReadModel | onnx.ModelProto:
        """The model as the importer takes it, parsed once.

        Raises:
            NetworkError: it is none.
        """
        if self._read is None:
            from tilework.graph.onnx.files import read

            given = self.given
            with stage("read"):
                if isinstance(given, bytes):
                    self._read = parsed(given)
                else:
                    self._read = read(given, self._content, briefly=True)
            self._content = None
        return self._read

    @property
    def held(self) -> onnx.ModelProto | None:
        """The model, if it was read and is kept."""
        content = self._read
        return None if content is None else _model_of(content)

    def let_go(self) -> None:
        """Keep nothing that was read."""
        self._content = self._read = None


def _model_of(content: ReadModel | onnx.ModelProto) -> onnx.ModelProto:
    from tilework.graph.onnx.files import ReadModel

    return content.model if isinstance(content, ReadModel) else content


def facts_of(source: Source, cache: ModuleCache | None) -> Facts:
    """The facts of a model.

    Raises:
        NetworkError: there is no such file, or it is no ONNX model.
    """
    given = source.given
    if isinstance(given, bytes):
        return _facts(source, hashlib.sha256(given).hexdigest(), cache)
    whole, other = (source.looks, _looks) if cache is None else (source.digest, _digest)
    main = _digest_of(given, source, cache, whole)
    facts = _facts(source, main, cache)
    if not facts.files:
        return facts
    each = [_digest_of(given.parent / name, source, cache, other) for name in facts.files]
    return replace(facts, digest=ModuleCache.key(main, *each))


def _facts(source: Source, digest: str, cache: ModuleCache | None) -> Facts:
    key = ModuleCache.key(_VERSION, digest)
    kept = None if cache is None else _from_json(cache.note(key))
    if kept is None:
        kept = _read(source.model(), digest)
        if cache is not None:
            cache.put_note(key, asdict(kept))
    return kept


def _from_json(data: Any) -> Facts | None:
    try:
        lists = {name: declared_from(data[name]) for name in ("inputs", "outputs", "overridable")}
        return Facts(data["digest"], **lists, files=tuple(data["files"]), about=data["about"])
    except (KeyError, TypeError):
        return None


def declared_from(data: Any) -> tuple[Declared, ...]:
    """Inputs or outputs from their JSON value.

    Raises:
        KeyError, TypeError: it is none.
    """
    return tuple(Declared(d["name"], d["dtype"], tuple(d["shape"])) for d in data)


def _looks(file: BufferedReader) -> str:
    return key_of(repr(_stamp(os.fstat(file.fileno()))))


def _digest(file: BufferedReader) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest()


def _digest_of_content(content: Content) -> str:
    digest = hashlib.sha256()
    for begin in range(0, len(content), _PIECE):
        piece = content[begin : begin + _PIECE]
        digest.update(piece.data)
        let_go(piece)
    return digest.hexdigest()


def _digest_of(
    path: Path,
    source: Source,
    cache: ModuleCache | None,
    digest_of: Callable[[BufferedReader], str],
) -> str:
    """What ``digest_of`` says of a file, from the cache if the file looks as it did."""
    try:
        with open(path, "rb") as file:
            about = os.fstat(file.fileno())
            source.files.note(path, about)
            stamp = _stamp(about)
            key = ModuleCache.key(_VERSION, str(path.absolute()))
            kept = None if cache is None else cache.note(key)
            if isinstance(kept, dict) and kept.get("stamp") == stamp:
                return str(kept["digest"])
            digest = digest_of(file)
            after = _stamp(os.fstat(file.fileno()))
    except OSError as e:
        raise unreadable(path, e) from None
    settled = time.time_ns() - max(stamp[1:3]) > _SETTLED_NS
    if cache is not None and stamp == after and settled:
        cache.put_note(key, {"stamp": stamp, "digest": digest})
    return digest


def _stamp(about: os.stat_result) -> list[int]:
    return [about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino, about.st_dev]


def _read(model: onnx.ModelProto, digest: str) -> Facts:
    """What the file says, by the ``onnx`` package."""
    graph = model.graph
    constants = {t.name for t in graph.initializer}
    constants |= {t.values.name for t in graph.sparse_initializer}
    tensors = [*_tensors(graph), *(t for f in model.functions for t in _tensors(f))]
    files = {e.value: None for t in tensors for e in t.external_data if e.key == "location"}
    inputs = [i for i in graph.input if i.name not in constants]
    return Facts(
        digest=digest,
        inputs=tuple(map(_declared, inputs)),
        outputs=tuple(map(loosely, graph.output)),
        overridable=tuple(_declared(i) for i in graph.input if i.name in constants),
        files=tuple(files),
        about={
            "producer_name": model.producer_name,
            "graph_name": graph.name,
            "domain": model.domain,
            "description": model.doc_string,
            "graph_description": graph.doc_string,
            "version": model.model_version,
            "custom_metadata_map": {p.key: p.value for p in model.metadata_props},
        },
    )


def _tensors(graph: onnx.GraphProto | onnx.FunctionProto) -> Iterator[onnx.TensorProto]:
    """The constants of a graph or function, and of graphs within it."""
    from tilework.graph.onnx.reads import graphs_of

    yield from getattr(graph, "initializer", ())
    for node in graph.node:
        yield from (a.t for a in node.attribute if a.HasField("t"))
        for inner in graphs_of(node):
            yield from _tensors(inner)


def parsed(data: bytes) -> onnx.ModelProto:
    """A model from its serialized bytes.

    Raises:
        NetworkError: it is none.
    """
    from tilework.graph.onnx.protos import messages

    try:
        model: onnx.ModelProto = messages().ModelProto.FromString(data)
    except Exception as e:  # the parser raises types of its own
        raise NetworkError(f"these {len(data)} bytes are no ONNX model: {str(e)[:200]}") from e
    if not model.graph.node and not model.graph.output:
        raise NetworkError(f"these {len(data)} bytes are no ONNX model: they hold no network")
    return model


def _declared(value: onnx.ValueInfoProto) -> Declared:
    from tilework.graph.onnx.inputs import element_type, symbol_in
    from tilework.graph.onnx.protos import messages
    from tilework.graph.onnx.types import type_text

    if not value.type.HasField("tensor_type"):
        return Declared(value.name, type_text(value.type), ())
    dims = value.type.tensor_type.shape.dim
    each = (d.dim_value if d.dim_value > 0 else symbol_in(d) or None for d in dims)
    text = value.type.tensor_type.elem_type == messages().TensorProto.STRING
    dtype = type_text(value.type) if text else element_type(value)
    return Declared(value.name, dtype, tuple(each))


def loosely(value: onnx.ValueInfoProto) -> Declared:
    """An output, whose type need not be known."""
    if value.type.HasField("tensor_type") and not value.type.tensor_type.elem_type:
        return Declared(value.name, "", ())
    return _declared(value)
