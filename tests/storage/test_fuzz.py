"""A short run of the fuzzer; python -m benchmarks.fuzz_files is the long one."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_damaged_files_are_refused_with_a_sentence():
    command = [sys.executable, "-m", "benchmarks.fuzz_files", "--models", "400", "--tables", "80", "--seed", "11"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert run.returncode == 0, run.stdout + run.stderr
