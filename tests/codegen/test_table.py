"""What we generate is what the committed table says, whatever the LLVM and the host."""

from __future__ import annotations

import pytest

from tests.codegen.case import TARGETS
from tests.codegen.table import GROUPS, differences, read

ENGINE = [group for group in GROUPS if group != "recorded"]  # whose files need pyarrow


@pytest.mark.parametrize("group", ENGINE)
def test_code_is_what_the_table_says(group):
    told = [f"  {name} {how}" for name, how in differences(group)]
    assert not told, "\n".join([
        "generated code changed. If it was meant to, say why in the commit and renew the table: "
        "python -m tests.codegen.renew", *told,
    ])  # fmt: skip


def test_the_table_covers_what_it_must():
    names = list(read())
    assert names == sorted(names) and len(names) >= 280
    assert {name.partition(":")[0] for name in names} == set(GROUPS)
    assert {name.partition(" | ")[2] for name in names} == set(TARGETS)
