"""Problems of equations, to be solved against time: those of `examples/`, and two in five dimensions, as published.

poisson5   −Δu = f on the unit cube, u = Σ cos(πx_i), 5-64-64-48-48-1, 3,000 points inside and 500 on the edge
heat       u_t = ¼Δu in time and four dimensions, u = e^−t Σ sin(2x_i), 5-64-64-48-48-1, 3,000 points, 250 on the edge
           and 250 at the start; heat_small with 5-64-1
burgers, allen_cahn     those of examples/

Points are drawn anew at every step, all terms weigh the same in the first two. Errors are on points not trained on.
"""

import dataclasses
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

import scax

SIZE, INSIDE, EDGE = 5, 3000, 500
MEDIUM, SMALL = (SIZE, 64, 64, 48, 48, 1), (SIZE, 64, 1)


@dataclasses.dataclass(frozen=True)
class Equation:
    """A problem, its points and its network, and what a solution is worth: the network and the truth on one grid."""

    problem: scax.Problem
    data: dict[str, Any]
    begin: Callable[[jax.Array], Any]  # key -> params
    compare: Callable[[Any], tuple[jax.Array, jax.Array]]  # params -> (u of the network, u)

    def errors(self, params: Any) -> dict[str, jax.Array]:
        """Root mean square and relative L2 error."""
        found, true = self.compare(params)
        return {
            "rms": jnp.sqrt(jnp.mean((found - true) ** 2)),
            "relative": jnp.linalg.norm(found - true) / jnp.linalg.norm(true),
        }


def faces(key: jax.Array, count: int, size: int) -> jax.Array:
    """Points on the surface of the unit cube."""
    places, axis, side = jax.random.split(key, 3)
    x, row = jax.random.uniform(places, (count, size)), jnp.arange(count)
    side = jax.random.randint(side, (count,), 0, 2).astype(float)
    return x.at[row, jax.random.randint(axis, (count,), 0, size)].set(side)


def poisson5(sizes: tuple[int, ...] = MEDIUM, inside: int = INSIDE, edge: int = EDGE) -> Equation:
    net = scax.MLP(sizes)
    exact = lambda x: jnp.sum(jnp.cos(jnp.pi * x), axis=-1)

    def equation(params, x):
        u = lambda point: net.apply(params, point[None])[0, 0]
        return jax.vmap(scax.operators.laplacian(u))(x) + jnp.pi**2 * exact(x)

    def on_edge(key):
        x = faces(key, edge, SIZE)
        return x, exact(x)

    data = {"equation": lambda key: jax.random.uniform(key, (inside, SIZE)), "edge": on_edge}
    return _whole(net, equation, data, exact)


def heat(sizes: tuple[int, ...] = MEDIUM, inside: int = INSIDE, edge: int = EDGE) -> Equation:
    """Rows (t, x_1, …, x_4)."""
    net = scax.MLP(sizes)
    exact = lambda x: jnp.exp(-x[..., 0]) * jnp.sum(jnp.sin(2 * x[..., 1:]), axis=-1)

    def equation(params, x):
        u = lambda point: net.apply(params, point[None])[0, 0]
        change, bend = scax.operators.derivative(u, 0), scax.operators.laplacian(u, axes=(1, 2, 3, 4))
        return jax.vmap(lambda point: change(point) - bend(point) / 4)(x)

    def on_edge(key):
        """Half of them on the cube's surface at any time, half in the cube at the start."""
        time, place, start = jax.random.split(key, 3)
        side = jnp.column_stack([jax.random.uniform(time, (edge // 2,)), faces(place, edge // 2, SIZE - 1)])
        first = jax.random.uniform(start, (edge - edge // 2, SIZE)).at[:, 0].set(0)
        x = jnp.concatenate([side, first])
        return x, exact(x)

    data = {"equation": lambda key: jax.random.uniform(key, (inside, SIZE)), "edge": on_edge}
    return _whole(net, equation, data, exact)


def _whole(net: scax.MLP, equation: Callable, data: dict, exact: Callable) -> Equation:
    problem = scax.Problem({"equation": scax.Term(equation), "edge": scax.Term(net.apply)}, scax.L2(0.0))
    unseen = jax.random.uniform(jax.random.key(99), (20_000, SIZE))
    return Equation(problem, data, net.init, lambda params: (net.apply(params, unseen)[:, 0], exact(unseen)))


def example(name: str) -> Equation:
    """One of examples/."""
    parts = runpy.run_path(str(Path(__file__).parent.parent / f"examples/{name}.py"))
    return Equation(parts["problem"], parts["data"], parts["net"].init, parts["compare"])


EQUATIONS: dict[str, Callable[[], Equation]] = {
    "poisson5": poisson5,
    "heat": heat,
    "heat_small": lambda: heat(SMALL),
    "burgers": lambda: example("burgers"),
    "allen_cahn": lambda: example("allen_cahn"),
    "poisson5_small": lambda: poisson5((SIZE, 24, 24, 1), 230, 40),
}
