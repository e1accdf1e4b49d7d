"""Which record of the runtime of threads a run of a library has, beside that of a module."""

from __future__ import annotations

import ctypes
import subprocess

import numpy as np
import pytest

from tilework.cache import BoundedCache
from tilework.kinds.cpu.executor import _SETTLED, _STATE, _about, _near
from tilework.kinds.cpu.library.header import SOURCES

SOURCE = """
#include <stdint.h>
#include <string.h>
enum { ALIGN = 64, NUM_SYMBOLS = 2 };
#include "judged.c"
static judged all[KEPT_JUDGED];
static uint32_t made;
int64_t *record_of(const int64_t *at) { return record_at(all, &made, at); }
"""


@pytest.fixture(scope="module")
def record_of(tmp_path_factory):
    """The record at a point, an array that later calls share."""
    folder = tmp_path_factory.mktemp("judged")
    (folder / "part.c").write_text(SOURCE)
    words = ["cc", "-std=c11", "-Wall", "-Werror", "-O1", "-shared", "-fPIC", f"-I{SOURCES}"]
    subprocess.run([*words, "-o", folder / "part.so", folder / "part.c"], check=True, timeout=60)
    function = ctypes.CDLL(str(folder / "part.so")).record_of
    function.restype = ctypes.POINTER(ctypes.c_int64)

    def at(*point):
        return np.ctypeslib.as_array(function((ctypes.c_int64 * 2)(*point)), (8,))

    return at


def test_a_past_that_grows_keeps_what_was_chosen(record_of):
    """Steps by less than a quarter share a record; the next one takes over a choice."""
    record_of(1, 100)[_STATE:] = (_SETTLED[0], 7, 7, 7, 7)
    assert record_of(1, 101)[4] == 7 and record_of(1, 111)[_STATE] == _SETTLED[0]
    later = record_of(1, 112)
    assert later[_STATE] == _SETTLED[0] and later[4] == 7
    later[4] = 8
    assert record_of(1, 100)[4] == 7


def test_records_are_those_of_modules(record_of):
    """At random points, some of them settled; both have the same states at all of them."""
    rng = np.random.default_rng(0)
    known: BoundedCache[tuple[int, ...], np.ndarray] = BoundedCache(64)
    points = [(int(a), int(b)) for a, b in zip(rng.integers(50, 60, 60), rng.integers(0, 90, 60),
              strict=True)]  # fmt: skip
    settled = 0
    for point in points:
        about = tuple(map(_about, point))
        mine = known.get_or_make(about, lambda: np.zeros(8, np.int64))
        if mine[_STATE] == 0:
            near = next((r for r in _near(about, known.get) if r[_STATE] in _SETTLED), None)
            mine[...] = 0 if near is None else near
        theirs = record_of(*point)
        assert theirs.tolist() == mine.tolist()
        if rng.integers(3) == 0:
            mine[_STATE] = theirs[_STATE] = int(rng.choice(_SETTLED))
            mine[4] = theirs[4] = int(rng.integers(100))
        settled += int(mine[_STATE] in _SETTLED)
    assert settled > 20
