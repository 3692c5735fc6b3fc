"""Sites that keep their rows: rounds in which sums travel, and nothing else."""

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from . import checks
from ._text import printable
from .cluster.exact import ExactRounds
from .cluster.local import LocalRounds, LocalSites
from .cluster.sites import Sites, admit
from .cluster.statistics import Reason
from .cluster.statistics import Statistics as Statistics
from .cluster.statistics import site_statistics as site_statistics
from .problem import Problem
from .sca import SCA, check_sca
from .status import Status
from .training import engine
from .training.evaluation import Objective
from .training.method import end
from .training.run import Result

#: Numbers in the matrices of all sites together, at most (1 GB in float32).
MOST_NUMBERS = 2**28


@dataclasses.dataclass(frozen=True)
class Local:
    """How sites and server of local rounds work.

    steps       steps of a site in a round
    batch_size  rows of each, at most
    carry       β of the server's own step, at most; 0: plain averaging
    method      the SCA that sites step with; None: its defaults

    >>> how = scax.federated.Local(steps=5, batch_size=16)
    >>> sites = [(x[:20], y[:20]), (x[20:], y[20:])]
    >>> result = scax.federated.simulate(problem, params, sites, rounds=3, scheme="local", local=how)
    """

    steps: int = 10
    batch_size: int = 32
    carry: float = 0.9
    method: SCA | None = None

    def __post_init__(self):
        checks.whole_number("steps", self.steps, 1)
        checks.whole_number("batch_size", self.batch_size, 1)
        checks.number("carry", self.carry, lambda v: (v >= 0) & (v < 1), "a number from 0 to below 1")
        if self.method is not None:
            check_sca(self.method)

    def rounds(self, problem: Problem, sites: int) -> LocalRounds:
        """The method of the server."""
        method = SCA(problem) if self.method is None else dataclasses.replace(self.method, problem=problem)
        return LocalRounds(problem, method, self.carry, sites, self.steps, self.batch_size)


def _method(
    problem: Problem, params: PyTree, sites: int, scheme: str, local: Local | None
) -> ExactRounds | LocalRounds:
    """The method of the server; refuses what cannot be spread over sites."""
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be a scax.Problem, got {problem!r}.")
    checks.choice("scheme", scheme, ["exact", "local"])
    if local is not None and (scheme != "local" or not isinstance(local, Local)):
        raise ValueError("local= is scax.federated.Local(...), and belongs to scheme='local'.")
    if problem.names:
        raise ValueError("rounds of sums average one kind of rows: give Problem(apply, loss, …) without terms.")
    if problem.manifold is not None:
        raise ValueError("neighbors may lie at different sites, which do not exchange rows: leave manifold= out.")
    weights = problem.layout(params).size
    if scheme == "local":
        return (Local() if local is None else local).rounds(problem, sites)
    if sites * weights**2 > MOST_NUMBERS:
        raise ValueError(
            f"exact rounds take a matrix of {weights}×{weights} numbers from each site, too many for {sites}: give "
            "scheme='local', or train a smaller network."
        )
    return ExactRounds(problem, sites)


