"""The cache of compiled forms: whatever lies in its folder, a program goes on."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import tilework as tw
from tilework.errors import TileworkError
from tilework.session import ModuleCache
from tilework.session.entry import fold

TARGET = "llvm -mcpu=native -num-cores=1"


@pytest.fixture(scope="module")
def module():
    return tw.compile(tw.zoo.get("mlp", batch=2), TARGET)


@pytest.fixture
def cache(tmp_path):
    return ModuleCache(tmp_path / "cache")


def outputs(module):
    x = np.random.default_rng(0).standard_normal(module.inputs["data"].shape)
    return module.run(x.astype(np.float32))[0]


def entry_of(cache):
    (path,) = cache.folder.glob("*.entry")
    return path


def test_what_is_kept_is_found_again(cache, module):
    key = cache.key("model", b"weights")
    assert cache.get(key) is None
    cache.put(key, module)
    found = cache.get(key)
    assert found is not module
    assert found.summary() == module.summary()
    assert np.array_equal(outputs(found), outputs(module))
    assert os.stat(cache.folder).st_mode & 0o777 == 0o700
    assert [p.suffix for p in cache.folder.iterdir()] == [".entry"]


def test_keys_tell_where_a_part_ends():
    assert ModuleCache.key("ab", "c") != ModuleCache.key("a", "bc")
    assert ModuleCache.key("a", b"b") == ModuleCache.key(b"a", "b")
    with pytest.raises(ValueError, match="no key"):
        ModuleCache().get("../../etc/passwd")


def test_the_number_of_threads_is_kept(cache):
    module = tw.compile(tw.zoo.get("mlp", batch=1), "llvm -mcpu=native -num-cores=2")
    module.set_threads(1)
    cache.put(cache.key("a"), module)
    assert cache.get(cache.key("a")).num_threads == 1


def test_any_damage_is_a_miss_and_is_replaced(cache, module):
    key = cache.key("model")
    cache.put(key, module)
    path = entry_of(cache)
    whole = path.read_bytes()
    rng = random.Random(0)
    padding = 0
    for _ in range(150):
        at = rng.randrange(len(whole))
        damaged = bytearray(whole)
        damaged[at] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        found = cache.get(key)
        if found is not None:  # bytes between blocks are nobody's
            assert whole[at] == 0
            padding += 1
            assert np.array_equal(found.image.constants, module.image.constants)
    assert padding < 20
    for size in (0, 1, 20, 60, 3000, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert cache.get(key) is None
    cache.put(key, module)
    assert np.array_equal(outputs(cache.get(key)), outputs(module))


def test_an_entry_of_another_key_or_version_is_a_miss(cache, module, monkeypatch):
    cache.put(cache.key("a"), module)
    entry_of(cache).rename(cache.folder / f"{cache.key('b')}.entry")
    assert cache.get(cache.key("b")) is None
    cache.put(cache.key("b"), module)
    monkeypatch.setattr("tilework.session.entry.ABI_VERSION", 10_000)
    assert cache.get(cache.key("b")) is None


def test_a_folder_in_the_place_of_an_entry_is_a_miss(cache, module):
    key = cache.key("a")
    (cache.folder / f"{key}.entry").mkdir(parents=True)
    (cache.folder / f"{key}.note").mkdir()
    assert cache.get(key) is None
    cache.put(key, module)  # cannot be; is no error
    cache.put_note(key, 1)
    assert cache.get(key) is None and cache.note(key) is None


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path, module):
    (tmp_path / "file").write_text("")
    cache = ModuleCache(tmp_path / "file" / "cache")
    cache.put(cache.key("a"), module)
    assert cache.get(cache.key("a")) is None


def test_a_folder_that_others_may_write_is_not_used(cache, module, caplog):
    cache.put(cache.key("a"), module)
    cache.folder.chmod(0o777)
    assert cache.get(cache.key("a")) is None
    cache.put(cache.key("b"), module)
    assert len(list(cache.folder.iterdir())) == 1
    assert "others may write there" in caplog.text


def test_what_was_used_longest_ago_goes(tmp_path, module):
    size = ModuleCache(tmp_path / "probe")
    size.put(size.key("a"), module)
    cache = ModuleCache(tmp_path / "cache", 3 * entry_of(size).stat().st_size)
    keys = [cache.key(str(i)) for i in range(4)]
    for i, key in enumerate(keys[:3]):
        cache.put(key, module)
        os.utime(cache.folder / f"{key}.entry", (1000 + i, 1000 + i))
    assert cache.get(keys[0]) is not None  # used now
    cache.put(keys[3], module)
    assert [cache.get(k) is not None for k in keys] == [True, False, True, True]
    small = ModuleCache(tmp_path / "small", 1)
    small.put(keys[0], module)
    small.put(keys[1], module)
    assert [small.get(k) is not None for k in keys[:2]] == [False, True]


def test_temporary_files_of_the_dead_go(cache, module):
    cache.put(cache.key("a"), module)
    old, young = cache.folder / ".x.part", cache.folder / ".y.part"
    old.write_text("")
    young.write_text("")
    os.utime(old, (1000, 1000))
    cache.put(cache.key("b"), module)
    assert not old.exists() and young.exists()


def test_notes(cache):
    key = cache.key("a")
    assert cache.note(key) is None
    cache.put_note(key, {"b": [1, "2", None]})
    assert cache.note(key) == {"b": [1, "2", None]}
    (path,) = cache.folder.iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    assert cache.note(key) is None
    cache.clear()
    assert not list(cache.folder.iterdir())


def test_one_makes_what_several_want(cache):
    made, order = [], []

    def work():
        with cache.making(cache.key("a")) as waited:
            if not waited:
                time.sleep(0.2)
                made.append(1)
            order.append(waited)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert made == [1] and order == [False, True, True, True]


def test_the_lock_of_a_dead_process_is_free(cache):
    code = f"""
        import os
        from tilework.session import ModuleCache

        cache = ModuleCache({str(cache.folder)!r})
        with cache.making(cache.key("a")):
            os._exit(1)
        """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], timeout=600)
    with cache.making(cache.key("a")) as waited:
        assert not waited


def test_settings_of_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("TILEWORK_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert ModuleCache().folder == tmp_path / "tilework" / "modules"
    monkeypatch.setenv("TILEWORK_CACHE", str(tmp_path / "mine"))
    monkeypatch.setenv("TILEWORK_CACHE_BYTES", "12")
    assert ModuleCache().folder == tmp_path / "mine"
    assert ModuleCache().limit_bytes == 12
    monkeypatch.setenv("TILEWORK_CACHE_BYTES", "much")
    with pytest.raises(TileworkError, match="TILEWORK_CACHE_BYTES must be a number"):
        ModuleCache()


def test_the_digest_of_a_block_tells_order_and_length():
    data = np.random.default_rng(0).integers(0, 256, (3 << 20) + 17, np.uint8)
    digests = {fold(data), fold(data[:-1]), fold(np.roll(data, 1 << 20)), fold(data[1 << 20 :])}
    changed = data.copy()
    changed[2_000_001] += 1
    assert len(digests | {fold(changed)}) == 5


def test_threads_read_and_write_one_key(cache, module):
    key, expected, wrong = cache.key("a"), outputs(module), []

    def work():
        for _ in range(10):
            cache.put(key, module)
            found = cache.get(key)
            if found is None or not np.array_equal(outputs(found), expected):
                wrong.append(found)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert [p.suffix for p in cache.folder.iterdir()] == [".entry"]


def test_processes_write_one_key_while_writers_are_killed(cache, module, tmp_path):
    """A reader sees a whole entry or none, also when writers die in the middle."""
    module.save(tmp_path / "mlp.tw")
    code = f"""
        import sys
        import tilework as tw
        from tilework.session import ModuleCache

        module = tw.load_module({str(tmp_path / "mlp.tw")!r})
        cache = ModuleCache({str(cache.folder)!r})
        print("ready", flush=True)
        while True:
            cache.put(cache.key("a"), module)
        """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]
    try:
        for one in writers:
            one.stdout.readline()
        cache.put(cache.key("a"), module)
        for i in range(40):
            assert cache.get(cache.key("a")) is not None
            if i == 20:
                writers[0].kill()
    finally:
        for one in writers:
            one.kill()
            one.wait()
    assert np.array_equal(outputs(cache.get(cache.key("a"))), outputs(module))
