"""The networks of a fit that holds rows out: strengths and views searched in groups of four, the best averaged.

A group is trained side by side in one program, the same for every group: strengths, views and starts are data. Each
network keeps its best epoch, so that those of the search may become members, too.
"""

import dataclasses
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..training.feed import EqualBatches
from ..training.stopping import Stopping
from .network import Layers, from_params
from .rows import Rows
from .trainer import Trainer

#: Networks trained at once.
GROUP = 4
#: Strengths are 10^(e/2): where the search begins, and its ends.
BEGIN, LEAST, MOST = (-8, -6), -14, 6
#: A view whose loss is larger than another's by this factor is not looked at further.
WORSE = 1.2
#: Two strengths whose losses differ by no more than this factor are equally good to a short search.
FLAT = 1.05


@dataclasses.dataclass(frozen=True)
class Trained:
    """A network at its best epoch: its loss and outputs on the rows held out, and the course of its training from
    `start`."""

    view: int
    alpha: float
    start: Layers
    seed: np.uint32
    network: Layers
    loss: float
    outputs: np.ndarray
    objectives: list[float]
    losses: list[float]

    @property
    def epochs(self) -> int:
        """Until the best."""
        return int(np.argmin(np.nan_to_num(self.losses, nan=np.inf))) + 1


