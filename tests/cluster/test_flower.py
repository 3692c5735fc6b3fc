"""Exact rounds on Flower, in its simulation engine and as processes over loopback: `make federated`."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import warnings
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


@pytest.fixture
def identity(monkeypatch):
    """Messages are made in a process that has a name."""
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def small():
    """(problem, params, rows of three sites of equal size that are all different)."""
    import jax

    import scax

    net = scax.MLP((3, 4, 1))
    problem = scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3))
    x = (
        np.random.default_rng(0).normal(size=(3, 40, 3)).astype(np.float32)
        + np.arange(3, dtype=np.float32)[:, None, None]
    )
    return problem, net.init(jax.random.key(0)), [(x[i], np.sin(x[i, :, 0])) for i in range(3)]


class Here:
    """A grid whose sites answer in this process; `damage` changes what they send."""

    def __init__(self, problem, params, sites, damage=None, local=None):
        import scax

        self.sites, self.damage, self.asked, self.answers, self.loads = sites, damage, 0, [], []
        self.app = scax.federated.client_app(problem, params, self.load, local=local)

    def load(self, context):
        self.loads.append(context.node_id)
        return self.sites[context.node_id - 1]

    def get_node_ids(self):
        return range(1, len(self.sites) + 1)

    def send_and_receive(self, messages, *, timeout=None):
        from flwr.app import Context, RecordDict

        replies = []
        for message in messages:
            self.asked += 1
            node = message.metadata.dst_node_id
            name = {"name": f"site {node - 1}"}
            context = Context(run_id=1, node_id=node, node_config=name, state=RecordDict(), run_config={})
            reply = self.app(message, context)
            if self.damage is not None:
                self.damage(self.asked, node - 1, reply.content)
            self.answers.append(reply.content)
            replies.append(reply)
        return replies


@pytest.mark.parametrize("scheme", ["exact", "local", "sparse local"])
def test_an_answer_holds_sums_and_no_rows(identity, scheme):
    """All that leaves a site in a run: arrays of the sizes of the weights, and the name of the site."""
    import scax

    problem, params, sites = small()
    q = problem.layout(params).size
    sizes = {"rows": 1, "squares": 1, "loss": 1, "gradient": q, "common": q, "hessian": q * (q + 1) // 2}
    how: dict = {}
    if scheme != "exact":
        sizes = {"rows": 1, "loss": 1, "delta": q}
        how = {"scheme": "local", "local": scax.federated.Local(steps=3)}
    if scheme == "sparse local":
        problem = scax.Problem(problem.apply, problem.loss, scax.L1(1e-3))
        sizes |= {"gradient": q}
    grid = Here(problem, params, sites, local=how.get("local"))
    rounds = scax.federated.strategy(problem, params, 3, **how)
    rounds.start(grid=grid, initial_arrays=rounds.arrays, num_rounds=2)
    assert len(grid.answers) == 6
    for sent in grid.answers:
        assert set(sent) == {"arrays", "site"}
        assert set(sent["site"]) == {"name"}
        arrays = {name: array.numpy() for name, array in sent["arrays"].items()}
        assert {name: array.size for name, array in arrays.items()} == sizes
        for x, _ in sites:  # no input, and no output of a layer, as a piece of what is sent
            values = np.concatenate([array.ravel() for array in arrays.values()])
            outputs = np.tanh(x @ np.asarray(params[0]["weight"]) + np.asarray(params[0]["bias"]))
            assert not np.any(np.isin(np.concatenate([x.ravel(), outputs.ravel()]), values))


def test_the_history_is_that_of_a_simulation(identity):
    """The objective too; and sites of equal size draw different rows."""
    import scax

    problem, params, sites = small()
    for scheme, local in (("exact", None), ("local", scax.federated.Local(steps=3, batch_size=8))):
        rounds = scax.federated.strategy(problem, params, 3, scheme=scheme, local=local)
        grid = Here(problem, params, sites, local=local)
        rounds.start(grid=grid, initial_arrays=rounds.arrays, num_rounds=5)
        judge = scax.federated.simulate(problem, params, sites, rounds=5, scheme=scheme, local=local)
        layout = problem.layout(params)
        w = [layout.flatten(result.params) for result in (rounds, judge)]
        np.testing.assert_allclose(*w, rtol=2e-3, atol=2e-3)
        objective = rounds.history["objective"]
        if scheme == "exact":
            np.testing.assert_allclose(objective, judge.history["objective"], rtol=1e-3)
        else:  # of the weights that the round was sent
            x, y = (np.concatenate(part) for part in zip(*sites, strict=True))
            assert objective[0] == pytest.approx(float(problem.objective(params, x, y)), rel=1e-4)


def test_local_rounds_can_go_before_exact_ones(identity):
    """The same sites answer both."""
    import scax

    problem, params, sites = small()
    local = scax.federated.Local(steps=3, batch_size=8)
    grid = Here(problem, params, sites, local=local)
    begin = scax.federated.strategy(problem, params, 3, scheme="local", local=local)
    begin.start(grid=grid, initial_arrays=begin.arrays, num_rounds=2)
    rounds = scax.federated.strategy(problem, begin.params, 3)
    rounds.start(grid=grid, initial_arrays=rounds.arrays, num_rounds=3)
    first = scax.federated.simulate(problem, params, sites, rounds=2, scheme="local", local=local)
    judge = scax.federated.simulate(problem, first.params, sites, rounds=3)
    np.testing.assert_allclose(rounds.history["objective"], judge.history["objective"], rtol=2e-3)
    assert grid.loads == [1, 2, 3, 1, 2, 3]  # once for each scheme


def test_a_run_ends_where_it_has_converged(identity):
    import scax

    problem, params, sites = small()
    grid = Here(problem, params, sites)
    rounds = scax.federated.strategy(problem, params, 3)
    rounds.start(grid=grid, initial_arrays=rounds.arrays, num_rounds=300)
    assert rounds.status in ("converged", "precision_reached")
    made = len(rounds.history["objective"])
    assert made < 300
    assert grid.asked == 3 * made  # nothing was sent after the end


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda a: a | {"gradient": a["gradient"][:-1]}, r"float32\[20\], expected float32\[21\]"),
        (lambda a: a | {"gradient": a["gradient"].astype(np.float64)}, "gradient is float64"),
        (lambda a: a | {"hessian": -a["hessian"]}, "semidefinite"),
        (lambda a: a | {"loss": -a["loss"]}, "below 0"),
        (lambda a: {name: array for name, array in a.items() if name != "hessian"}, "sent no hessian"),
        (lambda a: a | {"rows": 2 * a["rows"]}, "those it had before"),
    ],
)
def test_a_site_that_sends_what_cannot_be_is_named_and_the_round_goes_on(identity, change, told):
    problem, params, sites = small()
    with pytest.warns(RuntimeWarning, match=f"left out of a round: site site 1: .*{told}"):
        history = five_rounds(problem, params, sites, change)
    assert list(history["left_out"]) == [0, 1, 1, 1, 1]
    assert list(history["overflowed"]) == [0, 0, 0, 0, 0]
    assert history["objective"][-1] < history["objective"][0]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda a: a | {"loss": a["loss"] * np.float32(np.nan)}, "not finite"),
        (lambda a: a | {"loss": a["loss"] * np.float32(1e9)}, "1,000,000 times"),
        (lambda a: a | {"hessian": a["hessian"] * np.float32(1e9), "loss": a["loss"] * 2}, "100,000,000 times"),
    ],
)
def test_the_step_is_blamed_for_numbers_without_bounds_and_then_the_site(identity, change, told):
    """Named by what is wrong with its numbers, once it is known that the step was not too long."""
    problem, params, sites = small()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        history = five_rounds(problem, params, sites, change)
    messages = [str(warning.message) for warning in caught if "site 1" in str(warning.message)]
    assert ["step is refused" in message for message in messages] == [True, True, False, False]
    assert all(told in message for message in messages)
    assert list(history["overflowed"]) == [0, 1, 1, 0, 0]
    assert list(history["left_out"]) == [0, 0, 0, 1, 1]
    assert list(history["answered"]) == [3, 2, 2, 2, 2]
    assert history["objective"][-1] < history["objective"][0]


def five_rounds(problem, params, sites, change):
    """The history of rounds in which site 1 sends what `change` makes of its arrays, from the second on."""
    from flwr.app import Array

    import scax

    def damage(asked, site, content):
        if asked <= 3 or site != 1:
            return
        arrays = change({name: array.numpy() for name, array in content["arrays"].items()})
        for name in list(content["arrays"]):
            del content["arrays"][name]
        for name, array in arrays.items():
            content["arrays"][name] = Array(np.ascontiguousarray(array).reshape(array.shape))

    rounds = scax.federated.strategy(problem, params, 3)
    rounds.start(grid=Here(problem, params, sites, damage), initial_arrays=rounds.arrays, num_rounds=5)
    return rounds.history


def test_a_run_begins_at_the_arrays_it_is_given(identity):
    from flwr.app import Array, ArrayRecord

    import scax

    problem, params, sites = small()
    rounds = scax.federated.strategy(problem, params, 3)
    w = np.asarray(problem.layout(params).flatten(params)) / 2
    half = ArrayRecord({"w": Array(w)})
    rounds.start(grid=Here(problem, params, sites), initial_arrays=half, num_rounds=1)
    np.testing.assert_array_equal(rounds.arrays["w"].numpy(), w)  # the first round finds the sums there
    with pytest.raises(ValueError, match="strategy's own arrays"):
        rounds.start(grid=Here(problem, params, sites), initial_arrays=ArrayRecord({"w": Array(w[:3])}))


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
            wait_until(result.exists, 500)
        logs = "\n".join((folder / name).read_text()[-1500:] for name in ("link", "node0", "node1", "node2"))
        assert result.exists(), run.stdout + run.stderr + logs
    check(result, environment, folder)
