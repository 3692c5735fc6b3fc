"""The shape of the proximal term: τ‖δ‖², or what past batches say about the curvature, layer by layer.

A layer's weights W [C, F] with inputs a and sensitivities g curve the loss like E[½H aaᵀ ⊗ ggᵀ]. With G = E[½H ggᵀ]
and A = E[½H aaᵀ]/E[½H], running averages over the batches seen, τ‖δ − βδ_prev‖² becomes (δ − βδ_prev)ᵀT(δ − βδ_prev),

    T = K − ½λI,        K = ς (A + πεI) ⊗ (G + ε/π I),        ε² = (τ + ½λ)/ς,      π² = (tr A/C)/(tr G/F)

for each layer, so that T ⪰ τI. Of a vector of weights only the diagonal is kept, K = τ + ½λ + ς diag G for a bias, and
all other parameters have T = τI. K is found once in a while: τ is that of the last time. The ridge is part of K, so
that the minimizer in sample space is that of `linear.base` with K in place of μI:

    δ = h + K⁻¹Jᵀu,      h = βδ_prev − ½K⁻¹((1−ρ)d + λ(w_n + βδ_prev)),      JK⁻¹Jᵀ = Σ (aᵀA⁻¹a)(gᵀG⁻¹g)/ς

Everything stays structured: layers with inputs A⁻¹a and sensitivities G⁻¹g beside those with a and g.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from . import checks
from ._struct import Number, struct
from .damping import ROWS, Relative
from .layout import Layout
from .linearize.base import Linearization, exact
from .linearize.structured import Layer, Structured, added, cross_gram
from .linearize.walk import same_matrix
from .network import Network

#: τ beside a metric, which does most of the damping itself.
BESIDE = Relative(share=9e-4, growth=0.65)
#: Moments are looked at, and K⁻¹ found anew, at each of so many first steps, then once in so many, and whenever τ has
#: changed by so much since.
FIRST, EVERY, DRIFT = 8, 32, 1.5


@struct
class Sides:
    """Of one parameter: running second moments, along each axis (of a vector, the squares), and K⁻¹ along each axis;
    empty if it has no metric."""

    moments: tuple
    inverses: tuple


@struct
class Held:
    """What the metric remembers."""

    sides: tuple[Sides, ...]
    seen: Float[Array, ""]  # batches looked at
    total: Float[Array, ""]  # τ + ½λ when K⁻¹ was found
    rest: Float[Array, ""]  # K⁻¹ of parameters without a metric


@struct
class Kronecker:
    """ς_n = share · κ · (20/L)^noise · (1 + n/scale)^growth: the weight of the curvature remembered against that of the
    batch. `recent`: moments are averages over all batches looked at (one in 32), with weights growing like
    n^recent. For smooth penalties. Weights of layers have a metric, and biases added once per sample; convolutions,
    tied weights and all that is not a matrix or a bias keep τ.
    """

    share: Number = 0.15
    growth: Number = 0.5
    scale: Number = 25.0
    noise: Number = 1.5
    recent: Number = 5.5

    def __post_init__(self):
        checks.positive("share", self.share)
        checks.nonnegative("growth", self.growth)
        checks.positive("scale", self.scale)
        checks.nonnegative("noise", self.noise)
        checks.nonnegative("recent", self.recent)

    def start(self, layout: Layout, dtype: Any) -> Held:
        def sides(shape) -> Sides:
            if len(shape) == 1:
                return Sides((jnp.zeros(shape, dtype),), (jnp.ones(shape, dtype),))
            if len(shape) == 2:
                return Sides(
                    tuple(jnp.zeros((n, n), dtype) for n in shape), tuple(jnp.eye(n, dtype=dtype) for n in shape)
                )
            return Sides((), ())

        # arrays of their own each: a state can be donated
        return Held(
            tuple(map(sides, layout.trained_shapes)), jnp.zeros((), dtype), jnp.zeros((), dtype), jnp.ones((), dtype)
        )

    def at(
        self, held: Held, n: Int[Array, ""], lin: Structured, weight: Float[Array, "l k"], tau, ridge, level
    ) -> tuple["Shape", Held]:
        """The shape of step n; `weight` is s_i ½H_ikk of every row and output, `level` (L, κ)."""
        layers, (rows, caution) = _layers(lin), level
        sigma = self.share * caution * (ROWS / rows) ** self.noise * (1 + n / self.scale) ** self.growth
        total = tau + ridge / 2

        @exact
        def found() -> Held:
            seen = held.seen + 1
            new = (1 + self.recent) / (seen + self.recent)
            sides = list(held.sides)
            for leaf, (layer, swapped) in layers.items():
                now = _moments(layer, weight)
                moments = tuple(
                    old + new * (m - old)
                    for old, m in zip(sides[leaf].moments, now[::-1] if swapped else now, strict=True)
                )
                sides[leaf] = Sides(moments, _inverses(moments, total, sigma))
            return _finite(Held(tuple(sides), seen, total, 1 / total), held)

        far = (total > DRIFT * held.total) | (total * DRIFT < held.total)
        held = jax.lax.cond((n < FIRST) | (n % EVERY == 0) | far, found, lambda: held)
        return Shape(lin.network, held, layers), held


@dataclasses.dataclass(frozen=True)
class Shape:
    """K⁻¹, as it acts on vectors and on layers."""

    network: Network
    held: Held
    layers: dict[int, tuple[Layer, bool]]

    @exact
    def inverse(self, vector: Float[Array, "q"]) -> Float[Array, "q"]:
        """K⁻¹ v."""
        parts = []
        for leaf, value in enumerate(self.network.split(vector)):
            sides = self.held.sides[leaf].inverses
            if leaf not in self.layers:
                value = value * self.held.rest
            else:
                value = sides[0] * value if len(sides) == 1 else sides[0] @ value @ sides[1]
            parts.append(jnp.ravel(value))
        return jnp.concatenate(parts)

    def layer(self, leaf: int, layer: Layer) -> Layer:
        """The layer whose Jᵀ is K⁻¹ times the given one's."""
        if leaf not in self.layers:
            return Layer(layer.use, layer.inputs, layer.sensitivities * self.held.rest)
        sides = self.held.sides[leaf].inverses
        if layer.inputs is None:
            return Layer(layer.use, None, layer.sensitivities * sides[0])
        a, g = sides[::-1] if self.layers[leaf][1] else sides
        return Layer(layer.use, layer.inputs @ a, layer.sensitivities @ g)


