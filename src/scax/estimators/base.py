"""What the regressor and the classifier share: parameters, training, warm starts, sparsity."""

import dataclasses
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_array, check_is_fitted, check_X_y, validate_data

from .._compat import refuse_fork
from ..losses import Loss
from ..models.compact import used, weights_used
from ..storage.network import forward
from ..tables.encode import Encoding
from ..training import engine
from ..training.feed import padded
from ..training.finish import finish
from ..training.recipe import Recipe
from ..training.stopping import Stopping
from ..training.strength import chosen
from . import parameters, saved_state, strength
from .columns import Columns, is_frame
from .network import Layers, from_params, glorot, joined
from .parameters import is_auto
from .pool import Pool
from .rows import Rows, merge
from .sparsity import Sparsity
from .trainer import Trainer
from .uncertainty import Uncertain

#: Rows of an automatic batch at most; and the linear system of one step, with a row per sample and output, is kept
#: near this size.
MOST_IN_BATCH, SYSTEM_SIZE = 64, 128
#: The strength alpha="auto" stands for in partial_fit, which has no rows to hold out.
PARTIAL_STRENGTH = 1e-3
#: Bytes that a sparse matrix may take when it is written out.
MOST_DENSE = 8 << 30
#: How X is read.
READING: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}


class SCAEstimator(Uncertain, Sparsity, BaseEstimator):
    """Abstract: use SCARegressor or SCAClassifier."""

    n_features_in_: int

    def __init__(
        self,
        hidden_layer_sizes="auto",
        activation="auto",
        *,
        penalty="l2",
        alpha="auto",
        l1_ratio=0.5,
        damping="auto",
        batch_size="auto",
        max_iter="auto",
        tol="auto",
        n_iter_no_change="auto",
        early_stopping="auto",
        validation_fraction="auto",
        n_members="auto",
        standardize=True,
        numbers="auto",
        categorical_features="from_dtype",
        warm_start=False,
        random_state=None,
        verbose=False,
        sca_params=None,
    ):
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.penalty = penalty
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.damping = damping
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_members = n_members
        self.standardize = standardize
        self.numbers = numbers
        self.categorical_features = categorical_features
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose
        self.sca_params = sca_params

    # what the two kinds differ in

    def _validate(self, X, y, first: bool) -> tuple[np.ndarray, np.ndarray]:
        """X and y as arrays; on the first call of a fit `first` is True and attributes of the data are set."""
        raise NotImplementedError

    def _targets(self, y: np.ndarray, weight: np.ndarray, first: bool) -> np.ndarray:
        """What the loss compares the outputs with, [n, k]; on the first call the target's own scale is learned."""
        raise NotImplementedError

    def _row_weights(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Sample weights, class weights included."""
        return weight

    def _loss(self) -> Loss:
        raise NotImplementedError

    def _offset(self, targets: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Outputs before anything is learned."""
        return np.zeros(targets.shape[1])

    def _strata(self, y: np.ndarray) -> np.ndarray | None:
        """Labels by which the validation rows are drawn; None draws them evenly."""
        return None

    # fitting

    def fit(self, X, y, sample_weight=None):
        """Train the network.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training data.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows: 2 stands for a row given twice, 0 for one left out.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        refuse_fork()
        parameters.check(self)
        again = self.warm_start and hasattr(self, "coefs_")
        X, y = self._validate(X, y, first=not again)
        X, targets, weight, y = self._merged(X, y, sample_weight, first=not again)
        random = check_random_state(self.random_state)
        self.recipe_ = self._recipe(len(X), X.shape[1], targets.shape[1])
        self._say(str(self.recipe_))
        if not again:
            self._encoding = self._learn_encoding(X, weight)
            self._initialize(targets, weight, random)
        x, held = self._encoding.apply(X, self._trainer().dtype), None
        if self.recipe_.holds_out:
            rows = self._held_out(y, self.recipe_.fraction, random)
            held = (x[rows], targets[rows], weight[rows])
            x, targets, weight, y = x[~rows], targets[~rows], weight[~rows], y[~rows]
        self.loss_curve_ = []
        self.validation_loss_curve_ = None if held is None else []
        self._saved_state = None
        if held is not None and self.penalty == "l2":
            self._train_pool(Rows(x, targets, weight), Rows(*held), random, again)
        else:
            self.alpha_ = self._strength(x, targets, weight, y, random, again)
            self._train(x, targets, weight, held, self.recipe_.epochs, random)
        self._keep_rows(Rows(x, targets, weight), None if held is None else Rows(*held))
        if not self._converged and held is None:
            warnings.warn(
                f"the loss was still falling after max_iter={self.recipe_.epochs} epochs: raise max_iter, or tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        if held is not None and self.best_validation_loss_ >= self._loss_of_nothing(held):
            warnings.warn(
                "the fit is no better on rows held out than predicting the same for all: X may not tell y.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _say(self, text: str) -> None:
        """Progress, for who asked for it."""
        if self.verbose:
            print(text, flush=True)  # noqa: T201

    def _recipe(self, rows: int, columns: int, outputs: int) -> Recipe:
        """The recipe for a table of this size, with what was given instead."""
        smooth = self.penalty == "l2"
        recipe = Recipe.of(rows, columns, smooth, self._batch_size(rows, outputs))
        given: dict[str, Any] = {
            "hidden": self.hidden_layer_sizes,
            "activation": parameters.ALIASES.get(self.activation, self.activation),
            "numbers": self.numbers,
            "epochs": self.max_iter,
            "tol": self.tol,
            "patience": self.n_iter_no_change,
            "holds_out": self.early_stopping,
            "fraction": self.validation_fraction,
            "members": self.n_members,
        }
        given = {name: value for name, value in given.items() if not is_auto(value)}
        if self.alpha == "evidence":  # it stands in for rows held out
            given.setdefault("holds_out", False)
        if "hidden" in given:
            given["hidden"] = parameters.hidden_widths(given["hidden"])
            if not given["hidden"]:  # a linear model is to be linear in X
                given.setdefault("numbers", "standard")
        return dataclasses.replace(recipe, **given)

    def _loss_of_nothing(self, rows: tuple) -> float:
        """The average loss of the outputs before anything is learned."""
        _, targets, weight = rows
        with jax.enable_x64(True):
            z = jnp.broadcast_to(self._output_offset, targets.shape)
            return float(weight @ np.asarray(self._loss().value(z, jnp.asarray(targets))) / weight.sum())

    def _partial_fit(self, X, y, sample_weight):
        """One epoch over these rows, going on from where the last one ended."""
        refuse_fork()
        parameters.check(self)
        if self.early_stopping is True:
            raise ValueError("partial_fit sees one part of the data at a time: it needs early_stopping=False.")
        first = not hasattr(self, "coefs_")
        X, y = self._validate(X, y, first=first)
        X, targets, weight, _ = self._merged(X, y, sample_weight, first=first)
        random = self._random if hasattr(self, "_random") else check_random_state(self.random_state)
        if first:
            single = {"members": 1 if is_auto(self.n_members) else self.n_members, "holds_out": False}
            self.recipe_ = dataclasses.replace(self._recipe(1, X.shape[1], targets.shape[1]), **single)
            self._encoding = self._learn_encoding(X, weight)
            self._initialize(targets, weight, random)
        if not hasattr(self, "_random"):
            self._random, self.loss_curve_ = random, getattr(self, "loss_curve_", [])
        self.alpha_ = PARTIAL_STRENGTH if isinstance(self.alpha, str) else float(self.alpha)
        self._train(self._encoding.apply(X), targets, weight, None, 1, random)
        self._bars = self._bar_rows = None
        return self

    def _merged(self, X, y, sample_weight, first: bool):
        """Rows, targets and weights, equal rows merged; and y."""
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        X, y, weight = merge(X, y, weight)
        weight = self._row_weights(y, weight)
        if not np.any(weight > 0):
            raise ValueError("the weights are zero for every row: at least one must count.")
        return X, self._targets(y, weight, first), weight, y

    def _learn_encoding(self, X: np.ndarray, weight: np.ndarray) -> Encoding:
        kind = "bins" if self.recipe_.numbers == "both" else self.recipe_.numbers
        found = Encoding.of(X, weight, kind if self.standardize else "standard", self._columns.levels)
        return found if self.standardize else found.in_own_units()

    def _initialize(self, targets: np.ndarray, weight: np.ndarray, random: np.random.RandomState) -> None:
        views = self._views()
        self._masks = [views[i % len(views)] for i in range(self.recipe_.members)]
        self._members = [self._drawn(targets, mask, random) for mask in self._masks]
        self.coefs_, self.intercepts_ = joined(self._members)
        self._output_offset = self._offset(targets, weight)
        self.n_layers_, self.n_outputs_, self.t_ = len(self.coefs_) + 1, targets.shape[1], 0

    def _views(self) -> list[np.ndarray]:
        """What networks see of a row: all features, and for "both" those that are no bins."""
        whole = np.ones(len(self._encoding.source))
        no_bins = np.where(self._encoding.is_bin, 0.0, whole)
        both = self.recipe_.numbers == "both" and no_bins.min() == 0
        return [whole, no_bins] if both else [whole]

    def _drawn(self, targets: np.ndarray, mask: np.ndarray, random: np.random.RandomState) -> Layers:
        """A network to start from, whose weights are as large as what it sees asks for."""
        (first, *others), biases = glorot((int(mask.sum()), *self.recipe_.hidden, targets.shape[1]), random)
        weights = np.zeros((len(mask), first.shape[1]))
        weights[mask > 0] = first
        return [weights, *others], biases

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
            strengths = np.full(len(params), self.alpha_)
            for part in trainer.epochs(params, strengths, feed, rest, stopping, feed.epochs(max_iter), seed, saved):
                carry, self._converged = part.carry, part.is_over
                self._record(part.records, done)
                done += len(part.records)
            assert carry is not None
            assert carry.best is not None
            self._saved_state = saved_state.save(carry.state)
            # exact zeros, where the penalty makes them
            problem, best = trainer.problem(params[0], self.alpha_), jax.device_get(carry.best)
            networks = [jax.tree.map(lambda leaf, i=i: leaf[i], best.params) for i in range(len(params))]
            self._members = [from_params(finish(problem, p, feed.data), x.shape[1]) for p in networks]
        self.coefs_, self.intercepts_ = joined(self._members)
        self.n_iter_ = done
        self.t_ += done * len(x)
        self.loss_ = self.loss_curve_[-1]
        if early:
            self.best_validation_loss_ = float(np.mean(best.value))

    def _record(self, records: list[dict[str, Any]], done: int) -> None:
        validation = getattr(self, "validation_loss_curve_", None)
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
                pool.train([(i, self.alpha_) for i in range(len(self._members))], self._members)
            elif is_auto(self.alpha):
                pool.search()
            else:
                pool.train([(i % len(pool.views), float(self.alpha)) for i in range(recipe.members)])
            is_searched = is_auto(self.alpha) and not again
            chosen = pool.members(recipe.members) if is_searched else pool.trained
        best = min(chosen, key=lambda each: each.loss)
        self._members, self._masks = [each.network for each in chosen], [pool.views[each.view] for each in chosen]
        self.coefs_, self.intercepts_ = joined(self._members)
        self.alpha_, self.loss_curve_, self.validation_loss_curve_ = best.alpha, best.objectives, best.losses
        self.n_iter_, self.loss_, self.best_validation_loss_ = len(best.losses), best.objectives[-1], best.loss
        self.t_ += self.n_iter_ * len(rows.x)
        self._converged = True

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
            found = chosen(
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

    def _batch_size(self, n: int, k: int) -> int:
        """Rows per step; a batch that holds every row is as long as the padded table."""
        automatic = min(MOST_IN_BATCH, max(16, 1 << max(1, SYSTEM_SIZE // k).bit_length() - 1))
        size = automatic if isinstance(self.batch_size, str) else int(self.batch_size)
        return padded(n) if size >= n else size

    def _held_out(self, y: np.ndarray, fraction: float, random: np.random.RandomState) -> np.ndarray:
        """Which rows are set aside: drawn at random, every stratum in proportion."""
        n = len(y)
        count = max(1, round(fraction * n))
        if count >= n:
            raise ValueError(
                f"early_stopping sets {count} of {n} samples aside and leaves none to train on: "
                "lower validation_fraction, or use early_stopping=False."
            )
        order = random.permutation(n)
        strata = self._strata(y)
        if strata is not None:
            order = order[np.argsort(strata[order], kind="stable")]
        held = np.zeros(n, bool)
        held[order[((np.arange(count) + random.uniform()) * n / count).astype(int)]] = True
        return held

    def _activation(self) -> str:
        return self.recipe_.activation

    def _trainer(self) -> Trainer:
        options = {} if is_auto(self.damping) else {"damping": float(self.damping)}
        return Trainer(
            self._loss(),
            self._activation(),
            self.penalty,
            float(self.l1_ratio),
            self._output_offset,
            self.recipe_.is_single,
            (self.sca_params or {}) | options,
        )

    # predicting

    def _raw(self, X) -> np.ndarray:
        """The network's outputs [n, k] for new rows."""
        return self._outputs(self._inputs(X))

    def to_model(self, target: str = "target"):
        """The fitted network and its preprocessing as one model, which `scax.load` reads and ONNX can hold.

        Parameters
        ----------
        target : str, default="target"
            What the predicted column is called.

        Returns
        -------
        model : scax.Model
            `model.predict(table)` takes rows with the same columns; `model.save(path)` and `model.to_onnx(path)` write
            it. Predicting needs NumPy alone.
        """
        from .export import model_of, target_of

        check_is_fitted(self)
        classes = getattr(self, "classes_", None)
        mean, scale, link = self._output_units()
        biases = [*self.intercepts_[:-1], self.intercepts_[-1] + self._output_offset]
        names = [str(n) for n in getattr(self, "feature_names_in_", [f"x{i}" for i in range(self.n_features_in_)])]
        layers = list(zip(self.coefs_, biases, strict=True))
        about = target_of(target, classes)
        return model_of(layers, self._activation(), link, self._columns, self._encoding, names, about, (mean, scale))

    def _output_units(self) -> tuple[float, float, str]:
        """Mean and scale by which outputs become predictions, and the link before them; for one column alone."""
        raise NotImplementedError

    def _inputs(self, X) -> np.ndarray:
        """New rows as the network takes them."""
        check_is_fitted(self)
        return self._encoding.apply(self._matrix(X))

    def _outputs(self, x: np.ndarray) -> np.ndarray:
        layers = list(zip(self.coefs_, self.intercepts_, strict=True))
        return forward(layers, self._activation(), "linear", x) + self._output_offset

    def _matrix(self, X) -> np.ndarray:
        """New rows as a matrix of numbers, NaN where missing."""
        if is_frame(X):
            validate_data(self, X, skip_check_array=True, reset=False)
            return check_array(self._columns.read(X), **READING)
        return self._columns.read(_dense(validate_data(self, X, accept_sparse="csr", reset=False, **READING)))

    def _table(self, X, y, first: bool, **options) -> tuple[np.ndarray, np.ndarray]:
        """X as such a matrix, and y checked; on the first call of a fit the kinds of columns are learned."""
        if is_frame(X):
            validate_data(self, X, skip_check_array=True, reset=first)
            if first:
                self._columns = Columns.of(X, self.categorical_features)
            X, y = check_X_y(self._columns.read(X), y, estimator=self, **READING, **options)
            return np.asarray(X), np.asarray(y)
        X, y = validate_data(self, X, y, accept_sparse="csr", reset=first, **READING, **options)
        X = _dense(X)
        if first:
            self._columns = Columns.of(X, self.categorical_features)
        return self._columns.read(X), np.asarray(y)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.non_deterministic = False
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags


def _dense(X) -> np.ndarray:
    """A sparse matrix written out: the first layer takes rows of numbers."""
    if not issparse(X):
        return np.asarray(X)
    if X.shape[0] * X.shape[1] * 8 > MOST_DENSE:
        raise ValueError(
            f"X is sparse, and its {X.shape[0]:,} × {X.shape[1]:,} numbers written out take more than "
            f"{MOST_DENSE >> 30} GiB: reduce its columns first (TruncatedSVD, SelectKBest)."
        )
    return X.toarray()
