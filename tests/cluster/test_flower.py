"""Exact rounds on Flower, in its simulation engine and as processes over loopback: `make federated`."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra: pip install 'scax[federated]', or make federated")

ROOT = Path(__file__).parents[2]
ROUNDS = 6
SOURCES = {
    "task": """
import types
import jax, numpy as np, scax
net = scax.MLP((3, 4, 1))
problem = scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3))
params = net.init(jax.random.key(0))

def load(context):
    i = int(context.node_config["partition-id"])
    x = np.random.default_rng(i).normal(size=(40 + 10 * i, 3)).astype(np.float32) + i
    return x, np.sin(x[:, 0]).astype(np.float32)

sites = [load(types.SimpleNamespace(node_config={"partition-id": i})) for i in range(3)]
""",
    "client": """
import scax
from rounds.task import load, params, problem
app = scax.federated.client_app(problem, params, load)
""",
    "server": """
import os, numpy as np, scax
from flwr.serverapp import ServerApp
from rounds.task import params, problem
app = ServerApp()

@app.main()
def main(grid, context):
    rounds = scax.federated.strategy(problem, params, 3)
    rounds.start(grid=grid, initial_arrays=rounds.arrays, num_rounds=6)
    result = os.environ["SCAX_RESULT"]
    np.savez(result + ".part.npz", w=rounds.arrays["w"].numpy(), **rounds.history)
    os.replace(result + ".part.npz", result)  # whole
""",
    "simulation": """
from flwr.simulation import run_simulation
from rounds.client import app as client
from rounds.server import app as server

if __name__ == "__main__":
    resources = {"num_cpus": 1, "num_gpus": 0.0}
    run_simulation(server, client, 3, backend_config={"client_resources": resources, "init_args": {"num_cpus": 1}})
""",
}
PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "rounds"
version = "1.0.0"
license = "Apache-2.0"
dependencies = []
[tool.hatch.build.targets.wheel]
packages = ["."]
[tool.flwr.app]
publisher = "scax"
[tool.flwr.app.components]
serverapp = "rounds.server:app"
clientapp = "rounds.client:app"
"""


@pytest.fixture
def app(tmp_path):
    """(folder of a Flower app, the environment of its processes, the file of its result)."""
    (tmp_path / "rounds").mkdir()
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "rounds" / "__init__.py").write_text("")
    for name, source in SOURCES.items():
        (tmp_path / "rounds" / f"{name}.py").write_text(source)
    result = tmp_path / "result.npz"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {
        "FLWR_HOME": str(tmp_path / "home"), "FLWR_TELEMETRY_ENABLED": "0", "JAX_PLATFORMS": "cpu", "PATH": path,
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{tmp_path}", "SCAX_RESULT": str(result),
    }  # fmt: skip
    return tmp_path, environment, result


@contextlib.contextmanager
def running(command, folder, environment, log):
    """A process and all that it starts, ended with the block."""
    with open(folder / log, "w") as file:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield process
    finally:
        for number, seconds in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(seconds)


def wait_until(condition, seconds: float = 120) -> None:
    """Returns once the condition holds, or when the time is over."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.2)


def is_open(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def check(result: Path, environment: dict, folder: Path) -> None:
    """Flower's rounds end where those of one process do."""
    program = (
        "import sys, numpy as np, jax, scax; from rounds.task import *; "
        f"r = scax.federated.simulate(problem, params, sites, rounds={ROUNDS}); "
        "np.save('judge.npy', problem.layout(params).flatten(r.params))"
    )
    subprocess.run([sys.executable, "-c", program], cwd=folder, env=environment, check=True, timeout=200)
    found = np.load(result)
    assert list(found["answered"]) == [3.0] * ROUNDS
    assert np.sum(found["accepted"]) >= 3
    np.testing.assert_allclose(found["w"], np.load(folder / "judge.npy"), rtol=2e-3, atol=2e-3)


def test_an_answer_holds_sums_and_no_rows(monkeypatch):
    """What a client sends: arrays of the sizes of the weights, and the name of the site."""
    import jax
    from flwr.app import Array, ArrayRecord, Context, Message, RecordDict
    from flwr.supercore.task_identity import TaskIdentity

    import scax

    for name in ("_task_id", "_run_id", "_node_id"):  # those of the process that a message is made in
        monkeypatch.setattr(TaskIdentity, name, 1)

    net = scax.MLP((3, 4, 1))
    problem = scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3))
    params = net.init(jax.random.key(0))
    w = problem.layout(params).flatten(params)
    q, (x, y) = w.size, (np.ones((57, 3), np.float32), np.ones(57, np.float32))
    sizes = {"exact": {1, q, q * (q + 1) // 2}, "local": {1, q}}
    for scheme, allowed in sizes.items():
        app = scax.federated.client_app(problem, params, lambda context: (x, y), scheme=scheme)
        arrays = ArrayRecord({"w": Array(np.asarray(w)), "round": Array(np.asarray(0, np.int32))})
        asked = Message(content=RecordDict({"arrays": arrays}), message_type="train", dst_node_id=1)
        context = Context(run_id=1, node_id=1, node_config={"name": "A"}, state=RecordDict(), run_config={})
        sent = app(asked, context).content
        assert set(sent) == {"arrays", "site"}
        assert dict(sent["site"]) == {"name": "A"}
        assert {array.numpy().size for array in sent["arrays"].values()} == allowed


@pytest.mark.timeout(900)
def test_in_the_simulation_engine(app):
    folder, environment, result = app
    with running([sys.executable, "-m", "rounds.simulation"], folder, environment, "log") as process:
        process.wait(300)
    assert result.exists(), (folder / "log").read_text()[-3000:]
    check(result, environment, folder)


@pytest.mark.timeout(900)
def test_as_processes_over_loopback(app):
    folder, environment, result = app
    fleet, control, port = (free_port() for _ in range(3))
    link = ["flower-superlink", "--insecure", "--disable-runtime-dependency-installation", "--host", "127.0.0.1"]
    link += ["--port", str(port), "--fleet-api-address", f"127.0.0.1:{fleet}"]
    link += ["--control-api-address", f"127.0.0.1:{control}"]
    (folder / "home").mkdir()
    (folder / "home" / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    )
    with contextlib.ExitStack() as stack:
        stack.enter_context(running(link, folder, environment, "link"))
        wait_until(lambda: is_open(port))
        for i in range(3):
            node = ["flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{port}", "--host", "127.0.0.1"]
            node += ["--port", str(free_port()), "--node-config", f"partition-id={i}"]
            stack.enter_context(running(node, folder, environment, f"node{i}"))
        run = subprocess.run(
            ["flwr", "run", ".", "here"], cwd=folder, env=environment, capture_output=True, text=True, timeout=250
        )
        if run.returncode == 0:
            wait_until(result.exists, 250)
        logs = "\n".join((folder / name).read_text()[-1500:] for name in ("link", "node0", "node1", "node2"))
        assert result.exists(), run.stdout + run.stderr + logs
    check(result, environment, folder)
