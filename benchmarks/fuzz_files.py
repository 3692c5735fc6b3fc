"""Damage files in many ways and see that each is refused with a sentence: python -m benchmarks.fuzz_files

Mutated model and checkpoint files and mutated CSV tables must be read or refused (FileError, TableError), never crash,
hang, raise anything else, run code, or ask for more memory than the file justifies. Every failure is kept, with the
seed that makes it again. `--models 10000 --tables 2000` is the full run.
"""

import argparse
import contextlib
import copy
import json
import random
import resource
import signal
import sys
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from scax._gaussian import Gaussian, Spread
from scax.runs import scoring
from scax.storage import FileError, container, load, load_checkpoint, save_checkpoint
from scax.storage.error_bars import ErrorBars, NetworkJacobian
from scax.storage.model import Model, write_model
from scax.tables import Preprocess, TableError

SECONDS = 20  # for one file: far more than any takes
WORDS = [b"", b"\0", b"\n", b'"', b",", b"nan", b"inf", b"-1", b"1e999", b"9" * 40, b"\xff\xfe", b"[" * 50, b"null"]
STRANGE = [None, -1, 0, 1, 2**31, 2**62, 1.5, 1e308, float("nan"), "", "x", "__import__('os')", [], {}, [[]], True]
NUMBERS = [np.nan, np.inf, -np.inf, 0.0, -1.0, 1e-300, 1e30, -1e38, 1e300, 2**31 - 1]
KINDS = {code: np.dtype(code[0].lower() + str(int(code[1:]) // 8)) for code in ("F32", "F64", "I32", "I64", "C64")}
TEMPLATE = {"w": jnp.arange(12.0), "count": jnp.asarray(3, jnp.int32), "key": jax.random.key(0), "place": 7}


def mutate(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """A few random edits: flipped bits, cuts, copies, known trouble, a piece of another file."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4, 16])):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(8)
        if kind == 0 and data:
            data[min(at, len(data) - 1)] ^= 1 << rng.randrange(8)
        elif kind == 1 and data:
            data[min(at, len(data) - 1)] = rng.randrange(256)
        elif kind == 2:
            del data[at:]
        elif kind == 3:
            del data[at : at + rng.randrange(1, 64)]
        elif kind == 4:
            data[at:at] = rng.choice(WORDS)
        elif kind == 5:
            data[at:at] = data[at : at + rng.randrange(1, 256)] * rng.choice([1, 1, 2, 50])
        elif kind == 6:
            other = rng.choice(others)
            start = rng.randrange(len(other) + 1)
            data[at : at + rng.randrange(64)] = other[start : start + rng.randrange(256)]
        else:
            data[:8] = rng.choice([0, 1, 8, len(data), 2**31, 2**63, 2**64 - 1]).to_bytes(8, "little")
    return bytes(data)


def mutate_header(data: bytes, rng: random.Random) -> bytes:
    """An edit of the header's JSON or of the numbers with the checksum made right again: what a malicious author would
    send."""
    size = int.from_bytes(data[:8], "little")
    header, rest = json.loads(data[8 : 8 + size]), bytearray(data[8 + size :])
    described = json.loads(header["__metadata__"]["description"])
    for _ in range(rng.choice([1, 1, 2, 3])):
        if rng.random() < 0.3:
            _edit_number(header, rest, rng)
        else:
            edit(rng.choice([header, described, described]), rng)
    if isinstance(header.get("__metadata__"), dict):
        header["__metadata__"]["description"] = json.dumps(described)
        header["__metadata__"]["sha256"] = "0" * 64
    return container.seal(header, [rest]) + bytes(rest)


def _edit_number(header: dict, rest: bytearray, rng: random.Random) -> None:
    """Change one number of an array, or how its bytes are read."""
    found = [entry for entry in header.values() if isinstance(entry, dict) and entry.get("dtype") in list(KINDS)]
    if not found:
        return
    entry = rng.choice(found)
    kind = KINDS[entry["dtype"]]
    odd = (KeyError, TypeError, ValueError, OverflowError)  # edited before
    with contextlib.suppress(*odd), np.errstate(all="ignore"):
        start, end = map(int, entry["data_offsets"])
        if rng.random() < 0.2:
            entry["dtype"] = rng.choice([code for code in KINDS if KINDS[code].itemsize == kind.itemsize])
        else:
            at = start + kind.itemsize * rng.randrange((end - start) // kind.itemsize)
            rest[at : at + kind.itemsize] = np.array(rng.choice(NUMBERS)).astype(kind).tobytes()


def edit(value, rng: random.Random, strange: list = STRANGE) -> None:
    """Change one entry somewhere in a JSON value."""
    for _ in range(rng.randrange(1, 7)):
        if isinstance(value, dict) and value:
            key = rng.choice(list(value))
        elif isinstance(value, list) and value:
            key = rng.randrange(len(value))
        else:
            return
        if isinstance(value[key], (dict, list)) and value[key] and rng.random() < 0.8:
            value = value[key]
            continue
        choice = rng.randrange(4)
        if choice == 0:
            del value[key]
        elif choice == 1 and isinstance(value, list):
            value.append(value[key])
        else:
            value[key] = copy.deepcopy(rng.choice(strange))
        return


def model_seeds(folder: Path) -> list[bytes]:
    """Small files of every kind."""
    rng = np.random.default_rng(0)
    table = {"a": rng.normal(size=20), "b": np.array(["x", "y", None, "z"] * 5, object), "y": rng.normal(size=20)}
    made = []
    written = {"day": [f"{i + 1:02}.03.2024" for i in range(20)], "n": 0.5 + np.arange(20)}
    for target, outputs in (("y", 1), ("b2", 3), (None, 2), ("n", 1)):
        data = written if target == "n" else table | {"b2": np.array(["p", "q", "r", "p"] * 5, object)}
        drop = {"y": ["b2"], "b2": ["y"]}.get(target, [])
        pre = None if target is None else Preprocess.fit(data, target, drop=drop, numbers="bins")
        width = 3 if pre is None else pre.schema.width
        layers = tuple(
            (rng.normal(size=s).astype(np.float32), np.zeros(s[1], np.float32)) for s in ((width, 4), (4, outputs))
        )
        link = "softmax" if target == "b2" else "identity"
        for members in (0, 2 if target == "y" else 1):
            bars = error_bars(layers, link, members, rng) if members else None
            write_model(folder / "seed", Model(layers, "tanh", "linear", link, pre, {"note": "seed"}, bars))
            made.append((folder / "seed").read_bytes())
    save_checkpoint(folder / "seed", TEMPLATE, {"step": 3})
    return [*made, (folder / "seed").read_bytes()]


def error_bars(layers: Sequence[tuple[np.ndarray, np.ndarray]], link: str, members: int, rng) -> ErrorBars:
    """Of a network without training: both forms, and for numbers a noise that varies."""
    k, width, made = layers[-1][0].shape[1], layers[0][0].shape[0] + layers[-1][0].shape[0], []
    for m in range(members):
        jacobian = NetworkJacobian.of(layers, "tanh", "linear", last=m == 1)
        q = len(jacobian.support)
        if m == 0 and link == "identity":
            gaussian = Gaussian("rows", rng.normal(size=(5, q)) / q, np.full(q, 0.1))
        else:
            gaussian = Gaussian("weights", np.tril(rng.normal(size=(q, q))))
        made.append((jacobian, gaussian))
    if link == "softmax":
        return ErrorBars(tuple(made), link, np.ones(k), None, np.zeros((1, k)), (), (0.9, 0.3))
    spread = Spread(np.zeros(width), np.ones(width), rng.normal(size=width), 0.1)
    studentized = np.sort(rng.normal(size=(9, k)), axis=0)
    return ErrorBars(tuple(made), link, np.ones(k), np.ones(k), studentized, (spread,) + (None,) * (k - 1))


def table_seeds() -> list[bytes]:
    rng = np.random.default_rng(0)
    lines = ["a,b,flag,y"]
    lines += [f"{rng.normal():.4f},{'uvw'[i % 3]},{['yes', 'no'][i % 2]},{rng.normal():.3f}" for i in range(30)]
    quoted = ['"na me";x;y'] + [f'"v ""{i % 4}""\n more";{i * 1.5};{"pq"[i % 2]}' for i in range(30)]
    missing = ["a\tb\ty"] + [f"{'' if i % 5 == 0 else i}\t{'NA' if i % 3 == 0 else i * 2}\t{i % 3}" for i in range(30)]
    return ["\n".join(text).encode() + b"\n" for text in (lines, quoted, missing)]


def try_model(path: Path) -> None:
    """Read the file as a model and as a checkpoint; a model that loads must also predict and be scored, or refuse."""
    row = {"a": [0.5], "b": ["x"], "b2": ["p"], "y": [1], "day": ["24.12.2024"], "n": ["1.000,5"]}
    with contextlib.suppress(FileError, TableError):
        model = load(path)
        x = np.zeros((2, model.widths[0])) if model.preprocess is None else row
        model.predict(x)
        if model.preprocess is not None:
            scoring.scores(model.preprocess, model.outputs(x), model.preprocess.target(x))
        if model.error_bars is not None and model.classes:
            model.predict_proba(x, calibrated=True)
        elif model.error_bars is not None:
            found = model.predict_interval(x, 0.9)
            assert np.all(found[..., 0] <= found[..., 1]) or not np.isfinite(model.predict_std(x)).all(), found
    with contextlib.suppress(FileError):
        load_checkpoint(path, TEMPLATE)


def try_table(path: Path) -> None:
    for target in ("y", "flag"):
        try:
            pre = Preprocess.fit(path, target)
            pre.transform(path)
            pre.target(path)
        except TableError as error:
            if len(str(error)) > 1000 or "Traceback" in str(error):
                raise AssertionError(f"not a sentence: {error}") from None


def fuzz(name: str, count: int, seeds: list[bytes], trial: Callable[[Path], None], seed: int, most: int) -> list[str]:
    """Failures, each told in a line."""
    failures, began = [], time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        for i in range(count):
            rng = random.Random(f"{name} {seed} {i}")
            data = rng.choice(seeds)
            data = mutate_header(data, rng) if most and rng.random() < 0.4 else mutate(data, rng, seeds)
            path.write_bytes(data)
            if most:
                tracemalloc.start()
            signal.alarm(SECONDS)
            try:
                trial(path)
                peak = tracemalloc.get_traced_memory()[1] if most else 0
                if peak > most + 60 * len(data):
                    failures.append(f"{name} {i}: {peak:,} bytes for a file of {len(data):,}")
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                failures.append(f"{name} {i}: {type(error).__name__}: {str(error)[:200]}")
            finally:
                signal.alarm(0)
                if most:
                    tracemalloc.stop()
    spent = time.perf_counter() - began
    print(f"{name}: {count:,} files, {len(failures)} failures, {spent:.1f} s", flush=True)
    return failures


class Hang(Exception):
    pass


def _hang(*_):
    raise Hang(f"no answer in {SECONDS} s")


_FORBIDDEN = ("exec", "compile", "os.system", "subprocess.Popen", "pickle.find_class", "marshal.loads", "ctypes.dlopen")
_watch = False


def _no_execution(event: str, _) -> None:
    """Once everything is imported, reading a file has no business with any of these."""
    if _watch and event in _FORBIDDEN:
        raise RuntimeError(f"reading a file led to {event}")


def run(models: int, tables: int, seed: int = 0) -> list[str]:
    """All failures, for the test suite too."""
    global _watch
    before = signal.signal(signal.SIGALRM, _hang)
    sys.addaudithook(_no_execution)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("error")  # a warning from below is a case not thought of
        model_files, table_files = model_seeds(Path(folder)), table_seeds()
        for trial, seeds in ((try_model, model_files), (try_table, table_files)):
            for data in seeds:  # whole files first: everything is imported when the watch begins
                (Path(folder) / "seed").write_bytes(data)
                trial(Path(folder) / "seed")
        try:
            _watch = True
            failures = fuzz("model", models, model_files, try_model, seed, 4 << 20)
            return failures + fuzz("table", tables, table_files, try_table, seed, 0)
        finally:
            _watch = False
            signal.signal(signal.SIGALRM, before)


def main() -> int:
    parser = argparse.ArgumentParser(description="Damage files in many ways and see that each is refused.")
    parser.add_argument("--models", type=int, default=10_000)
    parser.add_argument("--tables", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    failures = run(options.models, options.tables, options.seed)
    for line in failures[:50]:
        print(line)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
