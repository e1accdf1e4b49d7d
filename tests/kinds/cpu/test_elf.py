"""Object files of every architecture, read on this one: good ones, damaged ones, hostile ones."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from tests.te.workloads import conv2d_relu, softmax
from tilework import te
from tilework.kinds.cpu.build import build
from tilework.kinds.cpu.elf import BadObject, read_object
from tilework.kinds.cpu.llvm.assembler import emit_object
from tilework.kinds.cpu.llvm.pool import SYMBOLS, plainest_target, pool_object
from tilework.kinds.cpu.relocations import MACHINES
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask

EVERYTHING = """
@bytes = internal global [3 x i8] c"abc"
@halves = internal global [3 x i16] [i16 1, i16 2, i16 3]
@words = internal global [3 x i32] [i32 1, i32 2, i32 3]
@longs = internal global [3 x i64] [i64 1, i64 2, i64 3]
@vectors = internal global [3 x <4 x float>] zeroinitializer
@far = external global i32
@here = internal global [9 x i8] zeroinitializer
@address = global ptr @longs
@way = global i32 trunc (i64 sub (i64 ptrtoint (ptr @run to i64), i64 ptrtoint (ptr @way to i64)) to i32)
@long_way = global i64 sub (i64 ptrtoint (ptr @far to i64), i64 ptrtoint (ptr @long_way to i64))
declare i64 @other(i64)
define i64 @run(ptr %out) nounwind {
  %a = load volatile i8, ptr @bytes
  %b = load volatile i16, ptr @halves
  %c = load volatile i32, ptr @words
  %d = load volatile i64, ptr @longs
  %e = load volatile <4 x float>, ptr @vectors
  store volatile <4 x float> %e, ptr @vectors
  store ptr @here, ptr %out
  %f = load volatile i32, ptr @far
  %g = call i64 @other(i64 %d)
  %h = tail call i64 @other(i64 %g)
  ret i64 %h
}
"""  # noqa: E501
"""What makes LLVM write relocations of all kinds that our code can have."""

NUMBERS = {"x86_64": {1, 2, 4, 24, 42}, "aarch64": set(MACHINES["aarch64"].relocations)}
"""Relocations that it writes; x86's 9 and 41 are 42 with other instructions."""


def target(arch: str, cpu: str = "generic") -> Target:
    return Target(f"llvm -mcpu={cpu} -mtriple={arch}-linux-gnu -num-cores=2")


class Object:
    """An object file whose relocations can be changed."""

    ENTRY = struct.Struct("<QIIq")

    def __init__(self, code: bytes) -> None:
        self.code = bytearray(code)
        head = struct.unpack_from("<16sHHIQQQIHHHHHH", code)
        sections = range(head[6], head[6] + 64 * head[12], 64)
        tables = [struct.unpack_from("<IIQQQQIIQQ", code, at) for at in sections]
        self.places = {}
        """Of the first relocation of each kind: where its entry stands, and its section."""
        for _, kind, _, _, offset, size, _, info, *_ in tables:
            for at in range(offset, offset + size, self.ENTRY.size) if kind == 4 else ():
                self.places.setdefault(self.ENTRY.unpack_from(code, at)[1], (at, tables[info][4]))

    def entry(self, number) -> dict[str, int]:
        """What the file says of that relocation."""
        found = self.ENTRY.unpack_from(self.code, self.places[number][0])
        return dict(zip(("place", "kind", "symbol", "addend"), found, strict=True))

    def with_entry(self, number, **changes) -> bytes:
        """The file with another place, kind, symbol or addend in that relocation's entry."""
        out = bytearray(self.code)
        values = (self.entry(number) | changes).values()
        self.ENTRY.pack_into(out, self.places[number][0], *values)
        return bytes(out)

    def with_word(self, number, change) -> bytes:
        """The file with another word where the relocation goes."""
        place = self.places[number][1] + self.entry(number)["place"]
        out = bytearray(self.code)
        struct.pack_into("<I", out, place, change(struct.unpack_from("<I", out, place)[0]))
        return bytes(out)


@pytest.fixture(scope="module", params=MACHINES)
def arch(request):
    return request.param


@pytest.fixture(scope="module")
def everything(arch):
    return Object(emit_object(EVERYTHING, target(arch)))


@pytest.fixture(scope="module")
def arm():
    return Object(emit_object(EVERYTHING, target("aarch64")))


