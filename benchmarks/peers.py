"""One step of other second-order methods beside SCA's and Adam's, and what 200 steps of each reach.

    python -m benchmarks.peers [--repeats 5] [--out docs/results] [--python somax=/path/to/python ...] [--write]

Every peer is measured in a process of its own, with `--python NAME=PATH` in an interpreter of its own; wherever it is,
scax must be importable too, since the step it is compared with, optax's Adam in a compiled loop, is timed in the same
process, in turns. A peer that is not installed is listed with the command that installs it.

Every method steps on the same 200 batches from the same weights. Settings come from a grid: what counts is the best
objective on all rows, of the last iterate or of the average of the iterates (the same average as SCA's), which is more
than a user could know. The peer is then timed with these settings. SCA has its defaults.
`--write` puts the table into docs/measurements/speed.md.
"""

import argparse
import dataclasses
import functools
import importlib.metadata
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

import scax
from benchmarks import pages
from benchmarks.runs import Given
from benchmarks.steps import CASES, Case, describe_machine, looped
from scax.training import engine

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "measurements" / "speed.md"
NETWORKS = ("CASP 9/10/6/1", "SUSY 18/100/100/1")
STEPS, RIDGE, MEAN_POWER = 200, 1e-3, 8.0
RATES = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1)
# μ of (JᵀJ/L + μI) δ = Jᵀe/L, and the share of δ that is taken
DAMPED = {"damping": (1e-4, 1e-3, 1e-2, 1e-1, 1.0), "learning_rate": (0.1, 0.3, 1.0)}
# for peers that know no ridge: weights shrink by this share of the learning rate at every step
DECAYED = {**DAMPED, "weight_decay": (0.0, 1e-2, 1e-1)}
#: What a peer's step reports.
UNTOLD = SimpleNamespace(records={})


@dataclasses.dataclass(eq=False)
class Work:
    """A network, its data and its start. Methods have init(params), step(state, batch) and solution(state); a batch is
    a scax.Batch, or (x, y) for those that are called from Python."""

    case: Case

    def __post_init__(self):
        self.problem, self.params, self.x, self.y = self.case.build()
        self.apply, self.batch = self.problem.apply, self.case.batch
        self.order = np.asarray(jax.random.randint(jax.random.key(2), (STEPS, self.batch), 0, self.x.shape[0]))

    def residuals(self, params, x, y):
        """Residuals whose squares sum to the objective on a batch: errors/√L, then √(λ/2) w."""
        errors = (self.apply(params, x)[:, 0] - y) / np.sqrt(x.shape[0])
        return jnp.concatenate([errors, np.sqrt(RIDGE / 2) * ravel_pytree(params)[0]])


@dataclasses.dataclass(frozen=True)
class Peer:
    """`make(work, **settings)` gives the method; `adam(work)` the step its own framework's Adam takes."""

    name: str
    make: Callable[..., Any]
    requires: str  # what pip calls it
    loop: str  # "compiled": inside the engine's loop; "jit": a compiled step called from Python; "eager"
    grid: dict[str, tuple] = dataclasses.field(default_factory=dict)
    adam: Callable[..., Any] | None = None
    most: int = 10**9  # weights up to which it is run
    then: str = ""  # what to install afterwards
    output: str = ""  # where it is not the network's


# --- the methods, one small function each


def sca(work: Work):
    return scax.SCA(work.problem)


def adam(work: Work, learning_rate: float = 1e-3):
    return scax.baseline(optax.adam(learning_rate), work.problem)


def somax_egn(work: Work, damping: float, learning_rate: float, weight_decay: float):
    """Exact Gauss-Newton with a Cholesky factorization in sample space."""
    import somax

    method = somax.egn_mse(predict_fn=work.apply)

    def init(params):
        inner = method.init(params)
        # the damping, like the two below, as a number that a sweep can change without compiling anew
        return params, inner.replace(damp_state=inner.damp_state.replace(lam=jnp.asarray(damping, jnp.float32)))

    def step(state, batch):
        params, inner = state
        proposed, inner, _ = method.step(params, {"x": batch.x, "y": batch.y}, inner, jax.random.key(0))
        params = jax.tree.map(lambda w, v: w + learning_rate * (v - w - weight_decay * w), params, proposed)
        return (params, inner), UNTOLD

    return SimpleNamespace(problem=work.problem, init=init, step=step, solution=lambda state: state[0])


