"""The levels of a library: what they are called, and in which order they are tried."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tilework.errors import ModuleError
from tilework.kinds.cpu.library.header import SOURCES
from tilework.runtime.image import Image
from tilework.target import Target


def level_name(image: Image) -> str:
    """What a level is called: its CPU's name, such as ``x86-64-v3``."""
    match = re.search(r"-mcpu=(\S+)", image.target)
    return match[1] if match else image.target


def in_order(images: Sequence[Image]) -> list[Image]:
    """Levels as a library tries them: the more features one needs, the earlier.

    Of two that need equally many, the one with more tasks tuned for its target comes first.

    Raises:
        ModuleError: they are not one network at several levels of one machine; or one of numbers
            alone that continues inputs in their memory.
    """
    if not images:
        raise ModuleError("a library needs at least one module")
    first = images[0]
    if first.rooms and not first.symbols:
        raise ModuleError(
            f"{first.name} writes {first.rooms[0].name} in its memory, which a library does where "
            "shapes have ranges: compile it with one, or without in_place"
        )
    for image in images:
        for what in ("symbols", "inputs", "outputs", "rooms", "platform", "cores"):
            ours, theirs = getattr(first, what), getattr(image, what)
            if ours != theirs:
                raise ModuleError(
                    f"modules for '{first.target}' and '{image.target}' cannot be levels of one "
                    f"library: their {what} differ"
                )
        if unknown := sorted(set(image.needs) - askable(image.platform)):
            raise ModuleError(
                f"code for '{image.target}' needs {', '.join(unknown)}, which a library cannot "
                "ask a CPU for: leave it out with -mattr"
            )
    names = [level_name(image) for image in images]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ModuleError(f"there are two modules for the level {twice[0]}: give one of each")
    return sorted(images, key=lambda i: (-len(i.needs), -sum(r.tuned for r in i.report)))


def level_target(word: str, native: Target) -> str:
    """The target that a level's word means: ``v3`` is ``x86-64-v3``, ``native`` what is given.

    Other words are names of CPUs.
    """
    if word == "native":
        return str(native)
    cpu = f"x86-64-{word}" if re.fullmatch(r"v\d", word) else word
    return f"{native.kind} -mcpu={cpu} -num-cores={native.num_cores}"


def askable(platform: str) -> frozenset[str]:
    """Features that the library's own code can ask a CPU of a platform for."""
    text = (SOURCES / "features.c").read_text(encoding="utf-8")
    marks = {"x86_64": "defined(__x86_64__)", "aarch64": "defined(__aarch64__)"}
    part = text.partition(marks[platform.split()[1]])[2].partition("\n#e")[0]
    return frozenset(re.findall(r'^ +\{"([a-z0-9.-]+)",', part, re.MULTILINE))
