"""The memory of curvature: directions in which batches, this one included, curved most stay in the proximal term.

    τ‖δ − βδ_prev‖²  +  ς‖B(δ − βδ_prev)‖²,        BᵀB ≈ M = the average of JᵀWJ over batches seen

W is s½H with H's diagonal alone. B has few rows, the largest eigenvectors of M times the roots of their eigenvalues.
They act as samples with a squared loss that come with every batch (`linearize.WithMemoryRows`): a step that would
change what batches before have settled has to be paid for by this one. FISTA feels the stiffness; Newton does not. At a
batch that is looked at, with its rows R, RᵀR = JᵀWJ, and its share a,

    X = [√(1−a) B; √a R],      XXᵀ = UΛUᵀ,      B ← U_rᵀX,      ‖B_j‖² = Λ_j

for the r largest Λ: the best that r rows can say about (1−a)BᵀB + a RᵀR.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .. import checks
from .._struct import Number, static, struct
from ..linearize.base import Linearization, exact
from .damping import ROWS, Relative

#: Batches are looked at in each of so many first steps, then once in as many, and later once in LATE.
FIRST, LATE = 16, 32
#: Of more rows than this, twice as many combinations of them as are remembered stand for all.
MOST = 64
#: Weights up to which the default has a memory of curvature: there it costs less than a step's own overhead.
SMALL = 1000


@struct
class Held:
    """What is remembered."""

    rows: Float[Array, "r q"]  # B
    squares: Float[Array, "r"]  # Λ
    seen: Float[Array, ""]  # batches looked at


@struct
class LowRank:
    """`rank` rows B; ς_n = share · min(1, 20/L)^noise · (1 + n/scale)^growth is their weight against the batch's.

    A batch of many rows knows its curvature itself. M is an average with weights growing like n^recent over the batches
    looked at. An `automatic` one is there only for up to 1000 weights, smooth penalties, a `Relative` damping and no
    blocks.
    """

    rank: int = static(default=16)
    share: Number = 5.0
    growth: Number = 0.8
    scale: Number = 25.0
    noise: Number = 1.5
    recent: Number = 1.0
    automatic: bool = static(default=False)

    def __post_init__(self):
        if isinstance(self.rank, bool) or not isinstance(self.rank, (int, np.integer)) or self.rank < 1:
            raise ValueError(f"rank must be a whole number >= 1, got {self.rank!r}.")
        object.__setattr__(self, "rank", int(self.rank))
        checks.positive("share", self.share)
        checks.nonnegative("growth", self.growth)
        checks.positive("scale", self.scale)
        checks.nonnegative("noise", self.noise)
        checks.nonnegative("recent", self.recent)

    def start(self, size: int, dtype: Any) -> Held | None:
        """Before the first batch there is nothing to remember."""
        if (rank := self.rows(size)) is None:
            return None
        return Held(jnp.zeros((rank, size), dtype), jnp.zeros(rank, dtype), jnp.zeros((), dtype))

    def rows(self, size: int) -> int | None:
        """How many rows are remembered for a network of so many weights; None: it has no such term."""
        return None if self.automatic and size > SMALL else min(self.rank, size)

    def at(
        self, held: Held, n: Int[Array, ""], lin: Linearization, weight: Float[Array, "l k"], batch: Float[Array, ""]
    ) -> tuple[Float[Array, ""], Held]:
        """(ς_n, B with this batch in it); `weight` is s_i ½H_ikk of every row and output, `batch` L."""
        few = jnp.minimum(ROWS / batch, 1) ** self.noise
        strength = self.share * few * (1 + n / self.scale) ** self.growth

        @exact
        def looked() -> Held:
            seen = held.seen + 1
            new = (1 + self.recent) / (seen + self.recent)
            return _best(held, new, pulled(lin, weight, 2 * held.squares.shape[0], n), seen)

        every = jnp.where(n < FIRST, 1, jnp.where(n < FIRST**2, FIRST, LATE))
        return jnp.asarray(strength), jax.lax.cond(n % every == 0, looked, lambda: held)


def pulled(lin: Linearization, weight: Float[Array, "l k"], few: int, seed: Int[Array, ""]) -> Float[Array, "p q"]:
    """R with RᵀR = JᵀWJ; of many rows, R = Qᵀ√W J with Q a basis of √W J Ω, Ω random: most of it is in there."""
    (n, k), root = weight.shape, jnp.sqrt(weight)
    combined = jnp.eye(n * k, dtype=root.dtype)
    if n * k > max(MOST, few):
        omega = jax.random.normal(jax.random.key(seed), (few, lin.size), root.dtype)
        pushed = root * jax.vmap(lin.jvp)(omega)[:, :n]
        combined = _basis(pushed.reshape(few, n * k).T).T
    combined = combined.reshape(-1, n, k) * root
    beside = lin.outputs.shape[0] - n  # rows of neighbor pairs
    return jax.vmap(lin.vjp)(jnp.pad(combined, ((0, 0), (0, beside), (0, 0))))


def _best(held: Held, new, rows: Float[Array, "p q"], seen) -> Held:
    """The rows that say most about both, unless the new ones are not finite: an average would keep them."""
    both = jnp.concatenate([jnp.sqrt(1 - new) * held.rows, jnp.sqrt(new) * rows])
    gram = both @ both.T
    fine = jnp.all(jnp.isfinite(gram))
    values, vectors = _eigenvectors(jnp.where(fine, gram, 0))
    rank = held.squares.shape[0]
    after = Held(vectors[:, -rank:].T @ both, jnp.maximum(values[-rank:], 0), seen)
    return jax.tree.map(lambda a, b: jnp.where(fine, a, b), after, held)


# On a CPU several batched factorizations at once can wait for each other for ever: vmapped, they go one by one.
@jax.custom_batching.sequential_vmap
def _eigenvectors(gram: Float[Array, "m m"]) -> tuple[Float[Array, "m"], Float[Array, "m m"]]:
    values, vectors = jnp.linalg.eigh(gram)
    return values, vectors


@jax.custom_batching.sequential_vmap
def _basis(columns: Float[Array, "m p"]) -> Float[Array, "m p"]:
    return jnp.linalg.qr(columns)[0]


#: The default.
USUAL = LowRank(automatic=True)


def as_metric(value: Any) -> LowRank | None:
    """A metric from None, a name or a LowRank."""
    if isinstance(value, str):
        checks.choice("metric", value, ["auto", "low-rank"])
        return USUAL if value == "auto" else LowRank()
    if value is not None and not isinstance(value, LowRank):
        raise TypeError(f"metric must be 'auto', None, 'low-rank' or a scax.LowRank, got {value!r}.")
    return value


def in_use(sca: Any) -> LowRank | None:
    """The metric of an SCA, None where the automatic one stays away."""
    metric = sca.metric
    if metric is None or not metric.automatic:
        return metric
    plain = sca.blocks is None and sca.surrogate == "partial" and sca.problem.regularizer.is_smooth
    return metric if plain and isinstance(sca.damping, Relative) else None


def refuse(sca: Any) -> None:
    """What a metric that was asked for does not go with."""
    reason = None
    if sca.surrogate == "full":
        reason = "surrogate='full' has no rows left that others could stand beside"
    elif sca.blocks is not None:
        reason = "blocks are solved apart, and rows that all of them share would tie them together"
    if reason is not None and not sca.metric.automatic:
        raise ValueError(f"metric: {reason}: leave metric= out.")