@functools.cache
def kfac_optimizer(work: Work):
    import kfac_jax

    def objective(params, batch):
        z, y = work.apply(params, batch[0]), batch[1][:, None]
        kfac_jax.register_squared_error_loss(z, y)
        ridge = RIDGE / 2 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))
        return jnp.mean(jnp.sum((y - z) ** 2, axis=1)) + ridge

    return kfac_jax.Optimizer(jax.value_and_grad(objective), l2_reg=RIDGE, num_burnin_steps=0)


def kfac(work: Work, damping: float, learning_rate: float, momentum: float):
    """K-FAC; its documentation forbids compiling the step into a larger loop."""
    method, key = kfac_optimizer(work), jax.random.key(0)
    numbers = {"learning_rate": learning_rate, "momentum": momentum, "damping": damping}
    numbers = {name: jnp.asarray(value) for name, value in numbers.items()}

    def init(params):
        params = jax.tree.map(jnp.array, params)  # the step donates its arguments
        return params, method.init(params, key, (work.x[: work.batch], work.y[: work.batch])), 0

    def step(state, batch):
        params, inner, count = state
        params, inner, _ = method.step(params, inner, key, batch=batch, global_step_int=count, **numbers)
        return (params, inner, count + 1), None

    # NumPy gathers the rows: indexing a JAX array from Python takes longer than the step
    return SimpleNamespace(init=init, step=step, solution=lambda state: state[0], arrays=np.asarray)


def jaxopt_lm(work: Work, solver: str, damping: float, learning_rate: float, adapt: bool):
    """One iteration of Levenberg-Marquardt on each batch; `adapt` carries its damping over to the next one."""
    import jaxopt
    from jaxopt.linear_solve import solve_cg

    unravel = ravel_pytree(work.params)[1]
    method = jaxopt.LevenbergMarquardt(
        lambda w, x, y: work.residuals(unravel(w), x, y),
        solver=functools.partial(solve_cg, tol=1e-3) if solver == "cg" else solver,
        materialize_jac=solver != "cg",
    )

    def step(state, batch):
        w, mu = state
        # replacing the damping that init_state proposes lets the compiler drop its costly diagonal of JᵀJ
        inner = method.init_state(w, batch.x, batch.y)._replace(damping_factor=mu)
        proposed, inner = method.update(w, inner, batch.x, batch.y)
        mu = jnp.where(adapt, inner.damping_factor, mu)
        return (w + learning_rate * (proposed - w), mu), UNTOLD

    return SimpleNamespace(
        problem=work.problem,
        init=lambda p: (ravel_pytree(p)[0], jnp.asarray(damping, jnp.float32)),
        step=step,
        solution=lambda state: unravel(state[0]),
    )


def optimistix_lm(work: Work, solver: str, damping: float, learning_rate: float):
    """One iteration of Levenberg-Marquardt on each batch, taken where it lowers the batch's objective."""
    import lineax
    import optimistix

    linear = lineax.QR() if solver == "qr" else lineax.Normal(lineax.CG(rtol=1e-3, atol=1e-6))
    method = optimistix.LevenbergMarquardt(rtol=1e-3, atol=1e-3, linear_solver=linear)

    def residuals(params, batch):
        # its damping starts at 1, so that residuals are scaled instead
        return work.residuals(params, batch.x, batch.y) / jnp.sqrt(damping), None

    def step(params, batch):
        before = jax.eval_shape(residuals, params, batch)
        nothing = frozenset()
        state = method.init(residuals, params, batch, {}, *before, nothing)
        _, state, _ = method.step(residuals, params, batch, {}, state, nothing)
        value, proposed = (jnp.sum(residuals(p, batch)[0] ** 2) for p in (params, state.y_eval))
        share = jnp.where(proposed < value, learning_rate, 0.0)
        return jax.tree.map(lambda w, v: w + share * (v - w), params, state.y_eval), UNTOLD

    return SimpleNamespace(problem=work.problem, init=lambda p: p, step=step, solution=lambda state: state)


