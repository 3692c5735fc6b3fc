"""The networks of an estimator trained: all rows until their loss stands still, or judged by rows held out."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..training import engine
from ..training.feed import padded
from ..training.finish import finish
from ..training.stopping import Stopping
from . import saved_state, strength
from .network import Layers, from_params, joined
from .networks import Networks
from .parameters import is_searched
from .pool import Pool
from .rows import Rows


class Training(Networks):
    """Sets the learned attributes."""

    alpha_: float
    _alphas: list[float]  # of every member
    _judged: list[Layers]  # the members as the rows held out have judged them

    def _train(self, x, targets, weight, held, max_iter: int, random: np.random.RandomState) -> None:
        """Epochs until the loss stops falling; sets the learned attributes."""
        early, trainer = held is not None, self._trainer()
        with trainer.programs():
            params = [trainer.params(*each) for each in zip(self._members, self._masks, strict=True)]
            feed = trainer.feed(x, targets, weight, self._batch_size(len(x), targets.shape[1]))
            # without held-out rows any others stand in for them, in the shape the search has compiled for
            like = padded(round(strength.FRACTION * min(len(x), strength.MOST_ROWS)))
            rest = trainer.feed(*held) if early else trainer.feed(x[:1], targets[:1], weight[:1], size=like)
            stopping = Stopping(float(self.recipe_.tol), int(self.recipe_.patience), early, engine.RUNS)
            done, carry, self._converged = 0, None, False
            seed = np.uint32(random.randint(2**32, dtype=np.uint32))
            saved = getattr(self, "_saved_state", None)
            strengths, goals = np.full(len(params), self.alpha_), feed.epochs(max_iter)
            for part in trainer.epochs(params, strengths, feed, rest, stopping, goals, seed, saved):
                carry, self._converged = part.carry, part.is_over
                self._record(part.records, done, early)
                done += len(part.records)
            assert carry is not None
            assert carry.best is not None
            self._saved_state = saved_state.save(carry.state)
            # exact zeros, where the penalty makes them
            problem, best = trainer.problem(params[0], self.alpha_), jax.device_get(carry.best)
            networks = [jax.tree.map(lambda leaf, i=i: leaf[i], best.params) for i in range(len(params))]
            self._judged = self._members = [from_params(finish(problem, p, feed.data), x.shape[1]) for p in networks]
        self.coefs_, self.intercepts_ = joined(self._members)
        self._alphas = strengths.tolist()
        self.n_iter_ = done
        self.t_ += done * len(x)
        self.loss_ = self.loss_curve_[-1]
        if early:
            self.best_validation_loss_ = float(np.mean(best.value))

    def _record(self, records: list[dict[str, Any]], done: int, early: bool) -> None:
        validation = self.validation_loss_curve_ if early else None
        for i, record in enumerate(records):
            loss, value = float(np.mean(record["objective"])), float(np.mean(record["validation_loss"]))
            self.loss_curve_.append(loss)
            if validation is not None:
                validation.append(value)
            if self.verbose:
                extra = "" if validation is None else f", validation loss = {value:.8f}"
                print(f"Iteration {done + i + 1}, loss = {loss:.8f}{extra}")  # noqa: T201

    def _train_pool(self, rows: Rows, held: Rows, random: np.random.RandomState, again: bool) -> None:
        """Networks judged by rows held out, strengths and views searched where they are open; the best averaged."""
        trainer, recipe, loss = self._trainer(), self.recipe_, self._loss()
        self.path_ = None
        share = held.weight / held.weight.sum()
        with trainer.programs():
            aim = jnp.asarray(held.targets)
            feed = trainer.feed(*rows, self._batch_size(len(rows.x), rows.targets.shape[1]))
            stopping = Stopping(float(recipe.tol), int(recipe.patience), True, engine.RUNS)
            pool = Pool(
                trainer,
                feed,
                held,
                stopping,
                feed.epochs(recipe.epochs),
                self._views(),
                lambda mask: self._drawn(rows.targets, mask, random),
                lambda z: float(share @ np.asarray(loss.value(jnp.asarray(z), aim), float)),
                iter(lambda: np.uint32(random.randint(2**32, dtype=np.uint32)), None),
                self._say,
            )
            if again:
                pool.views = self._masks
                alphas = self._alphas if is_searched(self.alpha) else [float(self.alpha)] * len(self._judged)
                pool.train(list(enumerate(alphas)), self._judged)
            elif is_searched(self.alpha):
                pool.search(is_short=recipe.members == 1)
            else:
                pool.train([(i % len(pool.views), float(self.alpha)) for i in range(recipe.members)])
            found = is_searched(self.alpha) and not again
            chosen = pool.members(recipe.members) if found else pool.trained
            starts = self._members if again else [each.start for each in chosen]
            self._judged, self._alphas = [each.network for each in chosen], [each.alpha for each in chosen]
            self._members, self._masks = self._judged, [pool.views[each.view] for each in chosen]
            if recipe.refits:
                everything = Rows(*(np.concatenate(pair) for pair in zip(rows, held, strict=True)))
                size = self._batch_size(len(everything.x), rows.targets.shape[1])
                self._members = pool.refit(chosen, trainer.feed(*everything, size), starts)
        best = min(chosen, key=lambda each: each.loss)
        self.coefs_, self.intercepts_ = joined(self._members)
        self.alpha_, self.loss_curve_, self.validation_loss_curve_ = best.alpha, best.objectives, best.losses
        self.n_iter_, self.loss_, self.best_validation_loss_ = len(best.losses), best.objectives[-1], best.loss
        self.t_ += self.n_iter_ * len(rows.x)
        self._converged = True
