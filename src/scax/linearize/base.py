"""What a linearized network can do."""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def exact(method):
    """Products with J in full float32: a GPU's default, TF32, keeps three digits, and errors in K are divided by μ."""

    @functools.wraps(method)
    def wrapped(*args):
        with jax.default_matmul_precision("highest"):
            return method(*args)

    return wrapped


def side_by_side(parts: Sequence[Float[Array, "*rows _"]]) -> Float[Array, "*rows q"]:
    """Parts one after the other in the last axis.

    On a CPU each is written into its place: sums that XLA fuses into a concatenation are computed there one number at a
    time, which took 60 times as long for the gradient of a 784/300/100/10 network.
    """
    return jax.lax.platform_dependent(*parts, cpu=_written, default=lambda *parts: jnp.concatenate(parts, axis=-1))


def _written(*parts: Array) -> Array:
    whole = jnp.zeros((*parts[0].shape[:-1], sum(part.shape[-1] for part in parts)), parts[0].dtype)
    start = 0
    for part in parts:
        whole = jax.lax.dynamic_update_slice_in_dim(whole, part, start, axis=-1)
        start += part.shape[-1]
    return whole


class Linearization:
    """z(δ) = outputs + J δ at the current weights, J ∈ R^{nk×Q}, in whatever form is cheapest.

    `jvp` and `vjp` are J δ and Jᵀ v; `jacobian` and `gram` are J and JJᵀ themselves, and a form that cannot give
    one at a bearable price says so.
    """

    outputs: Float[Array, "n k"]
    size: int

    @property
    def samples(self) -> int:
        """Rows of the loss; those below belong to the proximal term (`WithMemoryRows`)."""
        return self.outputs.shape[0]

    def jvp(self, delta: Float[Array, "q"]) -> Float[Array, "n k"]:
        """J δ."""
        raise NotImplementedError

    def vjp(self, v: Float[Array, "n k"]) -> Float[Array, "q"]:
        """Jᵀ v."""
        raise NotImplementedError

    def jacobian(self) -> Float[Array, "n k q"]:
        """J."""
        raise NotImplementedError

    def gram(self) -> Float[Array, "n k n k"]:
        """JJᵀ, indexed by (sample, output) twice."""
        raise NotImplementedError

    def gram_and_jvp(self, delta: Float[Array, "q"], more: Float[Array, "p q"] | None = None) -> tuple:
        """JJᵀ, J δ, and J times each row of `more`: asked for together, so that devices which share J exchange them in
        one message."""
        return self.gram(), self.jvp(delta), None if more is None else jax.vmap(self.jvp)(more)

    def add_vjp(self, h: Float[Array, "q"], v: Float[Array, "n k"]) -> Float[Array, "q"]:
        """h + Jᵀ v: asked for together, so that devices which share J add up their shares before they send them."""
        return h + self.vjp(v)

    def vjp_norm_squared(self, v: Float[Array, "n k"]) -> Float[Array, ""]:
        """‖Jᵀ v‖²: asked for as such, so that devices which share J exchange one number."""
        return jnp.sum(self.vjp(v) ** 2)

    def row_squares(self) -> Float[Array, "n k"]:
        """‖J_i‖² for every row: the diagonal of JJᵀ, for preconditioning."""
        raise NotImplementedError

    def weighted_squares(self, weight: Float[Array, "n k"], seed: Int[Array, ""]) -> Float[Array, ""]:
        """Σ_i weight_i ‖J_i‖², or where rows are dear an unbiased estimate of it from signs drawn with `seed`."""
        return jnp.sum(weight * self.row_squares())

    def column_squares(self, scale: Float[Array, "n k"]) -> Float[Array, "q"]:
        """Σ_i scale_i² J_ij² for every weight: the diagonal of JᵀS²J, for preconditioning."""
        raise NotImplementedError

    def take(self, index: Array, mask: Float[Array, "b"]) -> "Linearization":
        """The columns of a block of weights; entries with mask 0 are padding."""
        from .dense import Dense

        return Dense(self.outputs, self.jacobian()[..., index] * mask)

    def on(self, rows: Array) -> "Linearization":
        """Some of the rows."""
        from .dense import Dense

        return Dense(self.outputs[rows], self.jacobian()[rows])


def spectral_norm(lin: Linearization, dtype, rounds: int = 12) -> Float[Array, ""]:
    """An estimate of ‖J‖² from a few power iterations, from below."""
    n, k = lin.outputs.shape
    start = jnp.linspace(1, 2, n * k, dtype=dtype).reshape(n, k)

    def turn(_, v):
        v = lin.jvp(lin.vjp(v))
        return v / jnp.maximum(jnp.linalg.norm(v), jnp.finfo(dtype).tiny)

    v = jax.lax.fori_loop(0, rounds, turn, start / jnp.linalg.norm(start))
    return lin.vjp_norm_squared(v)


#: Rows from which a product of a matrix with its own transpose is done in parts, and how often it is halved at most.
LARGE_PRODUCT, MOST_HALVINGS = 512, 3


def symmetric_product(rows: Float[Array, "m q"]) -> Float[Array, "m m"]:
    """A Aᵀ. A large one is half the work of another product: an NVIDIA GPU's library has a routine for it, which serves
    where rows are fewer than columns (3.6 ms in place of 4.5 for 3,500 × 10,065); elsewhere halves of the rows are
    multiplied with themselves and the cross product is used twice."""
    m, q = rows.shape
    if m < LARGE_PRODUCT:
        return rows @ rows.T
    if m > q:
        return _in_parts(rows)
    return jax.lax.platform_dependent(rows, cuda=_by_library, default=_in_parts)


def _by_library(rows: Float[Array, "m q"]) -> Float[Array, "m m"]:
    nothing = jnp.zeros((rows.shape[0], rows.shape[0]), rows.dtype)
    return jax.lax.linalg.symmetric_product(rows, nothing, symmetrize_output=True)


def _in_parts(rows: Float[Array, "m q"]) -> Float[Array, "m m"]:
    """3/4 of the work, 5/8 with quarters, 9/16 with eighths; all halves are equal, so that compilers meet few sizes."""
    m, halvings = rows.shape[0], 0
    while m >> halvings >= LARGE_PRODUCT and halvings < MOST_HALVINGS:
        halvings += 1
    return _halved(jnp.pad(rows, ((0, -m % 2**halvings), (0, 0))), halvings)[:m, :m]


def _halved(rows: Float[Array, "m q"], halvings: int) -> Float[Array, "m m"]:
    if not halvings:
        return rows @ rows.T
    above, below = jnp.split(rows, 2)
    cross = below @ above.T
    return jnp.block([[_halved(above, halvings - 1), cross.T], [cross, _halved(below, halvings - 1)]])
