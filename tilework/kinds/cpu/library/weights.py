"""The constants of several images of one network as one block of bytes, equal ones once."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from tilework.frozen import frozen
from tilework.index.extents import known
from tilework.runtime.arrays import ALIGN
from tilework.runtime.image import Image

PAGE = 4096


@frozen
class Placed:
    """Where the constants of one image lie among the weights of a library.

    Attributes:
        begins: offsets of its constants in its own block, in order.
        places: offsets of the same constants in the library's.
        ranges: what of the library's weights it uses: first byte, and the one behind the last.
    """

    begins: tuple[int, ...]
    places: tuple[int, ...]
    ranges: tuple[tuple[int, int], ...]

    @property
    def nbytes(self) -> int:
        """Bytes that the image uses."""
        return sum(end - begin for begin, end in self.ranges)

    def at(self, offset: int) -> int:
        """The library's offset for one of the image's."""
        i = bisect_right(self.begins, offset) - 1
        return self.places[i] + offset - self.begins[i]


@frozen
class Weights:
    """Constants of all levels, to be written one after another.

    Attributes:
        parts: views of the images' constants, each a multiple of `ALIGN` bytes long once padded.
        placed: of each image.
        nbytes: of all.
    """

    parts: tuple[memoryview, ...]
    placed: tuple[Placed, ...]
    nbytes: int

    def chunks(self) -> Iterator[bytes | memoryview]:
        """What to write, in order."""
        for part in self.parts:
            yield part
            yield b"\0" * (-len(part) % ALIGN)

    def digest(self) -> str:
        """Identity of the bytes: 32 hexadecimal digits."""
        digest = hashlib.sha256()
        for chunk in self.chunks():
            digest.update(chunk)
        return digest.hexdigest()[:32]


def join_weights(images: Sequence[Image]) -> Weights:
    """Place the constants of several images; the first image's lie in its own order."""
    known: dict[bytes, int] = {}
    parts: list[memoryview] = []
    placed = []
    end = 0
    for image in images:
        block = image.constants.data
        begins, places, used = [], [], []
        for begin, stop in _constants(image):
            part = block[begin:stop]
            key = hashlib.sha256(part).digest()
            if key not in known:
                known[key] = end
                parts.append(part)
                end += -(-len(part) // ALIGN) * ALIGN
            begins.append(begin)
            places.append(known[key])
            used.append((known[key], known[key] + len(part)))
        placed.append(Placed(tuple(begins), tuple(places), _joined(used)))
    return Weights(tuple(parts), tuple(placed), end)


def _constants(image: Image) -> list[tuple[int, int]]:
    """First byte and end of each constant in an image's block; those that overlap are one."""
    refs = sorted(
        (ref.at, ref.at + known(ref.nbytes))
        for step in image.steps
        for ref in step.args
        if ref.space == "constant"
    )
    spans: list[tuple[int, int]] = []
    for begin, stop in refs:
        if spans and begin < max(spans[-1][1], spans[-1][0] + 1):
            spans[-1] = (spans[-1][0], max(stop, spans[-1][1]))
        else:
            spans.append((begin, stop))
    return spans


def _joined(used: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Ranges in order, those that lie within a page of each other as one."""
    out: list[tuple[int, int]] = []
    for begin, stop in sorted(used):
        if out and begin <= out[-1][1] + PAGE:
            out[-1] = (out[-1][0], max(stop, out[-1][1]))
        else:
            out.append((begin, stop))
    return tuple(out)