def torch_network(work: Work, params):
    """The network in torch with the given weights, one thread."""
    import torch

    torch.set_num_threads(1)
    layers: list[Any] = []
    for layer in params:
        weight, bias = (torch.tensor(np.asarray(layer[name])) for name in ("weight", "bias"))
        linear = torch.nn.Linear(*weight.shape)
        linear.weight.data, linear.bias.data = weight.T.contiguous(), bias
        layers += [linear, torch.nn.Tanh()]
    return torch.nn.Sequential(*(layers if work.case.output == "tanh" else layers[:-1]))


def torch_weights(network) -> list[dict]:
    layers = [layer for layer in network if hasattr(layer, "weight")]
    return [{"weight": a.weight.detach().numpy().T.copy(), "bias": a.bias.detach().numpy().copy()} for a in layers]


def torch_arrays(a):
    import torch

    return torch.tensor(np.asarray(a))


def torch_adam(work: Work, learning_rate: float = 1e-3, fused: bool = False):
    import torch

    def init(params):
        network = torch_network(work, params)
        # weight_decay adds λw to the gradient: the ridge
        return network, torch.optim.Adam(network.parameters(), lr=learning_rate, weight_decay=RIDGE, fused=fused)

    def step(state, batch):
        network, optimizer = state
        optimizer.zero_grad()
        (network(batch[0])[:, 0] - batch[1]).square().mean().backward()
        optimizer.step()
        return state, None

    return SimpleNamespace(init=init, step=step, solution=lambda state: torch_weights(state[0]), arrays=torch_arrays)


def torch_lm(work: Work, damping: float, learning_rate: float, weight_decay: float):
    """Levenberg-Marquardt with its own attempts and its own damping, which does not fall below the one given."""
    from torch_levenberg_marquardt import training
    from torch_levenberg_marquardt.damping import StandardDampingStrategy

    def init(params):
        strategy = StandardDampingStrategy(damping, min_value=damping, conditional_stopping=False)
        return training.LevenbergMarquardtModule(
            torch_network(work, params),
            damping_strategy=strategy,
            learning_rate=learning_rate,
            solve_method="cholesky",
        )

    def step(module, batch):
        if weight_decay:
            module.flat_params.mul_(1 - learning_rate * weight_decay)
            module.backup_parameters()
        module.training_step(batch[0], batch[1][:, None])
        return module, None

    return SimpleNamespace(init=init, step=step, solution=lambda m: torch_weights(m.model), arrays=torch_arrays)


def sklearn_mlp(work: Work, learning_rate: float = 1e-3):
    """One pass of partial_fit over a batch; its output is always linear, its ridge spares the biases."""
    from sklearn.neural_network import MLPRegressor

    def init(params):
        network = MLPRegressor(
            hidden_layer_sizes=work.case.widths[1:-1],
            activation="tanh",
            alpha=RIDGE / 2 * work.batch,  # its objective: ½·mean of squares + α/(2L)·‖w‖², half of ours
            batch_size=work.batch,
            learning_rate_init=learning_rate,
            shuffle=False,
        )
        network.partial_fit(np.asarray(work.x[: work.batch]), np.asarray(work.y[: work.batch]))
        for k, layer in enumerate(params):
            network.coefs_[k][:], network.intercepts_[k][:] = layer["weight"], layer["bias"]
        del network._optimizer  # so that the first real step starts a fresh one
        return network

    def step(network, batch):
        return network.partial_fit(*batch), None

    def solution(network):
        pairs = zip(network.coefs_, network.intercepts_, strict=True)
        return [{"weight": weight.copy(), "bias": bias.copy()} for weight, bias in pairs]

    return SimpleNamespace(init=init, step=step, solution=solution, arrays=np.asarray)


