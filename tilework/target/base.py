"""What every target is: a text that names a machine, and what any engine may ask of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from tilework import kinds
from tilework.errors import TargetError
from tilework.target.chains import ChainLimits
from tilework.target.host import HOST_PLATFORM, available_cores

MOST_OPERATIONS = 1e17
"""Operations a second that no machine reaches."""


@dataclass(frozen=True)
class Target:
    """A machine to make programs for, parsed from text such as ``llvm -mcpu=native``.

    The first word names the kind of machine (`tilework.kinds.KINDS`), the others are options of
    that kind: ``Target(text)`` is an object of the kind's own class. ``str(target)`` is canonical,
    so that records of two machines that are alike agree.

    Attributes:
        kind: the first word.
        num_cores: threads that parallel loops are shared out among.
        platform: operating system and architecture that its programs run on.
        run: how they are run: on a ``device`` of the kind, ``emulated`` on a CPU in its place, or
            ``simulated``, which is not at all; see `tilework.target.runs`.

    Raises:
        TargetError: the text does not name a target that Tilework supports.
    """

    text: str = "llvm -mcpu=native"

    kind: ClassVar[str] = ""
    machine: ClassVar[str] = "machine of this kind"
    """What messages call it."""
    ranges: ClassVar[bool] = False
    """Whether one program of the kind may be for all extents within ranges."""
    repeats: ClassVar[bool] = False
    """Whether its modules repeat calls, as often as a run says."""
    num_cores: int = field(init=False, default=1)
    platform: str = field(init=False, default=HOST_PLATFORM)
    run: str = field(init=False, default="device")

    def __new__(cls, text: str = "llvm -mcpu=native", *_: Any, **__: Any) -> Target:
        """An object of the class of the kind that the text's first word names."""
        if cls is not Target:
            return object.__new__(cls)
        words = str(text).split()
        if not words:
            raise TargetError("the target is empty; write for example 'llvm -mcpu=native'")
        kind: type[Target] = kinds.target_class(words[0], str(text))
        return object.__new__(kind)

    @classmethod
    def of(cls, target: Target) -> Self:
        """The target as one of this kind.

        Raises:
            TargetError: it names a machine of another kind.
        """
        if not isinstance(target, cls):
            raise TargetError(
                f"target '{target}' is no {cls.machine}; this serves '{cls.kind}' targets"
            )
        return target

    def __str__(self) -> str:
        return self.text

    def lanes(self) -> int:
        """Neighbouring float32 elements that one instruction computes; 1 on a scalar machine."""
        return 1

    def most_operations(self) -> float:
        """Operations a second, as records count them, that no such machine reaches."""
        return MOST_OPERATIONS

    def with_cores(self, num_cores: int) -> Self:
        """The same machine with another number of threads.

        Raises:
            TargetError: that is no number of cores, or the kind has no such option.
        """
        if num_cores == self.num_cores:
            return self
        words = [w for w in self.text.split() if not w.startswith("-num-cores=")]
        return replace(self, text=" ".join([*words, f"-num-cores={num_cores}"]))

    def relatives(self) -> Iterable[Target]:
        """Targets whose measured schedules may serve for this one, the nearest first."""
        return ()

    def traits(self) -> dict[str, str]:
        """What makes another machine one of the same kind, whatever name it goes by.

        Targets of two machines with equal traits have the same programs, and schedules that are
        good on one are worth having on the other. Empty where the target is not the machine that
        this process runs on, or where its text says all there is to say.
        """
        return {}

    def missing_on_host(self) -> list[str]:
        """What the target's programs need and this machine lacks."""
        return []

    def require_precision(self, precision: str) -> None:
        """Refuse to store a network's values in a precision that would not pay here.

        Args:
            precision: one of `tilework.graph.precision.PRECISIONS`; any target takes ``"f32"``.

        Raises:
            TargetError: the target lacks something, which the message names.
        """
        if precision != "f32":
            raise TargetError(
                f"precision {precision} is not supported by target '{self}': use precision f32"
            )

    def chain_limits(self) -> ChainLimits | None:
        """Which convolutions in a row share a group; by default none do."""
        return None

    @property
    def reads_through_indices(self) -> bool:
        """Whether products read matrices that indices choose where they lie; see `graph.gathers`.

        By default they are copied first.
        """
        return False

    @property
    def joins_windows(self) -> tuple[str, ...]:
        """Element types whose first convolutions have taps and channels as one axis.

        See `tilework.graph.joined`.
        """
        return ()

    @property
    def stores_words(self) -> bool:
        """Whether what a first convolution reads is put together by words; `graph.joined`."""
        return False

    @property
    def multiplies_bytes(self) -> bool:
        """Whether products of bytes, put in groups first, take less than those of float32."""
        return False

    @property
    def looks_up_bytes(self) -> bool:
        """Whether functions of a byte are tables; `graph.tabulated`."""
        return False

    @property
    def bounds_weights(self) -> bool:
        """Whether products declare it where weights have 7 bits: an instruction needs to know."""
        return False


def parse_options(words: Iterable[str], text: str, known: Collection[str]) -> dict[str, str]:
    """Options of a target's text, ``-name=value`` each.

    Raises:
        TargetError: a word is no option, or the kind of target does not know it.
    """
    options: dict[str, str] = {}
    for word in words:
        name, eq, value = word.lstrip("-").partition("=")
        if not word.startswith("-") or not eq or not value:
            raise TargetError(f"target '{text}': '{word}' is not an option; write -name=value")
        if name not in known:
            listed = ", ".join("-" + o for o in known)
            raise TargetError(
                f"target '{text}': unknown option '-{name}'; known options: {listed}"
            )
        options[name] = value
    return options


def parse_cores(value: str | None, text: str) -> int:
    """The option ``-num-cores``; by default the cores that this process may run on.

    Raises:
        TargetError: it is no number of cores.
    """
    if value is None:
        return available_cores()
    if not value.isdigit() or not 1 <= int(value) <= 1024:
        raise TargetError(f"target '{text}': -num-cores={value} is not a number from 1 to 1024")
    return int(value)
