"""Launch plans as documents: what was written is read, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilework.kinds.cuda.launches import (
    Launch,
    LaunchFormatError,
    launches_from_json,
    launches_to_json,
)

PLACES = st.tuples(st.sampled_from(["argument", "workspace"]), st.integers(0, 2**40))
LAUNCHES = st.builds(
    Launch,
    entry=st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True),
    grid=st.integers(1, 2**31 - 1),
    block=st.integers(1, 1024),
    shared=st.integers(0, 2**20),
    args=st.lists(PLACES, max_size=4).map(tuple),
)
PLANS = st.lists(LAUNCHES, max_size=3)


@given(PLANS)
def test_a_plan_is_read_as_it_was_written(plan):
    assert launches_from_json(launches_to_json(plan)) == tuple(plan)


@given(PLANS, st.data())
def test_a_damaged_plan_is_told_or_is_another_plan(plan, data):
    text = bytearray(launches_to_json(plan))
    for _ in range(data.draw(st.integers(1, 3))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = launches_from_json(bytes(text[: data.draw(st.integers(0, len(text)))]))
    except LaunchFormatError as error:
        assert str(error)
    else:
        assert launches_from_json(launches_to_json(found)) == found


@pytest.mark.parametrize(
    "text",
    [
        b"", b"null", b"[]", b"{}", b'{"format": 3}', b"[" * 100_000, b"\xff\xfe",
        b'{"format":"cuda-launches-1"}', b'{"format":"cuda-launches-1","launches":7}',
        b'{"format":"cuda-launches-1","launches":[["f",1,1,0]]}',
        b'{"format":"cuda-launches-1","launches":[["f",1,1,0,[["argument",-1]]]]}',
        b'{"format":"cuda-launches-1","launches":[["f",1,1,0,[["argument",true]]]]}',
        b'{"format":"cuda-launches-1","launches":[["f",1.0,1,0,[]]]}',
        b'{"format":"cuda-launches-1","launches":[["f;",1,1,0,[]]]}',
        b'{"format":"cuda-launches-1","launches":{"f":1}}',
        b'{"format":"cuda-launches-2","launches":[]}',
    ],
)  # fmt: skip
def test_what_is_no_plan_is_refused(text):
    with pytest.raises(LaunchFormatError):
        launches_from_json(text)
