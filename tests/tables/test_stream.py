"""Shards on disk: every row once an epoch, in a fresh order, from any position, whole or not at all."""

import os

import numpy as np
import polars as pl
import pytest

from scax.tables import Preprocess, Shards, Split, Stream, TableError, convert

N = 1000


@pytest.fixture
def table(tmp_path):
    """Sorted by target: the hard case for shuffling."""
    pl.DataFrame({"row": np.arange(N), "half": np.arange(N) / 2 + 0.25, "y": np.arange(N) // 250}).write_csv(
        tmp_path / "t.csv"
    )
    return tmp_path / "t.csv"


def _shards(tmp_path, table, fraction=0.2, shard_bytes=1500):
    split = Split(fraction)
    pre = Preprocess.fit(table, "y", drop=["row"], split=split)
    return pre, convert(table, pre, tmp_path / "shards", split=split, shard_bytes=shard_bytes)


def _row(pre, x):
    """The number of the row, read off its feature."""
    return np.round((x[..., 0] * pre.scale[0] + pre.mean[0] - 0.25) * 2).astype(int)


def test_every_row_once_an_epoch(tmp_path, table):
    pre, shards = _shards(tmp_path, table)
    assert len(shards.sizes) > 3
    assert (shards.rows, shards.width) == (800, 1)
    stream = Stream(shards, seed=1)
    x, y = stream.chunk(40, 20)
    assert (x.shape, y.shape, x.dtype, y.dtype) == ((40, 20, 1), (40, 20), np.float32, np.int32)
    first = _row(pre, x).ravel()
    held = Split(0.2).held_out(0, N)
    np.testing.assert_array_equal(np.sort(first), np.flatnonzero(~held))
    np.testing.assert_array_equal(y.ravel(), first // 250)
    second = _row(pre, stream.chunk(40, 20)[0]).ravel()
    np.testing.assert_array_equal(np.sort(second), np.sort(first))
    assert (first != second).mean() > 0.9
    # a sorted table is mixed: no batch of 20 is nearly of one class
    assert max(np.bincount(b, minlength=4).max() for b in y) < 18


def test_any_position_any_chunks(tmp_path, table):
    _, shards = _shards(tmp_path, table)
    x, y = Stream(shards, seed=2).chunk(100, 17)  # more than two epochs
    stream, parts = Stream(shards, seed=2), []
    for steps in (1, 30, 69):
        stream.ahead(steps, 17)
        stream.ahead(steps + 1, 17)  # one at a time: ignored
        parts.append(stream.chunk(steps, 17))
    assert stream.position == 1700
    np.testing.assert_array_equal(np.concatenate([p[0] for p in parts]), x)
    np.testing.assert_array_equal(np.concatenate([p[1] for p in parts]), y)
    resumed = Stream(shards, seed=2, position=31 * 17)
    resumed.ahead(5, 3)  # another size than asked for next: drawn anew
    np.testing.assert_array_equal(resumed.chunk(69, 17)[0], x[31:])
    assert (Stream(shards, seed=3).chunk(100, 17)[0] != x).any()


def test_whole_arrays(tmp_path, table):
    pre, shards = _shards(tmp_path, table)
    x, y = shards.arrays()
    np.testing.assert_array_equal(y, _row(pre, x) // 250)
    assert len(x) == 800
    xv, yv = shards.held_out()
    held = np.flatnonzero(Split(0.2).held_out(0, N))
    np.testing.assert_array_equal(np.sort(_row(pre, xv)), held)
    few, labels = shards.held_out(40)
    assert len(few) == len(labels) == 40
    assert len(np.unique(_row(pre, few))) == 40
    assert np.bincount(labels).min() > 3
    np.testing.assert_array_equal(shards.held_out(10**9)[1], yv)
    _, none = _shards(tmp_path / "b", table, fraction=0.0)
    assert none.held_out()[0].shape == (0, 1)


def test_made_once_and_recognized(tmp_path, table):
    pre, shards = _shards(tmp_path, table)
    before = os.stat(shards.folder / "shards.json").st_mtime_ns
    again = convert(table, pre, tmp_path / "shards", split=Split(0.2), shard_bytes=1500)
    assert again == shards == Shards.open(shards.folder)
    assert os.stat(shards.folder / "shards.json").st_mtime_ns == before
    with pytest.raises(TableError, match="holds another converted table"):
        convert(table, pre, tmp_path / "shards", split=Split(0.1), shard_bytes=1500)


def test_not_whole(tmp_path, table, monkeypatch):
    pre, shards = _shards(tmp_path, table)
    victim = shards.folder / "train-x-0001.npy"
    whole = victim.read_bytes()
    victim.write_bytes(whole[:-200])
    with pytest.raises(TableError, match="not a whole converted table"):
        Shards.open(shards.folder)
    victim.write_bytes(b"x" * len(whole))
    with pytest.raises(TableError, match=r"Shard 1 .* is damaged"):
        Stream(shards).chunk(1, 800)
    with pytest.raises(TableError, match="not a whole converted table"):
        Shards.open(tmp_path)
    about = shards.folder / "shards.json"
    text = about.read_text()
    for odd in ("[" * 100_000, '{"version": 1}', "[]", text.replace('"width": ', '"width": -')):
        about.write_text(odd)
        with pytest.raises(TableError, match="not a whole converted table"):
            Shards.open(shards.folder)
    about.unlink()
    os.mkfifo(about)
    with pytest.raises(TableError, match="not a whole converted table"):
        Shards.open(shards.folder)
    # a table that turns out bad half-way, or a full disk, leaves nothing behind
    bad = tmp_path / "bad.csv"
    bad.write_text(table.read_text() + "x,y,z\n")
    with pytest.raises(TableError, match="in row 1001"):
        convert(bad, pre, tmp_path / "other")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("scax.tables.shard_writer.os.fsync", full)
    with pytest.raises(TableError, match="disk is full"):
        convert(table, pre, tmp_path / "other")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.csv", "shards", "t.csv"]


def test_an_error_while_reading_ahead_is_told(tmp_path, table):
    _, shards = _shards(tmp_path, table)
    stream = Stream(shards)
    for path in shards.folder.glob("train-x-*"):
        path.unlink()
    stream.ahead(1, 10)
    with pytest.raises(TableError, match="is damaged"):
        stream.chunk(1, 10)


def test_a_frame_is_converted_but_not_recognized(tmp_path):
    frame = {"a": np.arange(50.0), "y": np.arange(50) % 2}
    pre = Preprocess.fit(frame, "y")
    assert convert(frame, pre, tmp_path / "s").rows == 50
    with pytest.raises(TableError, match="holds another converted table"):
        convert(frame, pre, tmp_path / "s")


def test_shares_make_up_the_batch(tmp_path, table):
    _, shards = _shards(tmp_path, table)
    whole, parts = Stream(shards, seed=3), [Stream(shards, seed=3) for _ in range(3)]
    for part, stream in enumerate(parts):
        stream.share = (part, 3)
    for steps in (30, 70):  # more than two epochs
        x, y = whole.chunk(steps, 18)
        own = [stream.chunk(steps, 18) for stream in parts]
        np.testing.assert_array_equal(np.concatenate([a for a, _ in own], axis=1), x)
        np.testing.assert_array_equal(np.concatenate([b for _, b in own], axis=1), y)
        assert {stream.position for stream in parts} == {whole.position}