SMALL = 1000
LM = {**DAMPED, "adapt": (False, True)}
PEERS = [
    Peer("SCA", sca, "scax", "compiled"),
    Peer("Adam (optax)", adam, "optax", "compiled", {"learning_rate": RATES}, adam),
    Peer("Adam (torch)", torch_adam, "torch==2.13.0", "eager", {"learning_rate": RATES}, torch_adam),
    Peer(
        "Adam (torch, fused)",
        functools.partial(torch_adam, fused=True),
        "torch==2.13.0",
        "eager",
        {"learning_rate": RATES},
        torch_adam,
    ),
    Peer(
        "MLPRegressor",
        sklearn_mlp,
        "scikit-learn",
        "eager",
        {"learning_rate": RATES},
        sklearn_mlp,
        output="linear",
    ),
    Peer("somax EGN", somax_egn, "python-somax", "compiled", DECAYED),
    Peer(
        "kfac-jax",
        kfac,
        "kfac-jax",
        "jit",
        {"damping": (1e-2, 1e-1, 1.0, 10.0), "learning_rate": (0.1, 0.3, 1.0, 3.0), "momentum": (0.0, 0.9)},
        # fails with 0.9 and later; scax runs with 0.7 although it does not promise to
        then=" && pip install jax==0.7.2",
    ),
    Peer("torch-levenberg-marquardt", torch_lm, "torch-levenberg-marquardt", "eager", DECAYED, torch_adam),
    Peer("jaxopt LM, Cholesky", functools.partial(jaxopt_lm, solver="cholesky"), "jaxopt", "compiled", LM, most=SMALL),
    Peer("jaxopt LM, CG", functools.partial(jaxopt_lm, solver="cg"), "jaxopt", "compiled", LM),
    Peer(
        "optimistix LM, QR", functools.partial(optimistix_lm, solver="qr"), "optimistix", "compiled", DAMPED, most=SMALL
    ),
    Peer("optimistix LM, CG", functools.partial(optimistix_lm, solver="cg"), "optimistix", "compiled", DAMPED),
]


# --- measuring, in the peer's own process


def called(method, work: Work) -> Callable[[int], tuple[float, float]]:
    """Like `looped`, for a step that is called from Python; never more than the 200 steps that count."""
    x, y = method.arrays(work.x), method.arrays(work.y)
    order = [method.arrays(rows) for rows in work.order]

    def timed(count: int) -> tuple[float, float]:
        state, count = method.init(work.params), min(count, STEPS)
        wall, cpu = time.perf_counter(), time.process_time()
        for rows in order[:count]:
            state, _ = method.step(state, (x[rows], y[rows]))
        jax.block_until_ready(jax.tree.leaves(method.solution(state)))
        return (time.perf_counter() - wall) / count, (time.process_time() - cpu) / count

    timed(3)
    return timed


def average(mean, params, n):
    share = (MEAN_POWER + 1) / (n + MEAN_POWER + 1)
    return jax.tree.map(lambda m, w: m + (w - m) * share, mean, params)


def train_called(peer: Peer, work: Work, settings: dict) -> tuple:
    """The last iterate and the average of the iterates after 200 steps called from Python."""
    method = peer.make(work, **settings)
    x, y = method.arrays(work.x), method.arrays(work.y)
    state, mean = method.init(work.params), jax.tree.map(np.asarray, work.params)
    for n, rows in enumerate(work.order):
        rows = method.arrays(rows)
        state, _ = method.step(state, (x[rows], y[rows]))
        mean = average(mean, jax.tree.map(np.asarray, method.solution(state)), n)
    return method.solution(state), mean


def train_compiled(peer: Peer, work: Work) -> Callable[[dict], tuple]:
    """The same in one compiled loop, for all settings."""
    feed = Given(scax.Batch(work.x, work.y), jnp.asarray(work.order))

    @jax.jit
    def run(settings):
        method = averaged(peer.make(work, **settings))
        carry = engine.begin(method, method.init(work.params), feed, feed.start())
        goals = np.full(1, STEPS, np.int32)
        return method.solution(engine.advance(method, carry, feed, goals, goals[-1])[0].state)

    return run


def averaged(method):
    """The method with the average of its iterates beside it: its solution is both."""

    def step(state, batch):
        inner, mean, n = state
        inner, _ = method.step(inner, batch)
        return (inner, average(mean, method.solution(inner), n), n + 1), UNTOLD

    return SimpleNamespace(
        init=lambda params: (method.init(params), params, jnp.zeros((), jnp.int32)),
        step=step,
        solution=lambda state: (method.solution(state[0]), state[1]),
    )


