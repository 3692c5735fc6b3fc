"""Several processes that take every step together: what they give, and what happens when one of them dies."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import scax as library
from scax.storage import read

from .tables import regression

TRAIN = ("train", "t.csv", "--target", "price", "--steps", "1500", "--batch-size", "6", "--hidden", "4")


def begin(*arguments: str, **environment: str) -> subprocess.Popen:
    path = os.pathsep.join([str(Path(library.__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-m", "scax", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": path, "JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu"} | environment,
    )


def records(run: str) -> list[dict]:
    path = Path(run, "metrics.jsonl")
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.is_file() else []


def wait_for(run: str, step: int, process: subprocess.Popen) -> None:
    """Until the run has recorded a step beyond `step`."""
    end = time.monotonic() + 120
    while not (known := records(run)) or known[-1]["step"] <= step:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)


def ended(process: subprocess.Popen, code: int) -> tuple[str, str]:
    out, err = process.communicate(timeout=200)
    assert process.returncode == code, err
    return out, err


def weights(run: str) -> np.ndarray:
    return read(Path(run, "checkpoint.safetensors")).arrays["state.state.w"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds its processes in /proc")
def test_a_death_ends_the_others_and_any_number_goes_on(scax, x64):
    """Two processes under launch, one killed; two by hand, one killed; then one alone: the run of one process."""
    regression(Path("t.csv"))
    assert scax(*TRAIN, "--out", "alone").code == 0

    crew = begin("launch", "-n", "2", "--", *TRAIN, "--out", "run", "--save-every", "0")
    wait_for("run", 3, crew)
    children = Path(f"/proc/{crew.pid}/task/{crew.pid}/children").read_text().split()
    assert len(children) == 2
    second = next(c for c in children if "--process-id\x001" in Path(f"/proc/{c}/cmdline").read_text())
    os.kill(int(second), signal.SIGKILL)
    out, err = ended(crew, 1)
    *progress, last = err.splitlines()  # a slow machine shows its progress before
    assert all(line.startswith("scax: step ") for line in progress)
    assert last.startswith("scax: process 1 of 2 was killed (SIGKILL), so the others were ended")
    assert not Path(f"/proc/{children[0]}").exists()
    assert out.count("Training a 5/4/1 network") == 1
    reached = records("run")[-1]["step"]
    assert reached < 1500

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    flags = ("--save-every", "0", "--hosts", address, "--processes", "2", "--process-id")
    pair = [begin("resume", "run", *flags, str(i)) for i in range(2)]
    wait_for("run", reached, pair[0])
    pair[1].kill()
    out, err = ended(pair[0], 75)
    assert "another process of this run has ended" in err
    assert pair[1].communicate()[0] == ""  # it left the talking to the first
    assert "Resuming run at step" in out

    assert scax("resume", "run").code == 0
    for one, other in zip(records("alone"), records("run"), strict=True):
        assert one["step"] == other["step"]
        if one["step"] <= reached:
            assert other["objective"] == pytest.approx(one["objective"], rel=1e-10)
    np.testing.assert_allclose(weights("run"), weights("alone"), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("manager", ["slurm", "open mpi"])
def test_processes_that_a_cluster_started_find_each_other(manager, scax, x64):
    """--hosts auto with the variables that srun and mpirun set, here by hand; JAX reads them."""
    regression(Path("t.csv"))
    short = (*TRAIN, "--steps", "60")
    assert scax(*short, "--out", "alone").code == 0
    with socket.socket() as free:  # both managers' coordinators listen at 61440 + (a job's number mod 4096)
        free.bind(("127.0.0.1", 0))
        job = free.getsockname()[1] % 4096
    here = {"JAX_COORDINATOR_BIND_ADDRESS": f"127.0.0.1:{61440 + job}"}  # and at no other address

    def told(i: int) -> dict[str, str]:
        if manager == "slurm":
            fixed = {"SLURM_JOB_ID": str(job), "SLURM_STEP_NODELIST": "localhost", "SLURM_NTASKS": "2"}
            return here | fixed | {"SLURM_PROCID": str(i), "SLURM_LOCALID": str(i)}
        fixed = {"OMPI_MCA_orte_hnp_uri": f"{4096 * job}.0;tcp://127.0.0.1:1234", "OMPI_COMM_WORLD_SIZE": "2"}
        return here | fixed | {"OMPI_COMM_WORLD_RANK": str(i), "OMPI_COMM_WORLD_LOCAL_RANK": str(i)}

    pair = [begin(*short, "--out", "run", "--hosts", "auto", **told(i)) for i in range(2)]
    try:
        ended(pair[0], 0)
        assert ended(pair[1], 0)[0] == ""  # it left the talking to the first
    finally:
        for process in pair:
            process.kill()
    np.testing.assert_allclose(weights("run"), weights("alone"), rtol=1e-8, atol=1e-10)


def test_a_polite_kill_is_heard_by_a_process_that_has_joined(monkeypatch, tmp_path):
    """JAX's own service for such signals would take it away, and the run would go on to its end."""
    monkeypatch.chdir(tmp_path)
    regression(Path("t.csv"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    flags = ("--hosts", address, "--processes", "1", "--process-id", "0", "--save-every", "0")
    process = begin(*TRAIN, "--steps", "10000000", "--out", "run", *flags)
    try:
        wait_for("run", 3, process)
        process.terminate()
        _, err = ended(process, 130)
    finally:
        process.kill()
    assert "scax resume run" in err


def test_refusals(refused):
    regression(Path("t.csv"))
    assert "launch runs train and resume, not 'predict'" in refused("launch", "-n", "2", "--", "predict", "run")
    assert "leave it out" in refused("launch", "-n", "2", "--", *TRAIN, "--hosts", "a:1")
    assert "must be between 1 and" in refused("launch", "-n", "0", "--", *TRAIN)
    assert "go with --hosts" in refused(*TRAIN, "--processes", "2")
    assert "HOST:PORT" in refused(*TRAIN, "--hosts", "here")
    assert "needs --processes and --process-id" in refused(*TRAIN, "--hosts", "here:1234")
    assert "between 0 and 1" in refused(*TRAIN, "--hosts", "here:1234", "--processes", "2", "--process-id", "2")


def test_rows_may_stay_on_disk(scax, monkeypatch):
    """Shards are written aside with the rest of the folder, and read from its final place."""
    from importlib import import_module

    reading = import_module("scax.runs.reading")
    monkeypatch.setattr(reading, "IN_MEMORY", 0)
    regression(Path("t.csv"))
    outcome = scax(*TRAIN, "--out", "run", "--steps", "20")
    assert outcome.code == 0, outcome.err
    shutil.rmtree("run/shards")
    assert len(records("run")) > 3
