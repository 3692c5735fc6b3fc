"""Networks of one shape trained side by side: what the search for a strength and the fit itself have in common."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from .._cache import stored_programs
from ..losses import Loss
from ..models import MLP
from ..problem import Problem
from ..regularizers import L1, L2, ElasticNet, GroupLasso, LogSum, Regularizer, neuron_groups
from ..sca import SCA
from ..solvers import Auto
from ..storage.network import forward
from ..training import engine
from ..training.evaluation import Objective
from ..training.feed import EqualBatches
from ..training.many import stack, start_members
from ..training.stopping import Stopping
from . import saved_state
from .network import TRAINABLE, Layers, Network, padded_features, to_params

#: A step is damped and then mixed with many others: a surrogate solved to 12 digits takes twice the time and ends at
#: the same network.
NEWTON_TOLERANCE = 1e-3

#: A penalty by its name: of (params, alpha, l1_ratio).
PENALTIES: dict[str, Callable[[dict, float, float], Regularizer]] = {
    "l2": lambda params, alpha, l1_ratio: L2(alpha),
    "l1": lambda params, alpha, l1_ratio: L1(alpha),
    "elasticnet": lambda params, alpha, l1_ratio: ElasticNet(alpha, l1_ratio),
    "log": lambda params, alpha, l1_ratio: LogSum(alpha),
    "group": lambda params, alpha, l1_ratio: GroupLasso(alpha, neuron_groups(params, trainable=TRAINABLE)),
}


@dataclasses.dataclass(frozen=True)
class Trainer:
    """How networks of an estimator are trained, whatever their rows, starts and strengths."""

    loss: Loss
    activation: str
    penalty: str
    l1_ratio: float
    offset: np.ndarray  # outputs before anything is learned
    is_single: bool  # precision
    options: dict[str, Any]  # of the method

    @property
    def dtype(self) -> type:
        return np.float32 if self.is_single else np.float64

    @contextmanager
    def programs(self) -> Iterator[None]:
        """Where programs run: in the trainer's precision, kept for the next process."""
        with stored_programs(), jax.enable_x64(not self.is_single):
            yield

    def params(self, member: Layers, mask: np.ndarray) -> dict:
        return to_params(*member, mask, self.offset, self.dtype)

    def feed(
        self, x: np.ndarray, targets: np.ndarray, weight: np.ndarray, batch_size: int = 1, size: int | None = None
    ) -> EqualBatches:
        x, targets, weight = (part.astype(self.dtype) for part in (self.wide(x), targets, weight))
        return EqualBatches.pad(x, targets, weight, batch_size, size)

    def outputs(self, network: Layers, x: np.ndarray) -> np.ndarray:
        """Raw outputs [n, k] of a network as it is kept."""
        weights, biases = network
        return forward(list(zip(weights, biases, strict=True)), self.activation, "linear", x) + self.offset

    def wide(self, x: np.ndarray) -> np.ndarray:
        return np.pad(x, ((0, 0), (0, padded_features(x.shape[1]) - x.shape[1])))

    def epochs(
        self,
        params: Sequence[dict],
        strengths: np.ndarray,
        feed: EqualBatches,
        held: EqualBatches,
        stopping: Stopping,
        goals: Any,
        seed: np.uint32,
        saved: dict[str, np.ndarray] | None = None,
        each_record: bool = False,
    ) -> Iterator[engine.Part]:
        """Networks with their own strengths trained side by side, in one program for any strengths; with `each_record`
        a part ends at every goal."""
        methods = stack([self.method(start, value) for start, value in zip(params, strengths, strict=True)])
        starts = stack(params)
        keys = jax.random.split(jax.random.key(seed), len(params))
        state = None
        if saved is not None:
            state = saved_state.restore(saved_state.initial(methods, starts), saved)
        carry = start_members(methods, starts, feed, keys, stopping, state)
        run = engine.run_many(methods, False, Objective(feed.data, held.data), stopping)
        return engine.drive(run, carry, feed, goals, each_record=each_record)

    def method(self, params: dict, alpha: float) -> SCA:
        return SCA(self.problem(params, alpha), **self.sca_options)

    def problem(self, params: dict, alpha: float) -> Problem:
        widths = (params["layers"][0]["weight"].shape[0], *(len(layer["bias"]) for layer in params["layers"]))
        network = Network(MLP(widths, self.activation))
        return Problem(network, self.loss, PENALTIES[self.penalty](params, alpha, self.l1_ratio), trainable=TRAINABLE)

    @property
    def sca_options(self) -> dict[str, Any]:
        # A memory of curvature helps small batches on long runs; here it would take most of the time of a fit.
        options: dict[str, Any] = {"metric": None} | self.options
        if self.penalty == "l2":
            options.setdefault("solver", Auto(tolerance=NEWTON_TOLERANCE))
        return options
