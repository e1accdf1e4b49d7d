"""Attributes that are computed when they are first asked for."""

from __future__ import annotations

from tilework.once import cached_property


class Circle:
    def __init__(self, radius):
        self.radius, self.asked = radius, 0

    @cached_property
    def area(self):
        """Three times the square of the radius, about."""
        self.asked += 1
        return 3 * self.radius**2


def test_an_attribute_is_computed_once_for_each_value():
    one, other = Circle(1), Circle(2)
    assert (one.area, one.area, other.area) == (3, 3, 12)
    assert (one.asked, other.asked) == (1, 1)


def test_a_class_has_the_attribute_itself_and_its_text():
    assert isinstance(Circle.area, cached_property)
    assert Circle.area.__doc__ == "Three times the square of the radius, about."
