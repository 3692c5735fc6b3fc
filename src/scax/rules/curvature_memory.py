"""The memory of curvature: directions in which batches, this one included, curved most stay in the proximal term.

    τ‖δ − βδ_prev‖²  +  ς‖B(δ − βδ_prev)‖²,        BᵀB ≈ M = the average of JᵀWJ over batches

W is s½H with H's diagonal alone. B has few rows, the largest eigenvectors of M times the roots of their eigenvalues.
They act as samples with a squared loss that come with every batch (`linearize.WithMemoryRows`): directions that earlier
batches determined are penalized. FISTA feels the stiffness; Newton does not. At an update with a batch's rows R,
RᵀR = JᵀWJ, and their share a,

    X = [√(1−a) B; √a R],      XXᵀ = UΛUᵀ,      B ← U_rᵀX,      ‖B_j‖² = Λ_j

for the r largest Λ: the best that r rows can say about (1−a)BᵀB + a RᵀR.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import checks
from .._struct import Number, static, struct
from .base import ROWS, Rule

#: The memory is updated in each of so many first steps, then once in as many, and later once in LATE.
FIRST, LATE = 16, 32
#: Where points are drawn anew the whole matrix of past curvature is kept for up to so many weights, or up to so many
#: times the rows of a step, where it costs at most nine times the step without it, if it has no more than so many rows.
SMALL_MATRIX, TIMES_ROWS, LARGEST_MATRIX = 4096, 4, 16_384
#: Weights up to which the default has a memory of curvature: there it costs less than a step's own overhead.
SMALL = 1000


@struct
class CurvatureMemory:
    """What is remembered."""

    rows: Float[Array, "r q"]  # B
    squares: Float[Array, "r"]  # Λ
    updates: Float[Array, ""]  # batches it was updated with


@struct
class LowRank(Rule):
    """Memory of the directions in which past batches curved most.

    `rank` rows B; ς_n = share · min(1, 20/L)^noise · (1 + t/scale)^growth · m is their weight against the batch's.

    t and m are the clock's. A batch of many rows knows its curvature itself. M is an average with weights growing like
    n^recent over the batches used. An `automatic` one is there only for up to 1000 weights, smooth penalties, a
    `Relative` damping and no blocks.

    >>> sca = scax.SCA(problem, metric=scax.LowRank(rank=8))
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

    def row_count(self, size: int) -> int:
        """How many rows are remembered for a network of so many weights; 0: it has no such term."""
        return 0 if self.automatic and size > SMALL else min(self.rank, size)

    def init(self, w):
        """None where the network is too large for an automatic memory."""
        size = w.shape[0]
        if not (rank := self.row_count(size)):
            return None
        return CurvatureMemory(jnp.zeros((rank, size), w.dtype), jnp.zeros(rank, w.dtype), jnp.zeros((), w.dtype))

    def propose(self, state, seen):
        """(ς_n, B with this batch in it)."""
        few_rows = jnp.minimum(ROWS / seen.rows, 1) ** self.noise
        strength = self.share * few_rows * (1 + seen.clock.time / self.scale) ** self.growth * seen.clock.multiplier

        def updated() -> CurvatureMemory:
            updates = state.updates + 1
            share = (1 + self.recent) / (updates + self.recent)
            with jax.default_matmul_precision("highest"):
                return combine(state, share, seen.weighted_rows(2 * state.squares.shape[0]), updates)

        n = seen.step
        every = jnp.where(n < FIRST, 1, jnp.where(n < FIRST**2, FIRST, LATE))
        return jnp.asarray(strength), jax.lax.cond(n % every == 0, updated, lambda: state)

    def update(self, state, outcome):
        return state


@struct
class CurvatureMatrix:
    """What a `FullMatrix` remembers."""

    matrix: Float[Array, "q q"]  # A
    share: Float[Array, ""]  # s of the last batch


@struct
class FullMatrix(Rule):
    """A, the whole average of past batches' curvature JᵀWJ (W as above), for residuals without noise on points that are
    drawn anew: the metric is ςA with ς = (1−s)/s, where

        A ← (1−s)A + s JᵀWJ,      s_n = max(1/(n+1), share/(1 + t/scale))

    With α = 1 and β = 0 w_n is where all past batches, linearized, want to be: the step is that of recursive least
    squares with fading memory, and each batch moves the weights by its share. A batch that determines few of the
    weights does not undo what the others determined. s falls with the clock's time, which stands still while fresh
    batches improve; where they are noisy s falls like 1/n, as a Kalman gain does. Q² numbers, one Q×Q Cholesky a step.
    """

    share: Number = 0.3
    scale: Number = 10.0

    def __post_init__(self):
        checks.positive("share", self.share)
        checks.fraction("share", self.share)
        checks.positive("scale", self.scale)

    def init(self, w):
        return CurvatureMatrix(jnp.zeros((w.shape[0], w.shape[0]), w.dtype), jnp.ones((), w.dtype))

    def propose(self, state, seen):
        """(s_n, A with this batch in it); a batch whose curvature is not finite leaves no trace."""
        assert seen.gauss_newton is not None
        first = 1 / (seen.step + 1).astype(state.share.dtype)
        share = jnp.maximum(first, self.share / (1 + seen.clock.time / self.scale))
        batch = seen.gauss_newton()
        valid = jnp.isfinite(jnp.sum(batch))
        matrix = (1 - share) * state.matrix + share * jnp.where(valid, batch, 0)
        return share, CurvatureMatrix(jnp.where(valid, matrix, state.matrix), share)

    def update(self, state, outcome):
        return state

    def report(self, state):
        return {"share": state.share}


def combine(state: CurvatureMemory, share, rows: Float[Array, "p q"], updates) -> CurvatureMemory:
    """The rows that say most about both, unless the new ones are not finite: an average would keep them."""
    both = jnp.concatenate([jnp.sqrt(1 - share) * state.rows, jnp.sqrt(share) * rows])
    gram = both @ both.T
    finite = jnp.all(jnp.isfinite(gram))
    values, vectors = _eigenvectors(jnp.where(finite, gram, 0))
    rank = state.squares.shape[0]
    after = CurvatureMemory(vectors[:, -rank:].T @ both, jnp.maximum(values[-rank:], 0), updates)
    return jax.tree.map(lambda a, b: jnp.where(finite, a, b), after, state)


# On a CPU several batched factorizations at once can wait for each other for ever: vmapped, they go one by one.
@jax.custom_batching.sequential_vmap
def _eigenvectors(gram: Float[Array, "m m"]) -> tuple[Float[Array, "m"], Float[Array, "m m"]]:
    values, vectors = jnp.linalg.eigh(gram)
    return values, vectors


def keeps_matrix(size: int, rows: int) -> bool:
    """Whether a network of `size` weights, `rows` fresh points a step, is to have a `FullMatrix`.

    Q weights and m rows: mQ² + Q³/3 multiply-adds, and m²Q + m³/3 without it.
    """
    return size <= min(LARGEST_MATRIX, max(SMALL_MATRIX, TIMES_ROWS * rows))


#: The default.
AUTOMATIC = LowRank(automatic=True)


def as_metric(value: Any) -> LowRank | FullMatrix | None:
    """A curvature memory from None, a name or a rule."""
    if isinstance(value, str):
        checks.choice("metric", value, ["auto", "low-rank", "full"])
        return {"auto": AUTOMATIC, "low-rank": LowRank(), "full": FullMatrix()}[value]
    if value is not None and not isinstance(value, (LowRank, FullMatrix)):
        raise TypeError(f"metric must be 'auto', None, 'low-rank' or a scax.LowRank, 'full', got {value!r}.")
    return value
