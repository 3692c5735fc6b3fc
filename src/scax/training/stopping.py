"""When a run has stopped improving, and the best solution that it had."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from .._struct import Number, static, struct


@struct
class Best:
    """What a run has reached: the solution to keep, the value it is judged by, records since that fell."""

    params: PyTree
    value: Float[Array, ""]
    since: Int[Array, ""]


@struct
class Stopping:
    """Ends a run after `patience` records without a fall by more than `tol` of the value that is monitored.

    That is the validation loss, and the solution with the least is kept; or, with `by_validation` false, the objective,
    and the last solution is. `by_validation` may be traced: both kinds of run then share one program. Runs side by side
    along the axis named `together` end when the last of them does.
    """

    tol: Number
    patience: Number
    by_validation: Any
    together: str | None = static(default=None)

    def start(self, solution: PyTree) -> Best:
        """Before the first record."""
        dtype = jax.tree.leaves(solution)[0].dtype
        copy = jax.tree.map(jnp.array, solution)  # a state that is donated may share memory with its solution
        return Best(copy, jnp.asarray(jnp.inf, dtype), jnp.asarray(0, jnp.int32))

    def update(self, best: Best, values: dict[str, Array], solution: PyTree) -> Best:
        """After a record."""
        value, loss = values["objective"], values.get("validation_loss")
        value = (value if loss is None else jnp.where(self.by_validation, loss, value)).astype(best.value.dtype)
        better = value < best.value - self.tol
        keep = (value < best.value) | jnp.logical_not(self.by_validation)
        return Best(
            jax.tree.map(lambda new, old: jnp.where(keep, new, old), solution, best.params),
            # a run judged by its objective measures `tol` from the last value that was better by as much
            jnp.where(better | (jnp.asarray(self.by_validation) & (value < best.value)), value, best.value),
            jnp.where(better, 0, best.since + 1).astype(best.since.dtype),
        )

    def is_over(self, best: Best) -> Bool[Array, ""]:
        is_over = best.since >= self.patience
        if self.together is None:
            return is_over
        return jax.lax.pmin(is_over.astype(jnp.int32), self.together).astype(bool)
