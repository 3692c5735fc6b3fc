"""The one small factorization of every direct step."""

import jax
from jaxtyping import Array, Float


def solve_positive(matrix: Float[Array, "m m"], right: Float[Array, "m"]) -> Float[Array, "m"]:
    """M⁻¹ r for a symmetric positive definite M, by Cholesky; NaN where M is not positive definite."""
    lower = jax.lax.linalg.cholesky(matrix, symmetrize_input=False)
    half = jax.lax.linalg.triangular_solve(lower, right[:, None], left_side=True, lower=True)
    whole = jax.lax.linalg.triangular_solve(lower, half, left_side=True, lower=True, transpose_a=True)
    return whole[:, 0]