def objective(work: Work, params: list[dict], output: str) -> tuple[float, float]:
    """(mean squared loss + ridge, mean squared loss) on all rows, in float64."""
    z = np.asarray(work.x, np.float64)
    for k, layer in enumerate(params):
        z = z @ layer["weight"] + layer["bias"]
        z = np.tanh(z) if k < len(params) - 1 or output == "tanh" else z
    loss = float(np.mean((z[:, 0] - np.asarray(work.y)) ** 2))
    return loss + RIDGE / 2 * sum(float(np.sum(leaf**2)) for leaf in jax.tree.leaves(params)), loss


def tuned(peer: Peer, work: Work) -> dict:
    """The best objective over the grid, and all others."""
    run = train_compiled(peer, work) if peer.loop == "compiled" else functools.partial(train_called, peer, work)
    tries = []
    for values in itertools.product(*peer.grid.values()):
        settings = dict(zip(peer.grid, values, strict=True))
        results = jax.tree.map(lambda a: np.asarray(a, np.float64), run(settings))
        for name, params in zip(("last", "mean"), results, strict=True):
            if name == "mean" and peer.make is sca:
                continue  # its solution is the average already
            value, loss = objective(work, params, peer.output or work.case.output)
            tries.append({"settings": settings, "iterate": name, "objective": value, "loss": loss})
    start = objective(work, jax.tree.map(lambda a: np.asarray(a, np.float64), work.params), work.case.output)[0]
    best = min(tries, key=lambda t: t["objective"] if np.isfinite(t["objective"]) else np.inf)
    diverged = not best["objective"] < start
    return {**best, "start": start, "diverged": diverged, "tries": tries}


def measure(peer: Peer, case: Case, repeats: int, seconds: float) -> dict:
    """Quality first, then the times of the best settings, of the framework's Adam and of optax's, in turns."""
    work = Work(case)
    weights = sum(leaf.size for leaf in jax.tree.leaves(work.params))
    if weights > peer.most:
        return {"skipped": f"not run: factors a {weights:,}×{weights:,} system"}
    best = tuned(peer, work)
    methods = {"peer": peer.make(work, **best["settings"]), "optax": adam(work)}
    if peer.adam not in (None, peer.make):
        methods["own"] = peer.adam(work)
    loops = {
        name: called(method, work)
        if hasattr(method, "arrays")
        else looped(method, work.params, work.x, work.y, work.batch)
        for name, method in methods.items()
    }
    counts = {name: int(min(max(seconds / loop(3)[0], 3), 20000)) for name, loop in loops.items()}
    times: dict[str, list[float]] = {name: [] for name in loops}
    for _ in range(repeats):
        for name, loop in loops.items():
            times[name].append(loop(counts[name])[0])

    def ratio(other: str) -> dict:
        ratios = [a / b for a, b in zip(times["peer"], times[other], strict=True)]
        return {"median": statistics.median(ratios), "low": min(ratios), "high": max(ratios)}

    return {
        **best,
        "weights": weights,
        "microseconds": 1e6 * statistics.median(times["peer"]),
        "optax_microseconds": 1e6 * statistics.median(times["optax"]),
        "over_optax": ratio("optax"),
        "over_own": None if peer.make is peer.adam else ratio("own" if "own" in times else "optax"),
    }


def work_one(name: str, case: str, repeats: int, seconds: float) -> None:
    """The worker: one peer on one network, its result as the last line of the output."""
    peer = next(p for p in PEERS if p.name == name)
    package = peer.requires.partition("==")[0]
    try:
        version = f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        print(json.dumps({"skipped": f"not installed: pip install . {peer.requires}{peer.then}"}))
        return
    result = measure(peer, next(c for c in CASES if c.name == case), repeats, seconds)
    print(json.dumps({"version": version, "jax": jax.__version__, **result}))


# --- the table, in the process that was started


def ask(python: str, peer: Peer, case: str, options) -> dict:
    command = [python, "-m", "benchmarks.peers", "--worker", peer.name, "--cases", case]
    command += ["--repeats", str(options.repeats), "--seconds", str(options.seconds)]
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {"OPENBLAS_NUM_THREADS": "1", **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    try:
        answer = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=options.limit
        )
    except subprocess.TimeoutExpired:
        return {"skipped": f"stopped after {options.limit} s"}
    if answer.returncode:
        print(answer.stderr[-3000:], file=sys.stderr)
        return {"skipped": "failed: " + answer.stderr.strip().splitlines()[-1]}
    return json.loads(answer.stdout.strip().splitlines()[-1])


