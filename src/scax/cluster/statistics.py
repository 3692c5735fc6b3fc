"""What a site sends in an exact round: sums over its rows, never a row, an input or an output of a layer.

With J_i = ∂f_i/∂w, g_i = ∂l_i/∂z and H_i = ∂²l_i/∂z² at the weights w that the server sent, and v_i the sample weights,

    n = Σ v_i,   Σ v_i l_i,   b = Σ v_i J_iᵀg_i,   A = Σ v_i J_iᵀH_iJ_i,   m = Σ v_i J_iᵀ(ε √½ diag H_i)

are Q(Q+1)/2 + 2Q + 3 numbers. They are a model of the site's loss, Σ v_i l_i + bᵀδ + ½δᵀAδ, and models add up: the
step on their totals is the step on all rows. m is there for the damping alone (`Seen.spread`).
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .._struct import struct
from ..batch import Batch
from ..linearize.base import exact
from ..linearize.dense import Dense
from ..linearize.network import NetworkFunction


@struct
class Statistics:
    """Sums over the rows of one site; with a leading axis, of several."""

    rows: Float[Array, "*sites"]  # n
    squares: Float[Array, "*sites"]  # Σ v_i²
    loss: Float[Array, "*sites"]  # Σ v_i l_i
    gradient: Float[Array, "*sites q"]  # b
    common: Float[Array, "*sites q"]  # m
    hessian: Float[Array, "*sites q q"]  # A

    @staticmethod
    def zeros(sites: int, w: Float[Array, "q"]) -> "Statistics":
        """Of sites that have not answered yet."""
        shape = lambda *more: jnp.zeros((sites, *more), w.dtype)
        q = w.shape[0]
        return Statistics(shape(), shape(), shape(), shape(q), shape(q), shape(q, q))

    def total(self) -> "Statistics":
        """All sites together."""
        return jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), self)

    @exact
    def moved(self, delta: Float[Array, "q"]) -> "Statistics":
        """The same models seen from w + δ: where a site does not answer, its last model speaks for it."""
        curved = self.hessian @ delta  # Aδ
        loss = self.loss + self.gradient @ delta + curved @ delta / 2
        return Statistics(self.rows, self.squares, loss, self.gradient + curved, self.common, self.hessian)

    def chosen(self, mask: Bool[Array, "sites"], others: "Statistics") -> "Statistics":
        """These sums where the mask is True, and the others elsewhere."""
        wide = lambda leaf: mask.reshape(mask.shape + (1,) * (leaf.ndim - 1))
        return jax.tree.map(lambda a, b: jnp.where(wide(a), a, b), self, others)


@exact
def site_statistics(network: NetworkFunction, w: Float[Array, "q"], batch: Batch, seed: Int[Array, ""]) -> Statistics:
    """What a site computes at the weights it was sent; the seed is the round's number.

    Rows of weight 0 do not take part, so that sites of different sizes share one compiled program.
    """
    loss, lin = network.problem.loss, Dense.of(network, w, batch.x)
    z, jacobian = lin.outputs, lin.jacobian()
    y = loss.targets(jnp.asarray(batch.y), z.shape[1]).astype(z.dtype)
    v = jnp.ones(batch.size, w.dtype) if batch.weight is None else jnp.asarray(batch.weight, w.dtype)
    counted = lambda leaf: jnp.where(v.reshape((-1,) + (1,) * (leaf.ndim - 1)) > 0, leaf, 0)
    factor = counted(loss.factor(z, y))
    if factor.ndim == 2:
        curved, half = factor[..., None] * jacobian, factor**2 / 2
    else:
        curved, half = jnp.einsum("nab,nbq->naq", factor, jacobian), jnp.sum(factor**2, axis=1) / 2
    curved = (jnp.sqrt(v)[:, None, None] * curved).reshape(-1, w.shape[0])  # √v FJ
    k = z.shape[1]
    signs = jax.random.rademacher(jax.random.key(seed), (k,), w.dtype) if k > 1 else jnp.ones(1, w.dtype)
    return Statistics(
        rows=jnp.sum(v),
        squares=jnp.sum(v**2),
        loss=v @ counted(loss.value(z, y)),
        gradient=lin.vjp(v[:, None] * counted(loss.gradient(z, y))),
        common=lin.vjp(v[:, None] * jnp.sqrt(half) * signs),
        hessian=curved.T @ curved,
    )


def pack(sent: Statistics) -> dict[str, np.ndarray]:
    """The arrays that travel: of A one triangle."""
    arrays = {field.name: np.asarray(getattr(sent, field.name)) for field in dataclasses.fields(Statistics)}
    return arrays | {"hessian": arrays["hessian"][np.triu_indices(len(arrays["gradient"]))]}


def unpack(arrays: dict[str, np.ndarray], weights: int) -> Statistics:
    """The statistics that they are; arrays of other shapes stay as they are, for `refuse_statistics` to name."""
    triangle = arrays["hessian"]
    if triangle.shape == (weights * (weights + 1) // 2,):
        upper = np.zeros((weights, weights), triangle.dtype)
        upper[np.triu_indices(weights)] = triangle
        arrays = arrays | {"hessian": upper + np.triu(upper, 1).T}
    return Statistics(**arrays)  # type: ignore[arg-type]


def numbers_sent(weights: int) -> int:
    """How many numbers a site sends in a round: A is symmetric, one triangle of it is enough."""
    return weights * (weights + 1) // 2 + 2 * weights + 3


def are_sound(sent: Statistics) -> Bool[Array, "sites"]:
    """Whether the sums of each site can be those of rows: finite, of more than no rows, A positive semidefinite.

    A + εI has a Cholesky factor, ε being what rounding may take from A's smallest eigenvalue: Q · eps · tr A.
    """
    q, dtype = sent.gradient.shape[-1], sent.gradient.dtype
    finite = jnp.ones(sent.rows.shape, bool)
    for leaf in jax.tree.leaves(sent):
        finite = finite & jnp.all(jnp.isfinite(leaf), axis=tuple(range(1, leaf.ndim)))
    trace = jnp.trace(sent.hessian, axis1=-2, axis2=-1)
    slack = 8 * q * jnp.finfo(dtype).eps * jnp.abs(trace) + jnp.finfo(dtype).tiny
    root = jnp.linalg.cholesky(sent.hessian + slack[:, None, None] * jnp.eye(q, dtype=dtype))
    positive = jnp.all(jnp.isfinite(root), axis=(1, 2)) & (trace >= 0)
    return finite & positive & (sent.rows > 0) & (sent.squares > 0)


def refuse_statistics(name: str, sent: Statistics, weights: int, dtype: np.dtype | type) -> str | None:
    """None where a server with so many weights of this dtype can add the sums of a site, else the reason, by name."""
    wanted = {"rows": (), "squares": (), "loss": (), "gradient": (weights,), "common": (weights,)}
    for field, shape in (wanted | {"hessian": (weights, weights)}).items():
        array = getattr(sent, field)
        if np.shape(array) != shape:
            return f"site {name}: its {field} has shape {np.shape(array)}, expected {shape}."
        if np.asarray(array).dtype != np.dtype(dtype):
            return f"site {name}: its {field} is {np.asarray(array).dtype}, and the weights are {np.dtype(dtype)}."
        if not np.all(np.isfinite(array)):
            return f"site {name}: its {field} has values that are not finite."
    if not bool(are_sound(jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], sent))[0]):
        return f"site {name}: its hessian is not positive semidefinite, or it has no rows."
    return None
