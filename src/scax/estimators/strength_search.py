"""alpha="auto" and "evidence" where no rows are held out for the fit itself."""

from typing import Any

import jax
import numpy as np

from ..models.compact import used, weights_used
from ..storage.error_bars import NetworkJacobian
from ..training import engine
from ..training.engine import Part
from ..training.feed import padded
from ..training.stopping import Stopping
from ..training.strength import choose_strength
from ..uncertainty.error_bars import evidence_of
from ..uncertainty.posterior import Rows as Evidence
from . import strength
from .network import Layers, from_params, joined
from .networks import Networks
from .parameters import is_auto
from .rows import Rows
from .sparsity import Sparsity

#: The strength alpha="auto" stands for where there are no rows to hold out.
PARTIAL_STRENGTH = 1e-3
#: alpha="evidence": equations of which the evidence is made at most, rows at least where outputs are many, and the
#: share of them that N − γ is at least.
MOST_EQUATIONS, LEAST_ROWS, LEAST_FREE = 1024, 256, 0.1


class StrengthSearch(Sparsity, Networks):
    """Finds the strength of the penalty."""

    def _strength(self, x, targets, weight, y, random: np.random.RandomState, again: bool) -> float:
        """alpha, or the strength found for "auto": trainings from one start, judged on held-out rows."""
        self.path_ = None
        if not is_auto(self.alpha):
            return (
                self._evidence_strength(x, targets, weight, random) if self.alpha == "evidence" else float(self.alpha)
            )
        n = min(len(x), strength.MOST_ROWS)
        if n < 4:
            return PARTIAL_STRENGTH
        if self.penalty != "l2":
            return self._sparse_strength(x, targets, weight, y, random, again)
        data = Rows(x, targets, weight)
        batch_size = self._batch_size(n, targets.shape[1])
        trainer, seed = self._trainer(), np.uint32(random.randint(2**32, dtype=np.uint32))
        with trainer.programs():
            splits = []
            for _ in range(strength.repeats(n)):
                some = np.sort(random.permutation(len(x))[:n])
                apart = self._held_out(y[some], strength.FRACTION, random)
                parts = ((some[~apart], n), (some[apart], round(strength.FRACTION * n)))
                splits.append([trainer.feed(*data.take(at), batch_size, padded(size)) for at, size in parts])
            count = strength.passes(n, batch_size)
            stopping = Stopping(0.0, count, False, engine.RUNS)
            start = trainer.params(self._members[0], self._masks[0])
            trial = strength.trials(trainer, start, splits, stopping, count, seed, self._say)
            return strength.search(trial)

    def _sparse_strength(self, x, targets, weight, y, random: np.random.RandomState, again: bool) -> float:
        """The strongest on a path of strengths that rows held out cannot tell from the best; sets `path_`.

        The fit goes on from its network. A warm start goes on from the last fit, which has seen the rows held out: the
        path then starts from a network of its own.
        """
        rows = np.sort(random.permutation(len(x))[: strength.MOST_PATH_ROWS])
        held = self._held_out(y[rows], strength.FRACTION, random)
        trainer = self._trainer()
        with trainer.programs():
            mask = self._masks[0]
            start = self._drawn(targets, mask, random) if again else self._members[0]
            params, data = trainer.params(start, mask), Rows(trainer.wide(x), targets, weight)
            found = choose_strength(
                trainer.problem(params, 1.0),
                params,
                data.take(rows[~held]),
                data.take(rows[held]),
                steps=strength.PATH_STEPS,
                finish=strength.PATH_FINISH,
                batch_size=min(self._batch_size(len(x), targets.shape[1]), int(np.sum(~held))),
                key=jax.random.key(np.uint32(random.randint(2**32, dtype=np.uint32))),
                options=trainer.sca_options,
            )
        networks = [from_params(p, x.shape[1])[0] for p in found.params]
        units = [used(weights) for weights in networks]
        self.path_ = {
            "alpha": found.strengths,
            "loss": found.loss,
            "excess": found.excess,
            "error": found.error,
            "weights": np.array([weights_used(weights) for weights in networks]),
            "neurons": np.array([sum(int(np.sum(layer)) for layer in on[1:-1]) for on in units]),
            "features": np.array([self._by_feature(on[0]) for on in units]),
        }
        if not again:
            self._members = [from_params(found.solution, x.shape[1])] * len(self._members)
            self.coefs_, self.intercepts_ = joined(self._members)
        return found.strength

    def _evidence_strength(self, x: np.ndarray, targets: np.ndarray, weight: np.ndarray, random: Any) -> float:
        """alpha="evidence": the search of "auto", its networks trained on all rows and judged by log p(y | x, λ).

        λ ← Tγ/(N‖w‖²) between stretches, from a single start, ends where that puts it: a strong penalty makes the
        network linear, and there it has a fixed point as well.
        """
        n, rows, trainer = len(x), Rows(x, targets, weight), self._trainer()
        some = rows.some(max(MOST_EQUATIONS // targets.shape[1], LEAST_ROWS))
        total = float(weight.sum())
        batch_size, seed = self._batch_size(n, targets.shape[1]), np.uint32(random.randint(2**32, dtype=np.uint32))

        def judge(strengths: np.ndarray, last: Part) -> np.ndarray:
            assert last.carry.best is not None
            ends = jax.device_get(last.carry.best.params)
            networks = [
                from_params(jax.tree.map(lambda leaf, i=i: leaf[i], ends), x.shape[1]) for i in range(len(strengths))
            ]
            return np.array([-self._evidence(*each, some, total) for each in zip(networks, strengths, strict=True)])

        with trainer.programs():
            feed = trainer.feed(*rows, batch_size)
            like = trainer.feed(x[:1], targets[:1], weight[:1], size=padded(round(strength.FRACTION * n)))
            count = strength.passes(n, batch_size)
            stopping = Stopping(0.0, count, False, engine.RUNS)
            start = trainer.params(self._members[0], self._masks[0])
            trial = strength.trials(
                trainer, start, [(feed, like)], stopping, count, seed, self._say, judge, "−log p(y | X, alpha)"
            )
            return strength.search(trial)

    def _evidence(self, member: Layers, alpha: float, rows: Rows, total: float) -> float:
        layers, k = list(zip(*member, strict=True)), rows.targets.shape[1]
        jacobian = NetworkJacobian.of(layers, self._activation(), "linear", self._output_offset)
        data = Evidence(rows.x, rows.targets, rows.weight, k, total / rows.weight.sum())
        return evidence_of(jacobian, self._loss(), data, float(alpha), LEAST_FREE)
