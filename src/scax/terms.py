"""The terms of a problem: U(w) = Σ_t ω_t · 1/n_t Σ_i l_t(y_i, f_t(w; x_i)) + R(w)."""

import dataclasses
import inspect
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ._struct import static, struct
from .losses import Loss, Squared
from .rules.term_weights import as_weight

#: Names that columns of a history have already.
TAKEN = {
    *("step", "seconds", "objective", "validation_loss", "batch_loss"),
    *("accepted", "damping", "step_size", "clock", "multiplier", "share"),
}


@dataclasses.dataclass(frozen=True)
class BoundMethod:
    """A bound method that equals another where function and owner do, so that equal networks share compiled steps."""

    function: Callable[..., Any]
    owner: Hashable

    @staticmethod
    def of(apply: Callable[..., Any]) -> Callable[..., Any]:
        if not inspect.ismethod(apply) or not isinstance(apply.__self__, Hashable):
            return apply  # Python compares bound methods by the identity of their owner
        return BoundMethod(apply.__func__, apply.__self__)

    def __call__(self, params: PyTree, x: Any) -> Any:
        return self.function(self.owner, params, x)


@struct
class Term:
    """One term of a problem: a function of the parameters and of rows, a loss, and a weight.

    apply   (params, x) -> [n] or [n, k]: the model, a derivative of it, the residual of an equation, …; each row's
            output depends on that row alone
    loss    of the outputs against the term's targets, which are zeros where its data are x alone
    weight  ω > 0: a number, a Sequence or function of the step, or "balance" (`rules.Balance`)

    >>> u = lambda params: lambda point: net.apply(params, point[None])[0, 0]
    >>> laplacian = lambda params, x: jax.vmap(scax.operators.laplacian(u(params)))(x)
    >>> problem = scax.Problem({"pde": scax.Term(laplacian), "boundary": scax.Term(net.apply, weight=10.0)})
    """

    apply: Callable[[PyTree, Array], Array] = static()
    loss: Loss = Squared()
    weight: Any = 1.0

    def __post_init__(self):
        if not callable(self.apply):
            raise TypeError(f"apply of a Term must be a function (params, x) -> outputs, got {self.apply!r}.")
        if not isinstance(self.loss, Loss):
            raise TypeError(f"loss of a Term must be a Loss such as scax.Squared(), got {self.loss!r}.")
        object.__setattr__(self, "apply", BoundMethod.of(self.apply))


@dataclasses.dataclass(frozen=True)
class StackedFunction:
    """f of all terms: their outputs below each other, padded with zeros to the same number of columns.

    x is one array per term, by name; of a single term the array itself."""

    names: tuple[str, ...]
    functions: tuple[Callable[[PyTree, Array], Array], ...]

    def __call__(self, params: PyTree, x: Any) -> Any:
        if len(self.functions) == 1:
            return self.functions[0](params, x)
        return stack([f(params, x[name]) for name, f in zip(self.names, self.functions, strict=True)])


def stack(outputs: list[Array]) -> Float[Array, "n k *q"]:
    """Rows of several terms below each other."""
    outputs = [z[:, None] if z.ndim == 1 else z for z in outputs]
    k = max(z.shape[1] for z in outputs)
    return jnp.concatenate([jnp.pad(z, [(0, 0), (0, k - z.shape[1])] + [(0, 0)] * (z.ndim - 2)) for z in outputs])


def read_terms(terms: Mapping[str, Any]) -> tuple[tuple[str, ...], list[Term], tuple]:
    """(names, terms, their weights), checked."""
    if not terms:
        raise ValueError('a problem needs at least one term: Problem({"name": scax.Term(apply, loss)}).')
    for name, term in terms.items():
        if not isinstance(name, str) or not name:
            raise TypeError(f"a term's name must be a word, got {name!r}.")
        if name in TAKEN or name.endswith("_weight"):
            raise ValueError(f"term {name!r}: histories have a column of that name already; choose another.")
        if not isinstance(term, Term):
            raise TypeError(f"term {name!r} must be a scax.Term(apply, loss, weight), got {term!r}.")
    weights = tuple(as_weight(name, term.weight) for name, term in terms.items())
    if len(weights) == 1 and isinstance(weights[0], (int, float)) and weights[0] == 1:
        weights = (None,)  # no factor at all: the plain problem, to the bit
    return tuple(terms), list(terms.values()), weights
