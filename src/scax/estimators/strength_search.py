"""alpha="auto", "held_out" and "evidence" where no rows are held out for the fit itself."""

import jax
import numpy as np

from ..models.compact import used, weights_used
from ..training import engine
from ..training.feed import padded
from ..training.recipe import MANY_ROWS
from ..training.stopping import Stopping
from ..training.strength import choose_strength
from . import strength
from .evidence import MOST_OUTPUTS, EvidenceSearch
from .network import from_params, joined
from .parameters import is_auto, is_evidence, is_searched
from .rows import Rows
from .sparsity import Sparsity

#: The strength alpha="auto" stands for where there are no rows to hold out.
PARTIAL_STRENGTH = 1e-3
#: Rows from which "auto" is the evidence with a squared loss; up to MANY_ROWS, from which the fit holds rows out.
EVIDENCE_ROWS = 40


class StrengthSearch(Sparsity, EvidenceSearch):
    """Finds the strength of the penalty."""

    def _strength(self, x, targets, weight, y, random: np.random.RandomState, again: bool) -> float:
        """alpha, or the strength found: by the evidence, or by trainings from one start, judged on held-out rows."""
        self.path_ = None
        if is_evidence(self.alpha) or (is_auto(self.alpha) and self._prefers_evidence(targets, weight)):
            return self._evidence_strength(x, targets, weight, random, again)
        self._forget_scales()
        if not is_searched(self.alpha):
            return float(self.alpha)
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
            # of few rows as many as the fit's own: shorter trials favor weak penalties
            count = self.recipe_.epochs if n < MANY_ROWS else strength.passes(n, batch_size)
            stopping = Stopping(0.0, count, False, engine.RUNS)
            # a fit that goes on has seen the rows held out here
            start = self._drawn(targets, self._masks[0], random) if again else self._members[0]
            start = trainer.params(start, self._masks[0])
            trial = strength.trials(trainer, start, splits, stopping, count, seed, self._say)
            return strength.search(trial)

    def _prefers_evidence(self, targets: np.ndarray, weight: np.ndarray) -> bool:
        """Whether "auto" is the evidence: with a squared loss, whose evidence is that of the linearized network itself,
        and rows enough to tell the noise. On few rows it is better than rows held out, and several times faster; for
        classes it is better or much worse, and for bins of numbers worse (docs/measurements/tables.md). Rows count by
        their weights, too: of 100 that weigh 0.01 each the evidence knows one."""
        counts = np.count_nonzero(weight), weight.sum()
        is_few = min(counts) >= EVIDENCE_ROWS and max(counts) < MANY_ROWS and targets.shape[1] <= MOST_OUTPUTS
        is_smooth = self.penalty == "l2" and self._loss().is_quadratic
        return bool(is_few and is_smooth and not self._encoding.is_bin.any())

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
