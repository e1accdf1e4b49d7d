"""Frozen values behave as dataclasses do, and have no method before it is called."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Sequence
from dataclasses import field, fields, is_dataclass, replace

import pytest

from tilework.frozen import frozen


@frozen
class Point:
    """Some fields with defaults, one that says nothing of it."""

    x: int
    y: float = 0.0
    names: Sequence[str] = field(default_factory=list)
    note: str = field(default="", compare=False, repr=False)


@frozen
class Further(Point):
    z: int = 3


@frozen(eq=False)
class Thing:
    x: int

    def __post_init__(self):
        if self.x < 0:
            raise ValueError("negative")


@frozen
class Own:
    x: int

    def __hash__(self):
        return 7

    def __repr__(self):
        return "own"


@frozen
class Nothing:
    """No field at all."""


def test_they_are_made_as_dataclasses_are():
    assert is_dataclass(Point)
    assert [f.name for f in fields(Point)] == ["x", "y", "names", "note"]
    assert Point.__match_args__ == ("x", "y", "names", "note")
    assert str(inspect.signature(Point)).startswith("(x, y=0.0, names=")
    assert Point(1).names == []
    assert Point(1).names is not Point(1).names
    assert Further(1, z=4) == Further(1, 0.0, [], "", 4)
    assert Thing(1).x == Thing(x=1).x
    for wrong in ((), (1, 2, [], "", 5)):
        with pytest.raises(TypeError):
            Point(*wrong)
    with pytest.raises(ValueError, match="negative"):
        Thing(-1)


def test_fields_decide_equality_and_hashes():
    assert Point(1, 2.0) == Point(1, 2.0, note="other")
    assert Point(1) != Point(2)
    assert Point(1) != Further(1)
    assert Point(1) != (1, 0.0, [])
    assert hash(Further(1, 2.0, ())) == hash((1, 2.0, (), 3))
    assert Nothing() == Nothing()
    assert len({Nothing(), Nothing()}) == 1
    nan = float("nan")
    assert Point(1, nan) == Point(1, nan)  # the same object, as in tuples
    with pytest.raises(TypeError, match="unhashable"):
        hash(Point(1))


def test_things_are_equal_to_themselves_alone():
    one = Thing(1)
    assert one != Thing(1)
    assert len({one, one, Thing(1)}) == 2


def test_methods_of_their_own_stay():
    assert (hash(Own(1)), repr(Own(1))) == (7, "own")
    assert Own(1) == Own(1)


def test_copies_patterns_and_texts():
    point = Further(1, 2.0, ["a"], "note", 5)
    assert repr(point) == "Further(x=1, y=2.0, names=['a'], z=5)"
    assert replace(point, x=7).x == 7
    assert pickle.loads(pickle.dumps(point)) == point == copy.deepcopy(point)
    match point:
        case Further(x, y, z=z):
            assert (x, y, z) == (1, 2.0, 5)


def test_a_method_is_written_when_it_is_asked_for():
    @frozen
    class Late:
        x: int

    assert not inspect.isfunction(vars(Late)["__init__"])
    assert Late(1).x == 1
    assert inspect.isfunction(vars(Late)["__init__"])
    assert not inspect.isfunction(vars(Late)["__eq__"])
    assert Late.__init__.__qualname__.endswith("Late.__init__")
    assert Late(1) == Late(1)
    assert inspect.isfunction(vars(Late)["__eq__"])


def test_classes_of_as_many_fields_share_no_names():
    @frozen
    class One:
        a: int
        b: int = 2

    @frozen
    class Other:
        b: int
        c: int = 3

        def __post_init__(self):
            self.sum = self.b + self.c

    assert (vars(One(1)), vars(Other(c=1, b=0))) == ({"a": 1, "b": 2}, {"b": 0, "c": 1, "sum": 1})
    with pytest.raises(TypeError, match=r"missing 1 required positional argument: 'a'"):
        One(b=1)


def test_a_field_may_be_left_out_of_hashes_alone():
    @frozen
    class Table:
        name: str
        rows: dict[int, int] = field(hash=False)

    assert hash(Table("a", {1: 2})) == hash(Table("a", {}))
    assert Table("a", {1: 2}) != Table("a", {})
