"""The one small factorization of every direct step."""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..._compat import has_gpu

#: Up to this size a GPU solves the system in one kernel; beyond, and elsewhere, the library's Cholesky does.
LARGEST_KERNEL = 64
#: Larger systems that are vmapped go one by one on a CPU: its library spreads a batch of them over the threads that run
#: programs, and two programs that do so at once can wait for each other for ever.
LARGEST_TOGETHER = 24


def solve_positive(matrix: Float[Array, "m m"], right: Float[Array, "m"]) -> Float[Array, "m"]:
    """M⁻¹ r for a symmetric positive definite M; not finite where M is not positive definite."""
    solvers: dict = {"cpu": by_cholesky if matrix.shape[0] <= LARGEST_TOGETHER else _one_by_one}
    # every branch is traced on every platform: the kernel only where there is a GPU to run it
    if matrix.shape[0] <= LARGEST_KERNEL and matrix.dtype == jnp.float32 and has_gpu():
        solvers["cuda"] = in_one_kernel
    return jax.lax.platform_dependent(matrix, right, **solvers, default=by_cholesky)


def by_cholesky(matrix: Float[Array, "m m"], right: Float[Array, "m"]) -> Float[Array, "m"]:
    """LLᵀ = M and two triangular solves, by the platform's library: the judge of the kernel."""
    lower = jax.lax.linalg.cholesky(matrix, symmetrize_input=False)
    half = jax.lax.linalg.triangular_solve(lower, right[:, None], left_side=True, lower=True)
    return jax.lax.linalg.triangular_solve(lower, half, left_side=True, lower=True, transpose_a=True)[:, 0]


_one_by_one = jax.custom_batching.sequential_vmap(by_cholesky)


def in_one_kernel(matrix: Float[Array, "m m"], right: Float[Array, "m"], interpret: bool = False) -> Float[Array, "m"]:
    """The same by Gauss–Jordan elimination with the matrix in one block's registers; `vmap` gives a block per system.

    On a GPU the library's factorization and its two triangular solves are a dozen launches that each wait for the last;
    for the sizes of a mini-batch that waiting, not arithmetic, is most of the step. Elimination without pivoting is
    stable for positive definite matrices, and needs no triangular solves afterwards.
    """
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton as gpu

    m = matrix.shape[0]
    size = max(16, pl.next_power_of_2(m))  # a block's arrays have powers of two as sizes; the rest is an identity
    extra = size - m
    place = jnp.arange(size)
    whole = jnp.pad(matrix, (0, extra)) + jnp.diag(jnp.where(place < m, 0, 1).astype(matrix.dtype))
    solution = pl.pallas_call(
        functools.partial(_eliminate, m=m),
        out_shape=jax.ShapeDtypeStruct((size,), matrix.dtype),
        compiler_params=gpu.CompilerParams(num_warps=4),
        interpret=interpret,
    )(whole, jnp.pad(right, (0, extra)))
    return solution[:m]


def _eliminate(matrix_ref, right_ref, solution_ref, *, m: int):
    size = matrix_ref.shape[0]
    row = jax.lax.broadcasted_iota(jnp.int32, (size, size), 0)
    col = jax.lax.broadcasted_iota(jnp.int32, (size, size), 1)
    place = jax.lax.broadcasted_iota(jnp.int32, (size,), 0)

    def eliminate(j, carry):
        matrix, right = carry
        column = jnp.sum(jnp.where(col == j, matrix, 0), axis=1)
        pivot_row = jnp.sum(jnp.where(row == j, matrix, 0), axis=0)
        pivot = jnp.sum(jnp.where(place == j, column, 0))
        share = jnp.where(place == j, 0, column / pivot)
        matrix = matrix - share[:, None] * pivot_row[None, :]
        right = right - share * jnp.sum(jnp.where(place == j, right, 0))
        return matrix, right

    matrix, right = jax.lax.fori_loop(0, m, eliminate, (matrix_ref[...], right_ref[...]))
    diagonal = jnp.sum(jnp.where(row == col, matrix, 0), axis=1)
    solution_ref[...] = right / jnp.where(diagonal > 0, diagonal, jnp.nan)  # the pivots of a positive definite matrix
