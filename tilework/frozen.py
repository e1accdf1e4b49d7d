"""Frozen dataclasses that cost next to nothing until they are used.

A first compile imports hundreds of classes of values, of many of which it makes none, prints none
and compares none. `dataclasses.dataclass` writes, parses and compiles up to six methods of each of
them at once, half a millisecond a class; here a method is written when it is first called.

They are frozen for the type checker. At run time nothing stands in an assignment's way, so that
making one is making an ordinary object: a third of the time that `dataclass(frozen=True)` takes.
For all else they are dataclasses: fields, `replace`, patterns, ``__post_init__``, equality and
hashes by fields, or by identity with ``eq=False``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")


@overload
def frozen(cls: type[T], /) -> type[T]: ...


@overload
def frozen(*, eq: bool) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T] | None = None, /, *, eq: bool = True) -> Any:
    """A class of frozen values.

    Its fields may say ``default`` or ``default_factory``, ``compare``, ``hash`` and ``repr``.
    Methods that it has of its own stay.

    Args:
        eq: whether values of equal fields are equal; else each is equal to itself alone.
    """

    def framed(cls: type[T]) -> type[T]:
        dataclass(init=False, repr=False, eq=False)(cls)
        for name, write in _WRITERS.items():
            if vars(cls).get(name) is None and (eq or write is not _compared):
                setattr(cls, name, _Later(cls, name, write))
        return cls

    return framed if cls is None else framed(cls)


class _Later:
    """Stands in a method's place until somebody asks for it: then it is written."""

    def __init__(self, cls: type, name: str, write: Callable[[str, type, dict[str, Any]], str]):
        self._cls, self._name, self._write = cls, name, write

    def __get__(self, instance: object, _: type | None = None) -> Any:
        known: dict[str, Any] = {}
        exec(self._write(self._name, self._cls, known), known)
        method = known[self._name]
        method.__module__ = self._cls.__module__
        method.__qualname__ = f"{self._cls.__qualname__}.{self._name}"
        setattr(self._cls, self._name, method)
        return method if instance is None else method.__get__(instance)


def _made(name: str, cls: type, known: dict[str, Any]) -> str:
    """The text of ``__init__``; ``known`` gets what it refers to."""
    parameters, lines = ["self"], []
    for f in _fields(cls):
        parameter = value = f.name
        if f.default is not MISSING:
            known[f"default_{f.name}"] = f.default
            parameter += f"=default_{f.name}"
        elif f.default_factory is not MISSING:
            known |= {"MISSING": MISSING, f"new_{f.name}": f.default_factory}
            parameter += "=MISSING"
            value = f"new_{f.name}() if {f.name} is MISSING else {f.name}"
        parameters.append(parameter)
        lines.append(f"self.{f.name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    return f"def {name}({', '.join(parameters)}):\n " + "\n ".join(lines or ["pass"])


def _told(name: str, cls: type, known: dict[str, Any]) -> str:
    """The text of ``__repr__``."""
    shown = ", ".join(f"{f.name}={{self.{f.name}!r}}" for f in _fields(cls) if f.repr)
    return f"def {name}(self):\n return f'{{self.__class__.__qualname__}}({shown})'"


def _compared(name: str, cls: type, known: dict[str, Any]) -> str:
    """The text of ``__eq__`` or ``__hash__``."""
    hashed = name == "__hash__"
    names = [
        f.name for f in _fields(cls) if (f.compare if f.hash is None or not hashed else f.hash)
    ]
    mine, other = (f"({''.join(f'{who}.{n}, ' for n in names)})" for who in ("self", "other"))
    if hashed:
        return f"def {name}(self):\n return hash({mine})"
    return (
        f"def {name}(self, other):\n if other.__class__ is self.__class__:\n"
        f"  return {mine} == {other}\n return NotImplemented"
    )


def _fields(cls: Any) -> tuple[Field[Any], ...]:
    return fields(cls)


_WRITERS = {"__init__": _made, "__repr__": _told, "__eq__": _compared, "__hash__": _compared}