def dump(machine: dict, results: list[dict]) -> str:
    """JSON with one result per line: each holds everything that was tried."""
    lines = ",\n".join(json.dumps(result) for result in results)
    return f'{{"machine": {json.dumps(machine)},\n"results": [\n{lines}\n]}}\n'


def markdown(results: list[dict]) -> str:
    """One table per network."""
    lines = []
    for case in dict.fromkeys(r["case"] for r in results):
        lines += [
            f"**{case}, L = {next(c.batch for c in CASES if c.name == case)}**",
            "",
            "| method | loop | µs | / own Adam | / optax Adam (range) | objective | loss alone | settings |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for r in (r for r in results if r["case"] == case):
            if "skipped" in r:
                lines.append(f"| {r['peer']} | {r['loop']} | {r['skipped']} | | | | | |")
                continue
            settings = [f"{k.replace('_', ' ')} {v:g}" if v is not True else k for k, v in r["settings"].items() if v]
            settings += ["average of iterates"] * (r["iterate"] == "mean") + [f"{r['output']} output"] * bool(
                r["output"]
            )
            own = "itself" if r["over_own"] is None else f"{r['over_own']['median']:.2f}"
            over, quality = r["over_optax"], f"{r['objective']:.5f} | {r['loss']:.5f}"
            lines.append(
                f"| {r['peer']} | {r['loop']} | {r['microseconds']:.1f} | {own} | "
                f"{over['median']:.2f} ({over['low']:.2f}–{over['high']:.2f}) | "
                f"{'diverged | ' if r['diverged'] else quality} | {', '.join(settings) or 'defaults'} |"
            )
        lines.append("")
    return "\n".join(lines)


def named(parts: list[str]) -> list[str]:
    """The cases whose names contain one of the parts."""
    return [case.name for case in CASES if any(part in case.name for part in parts)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="*", help=f"substrings of case names; {' and '.join(NETWORKS)} by default")
    parser.add_argument("--peers", nargs="*", help="substrings of peers' names; all by default")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.2, help="per repeat and method")
    parser.add_argument("--limit", type=int, default=600, help="seconds for one peer on one network, tuning included")
    parser.add_argument("--python", action="append", default=[], metavar="NAME=PATH", help="NAME as pip calls the peer")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--write", action="store_true", help="put the table into docs/measurements/speed.md")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.cases = named(options.cases) if options.cases else list(NETWORKS)
    if not options.cases:
        parser.error(f"--cases: none has such a name; there are {', '.join(c.name for c in CASES)}.")
    if options.worker:
        work_one(options.worker, options.cases[0], options.repeats, options.seconds)
        return
    pythons = dict(pair.split("=", 1) for pair in options.python)
    unknown = set(pythons) - {p.requires.partition("==")[0] for p in PEERS}
    if unknown:
        parser.error(f"--python: no peer needs {', '.join(sorted(unknown))}.")
    chosen = [p for p in PEERS if not options.peers or any(part in p.name for part in options.peers)]
    machine = describe_machine()
    machine["command"] = "python -m benchmarks.peers" + "".join(f" --python {name}=…" for name in pythons)
    machine["cores"] = os.cpu_count()
    results, file = [], options.out / "peers.json"
    options.out.mkdir(parents=True, exist_ok=True)
    for case in options.cases:
        for peer in chosen:
            python = pythons.get(peer.requires.partition("==")[0], sys.executable)
            load = os.getloadavg()[0]  # what else the machine is doing: 0 where nothing
            result = ask(python, peer, case, options)
            results.append(
                {"case": case, "peer": peer.name, "loop": peer.loop, "output": peer.output, "load": load, **result}
            )
            print(markdown(results[-1:]).splitlines()[-1], flush=True)
            file.write_text(dump(machine, results))
    if options.write:
        pages.write_tables(PAGE, {"peers": markdown(results)})
    print(f"written: {file}")


if __name__ == "__main__":
    main()
