"""Gauss–Jordan elimination by two columns at once: to be timed beside `solvers.linear.cholesky._eliminate`."""

import jax
import jax.numpy as jnp


def eliminate_pairs(matrix_ref, right_ref, solution_ref, *, m: int):
    size = matrix_ref.shape[0]
    row = jax.lax.broadcasted_iota(jnp.int32, (size, size), 0)
    col = jax.lax.broadcasted_iota(jnp.int32, (size, size), 1)
    place = jax.lax.broadcasted_iota(jnp.int32, (size,), 0)

    def entry(v, j):
        return jnp.sum(jnp.where(place == j, v, 0))

    def eliminate(i, carry):
        matrix, right = carry
        j, k = 2 * i, 2 * i + 1
        left = jnp.sum(jnp.where(col == j, matrix, 0), axis=1)
        next_ = jnp.sum(jnp.where(col == k, matrix, 0), axis=1)
        a, b, d = entry(left, j), entry(next_, j), entry(next_, k)
        determinant = a * d - b * b
        inside = (place == j) | (place == k)
        share_j = jnp.where(inside, 0, (left * d - next_ * b) / determinant)
        share_k = jnp.where(inside, 0, (next_ * a - left * b) / determinant)
        # symmetric where it is not yet eliminated, zero before
        row_j, row_k = jnp.where(place >= j, left, 0), jnp.where(place >= j, next_, 0)
        matrix = matrix - share_j[:, None] * row_j[None, :] - share_k[:, None] * row_k[None, :]
        right = right - share_j * entry(right, j) - share_k * entry(right, k)
        return matrix, right

    matrix, right = jax.lax.fori_loop(0, (m + 1) // 2, eliminate, (matrix_ref[...], right_ref[...]))
    other = (jax.lax.div(row, 2) == jax.lax.div(col, 2)) & (row != col)
    diagonal = jnp.sum(jnp.where(row == col, matrix, 0), axis=1)
    beside = jnp.sum(jnp.where(other, matrix, 0), axis=1)
    there = jnp.sum(jnp.where(other, right[None, :], 0), axis=1)
    across = jnp.sum(jnp.where(other, diagonal[None, :], 0), axis=1)
    determinant = diagonal * across - beside * beside
    fine = (diagonal > 0) & (determinant > 0)
    solution_ref[...] = (across * right - beside * there) / jnp.where(fine, determinant, jnp.nan)
