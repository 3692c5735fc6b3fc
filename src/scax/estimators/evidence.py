"""Strengths that follow the evidence, log p(y | X, strengths), while networks train: one for each column of X."""

from typing import Any

import jax
import numpy as np

from ..storage.error_bars import NetworkJacobian
from ..training import engine
from ..training.feed import padded
from ..training.stopping import Stopping
from ..uncertainty.error_bars import by_evidence
from ..uncertainty.posterior import Rows as Data
from . import strength
from .network import from_params
from .networks import Networks
from .rows import Rows

#: Strengths from which four networks begin, and how many of them, those of the most evidence, are looked at after each
#: stretch of training. Stretches after the first are a third as long.
BEGIN, LOOKED_AT = (1e-4, 1e-3, 1e-2, 1e-1), (4, 4, 2, 2, 1, 1)
#: Equations of which the evidence is made: one for each row and output, of so many rows (one output), of rows enough
#: where outputs are several, and in all at most, since time grows with their cube.
FEW_EQUATIONS, ENOUGH_ROWS, MOST_EQUATIONS = 512, 128, 1280
#: Rows of which the evidence is made at least, and the share of the equations that N − γ is at least.
LEAST_ROWS, LEAST_FREE = 32, 0.1
MOST_OUTPUTS = MOST_EQUATIONS // LEAST_ROWS
#: The strength and the scales of columns stay within these; a strength changes at most so much at once.
RANGE, SCALES, LARGEST_CHANGE = (1e-7, 10.0), (0.01, 10.0), 10.0


class EvidenceSearch(Networks):
    """Finds strengths on all rows, without any held out."""

    @property
    def relevance_(self) -> np.ndarray:
        """How large the weights of each column of X may be, in units of the others; the evidence finds it."""
        out = np.zeros(self.n_features_in_)
        out[self._columns.source[self._encoding.source]] = self._scales
        return out

    def _forget_scales(self) -> None:
        """One strength for all columns again."""
        self._masks = [mask / self._scales for mask in self._masks]
        self._scales = np.ones_like(self._scales)

    def _evidence_strength(
        self, x: np.ndarray, targets: np.ndarray, weight: np.ndarray, random: Any, again: bool
    ) -> float:
        """The strength of all weights but the columns'; sets those by their scale, √(strength/strength of the column).

        λ_g ← Tγ_g/(N‖w_g‖²) between stretches of training. Each network finds the nearest maximum, and one of a strong
        penalty may be a straight line: so four begin from strengths that are decades apart.
        """
        n, k, trainer = len(x), targets.shape[1], self._trainer()
        most = min(max(FEW_EQUATIONS // k, ENOUGH_ROWS), MOST_EQUATIONS // k)
        if k > MOST_OUTPUTS:
            raise ValueError(
                f"alpha='evidence' is for at most {MOST_OUTPUTS} outputs, since its matrix has a row "
                f"for every row and output, and y has {k:,}: use alpha='auto'."
            )
        rows, total = Rows(x, targets, weight).some(most), float(weight.sum())
        column = self._columns.source[self._encoding.source]
        batch_size, view, count = self._batch_size(n, k), self._views()[0], len(BEGIN)
        epochs = strength.passes(n, batch_size)
        strengths, scales = np.array(BEGIN), np.tile(self._scales, (count, 1))
        networks, evidence, order = [self._members[0]] * count, np.full(count, -np.inf), np.arange(count)
        with trainer.programs():
            feed = trainer.feed(x, targets, weight, batch_size)
            like = trainer.feed(x[:1], targets[:1], weight[:1], size=padded(round(strength.FRACTION * n)))
            for stretch, looked_at in enumerate(LOOKED_AT):
                goals = feed.epochs(epochs if stretch == 0 else max(1, epochs // 3))[-1:]
                stopping = Stopping(0.0, epochs, False, engine.RUNS)
                params = [trainer.params(*each) for each in zip(networks, view * scales, strict=True)]
                seed = np.uint32(random.randint(2**32, dtype=np.uint32))
                *_, last = trainer.epochs(params, strengths, feed, like, stopping, goals, seed)
                assert last.carry.best is not None
                ends = jax.device_get(last.carry.best.params)
                networks = [from_params(jax.tree.map(lambda e, i=i: e[i], ends), x.shape[1]) for i in range(count)]
                evidence[order[looked_at:]] = -np.inf
                for i in order[:looked_at]:
                    (first, *others), biases = networks[i]
                    mask = view * scales[i]
                    own = np.divide(first, mask[:, None], out=np.zeros_like(first), where=mask[:, None] > 0)
                    layers = list(zip([own, *others], biases, strict=True))
                    jacobian = NetworkJacobian.of(layers, self._activation(), "linear", self._output_offset)
                    data = Data(rows.x * mask, rows.targets, rows.weight, k, total / rows.weight.sum())
                    evidence[i], each, rest = by_evidence(
                        jacobian, self._loss(), data, float(strengths[i]), column, LEAST_FREE
                    )
                    if stretch + 1 < len(LOOKED_AT):
                        now, change = strengths[i], LARGEST_CHANGE
                        each, rest = (np.clip(new, now / change, now * change) for new in (each, rest))
                        strengths[i] = np.clip(rest, *RANGE)
                        scales[i] = np.clip(scales[i] * np.sqrt(strengths[i] / each)[column], *SCALES)
                order = np.argsort(-evidence)
                shown = ", ".join(f"{a:.0e}: {v:.5g}" for a, v in zip(strengths, evidence, strict=True))
                self._say(f"log p(y | X, alpha) by alpha: {shown}")
        best = order[0]
        change, self._scales = scales[best] / self._scales, scales[best]
        self._masks = [mask * change for mask in self._masks]
        if not again:
            self._members = [([w[0] * change[:, None], *w[1:]], biases) for w, biases in self._members]
        return float(strengths[best])
