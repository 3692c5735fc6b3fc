"""Sites that keep their rows: rounds in which sums travel, and nothing else."""

import warnings
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from . import checks
from .cluster.exact import ExactRounds
from .cluster.sites import Sites, admit
from .cluster.statistics import Statistics as Statistics
from .cluster.statistics import refuse_statistics as refuse_statistics
from .cluster.statistics import site_statistics as site_statistics
from .problem import Problem
from .status import Status
from .training import engine
from .training.evaluation import Objective
from .training.method import end
from .training.run import Result

#: Numbers in the matrices of all sites together, at most (1 GB in float32).
MOST_NUMBERS = 2**28


def simulate(
    problem: Problem,
    params: PyTree,
    sites: Any,
    *,
    rounds: int = 20,
    scheme: str = "exact",
    weights: Any = None,
    missing: float = 0.0,
    key: Any = None,
) -> Result:
    """Train on sites that exchange sums with a server, in one process.

    sites    a list of (x, y) or (x, y, weight), or a dict of them by name
    rounds   at most so many; the first one finds the sums at `params`, each further one tries a step. Fewer are made
             where nothing is left to gain ("converged")
    scheme   "exact": a site sends the gradient and the Gauss–Newton matrix of its rows, Q(Q+1)/2 + 2Q + 3 numbers for Q
             weights, and a step is the one that all rows together would have made (with the squared loss SCA's own)
    weights  how much each site counts; None: by its rows
    missing  the share of sites, between 0 and 1, that do not answer in a round, drawn anew for every round from `key`

    The result is that of `train`: params, history, state, steps (rounds made) and status. The history has an entry per
    round: the objective of all sites' rows, answered (sites whose sums were used), left_out (sites whose sums could not
    be right), bytes_up and bytes_down (of all sites together), accepted, damping. A site that cannot take part is named
    in a warning and left out.

        sites = [(x[:200], y[:200]), (x[200:], y[200:])]
        result = scax.federated.simulate(problem, params, sites, rounds=15)

    >>> result = scax.federated.simulate(problem, params, [(x[:20], y[:20]), (x[20:], y[20:])], rounds=5)
    >>> bool(result.history["objective"][-1] < result.history["objective"][0])
    True
    """
    checks.choice("scheme", scheme, ["exact"])
    checks.whole_number("rounds", rounds, 1)
    checks.number("missing", missing, lambda v: (v >= 0) & (v < 1), "a number from 0 to below 1")
    if weights is not None:
        checks.positive("weights", np.asarray(weights))
    if problem.names:
        raise ValueError("rounds of sums average one kind of rows: give Problem(apply, loss, …) without terms.")
    if problem.manifold is not None:
        raise ValueError("neighbors may lie at different sites, which do not exchange rows: leave manifold= out.")
    admitted, reasons = admit(problem, params, sites, weights)
    for name, reason in reasons.items():
        warnings.warn(f"site {name} is left out: {reason}", RuntimeWarning, stacklevel=2)
    if not admitted:
        raise ValueError("no site can take part: the warnings name the reason of each.")
    q = problem.layout(params).size
    if len(admitted) * q**2 > MOST_NUMBERS:
        raise ValueError(
            f"{len(admitted)} sites with {q} weights each send matrices of {q}×{q} numbers: train a smaller network."
        )
    feed = Sites.of(list(admitted.values()), round(missing * len(admitted)))
    method = ExactRounds(problem, len(admitted))
    carry = engine.start(method, params, feed, jax.random.key(0) if key is None else key, until=end)
    run = engine.run(method, Objective(feed.sample(0)), until=end)
    history: dict[str, list[float]] = {}
    done, status = 0, "steps"
    for part in engine.drive(run, carry, feed, list(range(1, rounds + 1))):
        carry, done, status = part.carry, part.step, Status(part.end).name.lower() if part.end else "steps"
        for record in part.records:
            for name, value in record.items():
                history.setdefault(name, []).append(float(value))
    for name, refused in zip(admitted, np.asarray(carry.state.refused), strict=True):
        if refused:
            warnings.warn(
                f"site {name} was left out of {refused} rounds: its sums were not finite, or not those of rows.",
                RuntimeWarning,
                stacklevel=2,
            )
    arrays = {name: np.asarray(values) for name, values in history.items()}
    return Result(engine.solution(method, carry.state), arrays, carry.state, done, status)
