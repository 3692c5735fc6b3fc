"""The constructor arguments, and what each must be: said when fit is called, as scikit-learn wants it."""

import dataclasses
import numbers
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .. import checks
from ..models.mlp import ACTIVATIONS
from ..tables.encode import KINDS

PENALTIES = ("l2", "l1", "elasticnet", "log", "group")
#: What alpha may be beside a number.
ALPHAS = ("auto", "held_out", "evidence")
#: scikit-learn's names for two activations, beside our own.
ALIASES = {"identity": "linear", "logistic": "sigmoid"}


@dataclasses.dataclass(eq=False, repr=False)
class Parameters(BaseEstimator):
    """The arguments that both estimators have. Values are checked by `fit`, not here: hence no types."""

    hidden_layer_sizes: Any = "auto"
    activation: Any = "auto"
    _: dataclasses.KW_ONLY
    penalty: Any = "l2"
    alpha: Any = "auto"
    l1_ratio: Any = 0.5
    damping: Any = "auto"
    batch_size: Any = "auto"
    max_iter: Any = "auto"
    tol: Any = "auto"
    n_iter_no_change: Any = "auto"
    early_stopping: Any = "auto"
    validation_fraction: Any = "auto"
    n_members: Any = "auto"
    standardize: Any = True
    numbers: Any = "auto"
    categorical_features: Any = "from_dtype"
    warm_start: Any = False
    random_state: Any = None
    verbose: Any = False
    sca_params: Any = None


def check(estimator: Any) -> None:
    """Refuse what no fit could use; the sentence names the argument."""
    if not is_auto(estimator.hidden_layer_sizes):
        hidden_widths(estimator.hidden_layer_sizes)
    checks.choice("activation", estimator.activation, ["auto", *ACTIVATIONS, *ALIASES])
    checks.choice("numbers", estimator.numbers, ["auto", "both", *KINDS])
    checks.choice("penalty", estimator.penalty, PENALTIES)
    if isinstance(estimator.alpha, str):
        if estimator.alpha not in ALPHAS:
            words = ", ".join(map(repr, ALPHAS))
            raise ValueError(f"alpha must be a number ≥ 0 or one of {words}, got {estimator.alpha!r}.")
    else:
        checks.nonnegative("alpha", estimator.alpha)
    if is_evidence(estimator.alpha):
        if estimator.penalty != "l2":
            raise ValueError(f"alpha='evidence' is for penalty='l2', got {estimator.penalty!r}: use alpha='auto'.")
        if estimator.early_stopping is True:
            raise ValueError(
                "alpha='evidence' trains on all rows to a minimum: it needs early_stopping=False or 'auto'."
            )
    checks.fraction("l1_ratio", estimator.l1_ratio)
    if not is_auto(estimator.damping):
        checks.positive("damping", estimator.damping)
    if not is_auto(estimator.batch_size):
        _whole("batch_size", estimator.batch_size, or_auto=True)
    for name in ("max_iter", "n_iter_no_change", "n_members"):
        if not is_auto(getattr(estimator, name)):
            _whole(name, getattr(estimator, name), or_auto=True)
    if not is_auto(estimator.tol):
        checks.nonnegative("tol", estimator.tol)
    if not (is_auto(estimator.early_stopping) or isinstance(estimator.early_stopping, bool | np.bool_)):
        raise ValueError(f"early_stopping must be True, False or 'auto', got {estimator.early_stopping!r}.")
    if not is_auto(fraction := estimator.validation_fraction):
        checks.number("validation_fraction", fraction, lambda v: (v > 0) & (v < 1), "between 0 and 1")
    if estimator.sca_params is not None and not isinstance(estimator.sca_params, dict):
        raise TypeError(
            f"sca_params must be a dict of keyword arguments of scax.SCA, got {type(estimator.sca_params).__name__}."
        )


def hidden_widths(given: Any) -> tuple[int, ...]:
    """hidden_layer_sizes as a tuple: one number stands for one layer, () for a linear model."""
    widths = (given,) if isinstance(given, numbers.Integral) else tuple(np.atleast_1d(given).tolist())
    if any(not isinstance(w, numbers.Integral) or isinstance(w, bool) or w < 1 for w in widths):
        raise ValueError(f"hidden_layer_sizes must be whole numbers ≥ 1, one per layer, got {given!r}.")
    return tuple(int(w) for w in widths)


def is_auto(value: Any) -> bool:
    """Whether the recipe decides."""
    return isinstance(value, str) and value == "auto"


def is_searched(alpha: Any) -> bool:
    """Whether strengths are compared, unless "auto" is the evidence."""
    return isinstance(alpha, str) and alpha in ("auto", "held_out")


def is_evidence(alpha: Any) -> bool:
    """Whether the evidence was asked for."""
    return isinstance(alpha, str) and alpha == "evidence"


def _whole(name: str, value: Any, or_auto: bool = False) -> None:
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be a whole number ≥ 1{' or auto' if or_auto else ''}, got {value!r}.")
