"""The kinds of machine that Tilework knows: one folder each, with the same rooms.

A kind's room is an object behind a protocol, found by name and loaded when it is first asked for,
so that neutral packages know no kind, and a kind that nobody uses costs nothing:

    target    a subclass of `tilework.target.Target`
    space     `tilework.space.protocol.Space`: rules, decisions, which rows are valid
    draft     `tilework.model.draft.Draft`: features of programs and their predicted seconds
    lowering  `tilework.lower.protocol.Lowering`: a schedule as a loop program
    builder   `tilework.lower.protocol.Builder`: a loop program as a kernel, kernels as a module
    device    `tilework.measure.device.Device`: where kernels are verified and timed
    executor  `tilework.runtime.executor.Executor`: opens a compiled network
    hardware  `tilework.target.hardware.Hardware`: what a machine is and what it reaches; optional
    listing   `tilework.lower.listing.Lister`: generated code as people read it; optional
    library   `tilework.runtime.library.Libraries`: networks as shared libraries; optional

A new kind is registered by the module that defines its target's class; see `register`.
"""

from __future__ import annotations

import difflib
import importlib
from functools import lru_cache
from typing import Any

from tilework.errors import TargetError
from tilework.frozen import frozen


@frozen
class Kind:
    """Where the rooms of a kind are, each as ``module:attribute``; see the module's text.

    Attributes:
        name: the first word of its targets' text.
        usage: how to write such a target, for messages.
        version: of its rules, where that is to be had without its space.
    """

    name: str
    usage: str
    target: str
    space: str
    draft: str
    lowering: str
    builder: str
    device: str
    executor: str
    hardware: str = ""
    listing: str = ""
    library: str = ""
    version: str = ""


KINDS: dict[str, Kind] = {
    "llvm": Kind(
        name="llvm",
        usage="llvm [-mcpu=NAME] [-num-cores=N]",
        target="tilework.kinds.cpu.target:CpuTarget",
        space="tilework.kinds.cpu.space:SPACE",
        draft="tilework.kinds.cpu.draft:DRAFT",
        lowering="tilework.kinds.cpu.lowering:LOWERING",
        builder="tilework.kinds.cpu.build:BUILDER",
        device="tilework.kinds.cpu.device:DEVICE",
        executor="tilework.kinds.cpu.executor:EXECUTOR",
        hardware="tilework.kinds.cpu.hardware:HARDWARE",
        listing="tilework.kinds.cpu.listing:LISTING",
        library="tilework.kinds.cpu.library.build:LIBRARIES",
    ),
    "reference": Kind(
        name="reference",
        usage="reference [-num-cores=N]",
        target="tilework.kinds.reference.target:ReferenceTarget",
        space="tilework.kinds.reference.space:SPACE",
        draft="tilework.kinds.reference.draft:DRAFT",
        lowering="tilework.kinds.reference.lowering:LOWERING",
        builder="tilework.kinds.reference.build:BUILDER",
        device="tilework.kinds.reference.device:DEVICE",
        executor="tilework.kinds.reference.executor:EXECUTOR",
    ),
    "cuda": Kind(
        name="cuda",
        usage="cuda [-model=NAME] [-arch=sm_NN] [-run=device|emulated|simulated]",
        target="tilework.kinds.cuda.target:CudaTarget",
        space="tilework.kinds.cuda.space:SPACE",
        draft="tilework.kinds.cuda.draft:DRAFT",
        lowering="tilework.kinds.cuda.lowering:LOWERING",
        builder="tilework.kinds.cuda.build:BUILDER",
        device="tilework.kinds.cuda.device:DEVICE",
        executor="tilework.kinds.cuda.executor:EXECUTOR",
        hardware="tilework.kinds.cuda.hardware:HARDWARE",
        listing="tilework.kinds.cuda.listing:LISTING",
        version="tilework.kinds.cuda.version:RULES_VERSION",
    ),
}


def register(kind: Kind) -> None:
    """Make a kind known to this process.

    Worker processes learn of it as they unpickle a target of its class: call this where that class
    is defined.

    Raises:
        TargetError: another kind has this name.
    """
    if KINDS.setdefault(kind.name, kind) != kind:
        raise TargetError(f"there is a kind of target '{kind.name}' already: choose another name")


def room(kind: str, name: str) -> Any:
    """A room of a kind, loaded at the first call.

    Raises:
        TargetError: no such kind, or it lacks the room, which is optional.
    """
    where = getattr(known_kind(kind), name)
    if not where:
        raise TargetError(f"targets of kind '{kind}' have nothing to say about their {name}")
    return _loaded(where)


def rules_version(kind: str) -> int:
    """The version of a kind's rules.

    Raises:
        TargetError: no such kind.
    """
    where = known_kind(kind).version
    return int(_loaded(where) if where else room(kind, "space").version)


def known_kind(name: str, text: str = "") -> Kind:
    """The kind that a target's text begins with.

    Raises:
        TargetError: no such kind.
    """
    if name in KINDS:
        return KINDS[name]
    text = text or name
    near = difflib.get_close_matches(name, KINDS, 1)
    meant = f"did you mean '{near[0]}'? " if near else ""
    usages = " or ".join(f"'{k.usage}'" for k in KINDS.values())
    raise TargetError(f"target '{text}': unknown kind '{name}'; {meant}write {usages}")


def target_class(name: str, text: str) -> Any:
    """The class of targets whose text begins with ``name``.

    Raises:
        TargetError: no such kind.
    """
    return _loaded(known_kind(name, text).target)


@lru_cache(maxsize=256)
def _loaded(where: str) -> Any:
    module, _, attribute = where.partition(":")
    return getattr(importlib.import_module(module), attribute)
