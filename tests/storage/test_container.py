"""The container: what goes in comes out to the bit; what was not written whole, or was altered, is refused."""

import errno
import json
import os
import subprocess
import sys
import time

import hypothesis
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from scax.storage import FileError, container, read, whole, write

ARRAYS = hnp.arrays(
    st.sampled_from([np.float32, np.float64, np.int32, np.uint8, np.uint32, np.int64, np.bool_, np.float16]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)


@hypothesis.given(arrays=st.dictionaries(st.text(min_size=1, max_size=8), ARRAYS, max_size=5))
def test_round_trip(arrays, tmp_path_factory):
    hypothesis.assume("__metadata__" not in arrays and not any("\ud800" <= c <= "\udfff" for n in arrays for c in n))
    path = tmp_path_factory.mktemp("f") / "a.scax"
    write(path, "test", {"note": "é", "n": 3}, arrays)
    back = read(path, "test")
    assert back.description == {"note": "é", "n": 3}
    assert set(back.arrays) == set(arrays)
    for name, array in arrays.items():
        found = back.arrays[name]
        assert (found.dtype, found.shape, found.tobytes()) == (array.dtype, array.shape, array.tobytes())


def test_arrays_that_are_not_contiguous_and_unusual_types(tmp_path):
    base = np.arange(24.0).reshape(4, 6)
    arrays = {"t": base.T, "s": base[::2, ::-1], "b": base.astype(ml_dtypes.bfloat16), "e": base.astype(">f4")}
    write(tmp_path / "a", "test", {}, arrays)
    back = read(tmp_path / "a").arrays
    for name, array in arrays.items():
        np.testing.assert_array_equal(back[name], array)
    assert back["b"].dtype == ml_dtypes.bfloat16


def test_any_safetensors_reader_opens_it(tmp_path):
    arrays = {"a": np.arange(3, dtype=np.uint8), "b": np.eye(2), "c": np.float32(1.5)}
    write(tmp_path / "a.scax", "test", {}, arrays)
    found = safetensors.numpy.load_file(tmp_path / "a.scax")
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


def test_objects_are_refused(tmp_path):
    with pytest.raises(FileError, match="'a' is of type object"):
        write(tmp_path / "a", "test", {}, {"a": np.array([{}])})
    assert not list(tmp_path.iterdir())


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.scax"
    write(path, "test", {"x": 1}, {"a": np.arange(5.0), "b": np.ones((2, 3), np.float32)})
    return path


def test_every_cut_is_noticed(file):
    whole_file = file.read_bytes()
    for n in range(len(whole_file)):
        file.write_bytes(whole_file[:n])
        with pytest.raises(FileError, match=r"damaged|not a file"):
            read(file)
    file.write_bytes(whole_file + b"\0")
    with pytest.raises(FileError, match="damaged"):
        read(file)


def test_every_altered_byte_is_noticed(file):
    whole_file = file.read_bytes()
    for i in range(len(whole_file)):
        file.write_bytes(whole_file[:i] + bytes([whole_file[i] ^ 1]) + whole_file[i + 1 :])
        with pytest.raises(FileError):
            read(file)


def test_newer_version_other_kind_other_file(file, tmp_path, monkeypatch):
    with pytest.raises(FileError, match="holds a test, not a model"):
        read(file, "model")
    monkeypatch.setattr(container, "VERSION", 7)
    write(tmp_path / "new", "test", {}, {})
    monkeypatch.undo()
    with pytest.raises(FileError, match=r"newer scax \(file format 7; this one reads up to 1\)\. Upgrade"):
        read(tmp_path / "new")
    safetensors.numpy.save_file({"a": np.ones(2)}, tmp_path / "other")
    with pytest.raises(FileError, match="not a file that scax has written"):
        read(tmp_path / "other")


def test_missing_folder_pipe(tmp_path):
    with pytest.raises(FileError, match="does not exist"):
        read(tmp_path / "nothing")
    with pytest.raises(FileError, match="is a directory"):
        read(tmp_path)
    with pytest.raises(FileError, match="is a directory"):
        write(tmp_path, "test", {}, {})
    with pytest.raises(FileError, match=r"folder .* does not exist"):
        write(tmp_path / "no" / "a", "test", {}, {})


def _forged(path, header, data=b""):
    text = json.dumps(header).encode() if isinstance(header, dict) else header
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 4 * 2**40]},
        {"dtype": "F32", "shape": [-1], "data_offsets": [0, -4]},
        {"dtype": "F32", "shape": [1], "data_offsets": [8, 12]},
        {"dtype": "F32", "shape": [0, 2**62], "data_offsets": [0, 0]},
        {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]},
        {"dtype": "O", "shape": [1], "data_offsets": [0, 8]},
        {"dtype": ["F32"], "shape": [1], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [1] * 100, "data_offsets": [0, 4]},
        [1],
        None,
    ],
)
def test_forged_headers_allocate_nothing(tmp_path, entry):
    meta = {"format": "scax", "version": "1", "kind": "test", "description": "{}", "sha256": "0" * 64}
    _forged(tmp_path / "a", {"__metadata__": meta, "a": entry}, b"\0" * 4)
    with pytest.raises(FileError, match="damaged"):
        read(tmp_path / "a")


@pytest.mark.parametrize("text", [b"[" * 100_000, b"{" * 5, b"1" * 10_000, b"\xff\xfe", b'{"__metadata__": 3}', b"[]"])
def test_forged_json(tmp_path, text):
    _forged(tmp_path / "a", text)
    with pytest.raises(FileError):
        read(tmp_path / "a")
    (tmp_path / "a").write_bytes((2**63).to_bytes(8, "little") + text)
    with pytest.raises(FileError, match="cut short"):
        read(tmp_path / "a")


def test_a_full_disk_leaves_the_old_file(file, monkeypatch):
    before = file.read_bytes()

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(whole.os, "fsync", full)
    with pytest.raises(FileError, match="disk is full"):
        write(file, "test", {}, {"a": np.zeros(3)})
    assert file.read_bytes() == before
    assert os.listdir(file.parent) == [file.name]


def test_leftovers_of_a_killed_process_are_swept(file):
    (file.parent / ".a.scax.12-abcd.part").write_bytes(b"half")
    assert whole.remove_parts(file.parent) == 1
    assert os.listdir(file.parent) == [file.name]


def test_a_link_keeps_pointing(file, tmp_path):
    (tmp_path / "link").symlink_to(file)
    write(tmp_path / "link", "test", {"x": 2}, {})
    assert (tmp_path / "link").is_symlink()
    assert read(file).description == {"x": 2}


def test_killed_while_writing(tmp_path):
    """Whatever moment the process dies at, the file is one of those written, whole."""
    code = (
        "import sys, itertools, numpy as np\nfrom scax.storage import write\n"
        "for i in itertools.count():\n    write(sys.argv[1], 'test', {'i': i}, {'a': np.full(200_000, i)})\n"
    )
    path, rng = tmp_path / "a.scax", np.random.default_rng(0)
    write(path, "test", {"i": -1}, {"a": np.full(200_000, -1)})
    for _ in range(5):
        process = subprocess.Popen([sys.executable, "-c", code, path])
        time.sleep(0.4 + 0.3 * rng.random())
        process.kill()
        process.wait()
        found = read(path, "test")
        assert (found.arrays["a"] == found.description["i"]).all()
    whole.remove_parts(tmp_path)
    assert os.listdir(tmp_path) == ["a.scax"]
