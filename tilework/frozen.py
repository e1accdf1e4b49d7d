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
from functools import cache
from types import CodeType, FunctionType
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
        method = _renamed(self._cls) if self._name == "__init__" else None
        if method is None:
            known: dict[str, Any] = {}
            exec(self._write(self._name, self._cls, known), known)
            method = known[self._name]
        method.__module__ = self._cls.__module__
        method.__qualname__ = f"{self._cls.__qualname__}.{self._name}"
        setattr(self._cls, self._name, method)
        return method if instance is None else method.__get__(instance)


def _renamed(cls: type) -> Any:
    """``__init__`` from the code of any class with as many fields; None if some make defaults."""
    own = _fields(cls)
    defaults = tuple(f.default for f in own if f.default is not MISSING)
    needed = own[: len(own) - len(defaults)]
    if any(f.default is not MISSING for f in needed) or any(
        f.default_factory is not MISSING for f in own
    ):
        return None
    names, then = tuple(f.name for f in own), hasattr(cls, "__post_init__")
    code = _setting(len(names), then).replace(
        co_varnames=("self", *names), co_names=(*names, *["__post_init__"] * then)
    )
    return FunctionType(code, {}, "__init__", defaults)


@cache
def _setting(count: int, then: bool) -> CodeType:
    """The code of a method that sets so many attributes, and calls ``__post_init__``."""
    names = [f"f{n}" for n in range(count)]
    lines = [f"self.{name} = {name}" for name in names] + ["self.__post_init__()"] * then
    known: dict[str, Any] = {}
    text = "\n ".join(lines or ["pass"])
    exec(f"def __init__({', '.join(['self', *names])}):\n {text}", known)
    code: CodeType = known["__init__"].__code__
    return code


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