@dataclasses.dataclass
class Pool:
    """Networks trained on the same rows and judged by the same rows held out.

    `views` are masks of features, `draw(view)` gives a start, `value(outputs)` the loss on the rows held out.
    """

    trainer: Trainer
    feed: EqualBatches
    held: Rows
    stopping: Stopping
    goals: Any
    views: Sequence[np.ndarray]
    draw: Callable[[np.ndarray], Layers]
    value: Callable[[np.ndarray], float]
    seeds: Iterator[np.uint32]
    say: Callable[[str], object]
    trained: list[Trained] = dataclasses.field(default_factory=list)

    def train(self, jobs: Sequence[tuple[int, float]], starts: Sequence[Layers] | None = None) -> list[Trained]:
        """One group of (view, strength)."""
        starts = [self.draw(self.views[view]) for view, _ in jobs] if starts is None else starts
        params = [self.trainer.params(s, self.views[view]) for s, (view, _) in zip(starts, jobs, strict=True)]
        strengths = np.array([alpha for _, alpha in jobs])
        shown = ", ".join(f"{a:.1e}" for a in sorted(set(strengths)))
        self.say(f"training {len(jobs)} networks side by side, alpha {shown} …")
        rest, objectives, losses, part = self.trainer.feed(*self.held), [], [], None
        seed = next(self.seeds)
        for part in self.trainer.epochs(params, strengths, self.feed, rest, self.stopping, self.goals, seed):
            objectives += [record["objective"] for record in part.records]
            losses += [record["validation_loss"] for record in part.records]
            if part.records:
                self.say(f"  epoch {len(losses)}, loss on rows held out {float(np.min(losses[-1])):.5g}")
        assert part is not None
        assert part.carry.best is not None
        best = jax.device_get(part.carry.best)
        made = []
        for i, (view, alpha) in enumerate(jobs):
            network = from_params(jax.tree.map(lambda leaf, i=i: leaf[i], best.params), self.held.x.shape[1])
            outputs = self.trainer.outputs(network, self.held.x)
            curves = ([float(v[i]) for v in each] for each in (objectives, losses))
            value = float(best.value[i])
            made.append(Trained(view, float(alpha), starts[i], seed, network, value, outputs, *curves))
        self.trained += made
        return made

    def search(self, is_short: bool = False) -> None:
        """Strengths for each view: two to begin with, two beside the better of them, and more while it is at an end.

        A short search ends where the strengths of the best view make little difference, and goes on with that view.
        """
        tried: dict[tuple[int, int], float] = {}

        def attempt(points: list[tuple[int, int]]) -> None:
            made = self.train([(view, 10 ** (e / 2)) for view, e in points])
            tried.update({point: _finite(each.loss) for point, each in zip(points, made, strict=True)})

        if len(self.views) > 1:
            attempt([(view, e) for view in range(len(self.views)) for e in BEGIN])
        else:
            attempt([(0, e) for e in range(BEGIN[0] - 2, BEGIN[1] + 3, 2)])
        least = lambda view: min((loss, e) for (v, e), loss in tried.items() if v == view)
        good = [v for v in range(len(self.views)) if least(v)[0] <= WORSE * min(tried.values())]
        if is_short:
            good = [min(good, key=least)]
            losses = sorted(loss for (v, _), loss in tried.items() if v == good[0])
            if losses[1] <= FLAT * losses[0]:
                return
        room = GROUP // len(good)
        attempt([(v, e) for v in good for e in _beside(least(v)[1], [e for w, e in tried if w == v])[:room]])
        while True:
            view, best = min(tried, key=lambda point: (tried[point], -point[1]))
            mine = [e for v, e in tried if v == view]
            if min(mine) < best < max(mine):
                return
            if best in (LEAST, MOST):
                warnings.warn(
                    f"the search for alpha ended at its edge, {10 ** (best / 2):.0e}: give alpha, and look at what y "
                    "depends on.",
                    ConvergenceWarning,
                    stacklevel=5,
                )
                return
            attempt([(view, e) for e in _beside(best, mine)[:GROUP]])

    def members(self, count: int) -> list[Trained]:
        """The best network, and at most `count` − 1 others, each the one that lowers the loss of the average most."""
        rest = sorted((each for each in self.trained if np.isfinite(each.loss)), key=lambda each: each.loss)
        chosen, rest = rest[:1], rest[1:]
        if not chosen:
            return self.trained[:1]
        total, least = chosen[0].outputs, self.value(chosen[0].outputs)
        while rest and len(chosen) < count:
            values = [self.value((total + each.outputs) / (len(chosen) + 1)) for each in rest]
            i = int(np.argmin(values))
            if not values[i] <= least:
                break
            least = values[i]
            chosen.append(rest.pop(i))
            total = total + chosen[-1].outputs
        return chosen

    def refit(self, members: Sequence[Trained], feed: EqualBatches, starts: Sequence[Layers]) -> list[Layers]:
        """The members trained again on the rows of `feed`, each from its own of `starts` and for as many epochs as were
        best."""
        # one, or as many as in a group, so that no other program is compiled
        size = 1 if len(members) == 1 else max(GROUP, len(members))
        group = [(members[i % len(members)], starts[i % len(members)]) for i in range(size)]
        epochs, steps = [each.epochs for each in members], feed.epochs(max(each.epochs for each in members))
        self.say(f"training the best {len(members)} again on all rows, up to {max(epochs)} epochs …")
        goals = sorted({steps[count - 1] for count in epochs})
        params = [self.trainer.params(start, self.views[each.view]) for each, start in group]
        strengths, rest = np.array([each.alpha for each, _ in group]), self.trainer.feed(*self.held)
        endless = Stopping(0.0, np.iinfo(np.int32).max, False, self.stopping.together)
        networks: list[Layers] = [each.network for each in members]
        for part in self.trainer.epochs(
            params, strengths, feed, rest, endless, goals, members[0].seed, each_record=True
        ):
            if part.step not in goals:
                continue
            assert part.carry.best is not None
            last = jax.device_get(part.carry.best.params)
            for i, count in enumerate(epochs):
                if steps[count - 1] == part.step:
                    networks[i] = from_params(jax.tree.map(lambda leaf, i=i: leaf[i], last), self.held.x.shape[1])
        return networks


def _finite(loss: float) -> float:
    return loss if np.isfinite(loss) else np.inf


def _beside(best: int, tried: list[int]) -> list[int]:
    """Untried places around the best, those first that tell whether it is the best: where it is an end, beyond it."""
    if best == min(tried):
        order = [best - 2, best - 1, best - 4, best - 3]
    elif best == max(tried):
        order = [best + 2, best + 1, best + 4, best + 3]
    else:
        order = [best - 1, best + 1, best - 2, best + 2, best - 3, best + 3, best - 4, best + 4]
    return [e for e in order if e not in tried and LEAST <= e <= MOST]