class Shaped(Linearization):
    """A linearized network in which K⁻¹ stands behind every Jᵀ."""

    def __init__(self, lin: Structured, shape: Shape):
        self.lin, self.shape, self.outputs, self.size = lin, shape, lin.outputs, lin.size
        with jax.default_matmul_precision("highest"):
            self.layers = {leaf: [shape.layer(leaf, use) for use in uses] for leaf, uses in lin.layers.items()}

    def jvp(self, delta):
        return self.lin.jvp(delta)

    @exact
    def vjp(self, v):
        """K⁻¹Jᵀ v."""
        lin, columns = self.lin, self.lin.columns
        return lin._join(
            {i: jnp.ravel(added([layer.vjp(v, lin.leaves[i]) for layer in uses])) for i, uses in self.layers.items()},
            None if columns is None else columns.vjp(v) * self.shape.held.rest,
        )

    @exact
    def gram(self):
        """J K⁻¹ Jᵀ."""
        lin, relations = self.lin, self.lin.plan.relations
        parts = [
            cross_gram(a, b, relations[a.use.path, b.use.path])
            for leaf, uses in self.layers.items()
            for a in uses
            for b in lin.layers[leaf]
        ]
        if lin.columns is not None:
            parts.append(lin.columns.gram() * self.shape.held.rest)
        return added(parts)


def _finite(new: Held, old: Held) -> Held:
    """The new one, unless a batch had rows that are not finite: averages would keep them."""
    fine = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(new)]))
    return jax.tree.map(lambda a, b: jnp.where(fine, a, b), new, old)


