"""SCA in optax's shape, for loops that are written for it."""

import dataclasses
from typing import Any

import jax
from jaxtyping import PyTree

from ..sca import SCA, check_sca


def as_optax(sca: SCA) -> Any:
    """An `optax.GradientTransformationExtraArgs` whose update is SCA's step, w_{n+1} − w_n.

    >>> method = scax.as_optax(scax.SCA(problem))
    >>> state = method.init(params)
    >>> updates, state = method.update(None, state, params, batch=(x, y))
    >>> params = optax.apply_updates(params, updates)

    A step of SCA is no function of a gradient: it linearizes the network on the batch itself. The gradients given are
    therefore not looked at (None saves computing them), and the batch is: it must be passed. Loss and penalty are those
    of the problem. Transformations after it in an `optax.chain` act on the update; what stands before it has no effect.

    The state is SCA's own: `sca.solution(state)` is what to deploy.
    """
    import optax

    check_sca(sca)

    def init(params: PyTree) -> Any:
        return sca.init(params)

    def update(updates: PyTree, state: Any, params: PyTree = None, *, batch: Any = None, **_: Any) -> Any:
        if params is None or batch is None:
            missing = "params" if params is None else "batch"
            raise ValueError(
                f"{missing} is missing: SCA linearizes the network on the batch, a gradient is not enough. "
                "Call update(None, state, params, batch=(x, y))."
            )
        # what the caller applied may differ from what was proposed: the iterate is theirs
        state = dataclasses.replace(state, w=state.layout.flatten(params))
        after, _info = sca.step(state, batch)
        return jax.tree.map(lambda new, old: new - old, after.params, params), after

    return optax.GradientTransformationExtraArgs(init, update)
