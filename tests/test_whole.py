"""Files and folders that take their names when they are whole."""

from __future__ import annotations

import os

import pytest

from tilework.whole import beside, folder_beside, replacing, write_whole


def test_a_file_is_there_whole_or_as_it_was(tmp_path):
    place = tmp_path / "net.tw"
    write_whole(place, b"old")
    with pytest.raises(RuntimeError), replacing(place) as out:
        out.write(b"half")
        raise RuntimeError
    assert place.read_bytes() == b"old" and os.listdir(tmp_path) == ["net.tw"]
    with replacing(place) as out:
        out.write(b"new")
        assert place.read_bytes() == b"old"
    assert place.read_bytes() == b"new" and os.listdir(tmp_path) == ["net.tw"]


def test_a_folder_goes_with_what_is_in_it(tmp_path):
    with pytest.raises(RuntimeError), folder_beside(tmp_path / "net.onnx") as folder:
        (folder / "deep").mkdir()
        (folder / "deep" / "file").write_text("half")
        raise RuntimeError
    assert not os.listdir(tmp_path)


def test_what_killed_writers_of_a_place_left_is_cleared_away_after_a_day(tmp_path):
    place = tmp_path / "a[1].tw"
    within = beside(beside(place))  # a module is saved under a name that is none yet
    old = [tmp_path / ".a[1].tw.12.part", tmp_path / ".a[1].tw.0f.part", within]
    others = [tmp_path / ".b.tw.12.part", tmp_path / "a[1].tw.12.part", tmp_path / ".a[1].tw"]
    young = beside(place)
    old[0].mkdir()
    (old[0] / "file").write_text("half")
    for path in (*old[1:], *others, young):
        path.write_text("half")
    for path in (*old, *others):
        os.utime(path, (0, 0))
    beside(place)
    assert sorted(tmp_path.iterdir()) == sorted([*others, young])
