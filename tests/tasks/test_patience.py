"""What may pass is tried again, what a user has to mend is not, and waiting is not searching."""

from __future__ import annotations

import errno

import pytest

from tasks.patience import SearchClock, may_pass, patiently
from tilework.errors import (
    ModuleError,
    NetworkError,
    Passing,
    StoreBusy,
    StoreError,
    TargetError,
    TileworkError,
)

PASSING = [
    StoreBusy("the disk is full"),
    Passing("away"),
    OSError(errno.ENOSPC, "No space left on device"),
    OSError(errno.EIO, "Input/output error"),
    OSError(errno.ESTALE, "Stale file handle"),
    TimeoutError(errno.ETIMEDOUT, "timed out"),
    ConnectionResetError(errno.ECONNRESET, "reset"),
    OSError("an Arrow filesystem's error, which has no number"),
]
TO_MEND = [
    StoreError("no such store"),
    TargetError("abacus"),
    NetworkError("unknown"),
    TileworkError("something"),
    PermissionError(errno.EACCES, "Permission denied"),
    OSError(errno.EROFS, "Read-only file system"),
    FileNotFoundError(errno.ENOENT, "No such file"),
    ValueError("a mistake"),
    KeyError("a mistake"),
]


def failing(*errors):
    """A call that raises these in turn and then gives 42."""
    left = list(errors)

    def call():
        if left:
            raise left.pop(0)
        return 42

    return call


@pytest.mark.parametrize("error", PASSING, ids=repr)
def test_what_may_pass_is_tried_again_with_a_line_each_time(error):
    lines, waits = [], []
    assert patiently(failing(error, error), lines.append, (1, 5, 9), waits.append) == 42
    assert waits == [1, 5]
    assert [line.rpartition(": ")[2] for line in lines] == [
        "trying again in 1 s", "trying again in 5 s"
    ]  # fmt: skip
    assert all(str(error) in line for line in lines)


@pytest.mark.parametrize("error", TO_MEND, ids=repr)
def test_what_a_user_has_to_mend_is_raised_at_once(error):
    lines = []
    with pytest.raises(type(error)) as raised:
        patiently(failing(error), lines.append, (1,), pytest.fail)
    assert raised.value is error and not lines


def test_patience_ends_with_the_last_error():
    waits = []
    errors = [StoreBusy(str(number)) for number in range(4)]
    with pytest.raises(StoreBusy, match="3"):
        patiently(failing(*errors), lambda _: None, (1, 2, 3), waits.append)
    assert waits == [1, 2, 3]


def test_a_module_that_could_not_be_written_tells_by_its_cause():
    def of(cause):
        error = ModuleError("cannot write the module")
        error.__cause__ = cause
        return error

    assert may_pass(of(OSError(errno.ENOSPC, "No space left on device")))
    assert not may_pass(of(PermissionError(errno.EACCES, "Permission denied")))
    assert not may_pass(ModuleError("damaged"))


def test_waiting_is_not_searching():
    now = [100.0]

    def sleep(seconds):
        now[0] += seconds

    clock = SearchClock(lambda: now[0], sleep)
    began = clock()
    now[0] += 3
    patiently(failing(StoreBusy("full"), StoreBusy("full")), lambda _: None, (5, 60), clock.wait)
    assert clock() - began == 3