def _layers(lin: Structured) -> dict[int, tuple[Layer, bool]]:
    """The layers that have a metric, by parameter, and whether their weights are [F, C] rather than [C, F]."""
    out = {}
    for leaf, uses in lin.layers.items():
        shape, use = lin.leaves[leaf].shape, uses[0].use
        if len(uses) > 1 or not 1 <= len(shape) <= 2 or (len(shape) == 1) != use.additive:
            continue
        plain = (lambda v: v[None]) if use.additive else (lambda v: v)
        if relation := same_matrix(use.arrange, plain, shape):
            out[leaf] = (uses[0], relation == "transposed")
    return out


def _moments(layer: Layer, weight: Float[Array, "l k"]) -> tuple:
    """(Σ s½H aaᵀ / Σ s½H, Σ s½H ggᵀ) of a batch, the first a sum over positions, the second an average; of a bias the
    diagonal of the second."""
    n, places = weight.shape[0], layer.use.positions
    g = layer.sensitivities[:n] * jnp.sqrt(weight / places)[:, :, None, None]
    if layer.inputs is None:
        return (jnp.sum(g**2, axis=(0, 1, 2)),)
    share = jnp.sum(weight, axis=1)
    a = layer.inputs[:n] * jnp.sqrt(share / jnp.maximum(jnp.sum(share), jnp.finfo(g.dtype).tiny))[:, None, None]
    flat = lambda v: v.reshape(-1, v.shape[-1])
    return flat(a).T @ flat(a), flat(g).T @ flat(g)


def _inverses(moments: tuple, total, sigma) -> tuple:
    """K⁻¹ along each axis."""
    if len(moments) == 1:
        return (1 / (total + sigma * moments[0]),)
    epsilon = jnp.sqrt(total / sigma)
    first, last = (jnp.trace(m) / m.shape[0] for m in moments)
    ratio = jnp.sqrt(first / jnp.where(last > 0, last, 1))
    ratio = jnp.where((first > 0) & (last > 0) & jnp.isfinite(ratio), ratio, 1)
    return _inverse(moments[0], ratio * epsilon) / sigma, _inverse(moments[1], epsilon / ratio)


@jax.custom_batching.sequential_vmap  # several batched factorizations at once can wait for each other for ever on a CPU
def _inverse(moment: Float[Array, "n n"], damping: Float[Array, ""]) -> Float[Array, "n n"]:
    """(M + damping I)⁻¹."""
    if moment.shape[0] == 1:
        return 1 / (moment + damping)
    eye = jnp.eye(moment.shape[0], dtype=moment.dtype)
    lower = jnp.linalg.cholesky(moment + damping * eye)
    root = jax.scipy.linalg.solve_triangular(lower, eye, lower=True)
    return root.T @ root


def as_metric(value: Any) -> Kronecker | None:
    """A metric from None, a name or a Kronecker."""
    if isinstance(value, str):
        checks.choice("metric", value, ["kronecker"])
        return Kronecker()
    if value is not None and not isinstance(value, Kronecker):
        raise TypeError(f"metric must be None, 'kronecker' or a scax.Kronecker, got {value!r}.")
    return value


def refuse(sca: Any) -> None:
    """What a metric does not go with."""
    from .solvers import Auto

    if sca.surrogate == "full" or not sca.problem.regularizer.smooth:
        what = "surrogate='full'" if sca.surrogate == "full" else type(sca.problem.regularizer).__name__
        raise ValueError(f"metric: needs a penalty without a prox (L2), and got {what}: leave metric= out.")
    if sca.blocks is not None or sca.parallel is not None:
        what = "blocks" if sca.blocks is not None else "parallel"
        raise ValueError(f"metric: all weights are solved for at once, on one device: leave out {what}= or metric=.")
    if not isinstance(sca.solver, Auto) and sca.solver.name not in ("structured", "newton"):
        raise ValueError(f"metric: works on layers, and solver {sca.solver.name!r} does not: use solver='auto'.")
