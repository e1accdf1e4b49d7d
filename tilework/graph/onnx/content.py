"""The bytes of an ONNX file, among which large weights stay where they are.

A parser of protobuf copies every field, and so does each look at one. So a model is parsed without
the data of its large initializers: these name their place in the file's own bytes, as weights in
another file do, and become views of them.

    ModelProto: graph = 7    GraphProto: initializer = 5    TensorProto: raw_data = 9
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import NamedTuple

from tilework.runtime.content import Content

OWN = "tilework: in this file"
"""An entry of a tensor's external data, in the place of a location. A file that says so by itself
names bytes of itself, which is no harm."""

_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9
_EXTERNAL_DATA, _DATA_LOCATION = 13, 14
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
LARGE = 1 << 16
"""Bytes of data that are worth it. Nothing that decides shapes has so many."""
_MOST_OF_A_VARINT = 10
_ALIGN = 8
"""Bytes of the largest elements, and before a large initializer's data at least: two tags and two
lengths, of four bytes each."""


class _Field(NamedTuple):
    """A field of a message: where it begins, its payload's begin, and its end."""

    number: int
    kind: int
    begin: int
    at: int
    end: int


class _Odd(ValueError):
    """What no writer of models writes; the parser has the word."""


def without_weights(content: Content) -> bytes:
    """A serialized model whose large initializers name their place in ``content``.

    There they are moved to where NumPy's loops are fast, over the bytes that told their length;
    in the file itself (`tilework.runtime.content.mapped`) they stay where they are. What
    is no such model, and what has none, comes back as it is.
    """
    moves: list[_Field] = []
    moved = bool(content.flags.writeable)
    try:
        model = _model(content.data, moves, moved)
    except _Odd:
        return content.tobytes()
    for own in moves if moved else ():
        begin = content.ctypes.data + own.at
        ctypes.memmove(begin - own.at % _ALIGN, begin, own.end - own.at)
    return model


def _model(data: memoryview, moves: list[_Field], moved: bool) -> bytes:
    graphs = [f for f in _fields(data, 0, len(data)) if f.number == _GRAPH]
    if len(graphs) != 1 or graphs[0].kind != _BYTES:
        raise _Odd
    (graph,) = graphs
    pieces: list[bytes | memoryview] = []
    done = graph.at
    for field in _fields(data, graph.at, graph.end):
        if field.number == _INITIALIZER and field.end - field.at >= LARGE:
            tensor = _tensor(data, field, moves, moved)
            if tensor is not None:
                pieces += [data[done : field.begin], tensor]
                done = field.end
    pieces.append(data[done : graph.end])
    body = _tagged(_GRAPH, sum(map(len, pieces)))
    return b"".join([data[: graph.begin], body, *pieces, data[graph.end :]])


def _tensor(data: memoryview, whole: _Field, moves: list[_Field], moved: bool) -> bytes | None:
    """An initializer, its tag before it, with the place of its data; None if it stays whole."""
    fields = list(_fields(data, whole.at, whole.end))
    raw = [f for f in fields if f.number == _RAW_DATA]
    if len(raw) != 1 or raw[0].kind != _BYTES or raw[0].end - raw[0].at < LARGE:
        return None
    if any(f.number in (_EXTERNAL_DATA, _DATA_LOCATION) for f in fields):
        return None
    (own,) = raw
    moves.append(own)
    entries = (
        (OWN, ""),
        ("offset", str(own.at - moved * (own.at % _ALIGN))),
        ("length", str(own.end - own.at)),
    )
    redirected = b"".join(_tagged(_EXTERNAL_DATA, len(e)) + e for e in map(_entry, entries))
    redirected += _varint(_DATA_LOCATION << 3 | _VARINT) + b"\x01"  # EXTERNAL
    parts = (data[whole.at : own.begin], data[own.end : whole.end], redirected)
    return _tagged(_INITIALIZER, sum(map(len, parts))) + b"".join(parts)


def _entry(both: tuple[str, str]) -> bytes:
    """A StringStringEntryProto of a key and a value."""
    texts = enumerate((text.encode() for text in both), 1)
    return b"".join(_tagged(number, len(text)) + text for number, text in texts)


def _fields(data: memoryview, at: int, end: int) -> Iterator[_Field]:
    """The fields of the message between two places.

    Raises:
        _Odd: there is none.
    """
    while at < end:
        begin = at
        tag, at = _number(data, at, end)
        kind, stop = tag & 7, at
        if kind == _VARINT:
            _, stop = _number(data, at, end)
        elif kind == _FIXED64:
            stop = at + 8
        elif kind == _FIXED32:
            stop = at + 4
        elif kind == _BYTES:
            length, at = _number(data, at, end)
            stop = at + length
        else:
            raise _Odd
        if stop > end:
            raise _Odd
        yield _Field(tag >> 3, kind, begin, at, stop)
        at = stop


def _number(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """The varint at a place, and where it ends."""
    number = 0
    for i in range(min(_MOST_OF_A_VARINT, end - at)):
        byte = data[at + i]
        number |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return number, at + i + 1
    raise _Odd


def _tagged(number: int, length: int) -> bytes:
    """What stands before a payload of some length."""
    return _varint(number << 3 | _BYTES) + _varint(length)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])
