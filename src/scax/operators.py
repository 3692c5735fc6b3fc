"""Derivatives of a function of one point, for the terms of differential equations.

Each takes u: [d] -> scalar (or [k]) and gives a function of a point x [d]; `jax.vmap` it over rows. Second derivatives
are forward over forward, one pass for each direction: cheaper to differentiate by weights than a nested `hessian`.

    u = lambda x: net.apply(params, x[None])[0, 0]
    residual = jax.vmap(lambda x: scax.operators.laplacian(u)(x) - f(x))(points)
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Point = Float[Array, "d"]
Field = Callable[[Point], Array]


def derivative(u: Field, axis: int, order: int = 1) -> Field:
    """One partial derivative at every row.

    ∂^order u/∂x_axis^order: the time derivative where that axis is time. u may give a scalar or a vector.

    >>> u = lambda p: p[0] ** 3 * p[1]
    >>> float(scax.operators.derivative(u, axis=0, order=2)(jnp.array([2.0, 1.0])))  # 6 x y
    12.0
    """
    if order < 1:
        raise ValueError(f"order must be at least 1, got {order}.")

    def along(v: Field) -> Field:
        return lambda x: jax.jvp(v, (x,), (jnp.zeros_like(x).at[axis].set(1),))[1]

    for _ in range(order):
        u = along(u)
    return u


def grad(u: Field) -> Field:
    """Gradient by the input.

    ∇u [d], of a scalar u; of a vector the Jacobian [k, d]. Forward mode.

    >>> scax.operators.grad(lambda p: p[0] * p[1])(jnp.array([2.0, 3.0])).tolist()
    [3.0, 2.0]
    """
    return jax.jacfwd(u)


def divergence(v: Field) -> Field:
    """Divergence of a vector field.

    Σ_i ∂v_i/∂x_i, of v: [d] -> [d].

    >>> float(scax.operators.divergence(lambda p: p**2)(jnp.array([1.0, 2.0])))  # 2x + 2y
    6.0
    """
    return lambda x: jnp.trace(jax.jacfwd(v)(x))


def laplacian(u: Field, axes: tuple[int, ...] | None = None) -> Field:
    """Laplacian.

    Σ_i ∂²u/∂x_i² over `axes`, by default all of them (leave out that of time, for example).

    >>> float(scax.operators.laplacian(lambda p: jnp.sum(p**2))(jnp.ones(3)))
    6.0
    """

    def at(x: Point) -> Array:
        directions = jnp.eye(x.shape[0], dtype=x.dtype)
        if axes is not None:
            directions = directions[jnp.asarray(axes)]
        second = lambda v: jax.jvp(lambda x: jax.jvp(u, (x,), (v,))[1], (x,), (v,))[1]
        return jnp.sum(jax.vmap(second)(directions), axis=0)

    return at