def simulate(
    problem: Problem,
    params: PyTree,
    sites: Any,
    *,
    rounds: int = 20,
    scheme: str = "exact",
    weights: Any = None,
    missing: float = 0.0,
    local: Local | None = None,
    key: Any = None,
) -> Result:
    """Train on sites that exchange sums with a server, in one process.

    sites    a list of (x, y) or (x, y, weight), or a dict of them by name
    rounds   at most so many; the first one finds the sums at `params`, each further one tries a step. Fewer are made
             where nothing is left to gain ("converged")
    scheme   "exact": a site sends the gradient and the Gauss–Newton matrix of its rows, Q(Q+1)/2 + 2Q + 3 numbers for Q
             weights, and a step is the one that all rows together would have made (with the squared loss SCA's own).
             "local", for networks whose matrices are too large to send: a site takes a few steps on its own rows and
             sends how far it came, Q + 2 numbers; the server takes the mean, and carries its own step on. A penalty
             with zeros takes a gradient, too, 2Q + 2 numbers
    weights  how much each site counts, up to a hundred million times the median; None: by its rows
    missing  the share of sites, from 0 to below 1, that do not answer in a round, drawn anew for every round from
             `key`; one always answers
    local    of scheme="local": Local(steps=…, batch_size=…, carry=…, method=…)

    The result is that of `train`: params, history, state, steps (rounds made) and status. The history has an entry per
    round: the objective of all sites' rows, answered (sites whose sums were used), left_out (sites whose sums could not
    be right), bytes_up and bytes_down (of all sites together); of exact rounds accepted, damping and overflowed, too
    (sites for whose rows the step was too long: it was refused, they were not). A site that cannot take part is named
    in a warning and left out.

        sites = [(x[:200], y[:200]), (x[200:], y[200:])]
        result = scax.federated.simulate(problem, params, sites, rounds=15)

    >>> result = scax.federated.simulate(problem, params, [(x[:20], y[:20]), (x[20:], y[20:])], rounds=5)
    >>> bool(result.history["objective"][-1] < result.history["objective"][0])
    True
    """
    checks.whole_number("rounds", rounds, 1)
    checks.number("missing", missing, lambda v: (v >= 0) & (v < 1), "a number from 0 to below 1")
    key = jax.random.key(0) if key is None else key
    checks.random_key(key)
    _method(problem, params, 1, scheme, local)
    admitted, reasons = admit(problem, params, sites, weights)
    for name, reason in reasons.items():
        warnings.warn(f"site {printable(str(name))} is left out: {reason}", RuntimeWarning, stacklevel=2)
    if not admitted:
        name, reason = next(iter(reasons.items()))
        raise ValueError(f"no site can take part. Site {name}: {reason}")
    absent, rows = min(round(missing * len(admitted)), len(admitted) - 1), list(admitted.values())
    method = _method(problem, params, len(admitted), scheme, local)
    if isinstance(method, LocalRounds):
        feed, until = LocalSites.of(rows, method.batch_size, absent), None
    else:
        feed, until = Sites.of(rows, absent), end
    carry = engine.start(method, params, feed, key, until=until)
    run = engine.run(method, Objective(feed.sample(0)), until=until)
    history: dict[str, list[float]] = {}
    done, status = 0, "steps"
    for part in engine.drive(run, carry, feed, list(range(1, rounds + 1))):
        carry, done, status = part.carry, part.step, Status(part.end).name.lower() if part.end else "steps"
        for record in part.records:
            for name, value in record.items():
                history.setdefault(name, []).append(float(value))
    _warn_of_left_out(list(admitted), np.asarray(carry.state.refused), np.asarray(carry.state.reason), done)
    arrays = {name: np.asarray(values) for name, values in history.items()}
    return Result(engine.solution(method, carry.state), arrays, carry.state, done, status)


def _warn_of_left_out(names: list[str], refused: np.ndarray, reason: np.ndarray, rounds: int) -> None:
    """Names the sites that were not used, for the caller of `simulate`; where that is all, the start is to blame."""
    if len(names) > 1 and np.all(refused == rounds):
        text = (
            f"not one site could be used in {rounds} rounds, and params are as they were. Each of them: "
            f"{Reason(int(reason[0])).message} Start from smaller weights, or scale x and y to about 1."
        )
        warnings.warn(text, RuntimeWarning, stacklevel=3)
        return
    for name, count, why in zip(names, refused, reason, strict=True):
        if count:
            text = f"site {printable(str(name))} was left out of {count} rounds: {Reason(int(why)).message}"
            warnings.warn(text, RuntimeWarning, stacklevel=3)


def client_app(problem: Problem, params: PyTree, load: Callable[[Any], Any], *, local: Local | None = None) -> Any:
    """A site on Flower: a flwr ClientApp. Needs pip install 'scax[federated]'.

    It answers exact and local rounds, whichever the server asks for.

    load    function of Flower's context that gives the rows of the site, (x, y) or (x, y, weight); they never leave it.
            It is called once for each node and scheme in a process. The simulation engine keeps its processes; a
            SuperNode starts one for every round, which loads and compiles anew
    params  any parameters of the network: shapes and dtypes count, and what is frozen; weights come from the server
    local   of local rounds, as the server has it

        app = scax.federated.client_app(problem, params, lambda context: read(context.node_config["file"]))

    >>> app = scax.federated.client_app(problem, params, lambda context: (x, y))
    """
    from .cluster.flower import make_client_app

    _method(problem, params, 1, "local", local)
    method_for = lambda scheme: _method(problem, params, 1, scheme, local if scheme == "local" else None)
    return make_client_app(method_for, params, load)


def strategy(problem: Problem, params: PyTree, sites: int, *, scheme: str = "exact", local: Local | None = None) -> Any:
    """The server on Flower: a flwr Strategy for so many sites. Needs pip install 'scax[federated]'.

    Start it as any other, from its own arrays; then `params` are the trained weights, `history` has an entry per round
    as `simulate` gives it, and `status` says why there are no more. The objective is what the sites said of it: in
    local rounds that of the weights they were sent. Once a run has converged nothing more is sent, whatever
    `num_rounds` says. A site whose sums cannot be right is named in a warning and left out; one that does not answer in
    an exact round is spoken for by its last model.

        rounds = scax.federated.strategy(problem, params, sites=10)
        rounds.start(grid=grid, initial_arrays=rounds.arrays, num_rounds=15)

    >>> rounds = scax.federated.strategy(problem, params, sites=10)
    >>> rounds.status, sorted(rounds.history)
    ('steps', [])
    """
    from .cluster.flower import make_strategy

    checks.whole_number("sites", sites, 1)
    return make_strategy(_method(problem, params, sites, scheme, local), params)