def test_every_kind_of_relocation(arch, everything):
    assert set(everything.places) == NUMBERS[arch]
    file = read_object(bytes(everything.code), arch)
    assert file.defined == {"run", "address", "way", "long_way"}
    assert file.needed == {"far", "other"} and not file.unwind


@pytest.mark.parametrize("cpu", ["generic", "neoverse-v1"])
def test_kernels_and_the_threads_of_aarch64(cpu):
    where = target("aarch64", cpu)
    for tensors in (conv2d_relu(1, 9, 9, 8, 24), softmax(4, 40)):
        task = SearchTask(te.ComputeDAG(tensors), where)
        for sketch in SearchSpace.of(task).sketches[:3]:
            row = sketch.sample(np.random.default_rng(0), 1)[0]
            for _, code in build(task, sketch.id, row).objects:
                assert read_object(code, "aarch64").defined
    threads = read_object(pool_object(plainest_target("linux aarch64")), "aarch64")
    assert threads.defined == set(SYMBOLS)


def test_an_object_for_another_machine(everything, arch):
    (other,) = set(MACHINES) - {arch}
    with pytest.raises(BadObject, match="another machine"):
        read_object(bytes(everything.code), other)
    with pytest.raises(BadObject, match="what object files for riscv64 hold is not known"):
        read_object(bytes(everything.code), "riscv64")


@pytest.mark.parametrize(
    "changes, told",
    [
        ({"place": 1 << 20}, r"a relocation at 1048576$"),
        ({"place": (1 << 64) - 4}, r"a relocation at 18446744073709551612$"),
        ({"addend": 1 << 25}, "with the distance 33554432"),
        ({"addend": -(1 << 62)}, "with the distance -"),
        ({"symbol": 0}, "to symbol 0 of"),
        ({"symbol": 999}, "to symbol 999 of"),
        ({"kind": 0}, "of kind 0$"),
        ({"kind": 0x40000000}, "of kind 1073741824$"),
    ],
)
def test_entries_out_of_range(arch, everything, changes, told):
    for number in everything.places:
        with pytest.raises(BadObject, match=told):
            read_object(everything.with_entry(number, **changes), arch)


def test_every_bit_that_is_filled_in_must_be_empty(arch, everything):
    for number in everything.places:
        kind = MACHINES[arch].relocations[number]
        for bit in range(32):
            damaged = everything.with_word(number, lambda word, bit=bit: word ^ 1 << bit)
            if kind.fixed >> bit & 1:
                with pytest.raises(BadObject, match=f"of kind {number}, where"):
                    read_object(damaged, arch)
            else:
                read_object(damaged, arch)


def test_a_place_between_two_instructions(arm):
    for number in AARCH64:
        with pytest.raises(BadObject, match="no instruction"):
            read_object(arm.with_entry(number, place=arm.entry(number)["place"] - 2), "aarch64")


def test_near_ones_stay_within_the_object(arm):
    far = arm.entry(311)["symbol"]
    for number, kind in MACHINES["aarch64"].relocations.items():
        if kind.near:
            with pytest.raises(BadObject, match=f"of kind {number} to another object"):
                read_object(arm.with_entry(number, symbol=far), "aarch64")


AARCH64 = {
    275: 0x90000008,  # adrp x8, page
    277: 0x91000108,  # add x8, x8, low
    278: 0x39400109,  # ldrb w9, [x8, low]
    282: 0x14000000,  # b
    283: 0x94000000,  # bl
    284: 0x79400109,  # ldrh w9, [x8, low]
    285: 0xB9400109,  # ldr w9, [x8, low]
    286: 0xF9400109,  # ldr x9, [x8, low]
    299: 0x3DC00100,  # ldr q0, [x8, low]
    311: 0x90000008,
    312: 0xF9400108,
}
"""An instruction that each relocation belongs to, from the architecture's manual."""


ALSO = {275: {311}, 311: {275}, 286: {312}, 312: {286}, 278: {299}}
"""Relocations that fill in the same instruction; a vector's load is a byte's but for two bits."""


@pytest.mark.parametrize("number", AARCH64)
def test_relocations_fit_their_instructions_only(arm, number):
    nothing, ret, adr, nop = 0, 0xD65F03C0, 0x10000008, 0xD503201F
    alike = {number} | ALSO.get(number, set())
    for other, word in [*AARCH64.items(), (0, nothing), (0, ret), (0, adr), (0, nop)]:
        code = arm.with_word(number, lambda _, word=word: word)
        if other in alike:
            read_object(code, "aarch64")
        else:
            with pytest.raises(BadObject, match=f"of kind {number}, where"):
                read_object(code, "aarch64")
