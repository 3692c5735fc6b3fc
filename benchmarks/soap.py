"""SOAP (Adam in the eigenbasis of Shampoo's preconditioners), as a baseline: optax does not have it."""

import jax
import jax.numpy as jnp
import optax


def soap(learning_rate, b1=0.95, b2=0.95, eps=1e-8, every=10) -> optax.GradientTransformation:
    """Vyas et al. (2024), both sides of every matrix preconditioned; vectors get Adam."""

    def init(params):
        zeros = lambda: jax.tree.map(jnp.zeros_like, params)
        sides = lambda p: tuple(jnp.zeros((d, d), p.dtype) for d in p.shape) if p.ndim == 2 else ()
        bases = lambda p: tuple(jnp.eye(d, dtype=p.dtype) for d in p.shape) if p.ndim == 2 else ()
        leaves = jax.tree.leaves(params)
        return jnp.zeros((), jnp.int32), zeros(), zeros(), [sides(p) for p in leaves], [bases(p) for p in leaves]

    def update(grads, state, params=None):
        count, first, second, sides, bases = state
        leaves, tree = jax.tree.flatten(grads)
        sides = [
            (b2 * s[0] + (1 - b2) * g @ g.T, b2 * s[1] + (1 - b2) * g.T @ g) if s else s
            for g, s in zip(leaves, sides, strict=True)
        ]
        fresh = lambda: [tuple(jnp.linalg.eigh(m)[1] for m in s) for s in sides]
        bases = jax.lax.cond(count % every == 0, fresh, lambda: bases)
        turn = lambda g, q: q[0].T @ g @ q[1] if q else g
        back = lambda g, q: q[0] @ g @ q[1].T if q else g
        m = [b1 * m + (1 - b1) * g for m, g in zip(jax.tree.leaves(first), leaves, strict=True)]
        v = [
            b2 * v + (1 - b2) * turn(g, q) ** 2 for v, g, q in zip(jax.tree.leaves(second), leaves, bases, strict=True)
        ]
        n = count + 1
        step = [
            back(turn(a, q) / (1 - b1**n) / (jnp.sqrt(b / (1 - b2**n)) + eps), q)
            for a, b, q in zip(m, v, bases, strict=True)
        ]
        rate = learning_rate(count) if callable(learning_rate) else learning_rate
        updates = jax.tree.unflatten(tree, [-rate * s for s in step])
        return updates, (n, jax.tree.unflatten(tree, m), jax.tree.unflatten(tree, v), sides, bases)

    return optax.GradientTransformation(init, update)
